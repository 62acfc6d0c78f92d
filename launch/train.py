"""A local run: starts a server, a learner, workers and an evaluator, and shows their progress."""

import pathlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import portpicker

from configs import RunConfig, ServerLost, Stopped, UserError
from launch import program
from launch.failures import RunFailed
from launch.finish import EXIT_INTERRUPTED, Outcome, finish
from launch.inline import run_inline
from launch.process import output_to, stop_on_signals
from launch.roles import row_codec
from launch.run_directory import RunDirectory, create_run_directory, open_run_directory, take_failures
from launch.videos import check_videos
from launch.view import RunView
from launch.world_watch import say, watching_worlds
from replay_server.contract.connection import Connection
from replay_server.contract.run import read_live_status
from replay_server.contract.status import RunStatus
from replay_server.process.keeper import read_status
from replay_server.process.memory import check_memory
from replay_server.process.server import check_port
from replay_server.process.sinks import check_sinks

_POLL_SECONDS = 0.5
_START_TIMEOUT_SECONDS = 300.0
# In which a role's last heartbeat reaches the status.
_GOODBYE_SECONDS = 3.0


def train(
  config: RunConfig | None = None,
  *,
  run_root: pathlib.Path = pathlib.Path("runs"),
  resume: str = "",
  port: int = 0,
  inline: bool = False,
  quiet: bool = False,
  sinks: Sequence[str] = (),
) -> Outcome:
  """Runs until solved, until the budget is used up, or until interrupted.

  Args:
    config: of the run; None takes the config of the run that is resumed.
    run_root: folder for a new run's directory.
    resume: the directory of a run to resume; empty for a new run.
    port: of the server; 0 takes a free one.
    inline: run everything in this process, with an exact number of environment steps for each gradient step.
    quiet: show nothing while it runs.
    sinks: other services that get the run's numbers, such as "wandb"; see `replay_server.process.sinks`.

  Raises:
    UserError: something is wrong with the config, the environment, the port, a service or the machine.
    RunFailed: a role failed.
  """
  check_port(port)
  check_sinks(sinks)
  earlier = open_run_directory(resume) if resume else None
  if config is None:
    if earlier is None:
      raise UserError("There is nothing to train: give a config, or a run to resume.")
    config = earlier.read_config()
  if earlier is not None:
    refuse_finished(earlier, config)
    take_failures(earlier.logs)  # Left over from a launcher that was killed before it could report them.
  memory = check_memory(config, row_codec(config))
  check_videos(config)
  run = earlier or create_run_directory(config, run_root)
  with RunView(quiet=quiet) as view:
    if not quiet:
      view.message(f"Run {run.run_id} in {run.path}")
      view.message(memory)
    status = _run_inline(config, run, view, sinks) if inline else _run_program(config, run, view, port, sinks)
    view.update(status)
  with watching_worlds():
    return finish(status, run, inline)


def refuse_finished(run: RunDirectory, config: RunConfig) -> None:
  """Refuses to resume a run that would end at once.

  Raises:
    UserError: it is solved, or has used its budget.
  """
  status = read_status(run.path)
  if status is None:
    return
  if 0 < config.evaluator.streak_to_solve <= status.solved_streak:
    raise UserError(
      f"Run {run.run_id} is solved, by {status.solved_streak} evaluations in a row: to resume it anyway, ask for more with "
      "--config.evaluator.solved_evaluations (0 runs to the budget)."
    )
  if status.environment_steps >= config.environment_steps:
    raise UserError(
      f"Run {run.run_id} has taken {status.environment_steps:,} environment steps, and its budget is "
      f"{config.environment_steps:,}: give it more with --config.environment_steps."
    )


def _run_inline(config: RunConfig, run: RunDirectory, view: RunView, sinks: Sequence[str]) -> RunStatus:
  # What Reverb and the roles print goes to a log, as in a run of several processes, and not over the live view.
  def give_up(sentence: str) -> None:
    view.close()
    say(sentence)

  with stop_on_signals() as stop, output_to(run.logs / "inline"), watching_worlds(view.message, give_up):
    try:
      return run_inline(config, run, stop, view, sinks=sinks)
    except UserError as error:
      print(error.trace, end="", flush=True)
      raise


