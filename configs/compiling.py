"""Compiles functions over arrays to machine code, and keeps the code on the disk where it can.

numba keeps compiled code beside the source file, else in the user's cache folder, else where `NUMBA_CACHE_DIR` says. In an image
that nobody may write to, or on a full disk, there is no such place. Then the code is compiled anew in each process, which takes
some seconds.

numba's cache notices a change of the file that it compiled, and of no other. So a compiled function may only use the compiled
functions, structures and constants of its own file.

Processes that start together, such as the consoles of a run, do not compile the same function at once: one does, and the others
wait for its code.

Compiled functions count no references to their arrays, which their caller holds anyway: passing a tuple of arrays from function
to function took nine tenths of the time otherwise. So they cannot make arrays; those that they need are passed to them.
"""

import contextlib
import fcntl
import functools
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")

# `_nrt` is numba's runtime, which counts references and allocates.
_OPTIONS = {"nogil": True, "_nrt": False, "no_cfunc_wrapper": True}
# Python calls no helper. What it would need to do so takes a third of the time to compile one.
_OPTIONS_OF_HELPERS = {**_OPTIONS, "no_cpython_wrapper": True}
# After which a process no longer waits for another one's code, and compiles for itself.
_TURN_SECONDS = 120.0
_LOOK_SECONDS = 0.05


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
    self._is_compiled = False
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
      if self._is_compiled:
        return self._compiled(*args, **kwargs)
      with _turn_to_compile(self._compiled):
        result = self._compiled(*args, **kwargs)
      self._is_compiled = True
      return result
    except OSError:  # Compiled code cannot be read or written; no kernel itself reads or writes a file.
      self._forget()
    return self._compiled(*args, **kwargs)


@contextlib.contextmanager
def _turn_to_compile(compiled: Any) -> Iterator[None]:
  """Keeps other processes from compiling the same function meanwhile; does nothing if its code is kept already.

  The lock is the folder's, so that it leaves no file, and ends with the process that has it.
  """
  place = getattr(getattr(compiled, "stats", None), "cache_path", None)
  if not place or any(pathlib.Path(place).glob(f"*.{compiled.__name__}-*.nbi")):
    yield
    return
  lock = _lock_folder(place)
  try:
    yield
  finally:
    if lock is not None:
      os.close(lock)


def _lock_folder(folder: str) -> int | None:
  """A file descriptor that holds the lock until it is closed; None if it cannot be had."""
  try:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
  except OSError:
    return None
  until = time.monotonic() + _TURN_SECONDS
  while time.monotonic() < until:
    try:
      fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
      return descriptor
    except BlockingIOError:
      time.sleep(_LOOK_SECONDS)
    except OSError:  # A file system without locks.
      break
  os.close(descriptor)
  return None


def kernel(function: Callable[_P, _R]) -> Kernel[_P, _R]:
  """Makes a function of arrays a kernel, which Python calls."""
  return Kernel(function)


def helper(function: Callable[_P, _R]) -> Callable[_P, _R]:
  """Makes a function of arrays one that kernels of the same file call; its code is kept as a part of theirs."""
  compiled: Callable[_P, _R] = numba.njit(**_OPTIONS_OF_HELPERS)(function)
  return compiled


def fused_helper(function: Callable[_P, _R]) -> Callable[_P, _R]:
  """A helper that may add to a product before it is rounded, which takes half of the instructions."""
  compiled: Callable[_P, _R] = numba.njit(fastmath={"contract"}, **_OPTIONS_OF_HELPERS)(function)
  return compiled
