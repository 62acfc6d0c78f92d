"""The fork server: a process that has imported what workers and evaluators need, and forks one, or a console, when asked.

`python -m launch.fork_server FD ...` takes orders from supervisors on the listening socket FD. A fork takes no time to import and
shares the memory of what is imported: of TensorFlow and Reverb alone some 200 MB. What has threads cannot be forked, so this
process never makes a Reverb client nor runs an operation of TensorFlow. It serves one run, until its standard input closes and
its last role has ended. If it dies, the kernel kills its roles, and their supervisors start them again.
"""

import contextlib
import dataclasses
import faulthandler
import functools
import gc
import importlib
import json
import os
import pathlib
import random
import runpy
import selectors
import signal
import socket
import sys
import time
import traceback
from typing import NoReturn

import numpy as np

from configs.exit_codes import ExitCode
from launch.memory import share_one_arena
from launch.process import SUPERVISOR
from launch.process_id import die_with
from launch.title import set_title

# What a worker or an evaluator imports, some of it only once it runs. By name, as the command line lies in a room above.
MODULES = (
  "slipstream.main",
  "launch.metrics.exporter",
  "launch.roles",
  "launch.world_watch",
  "gymnasium.wrappers",
  "configs.compiling",  # Numba, for the racing worlds, in each console and worker.
)

_POLL_SECONDS = 1.0
_ORDER_SECONDS = 5.0
_NUMBER_BYTES = 8
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclasses.dataclass(frozen=True)
class Order:
  """What a supervisor asks for.

  Attributes:
    role: its name; of two processes of one name, the second begins when the first has ended.
    words: of its command, after `slipstream`.
    environment: its environment variables.
    parity: what its process id leaves, divided by two; see `launch.process_id`.
    grace_seconds: after which it is killed, if it has lost its supervisor and was asked to leave.
    supervisor: process id of the supervisor.
  """

  role: str
  words: list[str]
  environment: dict[str, str]
  parity: int
  grace_seconds: float
  supervisor: int


@dataclasses.dataclass
class _Role:
  """A process that was forked, until its supervisor knows how it ended.

  Attributes:
    order: of its supervisor.
    pid: its process id, which nobody else gets while this exists.
    connection: to its supervisor; None once that is gone.
    log: a file descriptor of its standard error.
    has_ended: whether it waits to be reaped.
    is_orphan: whether it has lost its supervisor.
    kill_at: when it is killed, in seconds of `time.monotonic`.
  """

  order: Order
  pid: int
  connection: socket.socket | None
  log: int
  has_ended: bool = False
  is_orphan: bool = False
  kill_at: float = float("inf")


@dataclasses.dataclass(frozen=True)
class _Waiting:
  """An order, and the connection and the two outputs that came with it."""

  order: Order
  connection: socket.socket
  outputs: list[int]


