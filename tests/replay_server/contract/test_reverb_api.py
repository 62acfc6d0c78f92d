"""Reverb's C++ client, as the rest of the code sees it."""

import pathlib
import threading

import numpy as np
import pytest

from configs import override
from replay_server.contract.layout import PACE
from tests.serving import CODEC, adding, make_config, run_episode, serving


def test_a_sampler_returns_items_with_their_tables_size_and_ends_after_its_samples(tmp_path: pathlib.Path) -> None:
  with serving(make_config(), tmp_path, inline=True) as server:
    with adding(server) as (adder, _):
      adder.set_priorities((2.5,))
      run_episode(adder, 4)
    sampler = server.connection.open_sampler("default", samples=2, in_flight=1)
    first, second = sampler.next(), sampler.next()
    assert (first.probability, first.table_size, first.priority) == (1.0, 4, 2.5)
    assert CODEC.unpack(first.columns[0])["step"] == 0
    assert second.key == first.key  # A fifo table gives its oldest item, which is still there.
    with pytest.raises(RuntimeError, match="already returned"):
      sampler.next()
    sampler.close()


def test_closing_a_sampler_ends_its_wait(tmp_path: pathlib.Path) -> None:
  with serving(make_config(), tmp_path, inline=True) as server:
    sampler = server.connection.open_sampler("default", samples=1, in_flight=1)
    threading.Timer(0.3, sampler.close).start()
    with pytest.raises(RuntimeError, match="cancelled"):
      sampler.next()
    sampler.close()


def test_a_flush_tells_items_that_the_server_refused_from_those_that_it_has_not_confirmed_yet(
  tmp_path: pathlib.Path,
) -> None:
  limited = override(make_config(), {"replay.environment_steps_per_update": "1", "replay.insert_tolerance_steps": "1"})
  steps, row = np.array(1, np.int64), np.zeros(CODEC.width, np.float32)
  with serving(
    override(limited, {"replay.default.min_size": "1", "learner.updates_per_block": "1"}), tmp_path
  ) as server:
    writer = server.connection.open_writer(max_references=2)
    for _ in range(15):  # More than the server takes until somebody samples.
      writer.create_item(PACE, writer.append([steps]))
    with pytest.raises(TimeoutError):
      writer.flush(0, timeout_ms=300)
    writer.close()
    writer = server.connection.open_writer(max_references=2)
    writer.create_item("nowhere", writer.append([row]))
    with pytest.raises(RuntimeError, match="nowhere was not found"):
      writer.flush(0, timeout_ms=10_000)
    writer.close()
    writer.close()
