import numpy as np
import pytest

from replay_server.contract.local_rows import LocalRows


def _row(number: int) -> np.ndarray:
  return np.full(3, number, np.float32)


def test_rows_are_taken_once_in_the_order_in_which_they_were_put() -> None:
  rows = LocalRows("default", 3)
  for number in range(5):
    rows.put(_row(number))
  assert rows.take(2)[:, 0].tolist() == [0, 1]
  assert (rows.inserted, rows.waiting) == (5, 3)
  assert rows.copy()[:, 0].tolist() == rows.take(10)[:, 0].tolist() == [2, 3, 4]
  assert rows.take(10).shape == (0, 3)
  assert (rows.inserted, rows.waiting) == (5, 0)


@pytest.mark.parametrize("waiting", [0, 2])
def test_restored_rows_are_the_last_of_those_ever_put(waiting: int) -> None:
  rows = LocalRows("default", 3)
  rows.restore(7, np.stack([_row(5), _row(6)])[:waiting])
  rows.put(_row(7))
  assert (rows.inserted, rows.waiting) == (8, waiting + 1)
  assert rows.take(9)[:, 0].tolist() == [*[5, 6][:waiting], 7]
