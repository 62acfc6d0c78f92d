"""The event-table adder by example."""

import dataclasses
import gc
import pathlib

import numpy as np
import pytest

from actors.row_writer import Row
from configs import UserError
from environments.timestep import EventTimeStep
from replay_server.contract.layout import make_row_codec
from tests.serving import (
  ACTION,
  adding,
  drain,
  drain_priorities,
  first,
  make_config,
  make_spec,
  run_episode,
  serving,
  step,
  steps_in,
  with_behaviour,
)

GOAL = {"goal": 100}
VERSION = {"policy_version": 1}


def test_two_events_close_together_chain_their_histories_without_duplicates(tmp_path: pathlib.Path) -> None:
  with serving(make_config(GOAL, [("goal", 4)]), tmp_path, inline=True) as server:
    with adding(server) as (adder, _):
      run_episode(adder, 10, {5: 1, 7: 1})
    assert steps_in(server.connection, "goal") == [2, 3, 4, 5, 6, 7]
    assert steps_in(server.connection, "default") == list(range(10))


def test_events_on_one_table_keep_their_own_history_and_fill_each_others_gaps(tmp_path: pathlib.Path) -> None:
  config = make_config({"shared": 100, "other": 100}, [("shared", 2), ("shared", 5), ("other", 3)])
  with serving(config, tmp_path, inline=True) as server:
    with adding(server) as (adder, _):
      run_episode(adder, 12, {3: 0b001, 6: 0b001, 7: 0b110})
    # A history of 2 at steps 3 and 6, then one of 5 at step 7, of which only 4 and 7 are missing.
    assert steps_in(server.connection, "shared") == [2, 3, 5, 6, 4, 7]
    assert steps_in(server.connection, "other") == [5, 6, 7]


def test_an_event_without_a_table_is_in_the_row_alone(tmp_path: pathlib.Path) -> None:
  config = make_config(GOAL, [("goal", 4), ("goal", 2)])
  seen, goal = config.events
  config = dataclasses.replace(config, events=(dataclasses.replace(seen, table=None), goal))
  with serving(config, tmp_path, inline=True) as server:
    with adding(server) as (adder, _):
      run_episode(adder, 10, {3: 0b01, 7: 0b11})
    assert steps_in(server.connection, "goal") == [6, 7]
    rows = drain(server.connection, "default")
    assert [int(row["events"]) for row in rows] == [0, 0, 0, 0b01, 0, 0, 0, 0b11, 0, 0]


def test_a_history_ends_at_the_beginning_of_its_episode(tmp_path: pathlib.Path) -> None:
  with serving(make_config(GOAL, [("goal", 5)]), tmp_path, inline=True) as server:
    with adding(server) as (adder, _):
      run_episode(adder, 8, episode=0)
      run_episode(adder, 3, {1: 1}, episode=1)
    rows = drain(server.connection, "goal")
  assert [tuple(row["observation"]) for row in rows] == [(1, 0, 0), (1, 1, 0)]


def test_the_steps_that_an_episode_sent_are_sent_again_by_the_next_one(tmp_path: pathlib.Path) -> None:
  with serving(make_config(GOAL, [("goal", 2)]), tmp_path, inline=True) as server:
    with adding(server) as (adder, _):
      run_episode(adder, 3, {2: 1}, episode=0)
      run_episode(adder, 3, {2: 1}, episode=1)
    rows = drain(server.connection, "goal")
  assert [(int(row["episode"]), int(row["step"])) for row in rows] == [(0, 1), (0, 2), (1, 1), (1, 2)]


@pytest.mark.parametrize("length", [1, 4])
def test_an_event_on_the_first_step_sends_that_step(tmp_path: pathlib.Path, length: int) -> None:
  with serving(make_config(GOAL, [("goal", 7)], n_step=3), tmp_path, inline=True) as server:
    with adding(server) as (adder, _):
      run_episode(adder, length, {0: 1})
    assert steps_in(server.connection, "goal") == [0]


