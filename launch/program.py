"""The Launchpad program of a local run. Launchpad appears in this file alone."""

import contextlib
import functools
import io
import itertools
import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

import portpicker
import psutil

from configs import RunConfig
from environments.trust import packages_of
from launch.process import SUPERVISOR
from launch.run_directory import RunDirectory, failure_file
from launch.supervision import GRACE_SECONDS, RESTARTED_CODES, SUPERVISOR_FILE, role_environment, supervisor_command
from launch.supervisor import Restarts

SERVER = "server"
CONSOLE = "console"
# A server that is asked to leave writes a snapshot first.
_SERVER_GRACE_SECONDS = 660.0
# Launchpad kills what is left this long after it has asked all supervisors to stop, which kill their roles before.
_TERMINATION_NOTICE_SECONDS = 720
# In which roles end by themselves after their server has.
_GOODBYE_SECONDS = 5.0
_POLL_SECONDS = 0.1
_SIGNALLED = 128


def role_commands(
  config: RunConfig, run: RunDirectory, address: str, sinks: Sequence[str] = (), new_config: pathlib.Path | None = None
) -> dict[str, list[str]]:
  """Role -> the words of its command, after `slipstream`.

  Args:
    config: of the run.
    run: its directory.
    address: of the server.
    sinks: other services that get the run's numbers.
    new_config: a file with the config; None if the run directory has the right one.

  Returns:
    The server's first; then the learner's, those of consoles that the run starts, of workers, and of the evaluator.
  """
  at, run_dir = f"--server={address}", f"--run_dir={run.path}"
  serve = ["serve", run_dir, f"--port={address.rpartition(':')[2]}", *(f"--{sink}" for sink in sinks)]
  commands = {SERVER: serve if new_config is None else [*serve, f"--config={new_config}"]}
  packages = packages_of(config)
  allow = [f"--allow_module={','.join(packages)}"] if packages else []
  commands["learner"] = ["learn", at, run_dir]
  addresses = config.consoles.addresses
  if config.consoles.count:
    addresses = tuple(f"localhost:{portpicker.pick_unused_port()}" for _ in range(config.consoles.count))
  for index, address in enumerate(addresses if config.consoles.count else ()):
    commands[f"console_{index}"] = _console_words(config, address)
  workers = config.worker_count
  plays_on = [[f"--console={address}"] for address in addresses] or [[]] * (workers + 1)
  for index in range(workers):
    commands[f"actor_{index}"] = ["act", at, f"--index={index}", *plays_on[index], *allow]
  if config.evaluator.enabled:
    commands["evaluator"] = ["evaluate", at, run_dir, *plays_on[workers], *allow]
  return commands


def _console_words(config: RunConfig, address: str) -> list[str]:
  """The command of a console of the run's environment; its player gives it the environment's arguments."""
  port = address.rpartition(":")[2]
  return [CONSOLE, f"--world={config.environment.name}", f"--port={port}", f"--pace={config.consoles.pace}"]


def title_of(role: str) -> str:
  """Launchpad's label of a role's process, and the place of its output in the logs: "actors/3" for "actor_3", or "server/0"."""
  kind, _, number = role.rpartition("_")
  return f"{kind}s/{number}" if number.isdigit() else f"{role}/0"


def _group_of(role: str) -> str:
  return title_of(role).partition("/")[0]


def build_program(commands: Mapping[str, Sequence[str]], run: RunDirectory, fork_server: str = "") -> Any:
  """Builds a program of roles that share nothing but the server's address; each is run by a supervisor.

  Args:
    commands: from `role_commands`.
    run: holds the reasons of failures.
    fork_server: path of its socket; empty for none.
  """
  import launchpad as lp
  from launchpad.launch.local_multi_processing.commands import Command

  program = lp.Program("slipstream")
  for group, roles in itertools.groupby(commands, key=_group_of):
    with program.group(group):
      for role in roles:
        words = commands[role]
        grace = _SERVER_GRACE_SECONDS if role == SERVER else GRACE_SECONDS
        command = supervisor_command(
          role, words, failure_file(run.logs, role), grace_seconds=grace, fork_server=fork_server
        )
        program.add_node(_node_type()(Command(command, role_environment(sees_gpu=role == "learner"), title_of(role))))
  return program


