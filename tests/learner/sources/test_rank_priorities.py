"""When the ranks of all rows are made anew, and which errors are refused."""

import numpy as np
import pytest

from configs import PriorityConfig
from learner.sources.block import Block
from learner.sources.priorities import RankPriorities
from replay_memory.memory import ReplayMemory
from tests.replay_memory.making import episode_rows, memory_of, packed


def _block(memory: ReplayMemory, updates: int) -> Block:
  """Batches of two rows."""
  quotas = np.full((updates, 1), 2)
  draws = memory.draw(quotas, np.random.default_rng(0))
  rows = memory.take(draws.slots)
  return Block(rows, draws.tables, draws.handles, draws.probabilities, draws.table_sizes, quotas, np.ones(1))


@pytest.mark.parametrize(
  ("period", "updates", "expected"),
  [
    (5, 2, [1, 3, 6, 8, 11, 13]),  # Updates 1, 6, 11, 16, 21 and 26.
    (4, 4, list(range(1, 14))),
    (3, 8, list(range(1, 14))),
    (6, 1, [1, 7, 13]),
  ],
)
def test_ranks_are_made_after_the_first_block_and_those_with_which_a_period_ends(
  period: int, updates: int, expected: list[int]
) -> None:
  memory = memory_of(selectors=("ranked",), exponents=(1.0,))
  priorities = RankPriorities(PriorityConfig(ranking_period_updates=period), memory)
  ranked_at = []
  for number, row in enumerate(episode_rows(13), start=1):
    memory.add(packed([row]), priorities.for_new_items)
    priorities.update(_block(memory, updates), np.zeros((updates, 2), np.float32))
    # The rows that were ranked last are all, if that was now.
    if len(priorities.state()["ranks/0"]) == number:
      ranked_at.append(number)
  assert ranked_at == expected


def test_errors_that_are_no_numbers_are_left_out_and_larger_ones_clipped_by_hand() -> None:
  memory = memory_of(selectors=("ranked",), exponents=(1.0,))
  priorities = RankPriorities(PriorityConfig(), memory)
  memory.add(packed(episode_rows(4)), priorities.for_new_items)
  handles = memory.handles_of(memory.contents(0)).reshape(2, 2)
  shape, quotas = (2, 2), np.full((2, 1), 2)
  rows = memory.take(memory.contents(0)).reshape(2, 2, -1)
  block = Block(rows, np.zeros(shape, int), handles, np.full(shape, 0.25), np.full(shape, 4), quotas, np.ones(1))
  priorities.update(block, np.array([[np.nan, -np.inf], [2.0, -3.0]], np.float32))
  assert priorities.refused == 2
  # The first row still counts as never learned from.
  assert memory.state()["columns/ranked_error"].tolist() == [np.inf, 1e9, 2.0, 3.0]
  assert memory.weights(0).tolist() == pytest.approx([1.0, 1 / 2, 1 / 4, 1 / 3])
