"""Quotas: whole rows per table and batch, which meet the tables' shares in the long run."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.sources.quotas import QuotaSchedule, tables_of_rows

# Whole numbers, so that shares are fractions and bounds need no rounding; a weight of 1 beside 10,000 is a tiny share.
_WEIGHTS = st.lists(
  st.one_of(st.integers(1, 10), st.integers(1_000, 10_000), st.just(1), st.just(7_919)), min_size=1, max_size=12
)

# With these weights no two rows are equally urgent before a table's 1,009th row, so there is one right answer.
_PRIMES = (1, 1_009, 1_013, 2_003, 4_001, 7_919, 9_973, 30_011)


def _shares(weights: list[int], ready: list[bool] | None = None) -> list[Fraction]:
  kept = [weight if ready is None or ready[index] else 0 for index, weight in enumerate(weights)]
  return [Fraction(weight, sum(kept)) for weight in kept]


def _schedule(weights: list[int], batch_size: int) -> QuotaSchedule:
  return QuotaSchedule(np.array([float(share) for share in _shares(weights)]), batch_size)


def _check_prefixes(quotas: np.ndarray, shares: list[Fraction], batch_size: int) -> None:
  """After every batch each table has had its exact share of all rows, rounded down or up."""
  had = [0] * len(shares)
  for number, batch in enumerate(quotas.tolist(), start=1):
    assert sum(batch) == batch_size
    for index, (count, share) in enumerate(zip(batch, shares, strict=True)):
      assert count >= 0
      had[index] += count
      owed = number * batch_size * share
      assert math.floor(owed) <= had[index] <= math.ceil(owed)


def _edf_oracle(shares: list[Fraction], batch_size: int, batches: int) -> list[list[int]]:
  """Earliest deadline first, row by row and in fractions: every row of a table has a first and a last batch."""
  had = [0] * len(shares)
  plan = []
  for number in range(1, batches + 1):
    batch = [0] * len(shares)
    for _ in range(batch_size):
      open_tables = [
        index for index, share in enumerate(shares) if share and number * batch_size * share > had[index] + batch[index]
      ]
      chosen = min(open_tables, key=lambda index: ((had[index] + batch[index] + 1) / shares[index], index))
      batch[chosen] += 1
    had = [before + count for before, count in zip(had, batch, strict=True)]
    plan.append(batch)
  return plan


def test_the_shares_of_the_paper_give_whole_rows_every_five_batches() -> None:
  quotas = QuotaSchedule(np.array([0.5, 0.2, 0.3]), 32).next_block(10)
  expected = [[16, 6, 10], [16, 7, 9], [16, 6, 10], [16, 7, 9], [16, 6, 10]]
  assert quotas.tolist() == expected * 2
  assert quotas[:5].sum(axis=0).tolist() == [80, 32, 48]


@given(_WEIGHTS, st.sampled_from([1, 2, 3, 7, 32, 256]))
@settings(deadline=None, max_examples=60)
def test_every_prefix_holds_each_tables_exact_share_rounded_down_or_up(weights: list[int], batch_size: int) -> None:
  quotas = _schedule(weights, batch_size).next_block(80)
  _check_prefixes(quotas, _shares(weights), batch_size)


@given(st.lists(st.sampled_from(_PRIMES), unique=True, min_size=1), st.sampled_from([1, 3, 8, 32]))
@settings(deadline=None, max_examples=30)
def test_quotas_are_those_of_the_most_urgent_row_first(weights: list[int], batch_size: int) -> None:
  assert _schedule(weights, batch_size).next_block(15).tolist() == _edf_oracle(_shares(weights), batch_size, 15)


def test_many_tiny_tables_never_fall_behind_by_a_whole_row() -> None:
  # With largest remainders first, one of these would fall behind by more than a row.
  weights = [3616, 367, 1983, 35, 1, 54, 3494, 282, 125, 43]
  _check_prefixes(_schedule(weights, 1).next_block(1_000), _shares(weights), 1)


@given(
  _WEIGHTS,
  st.sampled_from([1, 5, 32]),
  st.lists(st.tuples(st.lists(st.booleans(), min_size=12, max_size=12), st.integers(1, 15)), min_size=1, max_size=5),
)
@settings(deadline=None, max_examples=50)
def test_tables_that_are_not_ready_get_nothing_and_the_others_their_renormalised_shares(
  weights: list[int], batch_size: int, phases: list[tuple[list[bool], int]]
) -> None:
  schedule = _schedule(weights, batch_size)
  for pattern, batches in phases:
    ready = pattern[: len(weights)]
    ready[0] = True  # The default table is the first to be ready.
    # Readiness only changes between blocks; setting it again to the same value changes nothing.
    schedule.set_ready(np.array([index % 2 == 0 for index in range(len(weights))]))
    schedule.set_ready(np.array(ready))
    first = schedule.next_block(batches)
    schedule.set_ready(np.array(ready))
    quotas = np.concatenate([first, schedule.next_block(batches)])
    shares = _shares(weights, ready)
    assert not quotas[:, ~np.array(ready)].any()
    changed = ready != [index % 2 == 0 for index in range(len(weights))]
    if changed:  # Otherwise what the tables are owed is carried over.
      _check_prefixes(quotas, shares, batch_size)


def test_shares_that_sum_to_one_up_to_rounding_are_met_in_the_long_run() -> None:
  # A config's shares may sum to 1 within 1e-6; the difference must not add up from batch to batch.
  shares = np.array([0.499999, 0.333333, 0.166667])
  quotas = QuotaSchedule(shares, 4_096).next_block(2_000).cumsum(axis=0)
  owed = np.arange(1, 2_001)[:, None] * 4_096 * shares / shares.sum()
  assert np.abs(quotas - owed).max() < 1 + 1e-6


@pytest.mark.parametrize("blocks", [(1,) * 12, (3,) * 4, (12,)])
def test_quotas_do_not_depend_on_how_many_batches_a_block_has(blocks: tuple[int, ...]) -> None:
  weights = [5, 2, 3, 1]
  schedule = _schedule(weights, 7)
  together = np.concatenate([schedule.next_block(count) for count in blocks])
  assert together.tolist() == _schedule(weights, 7).next_block(12).tolist()


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 40), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_each_batch_holds_its_tables_rows_in_layout_order(
  batches: int, tables: int, batch_size: int, seed: int
) -> None:
  quotas = np.random.default_rng(seed).multinomial(batch_size, np.full(tables, 1 / tables), size=batches)
  expected = [[table for table, count in enumerate(batch) for _ in range(count)] for batch in quotas.tolist()]
  assert tables_of_rows(quotas).tolist() == expected


def test_the_tables_of_the_rows_of_two_batches() -> None:
  assert tables_of_rows(np.array([[2, 0], [1, 1]])).tolist() == [[0, 0], [0, 1]]


@given(_WEIGHTS, st.sampled_from([12, 13, 32, 256]))
@settings(deadline=None, max_examples=40)
def test_with_at_least_one_every_table_has_a_row_and_the_other_rows_follow_the_shares(
  weights: list[int], batch_size: int
) -> None:
  schedule = QuotaSchedule(np.array(weights) / sum(weights), batch_size, at_least_one=True)
  quotas = schedule.next_block(60)
  assert quotas.min() >= 1
  assert (quotas.sum(axis=1) == batch_size).all()
  assert schedule.shares.sum() == pytest.approx(1)
  had = quotas.cumsum(axis=0)
  owed = np.arange(1, 61)[:, None] * schedule.shares * batch_size
  assert (np.abs(had - owed) < 1 + 1e-6).all()
  # A table with a share of more than a row gives rows up in proportion to its share beyond that row.
  rows = np.array(weights) / sum(weights) * batch_size
  ratio = (schedule.shares * batch_size - 1)[rows > 1] / (rows - 1)[rows > 1]
  np.testing.assert_allclose(ratio, ratio[0] if len(ratio) else 1, rtol=1e-6)


def test_at_least_one_by_hand_and_for_ready_tables_only() -> None:
  schedule = QuotaSchedule(np.array([0.9, 0.05, 0.05]), 10, at_least_one=True)
  # Shares of .5 rows are raised to one row each; the first table has the other eight.
  assert schedule.next_block(3).tolist() == [[8, 1, 1]] * 3
  schedule.set_ready(np.array([True, False, True]))
  assert schedule.next_block(2).tolist() == [[9, 0, 1]] * 2
  assert schedule.shares.tolist() == pytest.approx([0.9, 0, 0.1])
  as_many_as_rows = QuotaSchedule(np.array([0.8, 0.1, 0.1]), 3, at_least_one=True)
  assert as_many_as_rows.next_block(2).tolist() == [[1, 1, 1]] * 2


def test_a_restored_schedule_goes_on_with_what_the_tables_are_owed() -> None:
  schedule, ready = _schedule([3, 2, 2], 7), np.array([True, False, True])
  schedule.set_ready(ready)
  schedule.next_block(3)
  restored = _schedule([3, 2, 2], 7)
  restored.restore(schedule.state())
  fresh = _schedule([3, 2, 2], 7)
  fresh.set_ready(ready)
  expected = schedule.next_block(9)
  np.testing.assert_array_equal(restored.next_block(9), expected)
  assert (fresh.next_block(9) != expected).any()
