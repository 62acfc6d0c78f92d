"""The claim on a run, so that several commands, also on several machines, can share a folder."""

import contextlib
import fcntl
import os
import pathlib


class Claim:
  """The right to run a job, which is nobody else's until it is released, or until all processes that hold it have ended.

  It is a lock on a file (flock), which the kernel keeps; a network file system must support that.

  Attributes:
    descriptor: of the open file; a process that inherits it holds the claim too.
  """

  def __init__(self, path: pathlib.Path, descriptor: int):
    """Use `take`."""
    self._path = path
    self.descriptor = descriptor

  @staticmethod
  def take(path: pathlib.Path) -> "Claim | None":
    """Takes the claim whose file is `path`; None if it is somebody else's.

    Raises:
      OSError: the file cannot be written, or its file system has no locks.
    """
    while True:
      with contextlib.ExitStack() as stack:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        stack.callback(os.close, descriptor)
        try:
          fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
          return None
        # Whoever had it may have removed the file since this one opened it.
        with contextlib.suppress(FileNotFoundError):
          if os.path.samestat(os.fstat(descriptor), path.stat()):
            stack.pop_all()
            return Claim(path, descriptor)

  def release(self) -> None:
    """Gives it up, and removes the file."""
    self._path.unlink(missing_ok=True)
    os.close(self.descriptor)