@pytest.mark.parametrize(
  ("terminated", "discounts"), [(True, [1, 0.9, 0, 0]), (False, [1, 0.9, 0.9, 1])], ids=["terminated", "truncated"]
)
def test_termination_sets_the_discount_to_0_and_truncation_keeps_it(
  tmp_path: pathlib.Path, terminated: bool, discounts: list[float]
) -> None:
  with serving(make_config(n_step=2), tmp_path, inline=True) as server:
    with adding(server) as (adder, _):
      # A truncated episode of one step; then one of three.
      adder.add_first(first())
      adder.add(ACTION, step(truncated=True), VERSION)
      adder.add_first(first())
      adder.add(ACTION, step(), VERSION)
      adder.add(ACTION, step(), VERSION)
      adder.add(ACTION, step(terminated=terminated, truncated=not terminated), VERSION)
    rows = drain(server.connection, "default")
  np.testing.assert_allclose([row["discount"] for row in rows], discounts, rtol=1e-6)
  assert [int(row["steps"]) for row in rows] == [1, 2, 2, 1]
  assert [bool(row["terminated"]) for row in rows[1:]] == [False, terminated, terminated]
  assert [bool(row["truncated"]) for row in rows[1:]] == [False, not terminated, not terminated]


_BAD = {
  "float64 observation": (ACTION, step()._replace(observation=np.zeros(3)), "observation of dtype float64"),
  "short observation": (ACTION, step()._replace(observation=np.zeros(2, np.float32)), r"shape \(2,\)"),
  "NaN observation": (ACTION, step((0, np.nan, 0)), "observation that is not finite"),
  "infinite observation": (ACTION, step((0, 0, -np.inf)), "observation that is not finite"),
  "NaN reward": (ACTION, step(reward=np.nan), "reward that is not finite"),
  "infinite reward": (ACTION, step(reward=np.inf), "reward that is not finite"),
  "fractional action": (np.float32(1.7), step(), "action of dtype float32"),
  "action in a list": (np.array([1], np.int32), step(), r"action .*shape \(1,\)"),
}


