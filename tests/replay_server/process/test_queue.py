"""The default table of a run whose learner has its own memory: a queue of every transition."""

import contextlib
import dataclasses
import threading

import numpy as np
import pytest

from actors.row_writer import RowWriter
from configs import UserError
from replay_server.contract.run import environment_steps
from tests.serving import CODEC, adding, inserted_into, make_config, run_episode, serving, size_of, wait_for

MEMORY = {"sampling": "memory"}


def _config(capacity=1_000, tolerance=50, ratio=1.0, **arguments):
  config = make_config(capacity=capacity, **arguments)
  replay = dataclasses.replace(
    config.replay, sampling="memory", insert_tolerance_steps=tolerance, environment_steps_per_update=ratio
  )
  return dataclasses.replace(config, replay=replay)


def _steps(rows):
  return CODEC.unpack(np.ascontiguousarray(rows))["step"].tolist()


def test_an_adder_sends_every_transition_once_and_no_histories(tmp_path):
  config = _config(tables={"goal": 50}, events=[("goal", 10)], tolerance=100)
  with serving(config, tmp_path) as server, adding(server) as (adder, writer):
    run_episode(adder, 20, events={5: 1, 19: 1})
    writer.flush()
    tables = server.connection.info()
    assert "goal" not in tables
    assert inserted_into(server.connection, "default") == size_of(server.connection, "default") == 20
    rows = server.connection.take_rows("default", 100, CODEC.width)
    assert _steps(rows) == list(range(20))
    assert CODEC.unpack(rows)["events"][[5, 19]].tolist() == [1, 1]


def test_rows_are_taken_once_and_in_order_and_the_run_counts_them(tmp_path):
  with serving(_config(tolerance=100), tmp_path) as server, adding(server) as (adder, writer):
    run_episode(adder, 30)
    writer.flush()
    taken = [_steps(server.connection.take_rows("default", most, CODEC.width)) for most in (1, 7, 100, 100)]
    assert taken == [[0], [*range(1, 8)], [*range(8, 30)], []]
    assert environment_steps(server.connection.info(), "default") == 30


def test_writers_wait_while_too_many_rows_are_unread(tmp_path):
  waits: list[bool] = []
  stop = threading.Event()
  with serving(_config(tolerance=50), tmp_path) as server:
    connection = server.connection
    with contextlib.closing(RowWriter(connection, 2, stop, waits.append)) as writer:

      def write() -> None:
        for _ in range(120):
          writer.create_item("default", writer.append(np.zeros(CODEC.width, np.float32)))
        writer.flush()

      thread = threading.Thread(target=write)
      thread.start()
      wait_for(lambda: waits[-1:] == [True])
      assert inserted_into(connection, "default") == size_of(connection, "default") == 50
      read = 0
      while read < 120:
        read += len(connection.take_rows("default", 10, CODEC.width))
        assert size_of(connection, "default") <= 50
      thread.join(30)
      assert waits[-1] is False
      assert inserted_into(connection, "default") == 120


@pytest.mark.parametrize(("inline", "ratio"), [(False, None), (True, 1.0)])
def test_without_a_ratio_to_keep_nobody_waits_and_the_oldest_rows_are_dropped(tmp_path, inline, ratio):
  config = _config(capacity=40, ratio=ratio)
  with serving(config, tmp_path, inline=inline) as server:
    server.connection.local_rows = None  # This run's worker is told to write to the server all the same.
    with adding(server) as (adder, writer):
      run_episode(adder, 60)
      writer.flush()
      assert _steps(server.connection.take_rows("default", 100, CODEC.width)) == list(range(20, 60))


def test_a_checkpoint_of_the_other_sampling_is_refused(tmp_path):
  config = _config()
  with serving(config, tmp_path) as server:
    server.checkpoint()
  other = dataclasses.replace(config, replay=dataclasses.replace(config.replay, sampling="server"))
  said = r"tables are those of replay\.sampling=memory and this config asks for replay\.sampling=server"
  with pytest.raises(UserError, match=said), serving(other, tmp_path):
    pass


def test_rows_that_were_not_read_are_in_the_snapshot(tmp_path):
  with serving(_config(), tmp_path) as server, adding(server) as (adder, writer):
    run_episode(adder, 30)
    writer.flush()
    server.connection.take_rows("default", 10, CODEC.width)
    server.checkpoint()
  with serving(_config(), tmp_path) as server:
    assert environment_steps(server.connection.info(), "default") == 30
    assert _steps(server.connection.take_rows("default", 100, CODEC.width)) == list(range(10, 30))
