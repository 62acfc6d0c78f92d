"""The Launchpad program of a local run. Launchpad appears in this file alone."""

import functools
import io
import os
import pathlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from configs import RunConfig
from launch import ENVIRONMENT, roles
from launch.process import RoleProcess, exit_process
from launch.run_directory import RunDirectory

# Launchpad asks all roles to stop at once, and kills them after this. The server waits up to 12 s for the others to end, and
# then writes its tables.
TERMINATION_NOTICE_SECONDS = 60
ROLE_ENVIRONMENT = {**ENVIRONMENT, "PYTHONUNBUFFERED": "1"}


class RoleNode:
  """A role as a Launchpad node: constructed and run in a process of its own."""

  def __init__(self, name: str, logs: pathlib.Path, body: Callable[[RoleProcess], None]):
    """Takes the process's name, the folder for a failure that it reports, and the role, which must be picklable."""
    self._name = name
    self._logs = logs
    self._body = body

  def run(self) -> None:
    """Runs the role until it ends or Launchpad stops it, and exits with the role's exit code."""
    import launchpad as lp

    process = RoleProcess(self._name, lp.stop_event(), self._logs)
    process.watch_parent()
    exit_process(process.run(lambda: self._body(process)))


def _run_node(name: str, logs: pathlib.Path, body: Callable[[RoleProcess], None]) -> None:
  RoleNode(name, logs, body).run()


def build_program(config: RunConfig, run: RunDirectory, address: str, sinks: Sequence[str] = ()) -> Any:
  """Builds a program of server, learner, rollout workers and evaluator, which share nothing but the server's address."""
  import launchpad as lp

  port = int(address.rpartition(":")[2])
  program = lp.Program("slipstream")
  serve = functools.partial(roles.serve, config=config, run=run, port=port, sinks=sinks)
  with program.group("server"):
    program.add_node(lp.PyNode(_run_node, "server", run.logs, serve))
  learn = functools.partial(roles.learn, address=address, run_root=run.path.parent, run=run)
  with program.group("learner"):
    program.add_node(lp.PyClassNode(RoleNode, "learner", run.logs, learn))
  for index in range(config.actor.workers):
    act = functools.partial(roles.act, address=address, index=index)
    with program.group(f"actor_{index}"):
      program.add_node(lp.PyClassNode(RoleNode, f"actor_{index}", run.logs, act))
  if config.evaluator.enabled:
    evaluate = functools.partial(roles.evaluate, address=address, run=run)
    with program.group("evaluator"):
      program.add_node(lp.PyClassNode(RoleNode, "evaluator", run.logs, evaluate))
  return program


@contextmanager
def launched(program: Any, run: RunDirectory, on_interrupt: Callable[[], None]) -> Iterator[Any]:
  """Starts a program's processes; their output goes to the run's logs.

  Args:
    program: from `build_program`.
    run: holds the logs.
    on_interrupt: called at the first Ctrl-C, when all roles are asked to stop; a second one kills them.

  Yields:
    Launchpad's manager, whose `wait` returns when no process is left.
  """
  import launchpad as lp
  from absl import flags
  from launchpad.launch.run_locally import launch_local_output_to_files
  from launchpad.nodes.python.local_multi_processing import PythonProcess

  # Launchpad reads LAUNCHPAD_LOGGING_DIR once, when it is imported; a process can have more than one run.
  launch_local_output_to_files._LOGGING_DIR = str(run.logs)  # noqa: SLF001  # There is no public way; see above.

  if "lp_dummy_config" not in flags.FLAGS:  # Launchpad 0.5.0 reads this flag and does not define it.
    flags.DEFINE_string("lp_dummy_config", "", "Unused.")
  if not flags.FLAGS.is_parsed():
    flags.FLAGS([sys.argv[0]])
  flags.FLAGS["lp_termination_notice_secs"].value = TERMINATION_NOTICE_SECONDS
  resources = {
    group: PythonProcess(
      args={"lp_termination_notice_secs": TERMINATION_NOTICE_SECONDS},
      env=_role_environment(sees_gpu=group == "learner"),
    )
    for group in program.groups
  }
  # Launchpad would print the path of its logs and a countdown over the live view.
  with redirect_stdout(io.StringIO()):
    # A terminal that closes sends SIGHUP to all processes. The roles inherit that it is ignored; this process stops them.
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
      manager = lp.launch(
        program,
        launch_type=lp.LaunchType.LOCAL_MULTI_PROCESSING,
        terminal="output_to_files",
        local_resources=resources,
      )
    finally:
      signal.signal(signal.SIGHUP, hang_up)
    interrupt = _interrupt_handler(on_interrupt)
    before = {signal.SIGINT: signal.signal(signal.SIGINT, interrupt)}
    if hang_up != signal.SIG_IGN:  # Under nohup the run outlives its terminal.
      before[signal.SIGHUP] = signal.signal(signal.SIGHUP, _stop_all)
    try:
      yield manager
    finally:
      for number, handler in before.items():
        signal.signal(number, handler)


def _role_environment(sees_gpu: bool) -> dict[str, str]:
  # The launcher's whole path, so that roles can import the same environments and events.
  environment = {**ROLE_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
  if not sees_gpu:
    environment["CUDA_VISIBLE_DEVICES"] = "-1"
  return environment


def _stop_all(signum: int, frame: object) -> None:
  """Asks all roles to stop, which Launchpad does on SIGTERM."""
  del signum, frame
  os.kill(os.getpid(), signal.SIGTERM)


def _interrupt_handler(on_interrupt: Callable[[], None]) -> Callable[[int, object], None]:
  """First Ctrl-C: asks all roles to stop. Second: kills them. Launchpad does so on SIGTERM and SIGQUIT."""
  pressed = False

  def handle(signum: int, frame: object) -> None:
    nonlocal pressed
    del signum, frame
    os.kill(os.getpid(), signal.SIGQUIT if pressed else signal.SIGTERM)
    if not pressed:
      on_interrupt()
    pressed = True

  return handle
