"""Nearest neighbours: numbers by hand, and every list against an oracle that measures all distances."""

import builtins
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import UserError
from replay_memory.kernels import NONE
from replay_memory.memory import ReplayMemory
from replay_memory.neighbors import Neighbors, bytes_of
from replay_memory.zscores import ZScores
from tests.mixable import CODEC, POINT, STREAMS, NeighborOracle, grown, memory_of, random_rows, row
from tests.replay_memory.streams import PLAIN


def neighbors_of(memory: ReplayMemory, count: int, growth: float = 0.0, **options: Any) -> tuple[Neighbors, ZScores]:
  zscores = ZScores(memory, POINT, growth)
  return Neighbors(memory, zscores, count, **options), zscores


def check_list(memory: ReplayMemory, neighbors: Neighbors, oracle: NeighborOracle, slot: int, count: int) -> None:
  distances = oracle.distances(memory, slot)
  found = neighbors.list_of(slot).tolist()
  assert len(set(found)) == len(found) == min(count, len(distances))
  # Of rows that are equally far, as of equal ones, either may be in the list; float32 rounds squares of distances.
  assert [distances[handle] for handle in found] == pytest.approx(
    sorted(distances.values())[:count], rel=1e-3, abs=3e-3
  )


def test_each_component_counts_by_its_deviation_and_a_constant_one_not_at_all() -> None:
  memory = memory_of(10)
  # Deviations 1 and 100: the second row differs from the first by 2 of the one, the third by 1 of the other.
  points = [(0, 0), (2, 0), (0, 100), (2, 300)]
  memory.add(np.stack([row(point, 0.3, step=step) for step, point in enumerate(points)]))
  neighbors, zscores = neighbors_of(memory, 3)
  assert neighbors.partners(memory.slots, np.random.default_rng(0)).tolist() != [NONE] * 4
  slots = memory.slots
  handles = memory.handles_of(slots)
  assert neighbors.list_of(int(slots[0])).tolist() == handles[[2, 1, 3]].tolist()
  scores = zscores.of(memory.take(slots))
  # (0, 0, 100, 300) has the mean 100 and the deviation 122.47.
  assert scores[:, 1] == pytest.approx(np.array([-100, -100, 0, 200]) / 122.4745, rel=1e-5)
  assert scores[:, 0].tolist() == [-1, 1, -1, 1]
  assert scores[:, 2].tolist() == [0] * 4


def test_a_row_is_left_out_by_its_slot_and_equal_rows_are_neighbours() -> None:
  memory = memory_of(30)
  memory.add(np.stack([row((1, 1), step=step) for step in range(20)] + [row((5, 5), step=20)]))
  neighbors, _ = neighbors_of(memory, 3)
  slots = np.repeat(memory.slots[:20], 50)
  partners = neighbors.partners(slots, np.random.default_rng(0))
  assert (partners != slots).all()
  assert (memory.take(partners)[:, POINT] == memory.take(slots)[:, POINT]).all()


def test_the_only_row_has_no_partner() -> None:
  memory = memory_of(5)
  memory.add(row((1, 1))[None])
  neighbors, _ = neighbors_of(memory, 3)
  assert neighbors.partners(memory.slots, np.random.default_rng(0)).tolist() == [NONE]


@settings(max_examples=4 if os.environ.get(PLAIN) else 60, deadline=None)
@given(**STREAMS)
def test_without_growth_lists_are_the_oracles_at_every_size(
  seed: int, capacity: int, count: int, constant: bool, levels: int
) -> None:
  rng = np.random.default_rng(seed)
  memory = memory_of(capacity)
  neighbors, _ = neighbors_of(memory, count)
  for oracle in grown(memory, rng, 12, constant, levels):
    slots = rng.choice(memory.slots, 5)
    partners = neighbors.partners(slots, rng)
    for slot, partner in zip(slots.tolist(), partners.tolist(), strict=True):
      check_list(memory, neighbors, oracle, slot, count)
      listed = neighbors.list_of(slot).tolist()
      assert memory.handles_of(np.array([partner]))[0] in listed if listed else partner == NONE