@pytest.mark.parametrize(("action", "bad", "sentence"), _BAD.values(), ids=_BAD.keys())
def test_a_bad_value_is_one_sentence_and_neither_harms_stored_rows_nor_the_writer(
  tmp_path: pathlib.Path, action: np.ndarray, bad: EventTimeStep, sentence: str
) -> None:
  with serving(make_config(GOAL, [("goal", 9)]), tmp_path, inline=True) as server:
    with adding(server) as (adder, writer):
      adder.add_first(first())
      adder.add(ACTION, step(), VERSION)
      adder.add(ACTION, step(events=1), VERSION)
      with pytest.raises(UserError, match=sentence):
        adder.add(action, bad._replace(events=1), VERSION)
      writer.flush()
      assert {server.connection.info()[name].current_size for name in ("default", "goal")} == {2}
      adder.reset()
      run_episode(adder, 2, {1: 1}, episode=1)
    for table in ("default", "goal"):
      rows = drain(server.connection, table)
      assert [(int(row["episode"]), int(row["step"])) for row in rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_no_row_whose_n_step_window_has_a_nan_reward_reaches_the_tables(
  tmp_path: pathlib.Path,
) -> None:
  with serving(make_config(GOAL, [("goal", 9)], n_step=3), tmp_path, inline=True) as server:
    with adding(server) as (adder, writer):
      adder.add_first(first())
      for _ in range(4):
        adder.add(ACTION, step(), VERSION)
      with pytest.raises(UserError, match="reward that is not finite"):
        adder.add(ACTION, step(reward=np.nan, terminated=True), VERSION)
      writer.flush()
    assert steps_in(server.connection, "default") == [0, 1]


def test_an_episode_that_begins_before_the_last_one_ended_drops_the_open_steps_of_that_one(
  tmp_path: pathlib.Path,
) -> None:
  with serving(make_config(GOAL, [("goal", 9)], n_step=3), tmp_path, inline=True) as server:
    with adding(server) as (adder, _):
      adder.add_first(first())
      for _ in range(4):
        adder.add(ACTION, step(events=1), VERSION)
      run_episode(adder, 1, episode=1)
    rows = drain(server.connection, "default")
    assert [(int(row["episode"]), int(row["step"])) for row in rows] == [(0, 0), (0, 1), (1, 0)]
    assert steps_in(server.connection, "goal") == [0, 1]


def _rows_in_memory() -> int:
  gc.collect()
  return sum(type(thing) is Row for thing in gc.get_objects())


def test_a_very_long_episode_keeps_its_histories_and_no_more_rows_than_they_need(tmp_path: pathlib.Path) -> None:
  length, history = 20_000, 50
  config = make_config({"goal": 200}, [("goal", history)], capacity=100, n_step=3)
  before = _rows_in_memory()
  with serving(config, tmp_path, inline=True) as server:
    with adding(server) as (adder, writer):
      adder.add_first(first())
      for t in range(length):
        fires = t in (9_999, length - 1)
        adder.add(ACTION, step((0, t + 1, 0), events=int(fires), truncated=t == length - 1), VERSION)
        if t == length - 2:
          writer.flush()
          assert _rows_in_memory() - before == history
          inserted = server.connection.info()["default"].rate_limiter_info.insert_stats.completed
          assert t + 1 - inserted == 2  # Steps whose window is open.
    rows = drain(server.connection, "goal")
    assert steps_in(server.connection, "default") == list(range(length - 100, length))
  wanted = [*range(10_000 - history, 10_000), *range(length - history, length)]
  # The steps that were open at step 9 999 were sent when their windows closed, still in order.
  assert [int(row["step"]) for row in rows] == wanted
  assert [int(row["observation"][1]) for row in rows] == wanted
  assert [int(row["next_observation"][1]) for row in rows] == [min(t + 3, length) for t in wanted]


def test_integers_come_back_as_they_were(tmp_path: pathlib.Path) -> None:
  spec = make_spec((2,), np.int64)
  low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
  with serving(make_config(), tmp_path, spec, inline=True) as server:
    with adding(server, writer_id=2**31 - 1) as (adder, _):
      adder.add_first(first()._replace(observation=np.array([-1, low])))
      after = step(reward=0.25, terminated=True)._replace(observation=np.array([high, -(2**40)]))
      adder.add(np.int32(-7), after, {"policy_version": 2**31 - 1})
    (row,) = drain(server.connection, "default", make_row_codec(spec))
  assert row["observation"].tolist() == [-1, low]
  assert row["next_observation"].tolist() == [high, -(2**40)]
  assert row["observation"].dtype == np.int64
  assert row["action"] == -7
  assert row["episode"] == (2**31 - 1) << 32
  assert row["policy_version"] == 2**31 - 1
  assert row["reward"] == np.float32(0.25)


def test_an_adder_refuses_a_step_before_an_episode_has_begun(tmp_path: pathlib.Path) -> None:
  with serving(make_config(), tmp_path, inline=True) as server, adding(server) as (adder, _):
    with pytest.raises(ValueError, match="add_first"):
      adder.add(ACTION, step())
    run_episode(adder, 1)
    with pytest.raises(ValueError, match="add_first"):
      adder.add(ACTION, step())


def test_new_items_get_the_priority_that_was_set_for_their_table(tmp_path: pathlib.Path) -> None:
  config = make_config({"goal": 100, "gap": 100}, [("gap", 1), ("goal", 2)])
  with serving(config, tmp_path, inline=True) as server:
    with adding(server) as (adder, _):
      run_episode(adder, 2, {1: 0b11})
      adder.set_priorities((2.5, 3.5, 4.5))
      run_episode(adder, 2, {1: 0b11}, episode=1)
    priorities = [drain_priorities(server.connection, table) for table in ("default", "goal", "gap")]
  assert priorities == [[1, 1, 2.5, 2.5], [1, 1, 3.5, 3.5], [1, 4.5]]


def test_the_extras_of_a_step_are_in_its_row_whenever_its_window_closes(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  with serving(
    with_behaviour(make_config(GOAL, [("goal", 2)], n_step=3), monkeypatch), tmp_path, inline=True
  ) as server:
    with adding(server) as (adder, _):
      adder.add_first(first())
      for t in range(5):
        behaviour = np.array([t, -t], np.float32)
        extras = {"policy_version": 2 + t, "behaviour": behaviour}
        adder.add(ACTION, step(events=int(t == 3), terminated=t == 4), extras)
    extras_of = {}
    for table in ("default", "goal"):
      rows = drain(server.connection, table, server.manifest.codec)
      extras_of[table] = [(int(row["policy_version"]), *row["behaviour"].tolist()) for row in rows]
  assert extras_of == {"default": [(2 + t, t, -t) for t in range(5)], "goal": [(2 + t, t, -t) for t in (2, 3)]}


def test_extras_that_do_not_fit_the_rows_are_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  with (
    serving(with_behaviour(make_config(), monkeypatch), tmp_path, inline=True) as server,
    adding(server) as (adder, _),
  ):
    for bad in (np.zeros(3, np.float32), np.zeros(2), np.array([0, np.inf], np.float32)):
      adder.add_first(first())
      with pytest.raises(UserError, match="behaviour"):
        adder.add(ACTION, step(), {**VERSION, "behaviour": bad})
