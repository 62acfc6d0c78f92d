"""The stratified sampler on a real server."""

import collections
import contextlib
import pathlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from configs import Stopped, TableSpec
from learner.sources.block import Block
from learner.sources.server import ServerSource, make_server_source
from replay_server.contract.connection import Connection
from tests.serving import python_module, report_steps, wait_for

# One batch at a time, drawn when asked for; blocks drawn when asked for; blocks drawn ahead.
FRESH = {"updates_per_block": 1, "prefetch": False}
BLOCKS = {"updates_per_block": 4, "prefetch": False}
AHEAD = {"updates_per_block": 4, "prefetch": True}
MODES = pytest.mark.parametrize("mode", [FRESH, BLOCKS, AHEAD], ids=["fresh", "blocks", "ahead"])


@pytest.fixture(name="sample")
def _sample() -> Iterator[Callable[[Any], ServerSource]]:
  """Makes samplers of filled servers; they end before their server does."""
  with contextlib.ExitStack() as stack:

    def sample(filled: Any) -> ServerSource:
      sampler = make_server_source(filled.server.connection, filled.server.manifest, filled.stop)
      stack.callback(sampler.close)
      return sampler

    yield sample


def _in_background(function: Callable[[], Block]) -> "Future[Block]":
  future: Future[Block] = Future()

  def run() -> None:
    try:
      future.set_result(function())
    except BaseException as error:
      future.set_exception(error)

  threading.Thread(target=run, daemon=True).start()
  return future


def _wait_for_wait(sampler: ServerSource) -> str:
  """What the sampler waits for, once it does."""
  wait_for(sampler.describe_wait, 20)
  return sampler.describe_wait()


def _sampler_threads() -> set[threading.Thread]:
  """Those of other tests too: one whose server was lost is abandoned, and may still wait for it."""
  return {thread for thread in threading.enumerate() if thread.name == "sampler"}


def _check_origin(filled: Any, block: Block) -> None:
  """The field `episode` of a row is the index of the table that it was put into."""
  batches, batch_size = block.tables.shape
  np.testing.assert_array_equal(filled.codec.unpack(block.rows)["episode"], block.tables)
  assert (np.diff(block.tables, axis=1) >= 0).all()  # In layout order.
  counted = [np.bincount(tables, minlength=block.quotas.shape[1]) for tables in block.tables]
  np.testing.assert_array_equal(counted, block.quotas)
  assert block.rows.shape == (batches, batch_size, filled.codec.width)
  assert block.handles.shape == block.probabilities.shape == (batches, batch_size)


@MODES
def test_every_row_is_from_the_table_it_says_and_shares_are_exact(make_config, serve, sample, mode) -> None:
  tables = [TableSpec("default", 0.5), TableSpec("gap", 0.2, capacity=50), TableSpec("done", 0.3, capacity=50)]
  filled = serve(make_config(tables, batch_size=16, **mode))
  for spec, steps in zip(tables, (range(40), range(7), range(1)), strict=True):
    filled.fill(spec.name, steps)
  sampler = sample(filled)
  drawn = np.zeros(3)
  for _ in range(80 // mode["updates_per_block"]):
    block = sampler.next_block()
    _check_origin(filled, block)
    drawn += block.quotas.sum(axis=0)
  np.testing.assert_array_equal(drawn, [640, 256, 384])


@MODES
def test_keys_and_probabilities_belong_to_their_rows(make_config, serve, sample, mode) -> None:
  tables = [TableSpec("default", 0.5, selector="uniform"), TableSpec("newest", 0.5, capacity=9, selector="lifo")]
  filled = serve(make_config(tables, batch_size=8, **mode))
  filled.fill("default", range(4))
  filled.fill("newest", range(3))
  sampler = sample(filled)
  row_of_key: dict[int, tuple[int, int]] = {}
  for _ in range(40 // mode["updates_per_block"]):
    block = sampler.next_block()
    steps = filled.codec.unpack(block.rows)["step"]
    for table, step, key, probability in zip(
      block.tables.ravel(), steps.ravel(), block.handles.ravel(), block.probabilities.ravel(), strict=True
    ):
      assert row_of_key.setdefault(int(key), (table, step)) == (table, step)
      assert probability == (0.25 if table == 0 else 1.0)
  # 160 draws from 4 rows miss one of them with a probability of 4e-20.
  assert sorted(row_of_key.values()) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 2)]
  # They are the server's keys: it changes the priorities of exactly these items.
  connection = filled.server.connection
  connection.update_priorities("default", {key: 0.0 for key, (table, step) in row_of_key.items() if table == 0})
  items = list(connection.client.sample(connection.wire_name("default"), 20, emit_timesteps=False))
  assert {float(np.max(item.info.priority)) for item in items} == {0.0}


