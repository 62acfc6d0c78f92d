"""Compiles functions over arrays to machine code, and keeps the code on the disk where it can.

numba keeps compiled code beside the source file, else in the user's cache folder, else where `NUMBA_CACHE_DIR` says. In an image
that nobody may write to, or on a full disk, there is no such place. Then the code is compiled anew in each process, which takes
some seconds.

numba's cache notices a change of the file that it compiled, and of no other. So a compiled function may only use the compiled
functions, structures and constants of its own file.

Compiled functions count no references to their arrays, which their caller holds anyway: passing a tuple of arrays from function
to function took nine tenths of the time otherwise. So they cannot make arrays; those that they need are passed to them.
"""

import functools
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")

# `_nrt` is numba's runtime, which counts references and allocates.
_OPTIONS = {"nogil": True, "_nrt": False}


class Kernel(Generic[_P, _R]):
  """A compiled function that Python calls; it releases the interpreter's lock while it runs.

  With numba's `NUMBA_DISABLE_JIT=1` in the environment it is the plain function.
  """

  def __init__(self, function: Callable[_P, _R]):
    """Compiles nothing yet: that waits for the first call.

    Args:
      function: of arrays, numbers and named tuples of these.
    """
    functools.update_wrapper(self, function)
    self._function = function
    self._keeps = True
    try:
      self._compiled: Callable[_P, _R] = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba finds no place for compiled code.
      self._forget()

  def _forget(self) -> None:
    self._keeps = False
    self._compiled = numba.njit(**_OPTIONS)(self._function)

  @property
  def keeps_code(self) -> bool:
    """Whether its compiled code is kept on the disk, as far as is known."""
    return self._keeps

  def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Calls the compiled function."""
    try:
      return self._compiled(*args, **kwargs)
    except OSError:  # Compiled code cannot be read or written; no kernel itself reads or writes a file.
      self._forget()
    return self._compiled(*args, **kwargs)


def kernel(function: Callable[_P, _R]) -> Kernel[_P, _R]:
  """Makes a function of arrays a kernel, which Python calls."""
  return Kernel(function)


def helper(function: Callable[_P, _R]) -> Callable[_P, _R]:
  """Makes a function of arrays one that kernels of the same file call; its code is kept as a part of theirs."""
  compiled: Callable[_P, _R] = numba.njit(**_OPTIONS)(function)
  return compiled
