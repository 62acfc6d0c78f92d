"""The launcher's side of the fork server: it is started, kept, and ended here."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from typing import IO

from launch.supervision import RESTARTED_CODES, role_environment
from launch.supervisor import Restarts
from launch.title import TITLE_LENGTH
from launch.world_watch import say

_BACKLOG = 4_096
_END_SECONDS = 10.0


class ForkServer:
  """A process that forks roles for their supervisors; the `with` statement ends it, after its roles.

  This process holds the socket on which supervisors connect. So their orders wait while the fork server starts, or starts again.
  Once it is given up, the socket is closed, and supervisors start roles themselves.

  Attributes:
    path: of the socket; empty if there can be none, as the temporary folder's name is too long for it.
    pid: process id of the fork server; 0 while there is none.
  """

  def __init__(self, log: pathlib.Path | None = None, sees_gpu: bool = False, restarts: Restarts | None = None):
    """Starts the process, and does not wait for it.

    Args:
      log: for its output; None for this process's.
      sees_gpu: whether roles may use GPUs.
      restarts: how often it is started again; None for a few times.
    """
    self._log = log
    self._environment = {**os.environ, **role_environment(sees_gpu)}
    self._restarts = restarts or Restarts(RESTARTED_CODES, most=3)
    self._due = float("inf")
    self._process: subprocess.Popen[bytes] | None = None
    self._listener: socket.socket | None = None
    self._folder: str | None = None
    self.path = ""
    try:
      self._folder = tempfile.mkdtemp(prefix="slipstream-")  # Of this user alone.
      self._listener = _listen(f"{self._folder}/forks")
    except OSError as error:
      say(f"No fork server can listen in the temporary folder ({error}), so each role starts by itself, more slowly.")
      return
    self.path = f"{self._folder}/forks"
    self._process = self._start(self._listener)

  @property
  def pid(self) -> int:
    """See the class."""
    return 0 if self._process is None else self._process.pid

  def __enter__(self) -> "ForkServer":
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def keep(self) -> None:
    """Starts the process again if it has died, or gives it up; to be called now and then."""
    if self._listener is None:
      return
    now = time.monotonic()
    if self._process is not None and self._process.poll() is not None:
      code = self._process.returncode
      self._end()
      delay = self._restarts.delay_after(code if code >= 0 else 128 - code, now - self._began, now)
      if delay is None:
        self._listener.close()
        self._listener = None
        return
      self._due = now + delay
    if self._process is None and now >= self._due:
      self._process = self._start(self._listener)

  def close(self) -> None:
    """Ends the process: its supervisors must have ended."""
    if self._listener is not None:
      self._listener.close()
      self._listener = None
    self._end()
    if self._folder is not None:
      shutil.rmtree(self._folder, ignore_errors=True)

  def _start(self, listener: socket.socket) -> "subprocess.Popen[bytes]":
    self._began = time.monotonic()
    descriptor = listener.fileno()
    # The last word is but room for the titles of roles.
    command = [sys.executable, "-m", "launch.fork_server", str(descriptor), "-" * TITLE_LENGTH]
    with contextlib.ExitStack() as stack:
      log: IO[bytes] | None = None if self._log is None else stack.enter_context(self._log.open("ab"))
      return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        env=self._environment,
        pass_fds=[descriptor],
        # Ctrl-C reaches this process alone.
        start_new_session=True,
      )

  def _end(self) -> None:
    if self._process is None:
      return
    assert self._process.stdin is not None
    self._process.stdin.close()
    try:
      self._process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
      self._process.kill()
      self._process.wait()
    self._process = None


def _listen(path: str) -> socket.socket:
  listener = socket.socket(socket.AF_UNIX)
  try:
    listener.bind(path)
    listener.listen(_BACKLOG)
  except OSError:
    listener.close()
    raise
  return listener