@MODES
def test_a_table_takes_part_once_it_holds_its_minimum_and_an_empty_one_blocks_nothing(
  make_config, serve, sample, mode
) -> None:
  tables = [
    TableSpec("default", 0.5, min_size=5),
    TableSpec("gap", 0.2, capacity=50, min_size=10),
    TableSpec("done", 0.3, capacity=50),
  ]
  filled = serve(make_config(tables, batch_size=14, **mode))
  sampler = sample(filled)
  filled.fill("default", range(5))
  filled.fill("gap", range(9))
  for _ in range(3):
    block = sampler.next_block()
    _check_origin(filled, block)
    assert not block.tables.any()
  filled.fill("gap", [9])
  sampler.next_block()  # It may have been drawn before.
  for _ in range(3):
    block = sampler.next_block()
    _check_origin(filled, block)
    np.testing.assert_array_equal(block.quotas, [[10, 4, 0]] * mode["updates_per_block"])  # 5/7, 2/7.
  filled.fill("done", [0])
  sampler.next_block()
  drawn = np.concatenate([sampler.next_block().quotas for _ in range(10)]).sum(axis=0)
  share = 140 * mode["updates_per_block"]
  np.testing.assert_allclose(drawn, [0.5 * share, 0.2 * share, 0.3 * share], atol=2)


@MODES
def test_a_table_that_is_empty_again_takes_no_part_until_it_holds_its_minimum(make_config, serve, sample, mode) -> None:
  filled = serve(make_config([TableSpec("default", 0.5, min_size=5), TableSpec("goal", 0.5)], batch_size=8, **mode))
  filled.fill("default", range(20))
  filled.fill("goal", range(20))
  sampler, batches = sample(filled), mode["updates_per_block"]
  assert sampler.next_block().quotas.tolist() == [[4, 4]] * batches
  # As if the server had been restored from a checkpoint that is older than the first event.
  filled.server.connection.clear("goal")
  for _ in range(10):  # Rows drawn earlier are used up first.
    block = sampler.next_block()
    _check_origin(filled, block)
    if not block.quotas[:, 1].any():
      break
  assert block.quotas.tolist() == [[8, 0]] * batches
  filled.fill("goal", range(20))
  for _ in range(3):
    block = sampler.next_block()
  assert block.quotas.tolist() == [[4, 4]] * batches
  assert all(0 <= ahead <= 5 * 32 for ahead in sampler.drawn_ahead().values())


@MODES
def test_it_waits_for_the_default_tables_minimum_reports_it_and_can_be_stopped(
  make_config, serve, sample, mode
) -> None:
  filled = serve(make_config([TableSpec("default", 1.0, min_size=5)], batch_size=4, **mode))
  filled.fill("default", range(3))
  sampler = sample(filled)
  waiting = _in_background(sampler.next_block)
  assert _wait_for_wait(sampler) == "waiting for workers: table default has 3 of 5 transitions"
  assert not waiting.done()
  began = time.monotonic()
  filled.stop.set()
  with pytest.raises(Stopped):
    waiting.result(10)
  assert time.monotonic() - began < 3


