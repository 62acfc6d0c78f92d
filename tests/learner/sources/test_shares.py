"""Shares of event tables that follow their mean TD errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.sources.quotas import QuotaSchedule
from learner.sources.shares import KEPT, PERIOD_UPDATES, RATE, SharesByError

_CONFIGURED = np.array([0.5, 0.2, 0.3])


def _note(shares: SharesByError, errors: dict[int, list[float]]) -> None:
  """A block of one batch, with these TD errors of each table's rows."""
  tables = np.array([[table for table, own in errors.items() for _ in own]])
  shares.note(tables, np.array([[error for own in errors.values() for error in own]], np.float32))


def test_shares_follow_the_mean_errors_by_hand() -> None:
  shares = SharesByError(_CONFIGURED)
  _note(shares, {0: [5.0], 1: [1.0, -2.0], 2: [-0.5]})
  assert shares.means.tolist() == [5.0, 1.5, 0.5]
  assert not shares.change(PERIOD_UPDATES - 1)
  assert shares.current.tolist() == _CONFIGURED.tolist()
  assert shares.change(PERIOD_UPDATES)
  # Of .5 a fifth stays as configured, and the rest is divided as 3 to 1; the default table keeps its share.
  assert shares.current == pytest.approx([0.5, 0.4 * 0.75 + 0.04, 0.4 * 0.25 + 0.06])
  assert not shares.change(2 * PERIOD_UPDATES - 1)


def test_a_mean_moves_by_its_rate_for_each_update_of_a_block_by_hand() -> None:
  shares = SharesByError(_CONFIGURED)
  _note(shares, {1: [1.0]})
  shares.note(np.full((2, 1), 1), np.full((2, 1), 3.0, np.float32))
  assert shares.means[1] == pytest.approx(1 + 2 * (1 - (1 - RATE) ** 2))
  _note(shares, {1: [np.nan, np.inf]})
  assert shares.means[1] == pytest.approx(1 + 2 * (1 - (1 - RATE) ** 2))
  assert np.isnan(shares.means[[0, 2]]).all()


@pytest.mark.parametrize("errors", [{1: [1.0]}, {1: [0.0], 2: [0.0]}])
def test_configured_shares_stay_while_a_table_has_no_mean_or_nothing_has_an_error(errors) -> None:
  shares = SharesByError(_CONFIGURED)
  _note(shares, errors)
  assert shares.change(PERIOD_UPDATES)
  assert shares.current.tolist() == _CONFIGURED.tolist()


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(st.lists(st.floats(0, 1e6, width=32), min_size=2, max_size=6), st.integers(0, 2**32 - 1))
def test_shares_sum_to_1_and_no_table_has_less_than_a_part_of_its_own(errors: list[float], seed: int) -> None:
  configured = np.random.default_rng(seed).dirichlet(np.ones(1 + len(errors)))
  shares = SharesByError(configured)
  _note(shares, {1 + index: [error] for index, error in enumerate(errors)})
  shares.change(PERIOD_UPDATES)
  assert shares.current.sum() == pytest.approx(1)
  assert shares.current[0] == configured[0]
  assert (shares.current >= KEPT * configured - 1e-12).all()


def test_shares_come_back_with_a_checkpoint() -> None:
  shares = SharesByError(_CONFIGURED)
  _note(shares, {1: [1.0], 2: [3.0]})
  shares.change(PERIOD_UPDATES)
  again = SharesByError(_CONFIGURED)
  again.restore(shares.state())
  assert again.current.tolist() == shares.current.tolist()
  for each in (shares, again):
    assert not each.change(PERIOD_UPDATES + 1)
    _note(each, {1: [9.0], 2: [0.0]})
    assert each.change(2 * PERIOD_UPDATES)
  assert again.current.tolist() == shares.current.tolist()


def test_a_schedule_gives_tables_their_new_shares_and_leaves_out_those_that_are_not_ready() -> None:
  schedule = QuotaSchedule(_CONFIGURED, 10)
  assert schedule.next_block(1).tolist() == [[5, 2, 3]]
  schedule.set_shares(np.array([0.5, 0.4, 0.1]))
  assert schedule.next_block(2).tolist() == [[5, 4, 1]] * 2
  schedule.set_ready(np.array([True, False, True]))
  schedule.set_shares(np.array([0.6, 0.0, 0.4]))
  assert schedule.next_block(1).tolist() == [[6, 0, 4]]
