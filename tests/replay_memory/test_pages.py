"""Arrays of zeros in large pages."""

from typing import Any

import numpy as np
import pytest

from replay_memory.kernels import ROW
from replay_memory.pages import zeros


@pytest.mark.parametrize("shape", [(0,), (3,), (700_000,), (1_000, 900), (524_288,)])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_they_are_zeros_that_can_be_written(shape, dtype):
  array = zeros(shape, dtype)
  assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
  assert not array.any()
  array[...] = 7
  assert (array == 7).all()
  assert array.flags.c_contiguous
  assert array.flags.aligned


def test_structures_can_be_zeros_too():
  array: Any = zeros((100_000,), ROW)
  assert not array.sequence.any()
  array.step[-1] = 5
  assert array.step.sum() == 5


def test_a_large_array_begins_with_a_page_and_keeps_its_memory():
  array = zeros((1 << 20,), "float32")
  assert array.ctypes.data % (1 << 21) == 0
  part = array[-10:]
  part[:] = 3
  del array
  assert part.tolist() == [3.0] * 10


def test_more_than_there_is_says_so():
  with pytest.raises(MemoryError, match=r"there is no room for an array of 4,611,686,018,427,387,904 bytes"):
    zeros((1 << 59,), "float64")