def test_it_continues_once_the_default_table_holds_its_minimum(make_config, serve, sample) -> None:
  filled = serve(make_config([TableSpec("default", 1.0, min_size=5)], batch_size=4, **FRESH))
  sampler = sample(filled)
  waiting = _in_background(sampler.next_block)
  _wait_for_wait(sampler)
  filled.fill("default", range(5))
  _check_origin(filled, waiting.result(20))
  assert sampler.describe_wait() == ""


@MODES
def test_nothing_is_drawn_before_the_first_block_is_asked_for(make_config, serve, sample, mode) -> None:
  idle, busy = (serve(make_config([TableSpec("default", 1.0)], batch_size=4, **mode)) for _ in range(2))
  for filled in (idle, busy):
    filled.fill("default", range(5))
  sampler = sample(idle)
  sample(busy).next_block()  # By now the other one would have drawn, too.
  assert idle.server.connection.info()["default"].rate_limiter_info.sample_stats.completed == 0
  assert sampler.drawn_ahead() == {"default": 0}


def test_within_a_uniform_table_all_rows_are_equally_likely(make_config, serve, sample) -> None:
  tables = [TableSpec("default", 0.75), TableSpec("event", 0.25, capacity=10)]
  filled = serve(make_config(tables, batch_size=64, updates_per_block=32, prefetch=True))
  filled.fill("default", range(40))
  filled.fill("event", range(10))
  sampler = sample(filled)
  counts = np.zeros((2, 40))
  for _ in range(8):
    block = sampler.next_block()
    np.add.at(counts, (block.tables, filled.codec.unpack(block.rows)["step"]), 1)
  # Chi-square values that uniform draws exceed once in ten million times (39 and 9 degrees of freedom), as Reverb's draws
  # cannot be seeded. One row drawn 1.5 times as often would give about 77 in the first table alone.
  for observed, limit in ((counts[0], 107.0), (counts[1, :10], 51.0)):
    expected = observed.sum() / len(observed)
    assert ((observed - expected) ** 2 / expected).sum() < limit
  assert not counts[1, 10:].any()


@MODES
@pytest.mark.parametrize(("selector", "chosen"), [("fifo", 0), ("lifo", 5)])
def test_fifo_draws_the_oldest_and_lifo_the_newest(make_config, serve, sample, mode, selector, chosen) -> None:
  filled = serve(make_config([TableSpec("default", 1.0, selector=selector)], batch_size=8, **mode))
  filled.fill("default", range(6))
  assert set(filled.codec.unpack(sample(filled).next_block().rows)["step"].ravel()) == {chosen}


@pytest.mark.parametrize("mode", [FRESH, BLOCKS], ids=["fresh", "blocks"])
def test_without_drawing_ahead_the_newest_row_can_be_drawn_at_once(make_config, serve, sample, mode) -> None:
  tables = [TableSpec("default", 0.5, selector="lifo"), TableSpec("event", 0.5, capacity=100, selector="lifo")]
  filled = serve(make_config(tables, batch_size=4, **mode))
  sampler, batches = sample(filled), mode["updates_per_block"]
  for step in range(10):
    filled.fill("default", [step])
    filled.fill("event", [100 + step])
    block = sampler.next_block()
    assert filled.codec.unpack(block.rows)["step"].tolist() == [[step, step, 100 + step, 100 + step]] * batches
    assert sampler.drawn_ahead() == {"default": 0, "event": 0}
  info = filled.server.connection.info()
  assert [info[name].rate_limiter_info.sample_stats.completed for name in ("default", "event")] == [20 * batches] * 2