def _run_program(config: RunConfig, run: RunDirectory, view: RunView, port: int, sinks: Sequence[str]) -> RunStatus:
  address = f"localhost:{port or portpicker.pick_unused_port()}"
  view.message(f"Server at {address}; more workers join with: slipstream attach --server={address} --actors=1")
  view.waiting("starting the server, the learner, the workers and the evaluator ...")

  interrupted, before = threading.Event(), read_status(run.path)

  def on_interrupt() -> None:
    interrupted.set()
    view.message("Stopping: the server and the learner write their checkpoints (a second Ctrl-C kills them at once).")

  with program.launched(program.build_program(config, run, address, sinks), run, on_interrupt) as manager:
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(address, view, done), name="view", daemon=True)
    watcher.start()
    death = _wait_for_all(manager, lambda: _who_left(address, run, before))
    done.set()
    watcher.join(timeout=5)
  failures = take_failures(run.logs)
  go_on = f"Resume from the last checkpoint with: slipstream train --resume={run.path}"
  if failures:
    first = failures[0]
    raise RunFailed(f"{first.role}: {first.sentence} Logs: {run.logs}. {go_on}", first.exit_code, first.trace)
  status = read_status(run.path)
  if interrupted.is_set() and status is None:
    raise RunFailed("Interrupted before the run began.", EXIT_INTERRUPTED)
  if death or status is None:
    died = death or "A role's process died without a report (the server never came up)"
    raise RunFailed(f"{died}: see the logs in {run.logs}. {go_on}", 1)
  return status


def _wait_for_all(manager: Any, who_left: Callable[[], str]) -> str:
  """Waits until every process of the program has ended; returns how the first one ended too early, or "" if none did.

  Args:
    manager: Launchpad's.
    who_left: called when a process has ended without an error; the name of the role that left its run, "" if the run has ended.
  """
  try:
    manager.wait(return_on_first_completed=True)
    left = "" if manager.wait_for_stop(0) else who_left()
    if left:
      # A role that is sent a signal ends in good order, and Launchpad would wait for the others for good.
      manager.stop_and_wait()
      return f"{left} was stopped by a signal while the run went on, and the run with it"
    manager.wait()
    return ""
  except RuntimeError as error:  # Launchpad has asked the others to stop.
    manager.wait(raise_error=False)
    return f"A role's process died without a report ({str(error).rstrip('.')})"


def _who_left(address: str, run: RunDirectory, before: RunStatus | None) -> str:
  """The role that has ended although the run has not; "" if the run has.

  Args:
    address: of the server.
    run: of the server.
    before: the status that the run directory held when the processes started.
  """
  connection = Connection(address)
  deadline = time.monotonic() + _GOODBYE_SECONDS
  while True:
    try:
      status = read_live_status(connection)
    except ServerLost:  # It has ended, and left its last status, or it never began.
      status = read_status(run.path)
      status = None if status == before else status
    if status is not None and status.finished:
      return ""
    ended = [role.name for role in status.roles if role.ended] if status is not None else []
    if ended:
      return ended[0]
    if time.monotonic() > deadline:  # It ended before it could send a heartbeat.
      return "A role"
    time.sleep(_POLL_SECONDS)


def _watch(address: str, view: RunView, done: threading.Event) -> None:
  connection = Connection(address)
  try:
    connection.wait_until_up(_START_TIMEOUT_SECONDS, done)
  except (UserError, Stopped):
    return  # The server's own process reports why.
  while not done.wait(_POLL_SECONDS):
    try:
      status = read_live_status(connection)
    except ServerLost:
      continue  # The roles' own watchdogs decide when the server is lost.
    if status is not None and not done.is_set():
      view.update(status)
