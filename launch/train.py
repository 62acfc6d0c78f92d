"""A local run: starts a server, a learner, workers and an evaluator, and shows their progress."""

import contextlib
import os
import pathlib
import signal
import threading
from collections.abc import Sequence

import portpicker

from configs import RunConfig, ServerLost, Stopped, UserError, to_json
from configs.changes import config_changes
from configs.exit_codes import ExitCode
from launch import program
from launch.failures import RunFailed
from launch.finish import Outcome, finish
from launch.forks import ForkServer
from launch.process import StopEvent, output_to, stop_on_signals
from launch.requests import send_request, sender_of
from launch.roles import row_codec
from launch.run_directory import RunDirectory, create_run_directory, open_run_directory, take_failures
from launch.videos import check_videos
from launch.view.run_view import RunView
from launch.world_watch import say, watching_worlds
from replay_server.contract.connection import Connection
from replay_server.contract.messages import Request
from replay_server.contract.run import read_live_status
from replay_server.contract.status import RunStatus
from replay_server.process.keeper import read_status
from replay_server.process.memory import check_memory
from replay_server.process.server import check_port
from replay_server.process.sinks import check_sinks

_POLL_SECONDS = 0.5
_START_TIMEOUT_SECONDS = 300.0
# In which a server that was killed is back.
_RESTART_SECONDS = 30.0
# In which a run that was asked to stop has ended.
_STOP_SECONDS = 60.0


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
    finished = why_finished(earlier, config)
    if finished:
      raise UserError(finished)
    take_failures(earlier.logs)  # Left over from a launcher that was killed before it could report them.
  if inline and config.consoles.size:
    raise UserError(
      "An inline run plays in its own process, without consoles: leave out --inline, or both consoles.count and "
      "consoles.addresses."
    )
  codec = row_codec(config)
  fits = [check_memory(config, codec)]
  if config.replay.sampling == "memory":
    from learner.mixup.partners import bytes_beside
    from replay_memory.plan import check_fit, make_plan

    plan = make_plan(config, codec.width)
    fits.append(check_fit(plan, bytes_beside(config.learner.mixup, codec, plan.slots)))
  check_videos(config)
  run = earlier or create_run_directory(config, run_root)
  with RunView(quiet=quiet) as view:
    if not quiet:
      view.message(f"Run {run.run_id} in {run.path}")
      for fit in fits:
        view.message(fit)
      for change in config_changes(run.read_config(), config):
        view.message(f"Changed: {change}")
    if inline:
      status, interruption = _run_inline(config, run, view, sinks)
    else:
      status, interruption = _run_program(config, run, view, port, sinks)
    view.update(status)
  with watching_worlds():
    return finish(status, run, interruption, inline)


def why_finished(run: RunDirectory, config: RunConfig) -> str:
  """Why a run that is resumed with this config would end at once, and how it would not, in a sentence; "" if it would not.

  Raises:
    UserError: its status cannot be read.
  """
  status = read_status(run.path)
  if status is None:
    return ""
  if 0 < config.evaluator.streak_to_solve <= status.solved_streak:
    return (
      f"Run {run.run_id} is solved, by {status.solved_streak} evaluations in a row: to resume it anyway, ask for more with "
      "--config.evaluator.solved_evaluations (0 runs to the budget)."
    )
  if status.environment_steps >= config.environment_steps:
    return (
      f"Run {run.run_id} has taken {status.environment_steps:,} environment steps, and its budget is "
      f"{config.environment_steps:,}: give it more with --config.environment_steps."
    )
  return ""


def _run_inline(
  config: RunConfig, run: RunDirectory, view: RunView, sinks: Sequence[str]
) -> tuple[RunStatus, ExitCode]:
  """The run's last status, and the command's exit code if a signal ended it."""
  from launch.inline import run_inline  # It imports the learner.

  # What Reverb and the roles print goes to a log, as in a run of several processes, and not over the live view.
  def give_up(sentence: str) -> None:
    view.close()
    say(sentence)

  with stop_on_signals() as stop, output_to(run.logs / "inline"), watching_worlds(view.message, give_up):
    try:
      return run_inline(config, run, stop, view, sinks=sinks), stop.exit_code
    except UserError as error:
      print(error.trace, end="", flush=True)
      raise