def test_no_more_is_drawn_ahead_than_reported(make_config, serve, sample) -> None:
  tables = [TableSpec("default", 0.5), TableSpec("gap", 0.2, capacity=50), TableSpec("done", 0.3, capacity=50)]
  filled = serve(make_config(tables, batch_size=32, **AHEAD))
  for spec in tables:
    filled.fill(spec.name, range(20))
  sampler = sample(filled)
  handed_out = np.zeros(3, int)
  seen_ahead = 0
  for _ in range(15):
    handed_out += sampler.next_block().quotas.sum(axis=0)
    for pause in (0.0, 0.003, 0.02, 0.05):  # The bound must hold at every moment of the drawing in the background.
      time.sleep(pause)
      info = filled.server.connection.info()
      ahead = sampler.drawn_ahead()
      for index, spec in enumerate(tables):
        drawn = info[spec.name].rate_limiter_info.sample_stats.completed - handed_out[index]
        assert 0 <= drawn <= ahead[spec.name]
        # A block that waits, the rest of the last portion, and the portions under way.
        assert ahead[spec.name] <= 4 * spec.probability * 32 * 4 + 4
        seen_ahead = max(seen_ahead, drawn)
  assert seen_ahead > 0


@MODES
def test_closing_leaves_no_thread_behind_whether_it_draws_waits_or_was_never_used(
  make_config, serve, sample, mode
) -> None:
  filled = serve(
    make_config(
      [TableSpec("default", 1.0, min_size=5)],
      {"environment_steps_per_update": 1, "insert_tolerance_steps": 1},
      batch_size=4,
      **mode,
    )
  )
  before = _sampler_threads()
  sample(filled).close()
  assert _sampler_threads() <= before
  below_minimum = sample(filled)
  first = _in_background(below_minimum.next_block)
  _wait_for_wait(below_minimum)
  below_minimum.close()
  assert _sampler_threads() <= before
  with pytest.raises(Stopped):
    first.result(5)
  filled.fill("default", range(5))
  report_steps(filled.server, 5)
  idle = sample(filled)
  idle.next_block()
  idle.close()
  assert _sampler_threads() <= before
  held_back = sample(filled)
  waiting = _in_background(lambda: [held_back.next_block() for _ in range(30)][-1])
  _wait_for_wait(held_back)
  held_back.close()
  assert _sampler_threads() <= before
  with pytest.raises(Stopped):
    waiting.result(5)


def test_a_mode_that_draws_ahead_and_one_that_does_not_draw_the_same_quotas(make_config, serve, sample) -> None:
  tables = [TableSpec("default", 0.55), TableSpec("gap", 0.12, capacity=50), TableSpec("done", 0.33, capacity=50)]
  quotas: dict[str, list[list[int]]] = collections.defaultdict(list)
  for name, mode in (("fresh", FRESH), ("ahead", AHEAD)):
    filled = serve(make_config(tables, batch_size=5, **mode))
    for spec in tables:
      filled.fill(spec.name, range(3))
    sampler = sample(filled)
    for _ in range(16 // mode["updates_per_block"]):
      quotas[name] += sampler.next_block().quotas.tolist()
  assert quotas["fresh"] == quotas["ahead"]


def test_it_can_be_stopped_although_its_server_died_during_a_draw(tmp_path: pathlib.Path) -> None:
  ended = subprocess.run(
    [*python_module("tests.learner.sources.dying_server"), str(tmp_path)],
    capture_output=True,
    text=True,
    timeout=240,
    check=False,
  )
  assert ended.returncode == 0, ended.stdout + ended.stderr
  assert ended.stdout.splitlines() == [
    "still waiting: fresh, ahead",
    "fresh: Stopped",
    "ahead: Stopped",
    "fresh sampler's threads: 0",
  ]


def test_without_a_server_it_waits_and_reports_it_until_it_is_stopped(make_config, serve) -> None:
  filled = serve(make_config([TableSpec("default", 1.0)], batch_size=4, **FRESH))
  sampler = make_server_source(Connection("localhost:1"), filled.server.manifest, filled.stop)
  waiting = _in_background(sampler.next_block)
  assert _wait_for_wait(sampler) == "waiting for the server"
  filled.stop.set()
  with pytest.raises(Stopped):
    waiting.result(10)
  sampler.close()
