"""The source that draws from the learner's own memory: what it reads, draws, keeps, and finds again."""

import contextlib
import dataclasses
import pathlib
import shutil
import threading
import time
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from configs import LearnerConfig, PriorityConfig, RunConfig, Stopped, TableSpec, UserError
from learner.sources import memory as memory_module
from learner.sources.feed import ServerFeed
from learner.sources.memory import MemorySource, make_memory_source
from replay_server.process.server import ReplayServer
from tests.serving import CODEC, adding, config_of, run_episode, serving, size_of, wait_for

TABLES = (TableSpec("default", 0.5, capacity=200, min_size=20), TableSpec("goal", 0.5, capacity=50))
EVENTS = (("goal", 3),)


PRIORITY = PriorityConfig(exponent=1.0, epsilon=1e-6)


def _config(ratio: float | None = 2.0, tables: Sequence[TableSpec] = TABLES, **learner: Any) -> RunConfig:
  replay = {
    "sampling": "memory",
    "environment_steps_per_update": ratio,
    "insert_tolerance_steps": 500,
    "priority": PRIORITY,
  }
  fields = {"batch_size": 8, "updates_per_block": 4, "prefetch": False, **learner}
  return config_of(tables, EVENTS, replay, learner=LearnerConfig(**fields))


PRIORITIZED = tuple(dataclasses.replace(table, selector="prioritized") for table in TABLES)


@contextlib.contextmanager
def _source(server: ReplayServer, folder: pathlib.Path, seed: int = 0) -> Iterator[MemorySource]:
  source = make_memory_source(server.connection, server.manifest, seed, threading.Event(), folder / "rows")
  with contextlib.closing(source):
    yield source


def _feed(server: ReplayServer, episodes: int, length: int = 10, writer_id: int = 0) -> None:
  """Writes episodes that end with the event."""
  with adding(server, writer_id) as (adder, writer):
    for number in range(episodes):
      run_episode(adder, length, {length - 1: 1}, number)
    writer.flush()


def _steps(block: Any) -> np.ndarray:
  steps: np.ndarray = CODEC.unpack(block.rows)["step"]
  return steps


def test_a_block_has_the_tables_shares_and_waits_for_the_rows_that_are_due(tmp_path: pathlib.Path) -> None:
  with serving(_config(), tmp_path) as server, _source(server, tmp_path) as source:
    source.restore({})
    _feed(server, 6)
    # 20 rows of warm-up, and 2 for each of the block's 4 updates.
    block = source.next_block()
    assert size_of(server.connection, "default") == 60 - 28
    assert (block.tables == 0).sum(axis=1).tolist() == [4] * 4
    assert set(_steps(block)[block.tables == 1].tolist()) <= {7, 8, 9}
    assert (block.table_sizes[block.tables == 1] == 6).all()  # Two events have been read.
    source.next_block()
    assert size_of(server.connection, "default") == 60 - 36


def test_it_says_on_whom_it_waits_and_can_be_stopped(tmp_path: pathlib.Path) -> None:
  said: list[str] = []

  with serving(_config(), tmp_path) as server, _source(server, tmp_path) as source:
    source.restore({})

    def note() -> None:
      said.append(source.describe_wait())
      if len(said) == 3:
        _feed(server, 2)
      if "are missing" in said[-1]:
        raise Stopped("enough")

    with pytest.raises(Stopped, match="enough"):
      source.next_block(note)
    wait = source.wait()
  assert "waiting for workers: table default has 0 of 20 transitions" in said
  assert said[-1] == "waiting for workers: 2 environment steps for each update, and 8 are missing"
  assert wait is not None
  assert wait.whom == "workers"


@pytest.mark.parametrize("prefetch", [False, True])
def test_no_more_than_one_block_is_drawn_ahead(tmp_path: pathlib.Path, prefetch: bool) -> None:
  with serving(_config(prefetch=prefetch), tmp_path) as server, _source(server, tmp_path) as source:
    source.restore({})
    _feed(server, 10)
    source.next_block()
    source.draw_ahead()
    ahead = 1 if prefetch else 0
    wait_for(lambda: size_of(server.connection, "default") == 100 - 28 - 8 * ahead)
    time.sleep(0.2)  # For a mistake to show.
    assert size_of(server.connection, "default") == 100 - 28 - 8 * ahead
    assert source.metrics()["drawn_ahead"] == 4 * 8 * ahead


