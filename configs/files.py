"""Atomic writes of small files, a lock between processes, and keys that nobody else may read."""

import contextlib
import fcntl
import os
import pathlib
import stat
import time

from configs.errors import UserError

# A process that was killed holds its locks until the system has cleared its memory away.
_PATIENCE_SECONDS = 2.0
_POLL_SECONDS = 0.02


def replace_text(path: pathlib.Path, text: str) -> None:
  """Writes a file atomically: a reader sees either the old text or the new one."""
  partial = path.with_suffix(path.suffix + ".partial")
  partial.write_text(text)
  partial.replace(path)


def check_secret(key: pathlib.Path) -> None:
  """Refuses a private key that others can read. One of root's may be readable by its group, as in a volume of Kubernetes.

  Raises:
    UserError: they can.
  """
  status = key.stat()
  others = stat.S_IRWXO | (stat.S_IWGRP | stat.S_IXGRP if status.st_uid == 0 else stat.S_IRWXG)
  if status.st_mode & others:
    raise UserError(
      f"Others can read the key {key} (mode {stat.S_IMODE(status.st_mode):04o}): write 'chmod 600 {key}', and if they may have "
      "read it, revoke its certificate and make another one."
    )


def is_locked(path: pathlib.Path) -> bool:
  """Whether a process holds the `FileLock` of this file; False as well where that cannot be found out."""
  try:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
  except OSError:
    return False
  try:
    # Shared, so that two readers never hinder each other. It is held for microseconds.
    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
  except BlockingIOError:
    return True
  except OSError:
    return False  # Some network file systems have no locks.
  finally:
    os.close(descriptor)
  return False


class LockTaken(UserError):
  """Another process holds a `FileLock`."""


class FileLock:
  """A lock that one process holds at a time. It is released when that process ends, however it ends."""

  def __init__(self, path: pathlib.Path, taken: str, patience_seconds: float = _PATIENCE_SECONDS):
    """Acquires the lock; waits a little for another process, which may have been killed just now.

    Args:
      path: of the lock file. It is created empty if it does not exist, and stays; its directory must exist.
      taken: the error message if another process holds the lock.
      patience_seconds: for which it waits.

    Raises:
      LockTaken: another process holds the lock.
      UserError: it cannot be opened.
    """
    self._descriptor = -1
    try:
      self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
      raise UserError(
        f"The lock {path} cannot be opened ({error.strerror}): let it be a file that you may write."
      ) from None
    if not self._is_acquired(patience_seconds):
      self.release()
      raise LockTaken(taken)

  @property
  def descriptor(self) -> int:
    """Of the open file. A process that inherits it holds the lock too, until it ends."""
    return self._descriptor

  def _is_acquired(self, patience_seconds: float) -> bool:
    deadline = time.monotonic() + patience_seconds
    while True:
      try:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
      except BlockingIOError:
        if time.monotonic() >= deadline:
          return False
      except OSError:
        return True  # Some network file systems have no locks; the lock has no effect there.
      time.sleep(_POLL_SECONDS)

  def release(self) -> None:
    """Releases the lock; may be called twice."""
    if self._descriptor >= 0:
      with contextlib.suppress(OSError):
        os.close(self._descriptor)
      self._descriptor = -1

  def __del__(self) -> None:
    if hasattr(self, "_descriptor"):
      self.release()
