"""The learner's account of the tables' contents."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.weights.membership import Membership

CAPACITIES = (6, 3, 4)
_RECORDS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 5), st.integers(0, 3)), max_size=30)


def _filled(records: Any) -> tuple[Membership, list[list[tuple[int, int]]]]:
  """A membership, and one list per table as the oracle. Some steps are reported twice, as by a restored server."""
  membership = Membership(CAPACITIES)
  oracle: list[list[tuple[int, int]]] = [[] for _ in CAPACITIES]
  for table, episode, first, length in records:
    steps = range(first, first + length + 1)
    membership.add(table, episode, steps[0], steps[-1])
    new = [(episode, step) for step in steps if (episode, step) not in oracle[table]]
    oracle[table] = (oracle[table] + new)[-CAPACITIES[table] :]
  return membership, oracle


def _check(membership: Membership, oracle: list[list[tuple[int, int]]]) -> None:
  assert membership.sizes.tolist() == [len(steps) for steps in oracle]
  episodes, steps = np.meshgrid(np.arange(4, dtype=np.int64), np.arange(10, dtype=np.int32))
  tables = membership.tables_of(episodes, steps)
  for episode, step, mask in zip(episodes.ravel(), steps.ravel(), tables.ravel(), strict=True):
    assert mask == sum(1 << table for table, held in enumerate(oracle) if (episode, step) in held)
  assert membership.events_in_default == len(set(oracle[0]) & (set(oracle[1]) | set(oracle[2])))


@given(_RECORDS)
@settings(deadline=None)
def test_it_holds_the_steps_of_first_in_first_out_tables(records: Any) -> None:
  _check(*_filled(records))


@given(_RECORDS, _RECORDS)
@settings(deadline=None, max_examples=30)
def test_a_restored_membership_continues_like_the_original(before: Any, after: Any) -> None:
  membership, oracle = _filled(before)
  loaded = Membership(CAPACITIES)
  loaded.restore(membership.state(), [1_000] * 3)
  _check(loaded, oracle)
  for number, (table, _, first, length) in enumerate(after):  # New episodes.
    for each in (membership, loaded):
      each.add(table, 4 + number, first, first + length)
  assert loaded.sizes.tolist() == membership.sizes.tolist()
  assert loaded.events_in_default == membership.events_in_default


def test_steps_that_a_server_lost_are_left_out_and_can_be_reported_again() -> None:
  membership = Membership(CAPACITIES)
  membership.add(0, 0, 0, 7)  # The first two are evicted.
  membership.add(1, 0, 4, 5)
  restored = Membership(CAPACITIES)
  # The server's checkpoint had seven of the eight steps, and one of the two.
  restored.restore(membership.state(), [7, 1, 0])
  _check(restored, [[(0, step) for step in (2, 3, 4, 5, 6)], [(0, 4)], []])
  # It repeats a report that was unread in its checkpoint, and then come new ones.
  restored.add(0, 0, 6, 6)
  restored.add(0, 1, 0, 0)
  _check(restored, [[*((0, step) for step in (2, 3, 4, 5, 6)), (1, 0)], [(0, 4)], []])
  again = Membership(CAPACITIES)
  again.restore(restored.state(), [8, 1, 0])
  _check(again, [[*((0, step) for step in (2, 3, 4, 5, 6)), (1, 0)], [(0, 4)], []])


def test_ids_as_large_as_adders_make_them_are_told_apart() -> None:
  membership = Membership((4,))
  episode = (2**31 - 1 << 32) + 7
  membership.add(0, episode, 2**31 - 2, 2**31 - 1)
  episodes = np.array([episode, episode, episode - 1], np.int64)
  steps = np.array([2**31 - 1, 0, 2**31 - 1], np.int32)
  assert membership.tables_of(episodes, steps).tolist() == [1, 0, 0]