def _run_program(
  config: RunConfig, run: RunDirectory, view: RunView, port: int, sinks: Sequence[str]
) -> tuple[RunStatus, ExitCode]:
  """The run's last status, and the command's exit code if a signal ended it."""
  address = f"localhost:{port or portpicker.pick_unused_port()}"
  view.message(f"Server at {address}; more workers join with: slipstream attach --server={address} --actors=1")
  view.waiting("starting the server, the learner, the workers and the evaluator ...")
  before = read_status(run.path)
  stop, done = StopEvent(), threading.Event()

  def on_stop(signum: int) -> None:
    stop.leave(signum)
    view.message("Stopping: the server and the learner write their checkpoints (a second Ctrl-C kills them at once).")
    threading.Thread(target=_ask_to_stop, args=(address, done), name="stop", daemon=True).start()

  commands = program.role_commands(config, run, address, sinks, _hand_over(config, run))
  with (
    ForkServer(run.logs / "fork_server") as fork_server,
    program.launched(
      program.build_program(commands, run, fork_server.path), run, on_stop, fork_server.keep
    ) as processes,
  ):
    watcher = threading.Thread(target=_watch, args=(address, view, done), name="view", daemon=True)
    watcher.start()
    died = processes.wait_for_end()
    done.set()
    watcher.join(timeout=5)
  status = read_status(run.path)
  if status == before:
    status = None
  _raise_failure(run, status, died, stop)
  assert status is not None
  return status, stop.exit_code


def _hand_over(config: RunConfig, run: RunDirectory) -> pathlib.Path | None:
  """Writes the config for the server, whose business it is whether the run directory takes it; None if that has it already."""
  if run.read_config() == config:
    return None
  path = run.logs / "new_config.json"
  path.write_text(to_json(config))
  return path


def _ask_to_stop(address: str, done: threading.Event) -> None:
  """Asks the server to end its run; if it does not answer, or its end takes too long, asks each process to leave."""
  connection = Connection(address)
  with contextlib.suppress(ServerLost, Stopped):
    connection.wait_for_answer(done, _RESTART_SECONDS)
    send_request(connection, Request("stop", sender_of("train")))
    done.wait(_STOP_SECONDS)
  if not done.is_set():
    os.kill(os.getpid(), signal.SIGTERM)  # The second signal, see `program.launched`.


def _raise_failure(run: RunDirectory, status: RunStatus | None, died: str, stop: StopEvent) -> None:
  """Raises if the run has failed.

  Args:
    run: its directory, with the reasons.
    status: the last one of these processes; None without one.
    died: from `Supervisors.wait_for_end`.
    stop: holds the signal that stopped the run.

  Raises:
    RunFailed: it has.
  """
  has_ended = stop.is_set() or (status is not None and status.finished)
  # Where the run has ended, roles may notice that their server is gone before they notice why.
  failures = [
    failure
    for failure in take_failures(run.logs)
    if not (has_ended and failure.exit_code in (ExitCode.SERVER_LOST, ExitCode.TERMINATED))
  ]
  go_on = f"Resume from the last checkpoint with: slipstream train --resume={run.path}"
  if failures:
    first = failures[0]
    raise RunFailed(f"{first.role}: {first.sentence} Logs: {run.logs}. {go_on}", first.exit_code, first.trace)
  if stop.is_set() and status is None:
    raise RunFailed("Interrupted before the run began.", stop.exit_code)
  if status is None or (died and not has_ended):
    how = died or "The server ended before the run began"
    raise RunFailed(f"A process died without a report ({how}): see the logs in {run.logs}. {go_on}", ExitCode.FAILED)


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
      connection.renew()
      continue  # The roles' own watchdogs decide when the server is lost.
    if status is not None and not done.is_set():
      view.update(status)
