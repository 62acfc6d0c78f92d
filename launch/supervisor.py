"""The parent of one role's process, which starts the role again when it has died.

It runs as a file, `python -I -S supervisor.py ORDER`, and imports nothing but small modules of the standard library. So it takes
some 10 MB of memory and starts in a moment; a machine may have dozens of them. ORDER is the JSON that `launch.supervision`
writes.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

# How often it looks whether its own parent is still there.
_POLL_SECONDS = 1.0
_FAILED = 1
_SIGNALLED = 128
# To wait for the fork server, which may still import what it needs on a busy machine, or be just started again.
_FORK_SECONDS = 120.0
_CONNECT_SECONDS = 5.0
_NUMBER_BYTES = 8


class Restarts:
  """Decides whether, and after how many seconds, a process that has ended is started again."""

  def __init__(
    self,
    codes: Collection[int],
    most: int = 5,
    window_seconds: float = 300.0,
    first_delay: float = 1.0,
    longest_delay: float = 60.0,
  ):
    """Begins without a restart.

    Args:
      codes: exit codes after which a process is started again.
      most: restarts within the window, after which there is none.
      window_seconds: in which restarts are counted; a process that has lived as long is healthy.
      first_delay: in seconds, before the first restart and before the first one of a process that was healthy.
      longest_delay: in seconds; until then each delay is twice the one before.
    """
    self._codes = codes
    self._most = most
    self._window_seconds = window_seconds
    self._first_delay = first_delay
    self._longest_delay = longest_delay
    self._delay = first_delay
    self._restarts: list[float] = []

  def delay_after(self, code: int, lived_seconds: float, now: float) -> float | None:
    """Seconds until the restart of a process that has just ended; None if it is not started again.

    Args:
      code: its exit code.
      lived_seconds: since it was started.
      now: seconds since any fixed moment.
    """
    if not self.covers(code):
      return None
    self._restarts = [then for then in self._restarts if now - then < self._window_seconds]
    if len(self._restarts) >= self._most:
      return None
    if lived_seconds >= self._window_seconds:
      self._delay = self._first_delay
    self._restarts.append(now)
    delay = self._delay
    self._delay = min(2 * delay, self._longest_delay)
    return delay

  def covers(self, code: int) -> bool:
    """Whether a process that ends with this exit code is started again, if it was not too often before."""
    return code in self._codes


class Child:
  """A role's process that this one has started itself."""

  def __init__(self, pid: int):
    self.pid = pid

  def poll(self) -> int | None:
    """Its exit code, in a shell's notation; None while it runs."""
    ended, status = os.waitpid(self.pid, os.WNOHANG)
    return _exit_code(status) if ended else None

  def close(self) -> None:
    """Does nothing: it is reaped."""


class Forked:
  """A role's process that the fork server has forked (`launch.fork_server`); it ends if that ends."""

  def __init__(self, pid: int, connection: socket.socket):
    self.pid = pid
    self._connection = connection

  def poll(self) -> int | None:
    """Its exit code, in a shell's notation; None while it runs. Until `close`, nothing else has its process id."""
    try:
      status = _receive(self._connection)
    except EOFError:
      _say("The fork server is gone, and this role with it.")
      return _SIGNALLED + signal.SIGKILL
    return None if status is None else _exit_code(status)

  def close(self) -> None:
    """Lets the fork server reap it."""
    self._connection.close()


