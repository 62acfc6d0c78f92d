"""What a process does so that its memory does not grow."""

import contextlib
import ctypes

# Of glibc's malloc.h.
_M_ARENA_MAX = -8


def share_one_arena() -> None:
  """Lets all threads of this process allocate from one arena of glibc's malloc; elsewhere this does nothing.

  Rows are allocated by some threads of Reverb and freed by others. With an arena for each, what a server with full tables holds
  grows for hours although nothing leaks. A worker of 10 rows a second grew by .9 MB in the two minutes after its first new
  policies, and by .2 MB with one arena.
  """
  with contextlib.suppress(OSError, AttributeError):
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