@settings(max_examples=3 if os.environ.get(PLAIN) else 30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), growth=st.sampled_from([0.1, 0.25, 1.0]), capacity=st.integers(5, 60))
def test_with_growth_a_list_is_the_oracles_of_the_moment_of_the_index_and_none_is_used_beyond(
  seed: int, growth: float, capacity: int
) -> None:
  rng = np.random.default_rng(seed)
  memory = memory_of(capacity)
  neighbors, zscores = neighbors_of(memory, 3, growth)
  received = epoch = 0
  oracle = None
  for added in rng.integers(1, 6, 30).tolist():
    memory.add(random_rows(rng, added, first=received))
    received += added
    slots = rng.choice(memory.slots, 5)
    partners = neighbors.partners(slots, rng)
    if zscores.epoch != epoch:
      epoch, oracle = zscores.epoch, NeighborOracle(memory)
    assert oracle is not None
    assert zscores.growth <= growth
    for slot, partner in zip(slots.tolist(), partners.tolist(), strict=True):
      check_list(memory, neighbors, oracle, slot, 3)
      # One that is gone gives way to another.
      if partner != NONE:
        assert memory.handles_of(np.array([partner]))[0] in neighbors.list_of(slot)
      else:
        assert memory.stored == 1


def test_a_partner_is_drawn_uniformly_and_one_that_is_gone_is_not() -> None:
  memory = memory_of(4)
  memory.add(random_rows(np.random.default_rng(0), 4))
  neighbors, zscores = neighbors_of(memory, 3, growth=1.0)
  newest, oldest = int(memory.slots[-1]), int(memory.slots[0])
  partners = neighbors.partners(np.full(3_000, newest), np.random.default_rng(0))
  counts = np.bincount(partners, minlength=memory.plan.slots)[memory.slots]
  assert counts[-1] == 0
  assert (np.abs(counts[:-1] - 1_000) < 120).all()  # Over four deviations.
  memory.add(random_rows(np.random.default_rng(1), 1, first=4))
  again = neighbors.partners(np.full(300, newest), np.random.default_rng(0))
  assert zscores.epoch == 1
  assert oldest not in memory.slots or oldest not in again.tolist()
  assert NONE not in again.tolist()


def test_beyond_the_exact_size_cells_find_nearly_all_neighbours() -> None:
  rng = np.random.default_rng(0)
  memory = memory_of(20_000)
  # Rows along paths, as in a world's episodes, and not all over the space.
  phase = rng.uniform(0, 6, 20_000)
  rows = np.repeat(row((0, 0))[None], len(phase), axis=0)
  rows[:, POINT] = np.stack([np.sin(phase), np.cos(2 * phase), np.sin(3 * phase)], axis=1)
  rows[:, POINT] += rng.normal(0, 0.1, (len(phase), 3))
  fields = {field.name: field for field in CODEC.fields}
  rows[:, fields["step"].offset] = np.arange(len(phase), dtype=np.int32).view(np.float32)
  memory.add(rows)
  exact, _ = neighbors_of(memory, 10)
  cells, _ = neighbors_of(memory, 10, exact_rows=1_000)
  slots = rng.choice(memory.slots, 500, replace=False)
  exact.partners(slots, rng)
  cells.partners(slots, rng)
  shared = [len(set(exact.list_of(slot).tolist()) & set(cells.list_of(slot).tolist())) for slot in slots.tolist()]
  assert sum(shared) / (10 * len(slots)) >= 0.98


def test_lists_and_index_take_the_bytes_that_are_planned() -> None:
  # A list of 10 and its epoch; a handle, 3 z-scores, and in the index 8 numbers and half of a square.
  assert bytes_of(1_000, 10, 3) == 1_000 * (40 + 4 + 8 + 12 + 36)


def test_without_faiss_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
  real = builtins.__import__

  def importing(name: str, *arguments: Any, **options: Any) -> Any:
    if name == "faiss":
      raise ImportError(name)
    return real(name, *arguments, **options)

  monkeypatch.setattr("importlib.import_module", importing)
  with pytest.raises(
    UserError, match=r"^learner\.mixup\.kind is 'neighbors', .* install faiss-cpu==1\.8\.0\.post1, which "
  ):
    neighbors_of(memory_of(5), 3)