class Supervisor:
  """Runs one role until it ends for good, or until this process is told to stop or loses its parent."""

  def __init__(self, order: Mapping[str, Any]):
    """Takes an order; its keys are the arguments of `launch.supervision.supervisor_command`."""
    self._role = str(order["role"])
    self._command: list[str] = order["command"]
    self._parent = int(order["parent"])
    self._parity = int(order["parity"])
    self._grace_seconds = float(order["grace_seconds"])
    self._failure_file = str(order["failure_file"])
    self._fork_server = str(order["fork_server"])
    self._restarts = Restarts(order["restarted_codes"], **order["restarts"])
    self._signals = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # Under nohup the role outlives its terminal.
      self._signals.add(signal.SIGHUP)
    self._stop = 0

  def run(self) -> int:
    """Runs the role; returns its last exit code, in a shell's notation."""
    # Pending until they are waited for, so that none comes between two instructions.
    signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
    while True:
      began = time.monotonic()
      self._forget_failure()
      code = self._run_once()
      if self._stop:
        return code
      now = time.monotonic()
      delay = self._restarts.delay_after(code, now - began, now)
      if delay is None:
        self._give_up(code)
        return code
      _say(f"{self._role} {_ending(code)} after {now - began:.0f} s, so it is started again in {delay:g} s.")
      if self._wait_for_stop(now + delay):
        self._forget_failure()  # It would have been started again.
        return _SIGNALLED + self._stop

  def _run_once(self) -> int:
    """Starts the role, and waits for its end."""
    environment = {**os.environ, "SLIPSTREAM_SUPERVISOR": str(os.getpid())}
    if self._failure_file:
      environment["SLIPSTREAM_FAILURE_FILE"] = self._failure_file
    forked = self._fork(environment)
    if forked is None and self._stop:
      return _SIGNALLED + self._stop
    role = forked or self._start(environment)
    code = self._wait_for(role)
    if code:
      with contextlib.suppress(OSError):
        os.killpg(role.pid, signal.SIGKILL)  # What it has started, such as a simulator, and could not end.
    role.close()
    return code

  def _fork(self, environment: Mapping[str, str]) -> Forked | None:
    """Asks the fork server for the role; None if there is none, if it does not do so, or if this process was told to stop."""
    if not self._fork_server:
      return None
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_CONNECT_SECONDS)
    order = {
      "role": self._role,
      "words": self._command[3:],  # After `python -m slipstream`.
      "environment": dict(environment),
      "parity": self._parity,
      "grace_seconds": self._grace_seconds,
      "supervisor": os.getpid(),
    }
    try:
      connection.connect(self._fork_server)
      socket.send_fds(connection, [b" "], [1, 2])
      connection.sendall(json.dumps(order).encode() + b"\n")
      connection.setblocking(False)
      give_up_at = time.monotonic() + _FORK_SECONDS
      while not self._stop and time.monotonic() < give_up_at:
        pid = _receive(connection)
        if pid is not None:
          return Forked(pid, connection)
        self._note_signal(_POLL_SECONDS)
    except (OSError, EOFError):
      pass
    connection.close()
    if not self._stop:
      _say(f"The fork server does not fork {self._role}, which starts by itself.")
    return None

  def _start(self, environment: Mapping[str, str]) -> Child:
    """Starts the role in a process with an id of the right parity (`launch.process_id`)."""
    while True:
      child = os.fork()
      if child == 0:
        self._become_role(environment)
      if child % 2 == self._parity:
        return Child(child)
      os.waitpid(child, 0)

  def _become_role(self, environment: Mapping[str, str]) -> NoReturn:
    """What a child does: it becomes the role, or ends at once if its id is of the other parity."""
    if os.getpid() % 2 != self._parity:
      os._exit(0)
    try:
      os.setpgid(0, 0)  # A group of its own, to find what it has started itself.
      signal.pthread_sigmask(signal.SIG_SETMASK, ())
      os.execve(self._command[0], self._command, environment)
    except OSError as error:
      _say(f"{self._role} cannot be started ({error.strerror}).")
    os._exit(_FAILED)

  def _wait_for(self, role: Child | Forked) -> int:
    told, kill_at = 0, float("inf")
    while True:
      code = role.poll()
      if code is not None:
        return code
      if self._stop and not told:
        # A terminal that closes is a reason to leave like any other.
        told = signal.SIGTERM if self._stop == signal.SIGHUP else self._stop
        os.kill(role.pid, told)
        kill_at = time.monotonic() + self._grace_seconds
      if time.monotonic() > kill_at:
        os.kill(role.pid, signal.SIGKILL)
        kill_at = float("inf")
      self._note_signal(_POLL_SECONDS)

  def _wait_for_stop(self, until: float) -> bool:
    while not self._stop and time.monotonic() < until:
      self._note_signal(min(_POLL_SECONDS, max(0.0, until - time.monotonic())))
    return bool(self._stop)

  def _note_signal(self, seconds: float) -> None:
    """Waits for a signal; a parent that is gone counts as SIGTERM."""
    received = signal.sigtimedwait(self._signals, seconds)
    if received is not None and received.si_signo != signal.SIGCHLD:
      self._stop = self._stop or received.si_signo
    if os.getppid() != self._parent:
      self._stop = self._stop or signal.SIGTERM

  def _forget_failure(self) -> None:
    if self._failure_file:
      with contextlib.suppress(OSError):
        os.unlink(self._failure_file)  # noqa: PTH108  # pathlib takes 2 MB.

  def _give_up(self, code: int) -> None:
    """Says why the role is not started again, where the launcher looks for it, unless the role itself has."""
    if not code:
      return
    sentence = f"It {_ending(code)}: see its log."
    if self._restarts.covers(code):
      sentence = f"It {_ending(code)}, and was started again too often before: see its log."
      _say(f"{self._role} {_ending(code)}, and is not started again, as it was too often before.")
    if not self._failure_file or os.path.exists(self._failure_file):  # noqa: PTH110
      return
    failure = {"role": self._role, "sentence": sentence, "exit_code": code, "trace": ""}
    try:
      with open(f"{self._failure_file}.partial", "w") as file:  # noqa: PTH123
        json.dump(failure, file)
      os.replace(f"{self._failure_file}.partial", self._failure_file)  # noqa: PTH105
    except OSError as error:
      _say(f"{self._failure_file} cannot be written ({error.strerror}).")


def _receive(connection: socket.socket) -> int | None:
  """The next number from the fork server; None if it has not come yet.

  Raises:
    EOFError: there will be none.
  """
  try:
    number = connection.recv(_NUMBER_BYTES)
  except BlockingIOError:
    return None
  except ConnectionError:
    number = b""
  if not number:
    raise EOFError
  return int.from_bytes(number, "big")


def _exit_code(status: int) -> int:
  return _SIGNALLED + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _ending(code: int) -> str:
  return f"was ended by signal {code - _SIGNALLED}" if code > _SIGNALLED else f"ended with exit code {code}"


def _say(sentence: str) -> None:
  with contextlib.suppress(OSError):  # The log may be on a full disk.
    print(sentence, file=sys.stderr, flush=True)


def main(order: str) -> int:
  """Runs the role of an order; returns its last exit code."""
  if os.getpid() != os.getpgrp():
    os.setsid()  # Ctrl-C in the launcher's terminal reaches the launcher alone.
  return Supervisor(json.loads(order)).run()


if __name__ == "__main__":
  sys.exit(main(sys.argv[1]))
