"""Writing small files, and keeping two processes off the same ones."""

import contextlib
import fcntl
import os
import pathlib

from configs.errors import UserError


def replace_text(path: pathlib.Path, text: str) -> None:
  """Writes a file so that a reader sees the old one or the new one whole."""
  partial = path.with_suffix(path.suffix + ".partial")
  partial.write_text(text)
  partial.replace(path)


class FileLock:
  """Held by one process at a time, and let go of when that process ends, however it does."""

  def __init__(self, path: pathlib.Path, taken: str):
    """Takes the lock at once or not at all.

    Args:
      path: of the empty file that is locked; it is made and stays, in a directory that is there.
      taken: the sentence for whoever comes second.

    Raises:
      UserError: another process has it.
    """
    self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
      fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      self.release()
      raise UserError(taken) from None
    except OSError:
      pass  # Some network file systems have no locks: there nobody is kept off.

  def release(self) -> None:
    """Lets go of it; may be called twice."""
    if self._descriptor >= 0:
      with contextlib.suppress(OSError):
        os.close(self._descriptor)
      self._descriptor = -1

  def __del__(self) -> None:
    if hasattr(self, "_descriptor"):
      self.release()
