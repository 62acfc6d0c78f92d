"""Arrays of zeros in large pages."""

import contextlib
import math
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

# A large page of x86-64 and of ARM with pages of 4 KB, in bytes.
_LARGE_PAGE = 1 << 21


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
  """Zeros that take no memory before they are written over; a record array for structures.

  Rows are drawn at random. With pages of 4 KB nearly every look into an array of many megabytes would wait for the entry of its
  page, which makes it take up to twice as long; so the kernel is asked for pages of 2 MB.

  Raises:
    MemoryError: the machine does not have as much memory.
  """
  dtype = np.dtype(dtype)
  count = math.prod(shape)
  if count * dtype.itemsize < _LARGE_PAGE:
    return _with_fields(np.zeros(shape, dtype))
  try:
    area = mmap.mmap(-1, count * dtype.itemsize + _LARGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
  except OSError as error:
    raise MemoryError(f"there is no room for an array of {count * dtype.itemsize:,} bytes") from error
  with contextlib.suppress(OSError):  # A kernel without large pages.
    area.madvise(mmap.MADV_HUGEPAGE)
  start = -np.frombuffer(area, np.uint8, 1).ctypes.data % _LARGE_PAGE
  return _with_fields(np.frombuffer(area, dtype, count, start).reshape(shape))


def _with_fields(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
  """`array`, whose fields are attributes if it has any."""
  return array if array.dtype.names is None else array.view(np.recarray)