def test_without_a_ratio_it_reads_whatever_waits_and_does_not_ask_again_at_once(tmp_path, monkeypatch) -> None:
  asked: list[int] = []

  class Counting(ServerFeed):
    def take(self, most: int) -> Any:
      rows = super().take(most)
      asked.append(len(rows))
      return rows

  monkeypatch.setattr(memory_module, "ServerFeed", Counting)
  now = [0.0]
  monkeypatch.setattr(memory_module, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
  with serving(_config(ratio=None), tmp_path) as server, _source(server, tmp_path) as source:
    source.restore({})
    _feed(server, 5)
    for _ in range(3):
      source.next_block()
    assert asked == [50, 0]
    _feed(server, 1, writer_id=1)
    source.next_block()
    assert asked == [50, 0]
    now[0] = 0.1
    source.next_block()
    source.next_block()
    assert asked == [50, 0, 10, 0]
    assert size_of(server.connection, "default") == 0


def test_shares_follow_the_tables_errors_and_come_back_with_the_checkpoint(tmp_path: pathlib.Path) -> None:
  tables = (TABLES[0], TableSpec("goal", 0.25, capacity=50), TableSpec("middle", 0.25, capacity=50))
  config = config_of(
    tables,
    (("goal", 3), ("middle", 3)),
    {"sampling": "memory", "shares": "td_error"},
    learner=LearnerConfig(batch_size=16, updates_per_block=4, prefetch=False),
  )
  errors = np.array([50.0, 3.0, 1.0], np.float32)
  with serving(config, tmp_path) as server, _source(server, tmp_path) as source:
    source.restore({})
    with adding(server, 0) as (adder, writer):
      for number in range(4):
        run_episode(adder, 10, {9: 1, 4: 2}, number)
      writer.flush()
    assert source.next_block().quotas.tolist() == [[8, 4, 4]] * 4
    for _ in range(100 // 4):
      block = source.next_block()
      source.feed_back(block, {"td_error": errors[block.tables]})
    # Of the half for events a fifth stays as configured, and the rest is divided as 3 to 1.
    shares = [0.5, 0.4 * 0.75 + 0.05, 0.4 * 0.25 + 0.05]
    assert block.shares == pytest.approx(shares)
    assert (block.tables == 0).sum(axis=1).tolist() == [8] * 4
    metrics = source.metrics()
    assert [metrics[f"share/{table.name}"] for table in tables] == pytest.approx(shares)
    state = source.state()
    more = source.next_block()
  with serving(config, tmp_path / "again") as server, _source(server, tmp_path) as source:
    source.restore(state)
    block = source.next_block()
    assert block.quotas.tolist() == more.quotas.tolist()
    assert block.shares == pytest.approx(shares)


def test_td_errors_change_the_draws(tmp_path: pathlib.Path) -> None:
  with serving(_config(tables=PRIORITIZED, batch_size=64), tmp_path) as server:
    with _source(server, tmp_path) as source:
      source.restore({})
      _feed(server, 10)
      for _ in range(5):
        block = source.next_block()
        steps = _steps(block)
        # Only the fifth step of an episode is ever wrong.
        source.feed_back(block, {"td_error": np.where(steps == 4, 1.0, 0.0).astype(np.float32)})
      block = source.next_block()
    from_default = _steps(block)[block.tables == 0]
    assert (from_default == 4).mean() > 0.5
    assert source.metrics()["refused_priorities"] == 0
    assert 0 < source.new_item_priorities[0] < 1


REAPER = PriorityConfig(criterion="reaper", exponent=1.0, reliability_exponent=1.0, epsilon=1e-6, normalize="buffer")


def _reaper(config: RunConfig) -> RunConfig:
  return dataclasses.replace(config, replay=dataclasses.replace(config.replay, priority=REAPER))


def test_with_reaper_an_error_counts_in_every_table_and_changes_the_reliability_of_its_episode(tmp_path) -> None:
  config = _reaper(_config(tables=PRIORITIZED, batch_size=64))
  with serving(config, tmp_path) as server, _source(server, tmp_path) as source:
    source.restore({})
    _feed(server, 10)
    for _ in range(6):
      block = source.next_block()
      # The fourth and the eighth step are equally wrong; only the second of them has nothing to come.
      errors = np.isin(_steps(block), (3, 7)).astype(np.float32)
      source.feed_back(block, {"td_error": errors})
    block = source.next_block()
    steps = _steps(block)
    assert (steps[block.tables == 1] == 7).mean() > 0.5  # Its steps are 7 to 9, some of them new.
    drawn = steps[block.tables == 0]
    # R is a half and 1.
    assert 0.2 < (drawn == 3).sum() / (drawn == 7).sum() < 0.8
    assert source.metrics()["refused_priorities"] == 0


RANKED = tuple(dataclasses.replace(table, selector="ranked") for table in TABLES)


def _ranked(config: RunConfig) -> RunConfig:
  priority = PriorityConfig(exponent=0.7, normalize="buffer", ranking_period_updates=10)
  default, *tables = RANKED
  return dataclasses.replace(
    config, replay=dataclasses.replace(config.replay, priority=priority, default=default, tables=tuple(tables))
  )


def test_with_ranks_the_most_wrong_row_is_drawn_with_the_probability_of_the_first_rank(tmp_path) -> None:
  with serving(_ranked(_config(ratio=1e-6, batch_size=64)), tmp_path) as server, _source(server, tmp_path) as source:
    source.restore({})
    _feed(server, 10)
    assert source.new_item_priorities == (1.0, 1.0)
    for _ in range(8):
      block = source.next_block()
      steps = _steps(block) + 10 * (CODEC.unpack(block.rows)["episode"] & 1)
      source.feed_back(block, {"td_error": np.where(steps == 4, -1e6, steps).astype(np.float32)})
    block = source.next_block()
    drawn = block.tables == 0
    # Rows 0 to 9 of an episode and 0 to 9 of another: 20 rows, all of which were drawn, and no two are equally wrong.
    total = (np.arange(1, 21) ** -0.7).sum()
    steps = _steps(block) + 10 * (CODEC.unpack(block.rows)["episode"] & 1)
    ranks = np.where(steps == 4, 1, np.where(steps < 4, 20 - steps, 21 - steps))
    np.testing.assert_allclose(block.probabilities[drawn], (ranks**-0.7 / total)[drawn])
    assert source.metrics()["refused_priorities"] == 0
    odd = np.where(steps == 7, np.nan, np.where(steps == 4, np.inf, 1.0)).astype(np.float32)
    source.feed_back(block, {"td_error": odd})
    assert source.metrics()["refused_priorities"] == np.isin(steps, (4, 7)).sum()
    assert np.isfinite(source.state()["memory/columns/ranked_error"]).all()


def test_weights_are_divided_by_the_largest_of_all_ranked_rows_of_the_tables(tmp_path: pathlib.Path) -> None:
  config = _ranked(_config())
  with serving(config, tmp_path) as server, _source(server, tmp_path) as source:
    source.restore({})
    _feed(server, 10)
    block = source.next_block()
    source.feed_back(block, {"td_error": _steps(block).astype(np.float32) + 1})
    block = source.next_block()
    assert block.least_ratios is not None
    assert block.least_ratios[0] < 1
    ratios = block.probabilities * block.table_sizes
    expected = (ratios / block.least_ratios.min()) ** -config.replay.priority.importance_exponent
    np.testing.assert_allclose(source.weights(block, 0), expected, rtol=1e-5)


def test_weights_are_divided_by_the_largest_of_all_rows_of_the_tables(tmp_path: pathlib.Path) -> None:
  config = _reaper(_config(tables=PRIORITIZED))
  with serving(config, tmp_path) as server, _source(server, tmp_path) as source:
    source.restore({})
    _feed(server, 10)
    block = source.next_block()
    source.feed_back(block, {"td_error": _steps(block).astype(np.float32) + 1})
    block = source.next_block()
    assert block.least_ratios is not None
    ratios = block.probabilities * block.table_sizes
    expected = (ratios / block.least_ratios.min()) ** -config.replay.priority.importance_exponent
    np.testing.assert_allclose(source.weights(block, 0), expected, rtol=1e-5)
    assert expected.max() <= 1


def test_a_checkpoint_of_another_criterion_is_refused(tmp_path: pathlib.Path) -> None:
  plain = _config(tables=PRIORITIZED)
  states = {}
  for name, config in (("td_error", plain), ("reaper", _reaper(plain))):
    with serving(config, tmp_path / name) as server, _source(server, tmp_path / name) as source:
      source.restore({})
      _feed(server, 10)
      source.next_block()
      states[name] = source.state()
  for name, config in (("td_error", _reaper(plain)), ("reaper", plain)):
    with (
      serving(config, tmp_path / f"other_{name}") as server,
      _source(server, tmp_path / f"other_{name}") as source,
      pytest.raises(UserError, match=f"is of a run whose replay.priority.criterion is '{name}'"),
    ):
      source.restore(states[name])


def test_a_checkpoint_without_the_ranks_of_every_table_is_refused(tmp_path: pathlib.Path) -> None:
  all_ranked = _ranked(_config())
  one_ranked = dataclasses.replace(all_ranked, replay=dataclasses.replace(all_ranked.replay, tables=(TABLES[1],)))
  none_ranked = _config(tables=PRIORITIZED)
  states: list[Any] = []
  for config in (all_ranked, one_ranked, none_ranked):
    folder = tmp_path / str(len(states))
    with serving(config, folder) as server, _source(server, folder) as source:
      source.restore({})
      _feed(server, 10)
      source.next_block()
      states.append(source.state())
  other_kind, other_tables = "whose tables have other selectors", "other tables that draw by priority"
  for config, state, message in (
    (none_ranked, states[0], other_kind),
    (all_ranked, states[1], other_kind),
    (all_ranked, states[2], other_kind),
    (one_ranked, states[0], other_tables),
  ):
    folder = tmp_path / "other"
    with (
      serving(config, folder) as server,
      _source(server, folder) as source,
      pytest.raises(UserError, match=message),
    ):
      source.restore(state)


def _contents(source: MemorySource) -> dict[str, Any]:
  return {key: value.tolist() for key, value in source.state().items() if not key.startswith("journal")}


@pytest.mark.parametrize("criterion", ["td_error", "reaper", "ranked"])
def test_a_source_that_was_stopped_goes_on_as_if_it_had_not(tmp_path: pathlib.Path, criterion: str) -> None:
  config = _config(tables=PRIORITIZED)
  config = {"td_error": config, "reaper": _reaper(config), "ranked": _ranked(config)}[criterion]
  errors = np.random.default_rng(0).random((8, 4, 8)).astype(np.float32)

  def learn(source: MemorySource, blocks: range) -> list[np.ndarray]:
    rows = []
    for number in blocks:
      block = source.next_block()
      source.feed_back(block, {"td_error": errors[number]})
      rows.append(block.rows)
    return rows

  with serving(config, tmp_path / "a") as server, _source(server, tmp_path / "a") as source:
    source.restore({})
    _feed(server, 10, writer_id=5)
    unstopped, contents = learn(source, range(8)), _contents(source)
  with serving(config, tmp_path / "b") as server:
    _feed(server, 10, writer_id=5)
    with _source(server, tmp_path / "b") as source:
      source.restore({})
      before, state = learn(source, range(4)), source.state()
    with _source(server, tmp_path / "b", seed=1) as source:
      source.restore(state)
      after = learn(source, range(4, 8))
      assert _contents(source) == contents
  np.testing.assert_array_equal(np.stack([*before, *after]), np.stack(unstopped))


def test_a_source_that_was_killed_has_every_row_that_it_had_read(tmp_path, capsys) -> None:
  with serving(_config(), tmp_path) as server:
    _feed(server, 10)
    killed = make_memory_source(server.connection, server.manifest, 0, threading.Event(), tmp_path / "rows")
    killed.restore({})
    killed.next_block()
    state = killed.state()
    for _ in range(2):
      killed.next_block()
    inserts = killed.metrics()["memory_table/default/inserts"]
    server.connection.take_rows("default", 3, CODEC.width)  # What is on its way to a process that is killed.
    with _source(server, tmp_path) as source:
      source.restore(state)
      assert source.metrics()["memory_table/default/inserts"] == inserts == 44
      assert source.metrics()["memory_lost_rows"] == 3
      source.next_block()  # The updates that were lost are not made up for: eight more rows are due.
      assert size_of(server.connection, "default") == 100 - 44 - 3 - 8
  said = capsys.readouterr().out
  assert "found 16 transitions that it had received after its checkpoint" in said
  assert "lost 3 transitions that were on their way to it" in said


def test_the_files_of_many_lives_are_folded_and_every_kept_checkpoint_can_be_restored(tmp_path, capsys) -> None:
  states: list[Any] = [{}]
  with serving(_config(), tmp_path) as server:
    _feed(server, 20)
    for _ in range(6):
      with _source(server, tmp_path) as source:
        source.restore(states[-1])
        source.next_block()
        states.append(source.state())
        if len(states) == 7:
          source.forget_all_but(states[-2:])
    # One of five lives, whose rows the older of the two has, and one of the last.
    assert len(list((tmp_path / "rows").iterdir())) == 2
    for number in (-1, -2):
      folder = tmp_path / str(number)
      shutil.copytree(tmp_path / "rows", folder / "rows")
      with _source(server, folder) as source:
        source.restore(states[number])
        restored = source.state()
        assert source.metrics()["memory_table/default/inserts"] == 28 + 5 * 8
        for name in ("memory/sequences", "memory/rows/step", "memory/tables/0", "memory/tables/1"):
          np.testing.assert_array_equal(restored[name], states[-1][name])
  assert "damaged" not in capsys.readouterr().out


def test_a_source_that_never_wrote_a_checkpoint_begins_with_its_rows(tmp_path: pathlib.Path) -> None:
  with serving(_config(), tmp_path) as server:
    _feed(server, 10)
    killed = make_memory_source(server.connection, server.manifest, 0, threading.Event(), tmp_path / "rows")
    killed.restore({})
    killed.next_block()
    with _source(server, tmp_path) as source:
      source.restore({})
      assert source.metrics()["memory_table/default/size"] == 28


def test_with_prefetching_what_is_fed_back_counts_from_the_block_after_the_next(tmp_path: pathlib.Path) -> None:
  config = _config(ratio=1e-6, tables=PRIORITIZED, prefetch=True)
  with serving(config, tmp_path) as server, _source(server, tmp_path) as source:
    source.restore({})
    _feed(server, 20)
    handles = []
    for _ in range(3):
      block = source.next_block()
      source.draw_ahead()
      wait_for(lambda: source.metrics()["drawn_ahead"] > 0)  # The next block is drawn while this one is learned from.
      handles.append(set(block.handles[block.tables == 0].tolist()))
      source.feed_back(block, {"td_error": np.full(block.tables.shape, 1e5, np.float32)})
  assert handles[1] - handles[0]  # The rows that are known to be wrong, and others.
  assert not handles[2] - handles[0]


def test_a_checkpoint_has_what_was_fed_back_while_nothing_was_drawn(tmp_path: pathlib.Path) -> None:
  config = _config(tables=PRIORITIZED, prefetch=True)
  with serving(config, tmp_path) as server:
    _feed(server, 20)
    with _source(server, tmp_path) as source:
      source.restore({})
      block = source.next_block()
      source.feed_back(block, {"td_error": np.full(block.tables.shape, 7.0, np.float32)})
      state = source.state()
    assert state["new_item_priorities"] == pytest.approx([7, 7])
    with _source(server, tmp_path) as source:
      source.restore(state)
      assert source.new_item_priorities == pytest.approx((7, 7))


def test_rows_of_an_open_block_are_stored_when_it_opens_its_streams_anew(tmp_path: pathlib.Path) -> None:
  with serving(_config(prefetch=True), tmp_path) as server, _source(server, tmp_path) as source:
    source.restore({})
    _feed(server, 10)
    source.next_block()
    source.draw_ahead()
    source.reopen()
    source.next_block()
    assert not {"memory_repeated_rows", "memory_lost_rows"} & source.metrics().keys()
    assert source.metrics()["memory_table/default/inserts"] >= 36


def test_rows_that_cannot_be_learned_from_are_not_stored(tmp_path, capsys) -> None:
  with serving(_config(), tmp_path) as server:
    _feed(server, 10)
    rows = server.connection.take_rows("default", 100, CODEC.width)
    rows[[3, 4, 40], 0] = np.nan
    with adding(server) as (_, writer):
      for row in rows:
        writer.create_item("default", writer.append(row))
      writer.flush()
    with _source(server, tmp_path) as source:
      source.restore({})
      for _ in range(8):
        block = source.next_block()
        assert np.isfinite(block.rows[..., : CODEC.float_words]).all()
      state, metrics = source.state(), source.metrics()
      assert metrics["unusable_rows"] == 3
      assert metrics["memory_table/default/inserts"] == 20 + 8 * 8 - 3
    with _source(server, tmp_path) as source:
      source.restore(state)
      assert source.metrics()["memory_table/default/inserts"] == 20 + 8 * 8 - 3
  assert "wrote a row that cannot be learned from" in capsys.readouterr().out


def test_rows_of_another_run_are_refused(tmp_path: pathlib.Path) -> None:
  with serving(_config(), tmp_path) as server:
    _feed(server, 10)
    with _source(server, tmp_path) as source:
      source.restore({})
      source.next_block()
  other = serving(_config(), tmp_path / "other", run_id="other")
  with other as server, pytest.raises(UserError, match="is of run run, and this is run other"):
    make_memory_source(server.connection, server.manifest, 0, threading.Event(), tmp_path / "rows")