class ForkServer:
  """Takes orders, forks roles, and tells each supervisor how its role has ended.

  A supervisor gets two numbers: the role's process id, and, when the role has ended, its wait status. It then closes the
  connection. A connection that closes before means that the supervisor is gone: the role is asked to leave.
  """

  def __init__(self, listener: socket.socket, life: int):
    """Takes over the socket.

    Args:
      listener: on which supervisors connect.
      life: a file descriptor that is at its end when no more orders will come.
    """
    self._listener = listener
    self._life = life
    self._roles: list[_Role] = []
    self._waiting: list[_Waiting] = []
    self._is_open = True
    self._selector = selectors.DefaultSelector()
    self._selector.register(listener, selectors.EVENT_READ, self._take_order)
    self._selector.register(life, selectors.EVENT_READ, self._close)
    self._woken, self._wakes = os.pipe()
    os.set_blocking(self._woken, False)
    os.set_blocking(self._wakes, False)
    self._selector.register(self._woken, selectors.EVENT_READ, self._note_ends)
    # Under nohup a role outlives its terminal.
    self._hangup = signal.SIG_IGN if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else signal.SIG_DFL

  def run(self) -> None:
    """Serves until the end."""
    for number in _IGNORED:  # Who signals all processes of a run means its roles; this one ends after them.
      signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
    while self._is_open or self._roles:
      for key, _ in self._selector.select(_POLL_SECONDS):
        key.data()
      self._kill_late()
      self._fork_waiting()

  def _close(self) -> None:
    self._is_open = False
    self._selector.unregister(self._life)
    self._selector.unregister(self._listener)
    self._listener.close()
    for waiting in self._waiting:
      _drop(waiting)
    self._waiting.clear()

  def _take_order(self) -> None:
    connection, _ = self._listener.accept()
    connection.settimeout(_ORDER_SECONDS)
    try:
      text, outputs, _, _ = socket.recv_fds(connection, 65_536, 2)
      while text and not text.endswith(b"\n"):
        more = connection.recv(65_536)
        text = text + more if more else b""
      if not text:
        connection.close()
        return
    except OSError as error:
      _say(f"A supervisor's order was not understood ({error}).")
      connection.close()
      return
    self._waiting.append(_Waiting(Order(**json.loads(text)), connection, outputs))

  def _fork_waiting(self) -> None:
    for waiting in list(self._waiting):
      # Its supervisor was killed and started again; the role is asked to leave by now.
      if any(role.order.role == waiting.order.role for role in self._roles):
        continue
      self._waiting.remove(waiting)
      try:
        pid = self._fork(waiting)
      except OSError as error:
        _say(f"{waiting.order.role} cannot be forked ({error.strerror}).")
        _drop(waiting)  # The supervisor tries it itself.
        continue
      os.close(waiting.outputs[0])
      role = _Role(waiting.order, pid, waiting.connection, waiting.outputs[1])
      self._roles.append(role)
      self._selector.register(waiting.connection, selectors.EVENT_READ, functools.partial(self._note_closed, role))
      _tell(role, pid)

  def _fork(self, waiting: _Waiting) -> int:
    """Forks a role in a process with an id of the right parity; returns the id."""
    parent = os.getpid()
    # A role whose supervisor is gone is asked to leave at once. The signal waits until the child no longer ignores it, as this
    # process does.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
    try:
      while True:
        child = os.fork()
        if child == 0:
          if os.getpid() % 2 != waiting.order.parity:
            os._exit(0)
          self._become(waiting, parent)
        if child % 2 == waiting.order.parity:
          return child
        os.waitpid(child, 0)
    finally:
      signal.pthread_sigmask(signal.SIG_SETMASK, before)

  def _become(self, waiting: _Waiting, parent: int) -> NoReturn:
    """What a child does: it becomes the role, and ends with it."""
    code = 1
    try:
      die_with(parent)
      os.setpgid(0, 0)  # A group of its own, to find what it has started itself.
      self._leave_to_parent(waiting)
      become(waiting.order, parent)
      code = 0
    except SystemExit as error:
      code = error.code if isinstance(error.code, int) else 1
    except BaseException:
      traceback.print_exc()
    finally:
      sys.stdout.flush()
      sys.stderr.flush()
      os._exit(code)

  def _leave_to_parent(self, waiting: _Waiting) -> None:
    """Gives up what is the fork server's own, and takes the role's outputs."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, self._hangup)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number, output in enumerate(waiting.outputs, start=1):
      os.dup2(output, number)
    self._selector.close()
    self._listener.close()
    for role in self._roles:
      os.close(role.log)
      if role.connection is not None:
        role.connection.close()
    for other in [waiting, *self._waiting]:
      _drop(other)
    os.close(self._woken)
    os.close(self._wakes)
    with open(os.devnull) as nothing:  # noqa: PTH123
      os.dup2(nothing.fileno(), self._life)

  def _note_ends(self) -> None:
    with contextlib.suppress(BlockingIOError):
      while os.read(self._woken, 4_096):
        pass
    for role in [role for role in self._roles if not role.has_ended]:
      status = _status_of(role.pid)
      if status is None:
        continue
      role.has_ended = True
      if role.connection is None:
        self._bury(role)
        continue
      _tell(role, status)

  def _note_closed(self, role: _Role) -> None:
    assert role.connection is not None
    self._selector.unregister(role.connection)
    role.connection.close()
    role.connection = None
    if role.has_ended:
      self._bury(role)
      return
    role.is_orphan = True
    with contextlib.suppress(OSError):
      os.write(role.log, f"The supervisor of {role.order.role} is gone, so it is asked to leave.\n".encode())
    os.kill(role.pid, signal.SIGTERM)
    role.kill_at = time.monotonic() + role.order.grace_seconds

  def _kill_late(self) -> None:
    for role in self._roles:
      if not role.has_ended and time.monotonic() > role.kill_at:
        os.kill(role.pid, signal.SIGKILL)
        role.kill_at = float("inf")

  def _bury(self, role: _Role) -> None:
    """Reaps a role that has ended, and ends what it has started and could not end, if no supervisor does so."""
    if role.is_orphan:
      with contextlib.suppress(OSError):
        os.killpg(role.pid, signal.SIGKILL)
    os.waitpid(role.pid, 0)
    os.close(role.log)
    self._roles.remove(role)


def become(order: Order, parent: int) -> None:
  """Runs a role's command in this process, as `python -m slipstream WORDS` would in one of its own."""
  os.environ.clear()
  os.environ.update({**order.environment, SUPERVISOR: str(parent)})
  random.seed()
  np.random.seed()  # noqa: NPY002  # Worlds may use it.
  set_title([sys.executable, "-m", "slipstream", *order.words])
  sys.argv = ["slipstream", *order.words]
  runpy.run_module("slipstream", run_name="__main__", alter_sys=True)


