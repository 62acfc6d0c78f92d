"""Mixed rows from the learner's memory: what is drawn, by which weights and priorities, stays as without the hook."""

import contextlib
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from configs import (
  EventSpec,
  LearnerConfig,
  PriorityConfig,
  ReplayConfig,
  RunConfig,
  TableSpec,
  Td3Config,
)
from configs.mixup import MixupConfig, MixupKind, NeighborsConfig
from configs.run import Criterion
from configs.specs import Selector
from learner.mixup.mixup import make_mixup
from learner.mixup.partners import make_partners
from learner.sources.feed import LocalFeed
from learner.sources.memory import MemoryParts, MemorySource
from learner.sources.usable_rows import UnusableRows
from learner.weights.factors import make_weightings
from learner.weights.memory_contents import MemoryContents
from replay_memory.journal import Journal
from replay_memory.memory import ReplayMemory
from replay_memory.plan import make_plan
from replay_server.contract.local_rows import LocalRows
from replay_server.contract.manifest import Manifest
from tests.mixable import CODEC, SPEC, random_rows

KINDS: tuple[MixupKind, ...] = ("neighbors", "mixup", "continuous", "s4rl", "noise")
ROWS = random_rows(np.random.default_rng(0), 400)
ROWS[7::10, [field.offset for field in CODEC.fields if field.name == "events"]] = np.array(1, np.int32).view(np.float32)


def config_of(mixup: MixupConfig, selector: Selector, criterion: Criterion, capacity: int = 200) -> RunConfig:
  return RunConfig(
    events=(EventSpec("goal", "worlds:goal", 3, "goal"),),
    replay=ReplayConfig(
      capacity=capacity,
      default=TableSpec("default", 0.5, min_size=20, selector=selector),
      tables=(TableSpec("goal", 0.5, selector=selector),),
      sampling="memory",
      priority=PriorityConfig(criterion=criterion),
      environment_steps_per_update=10.0,
    ),
    learner=LearnerConfig(Td3Config(), batch_size=16, updates_per_block=4, bias_correction="balance", mixup=mixup),
  )


@contextlib.contextmanager
def source_of(config: RunConfig, folder: pathlib.Path) -> Iterator[MemorySource]:
  """A source whose feed has all rows."""
  manifest = Manifest.of("run", config, SPEC, inline=True)
  assert manifest.codec == CODEC
  memory = ReplayMemory(make_plan(config, CODEC.width), CODEC)
  rows = LocalRows("default", CODEC.width)
  for row in ROWS:
    rows.put(row)
  parts = MemoryParts(
    LocalFeed(rows),
    memory,
    Journal(folder, "run", CODEC),
    UnusableRows(manifest),
    np.random.default_rng(3),
    make_mixup(config, CODEC, 3, lambda mixup: make_partners(mixup, CODEC, memory)),
  )
  weightings = make_weightings(config, CODEC, lambda: MemoryContents(memory))
  with contextlib.closing(MemorySource(config, parts, weightings, threading.Event(), inline=True)) as source:
    yield source


def drawn_from(source: MemorySource, blocks: int) -> list[dict[str, Any]]:
  """Everything of some blocks, each of which gives its rows new priorities."""
  found = []
  for number in range(blocks):
    block = source.next_block()
    found.append({**vars(block), "weights": source.weights(block, 4 * number)})
    errors = np.random.default_rng(number).uniform(0, 2, block.tables.shape).astype(np.float32)
    source.feed_back(block, {"td_error": errors})
  return found


@pytest.mark.parametrize(
  ("selector", "criterion"), [("uniform", "td_error"), ("prioritized", "td_error"), ("prioritized", "reaper")]
)
@pytest.mark.parametrize("kind", KINDS)
def test_draws_weights_and_priorities_are_those_without_the_hook(
  tmp_path: pathlib.Path, kind: MixupKind, selector: Selector, criterion: Criterion
) -> None:
  with (
    source_of(config_of(MixupConfig(kind), selector, criterion), tmp_path / "mixed") as mixed,
    source_of(config_of(MixupConfig(), selector, criterion), tmp_path / "plain") as plain,
  ):
    mixed.restore({})
    plain.restore({})
    for ours, theirs in zip(drawn_from(mixed, 6), drawn_from(plain, 6), strict=True):
      assert (ours["rows"] != theirs["rows"]).any()
      for name in ("tables", "handles", "probabilities", "table_sizes", "quotas", "weights"):
        assert ours[name].tolist() == theirs[name].tolist()
    metrics = mixed.metrics()
  assert {name for name in metrics if name.startswith("mixup_")} >= {"mixup_left_share", "mixup_terminated_share"}
  assert ("mixup_distance" in metrics) == (kind not in ("s4rl", "noise"))
  # Nothing but the seconds and shares of the hook is new.
  assert {name for name in metrics if not name.startswith("mixup_")} == set(plain.metrics())


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_learner_draws_the_same_rows_and_finds_lists_anew(tmp_path: pathlib.Path, kind: MixupKind) -> None:
  # A ring that is full would begin at another place.
  config = config_of(MixupConfig(kind, NeighborsConfig(3)), "prioritized", "td_error", capacity=1_000)
  with source_of(config, tmp_path / "whole") as source:
    source.restore({})
    *_, following = drawn_from(source, 4)
  with source_of(config, tmp_path / "cut") as source:
    source.restore({})
    drawn_from(source, 3)
    state = dict(source.state())
  with source_of(config, tmp_path / "cut") as restored:
    restored.restore(state)
    (again,) = drawn_from(restored, 1)
  for name in ("tables", "probabilities", "table_sizes", "quotas"):
    assert again[name].tolist() == following[name].tolist()
  fields = [CODEC.unpack(block["rows"]) for block in (again, following)]
  for name in ("episode", "step", "events", "terminated"):
    assert fields[0][name].tolist() == fields[1][name].tolist()
  if kind in ("continuous", "s4rl", "noise"):  # The others draw among lists and slots, which are others.
    assert again["rows"].tobytes() == following["rows"].tobytes()
