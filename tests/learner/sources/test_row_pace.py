from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learner.sources.row_pace import RowPace


@pytest.mark.parametrize(
  ("rows_per_update", "due"),
  [(10.0, [1_040, 1_080, 1_120]), (0.3, [1_001, 1_002, 1_003]), (0.25, [1_001, 1_002, 1_003])],
)
def test_rows_are_due_from_the_first_block_on(rows_per_update: float, due: list[int]) -> None:
  pace = RowPace(rows_per_update, warm_up_rows=1_000, updates_per_block=4)
  assert [pace.due(updates) for updates in (0, 4, 8)] == due


@given(st.integers(1, 500), st.integers(1, 64), st.integers(0, 10_000))
def test_it_is_never_off_by_more_than_a_row(hundredths: int, updates_per_block: int, blocks: int) -> None:
  pace = RowPace(hundredths / 100, 10, updates_per_block)
  exact = 10 + Fraction(hundredths, 100) * updates_per_block * (blocks + 1)
  due = pace.due(blocks * updates_per_block)
  assert due is not None
  assert 0 <= exact - due < 1


def test_rows_of_a_round_are_due_together_before_the_updates_that_they_make_due() -> None:
  pace = RowPace(2.0, warm_up_rows=1_000, updates_per_block=1, rows_per_round=256)
  due = [pace.due(updates) for updates in (0, 1, 127, 128, 255, 256)]
  assert due == [1_256] * 3 + [1_512] * 2 + [1_768]


def test_without_a_ratio_nothing_is_due() -> None:
  assert RowPace(None, 10, 4).due(0) is None
