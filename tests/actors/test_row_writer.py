"""The row writer: the items that it leaves on the server, and how it waits."""

import pathlib
import threading
import time

import numpy as np
import pytest

from actors import row_writer
from actors.row_writer import RowWriter
from configs import LearnerConfig, ReplayConfig, RunConfig, Stopped, TableSpec, UserError
from replay_server.contract.connection import Connection
from replay_server.contract.layout import PACE
from tests.serving import (
  CODEC,
  adding,
  inserted_into,
  make_config,
  run_episode,
  serving,
  size_of,
  take_all,
  wait_for,
)

CONFIG = make_config({"goal": 4}, [("goal", 3)], capacity=8)


def _row(value: float) -> np.ndarray:
  return np.full(CODEC.width, value, np.float32)


def _contents(connection: Connection, table: str) -> list[tuple[float, tuple[int, ...], list[float]]]:
  """Priority, shape and values of every item, from the oldest to the newest; takes them out."""
  return [(priority, row.shape, row.tolist()) for priority, row in take_all(connection, table)]


def test_it_leaves_the_same_tables_behind_as_reverbs_own_writer(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path / "ours", inline=True) as ours, serving(CONFIG, tmp_path / "its", inline=True) as its:
    writer = RowWriter(ours.connection, 5, threading.Event())
    references = []
    with its.connection.client.trajectory_writer(num_keep_alive_refs=5) as public:
      for t in range(12):
        references.append(writer.append(_row(t)))
        writer.create_item("default", references[-1], priority=0.5 + t)
        public.append(_row(t))
        public.create_item(its.connection.wire_name("default"), priority=0.5 + t, trajectory=public.history[-1])
        if t in (6, 11):
          for back in (4, 2, 1):
            writer.create_item("goal", references[-back])
            public.create_item(its.connection.wire_name("goal"), priority=1.0, trajectory=public.history[-back])
      public.flush()
    public.close()
    writer.flush()
    writer.close()
    for table, size in (("default", 8), ("goal", 4)):
      held = _contents(ours.connection, table)
      assert len(held) == size
      assert held == _contents(its.connection, table)


@pytest.mark.parametrize("priority", [float("nan"), -1.0, 1.1e9, float("inf"), float("-inf")])
def test_a_priority_that_would_make_the_table_unusable_is_refused(tmp_path: pathlib.Path, priority: float) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    writer = RowWriter(server.connection, 5, threading.Event())
    reference = writer.append(_row(1))
    with pytest.raises(UserError, match="priority"):
      writer.create_item("default", reference, priority)
    for allowed in (0.0, 1e9):
      writer.create_item("default", reference, allowed)
    writer.flush()
    assert size_of(server.connection, "default") == 2
    writer.close()


def test_a_reference_that_is_too_old_is_refused_and_the_writer_goes_on(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    writer = RowWriter(server.connection, 2, threading.Event())
    old, *_, new = [writer.append(_row(t)) for t in range(3)]
    with pytest.raises(ValueError, match="expired"):
      writer.create_item("default", old)
    writer.create_item("default", new)
    writer.flush()
    assert size_of(server.connection, "default") == 1
    writer.close()


def test_items_are_sent_many_at_a_time_and_none_waits_for_long(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(row_writer, "BURST_SECONDS", 0.5)  # Long enough for a slow machine to make three items.
  config = make_config({"goal": 4}, [("goal", 3)], capacity=1_000)
  with serving(config, tmp_path, inline=True) as server:
    writer = RowWriter(server.connection, 5, threading.Event())

    def write(items: int) -> None:
      for t in range(items):
        writer.create_item("default", writer.append(_row(t)))

    write(3)
    time.sleep(0.6)  # The situation: no further item comes until these are late.
    # Nothing is sent without a call, but the next item is sent together with the late ones.
    assert size_of(server.connection, "default") == 0
    write(1)
    wait_for(lambda: size_of(server.connection, "default") == 4)
    write(128)
    wait_for(lambda: size_of(server.connection, "default") == 132)
    writer.close()


def _held_back() -> RunConfig:
  """A run whose server takes only a few items of the table `pace` until something is sampled."""
  return RunConfig(
    replay=ReplayConfig(
      default=TableSpec("default", 1.0, 100, min_size=1),
      environment_steps_per_update=1.0,
      insert_tolerance_steps=1,
    ),
    learner=LearnerConfig(batch_size=1, updates_per_block=1),
  )


def test_stop_ends_the_wait_for_a_server_that_takes_no_more(tmp_path: pathlib.Path) -> None:
  stop = threading.Event()
  waits: list[bool] = []
  with serving(_held_back(), tmp_path) as server:
    writer = RowWriter(server.connection, 5, stop, waits.append)
    for _ in range(15):
      writer.create_item(PACE, writer.append(np.array(1, np.int64)))
    threading.Timer(0.7, stop.set).start()
    began = time.monotonic()
    with pytest.raises(Stopped):
      writer.flush()
    assert 0.6 < time.monotonic() - began < 8
    assert waits == [True, False]
    assert 0 < inserted_into(server.connection, PACE) < 15
    writer.close()


def test_a_wait_ends_when_the_learner_samples_and_nothing_is_lost(tmp_path: pathlib.Path) -> None:
  waits: list[bool] = []
  with serving(_held_back(), tmp_path) as server:
    writer = RowWriter(server.connection, 5, threading.Event(), waits.append)
    for _ in range(15):
      writer.create_item(PACE, writer.append(np.array(1, np.int64)))

    def learn() -> None:
      wait_for(lambda: waits)
      sampler = server.connection.open_sampler(PACE, samples=12, in_flight=1)
      for _ in range(12):
        sampler.next()

    learner = threading.Thread(target=learn)
    learner.start()
    writer.flush()
    learner.join()
    assert waits == [True, False]
    assert inserted_into(server.connection, PACE) == 15
    writer.close()


def test_a_long_history_causes_no_warning_of_reverb(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
  with serving(make_config({"goal": 500}, [("goal", 200)]), tmp_path, inline=True) as server:
    with adding(server) as (adder, _):
      run_episode(adder, 260, {240: 1})
    assert size_of(server.connection, "goal") == 200
  assert "alarmingly high" not in capfd.readouterr().err