def preload() -> None:
  """Imports what roles need, and readies this process's memory to be shared."""
  share_one_arena()
  gc.disable()  # Garbage that is freed later would leave holes in pages that could be shared.
  for name in MODULES:
    importlib.import_module(name)
  gc.collect()
  gc.freeze()  # A collection writes to every object that it looks at, and so copies the page.
  gc.enable()


def _status_of(pid: int) -> int | None:
  """The wait status of a child, which stays to be reaped; None while it runs."""
  ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
  if ended is None:
    return None
  return ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status


def _tell(role: _Role, number: int) -> None:
  """Sends a number to a role's supervisor, and wakes it as the end of a child would."""
  assert role.connection is not None
  with contextlib.suppress(OSError):  # The supervisor is gone, as is noticed next.
    role.connection.sendall(number.to_bytes(_NUMBER_BYTES, "big"))
    os.kill(role.order.supervisor, signal.SIGCHLD)


def _drop(waiting: _Waiting) -> None:
  waiting.connection.close()
  for output in waiting.outputs:
    os.close(output)


def _say(sentence: str) -> None:
  with contextlib.suppress(OSError):
    print(sentence, file=sys.stderr, flush=True)


def main() -> ExitCode:
  """Serves on the socket that the first argument names, as long as standard input is open."""
  faulthandler.register(signal.SIGUSR1, file=2)  # As in any role.
  listener = socket.socket(fileno=int(sys.argv[1]))
  set_title([sys.executable, "-m", "launch.fork_server"])
  preload()
  threads = len(list(pathlib.Path("/proc/self/task").iterdir()))
  if threads > 1:
    _say(f"The fork server has {threads} threads and cannot be forked, so all roles start by themselves.")
    return ExitCode.MISTAKE
  path = pathlib.Path(listener.getsockname())
  ForkServer(listener, life=0).run()
  with contextlib.suppress(OSError):  # The launcher does so too, if it has not been killed.
    path.unlink()
    path.parent.rmdir()
  return ExitCode.DONE


if __name__ == "__main__":
  sys.exit(main())