@functools.cache
def _node_type() -> Any:
  """The class of a Launchpad node that is a command: one class, as Launchpad wants it in a group."""
  from launchpad.nodes.base import Node

  class CommandNode(Node):
    def __init__(self, command: Any):
      super().__init__()
      self.command = command

    def create_handle(self) -> None:
      """Nothing is called through Launchpad."""

    @staticmethod
    def to_executables(nodes: Sequence[Any], label: str, context: Any) -> list[Any]:
      del label, context
      return [node.command for node in nodes]

  return CommandNode


@contextmanager
def launched(
  program: Any, run: RunDirectory, on_stop: Callable[[int], None], keep: Callable[[], None] = lambda: None
) -> Iterator["Supervisors"]:
  """Starts a program's processes; their output goes to the run's logs.

  Args:
    program: from `build_program`.
    run: holds the logs.
    on_stop: called in the main thread with the first SIGINT, SIGTERM or SIGHUP, to ask the run to stop. A second SIGINT kills all
      processes, a second SIGTERM asks each of them to leave.
    keep: called again and again while the program runs.

  Yields:
    The processes.
  """
  import launchpad as lp
  from absl import flags
  from launchpad.launch.run_locally import launch_local_output_to_files

  # Launchpad reads LAUNCHPAD_LOGGING_DIR once, when it is imported; a process can have more than one run.
  launch_local_output_to_files._LOGGING_DIR = str(run.logs)  # noqa: SLF001  # There is no public way; see above.

  if not flags.FLAGS.is_parsed():
    flags.FLAGS([sys.argv[0]])
  flags.FLAGS["lp_termination_notice_secs"].value = _TERMINATION_NOTICE_SECONDS
  numbers = [signal.SIGINT, signal.SIGTERM]
  if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # Under nohup the run outlives its terminal.
    numbers.append(signal.SIGHUP)
  # Launchpad would print the path of its logs and a countdown over the live view.
  with redirect_stdout(io.StringIO()):
    # A signal of the terminal must not meet a supervisor before it has a session of its own, or this process without a handler.
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
      manager = lp.launch(program, launch_type=lp.LaunchType.LOCAL_MULTI_PROCESSING, terminal="output_to_files")
      handle = _stop_handler(on_stop, leave=signal.getsignal(signal.SIGTERM))
      before = {number: signal.signal(number, handle) for number in numbers}
    finally:
      signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    try:
      yield Supervisors(manager, run.logs, keep)
    finally:
      for number, handler in before.items():
        signal.signal(number, handler)


def _stop_handler(on_stop: Callable[[int], None], leave: Any) -> Callable[[int, object], None]:
  """See `launched`; `leave` is Launchpad's own handler of SIGTERM."""
  is_asked = False

  def handle(signum: int, frame: object) -> None:
    nonlocal is_asked
    if not is_asked:
      is_asked = True
      on_stop(signum)
    elif signum == signal.SIGINT:
      os.kill(os.getpid(), signal.SIGQUIT)  # Launchpad then kills all processes.
    else:
      leave(signal.SIGTERM, frame)

  return handle


class Supervisors:
  """The supervisors of a program, each of which is started again if it is killed itself.

  Launchpad would end the program with the first of them. So its manager starts and stops processes, and this class watches them.
  """

  def __init__(self, manager: Any, logs: pathlib.Path, keep: Callable[[], None]):
    """Takes in all supervisors that are children of this process.

    Args:
      manager: Launchpad's, which has started them.
      logs: folder for their output.
      keep: called again and again while they run.
    """
    self._manager = manager
    self._logs = logs
    self._keep = keep
    self._began = time.monotonic()
    self._processes = dict(_supervisors())
    self._commands = {role: process.cmdline() for role, process in self._processes.items()}
    self._environments = {role: process.environ() for role, process in self._processes.items()}
    self._restarts = {role: Restarts(RESTARTED_CODES) for role in self._processes}

  def wait_for_end(self) -> str:
    """Waits until every process of the program has ended.

    Returns:
      How a supervisor ended if it had given its role up, whereupon the others were told to leave; or else "".
    """
    if SERVER not in self._processes:
      return self._stop("the server's supervisor could not begin")
    while not self._manager.wait_for_stop(_POLL_SECONDS):
      self._keep()
      for role, process in list(self._processes.items()):
        end = _end_of(process.pid)
        if end is None:
          continue
        code, was_killed = end  # A supervisor that has given its role up ends with the role's own code.
        if was_killed and self._start_again(role, code):
          continue
        del self._processes[role]
        if code:
          return self._stop(f"{role} ended with exit code {code}")
        if role == SERVER:
          return self._end_others()
    return self._stop("")  # Somebody has told all of them to leave.

  def _stop(self, reason: str) -> str:
    self._manager.stop_and_wait()
    return reason

  def _end_others(self) -> str:
    """Waits for the roles of a run that has ended; one that is just being started again would look for the server in vain."""
    deadline = time.monotonic() + _GOODBYE_SECONDS
    # Consoles wait for their next player.
    while any(not role.startswith(CONSOLE) for role, _ in _supervisors()) and time.monotonic() < deadline:
      time.sleep(_POLL_SECONDS)
    return self._stop("")

  def _start_again(self, role: str, code: int) -> bool:
    """Starts a supervisor again that was killed, after its role has ended too; returns whether it did not happen too often."""
    now = time.monotonic()
    if self._restarts[role].delay_after(code, now - self._began, now) is None:
      return False
    with contextlib.suppress(ChildProcessError):
      os.waitpid(self._processes[role].pid, 0)  # Launchpad then takes its exit code for 0.
    orphans = _roles_of(self._processes[role].pid)
    for orphan in orphans:
      with contextlib.suppress(psutil.Error):
        orphan.terminate()  # It does so itself when it notices.
    _, left = psutil.wait_procs(orphans, timeout=GRACE_SECONDS)
    for orphan in left:
      with contextlib.suppress(psutil.Error):
        orphan.kill()
    with (self._logs / title_of(role)).open("a") as log:
      self._manager.process_worker(
        title_of(role), self._commands[role], env=self._environments[role], stdout=log, stderr=log
      )
    self._processes = {**self._processes, **dict(_supervisors())}
    return True


def _end_of(pid: int) -> tuple[int, bool] | None:
  """The exit code of a child, in a shell's notation, and whether a signal has ended it; None if it has not ended.

  Launchpad can still read it as well.
  """
  try:
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
  except ChildProcessError:  # Launchpad has read it already, as it does when it stops all.
    return 0, False
  if ended is None:
    return None
  was_killed = ended.si_code != os.CLD_EXITED
  return ended.si_status + _SIGNALLED * was_killed, was_killed


def _supervisors() -> Iterator[tuple[str, psutil.Process]]:
  """Role and process of every supervisor of this process; one that waits to be reaped has no command line."""
  for child in psutil.Process().children():
    with contextlib.suppress(psutil.Error):
      words = child.cmdline()
      if str(SUPERVISOR_FILE) in words:
        yield json.loads(words[-1])["role"], child


def _roles_of(supervisor: int) -> list[psutil.Process]:
  """The processes that a supervisor has started itself, even if it is gone; the fork server ends those that it has forked."""
  found = []
  for process in psutil.process_iter():
    with contextlib.suppress(psutil.Error):
      if process.environ().get(SUPERVISOR) == str(supervisor):
        found.append(process)
  return found
