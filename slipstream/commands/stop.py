"""`slipstream stop`: ends a running job."""

import sys
from typing import TYPE_CHECKING

from absl import flags

from configs.exit_codes import ExitCode
from launch.process_id import CLIENT
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import define_server, given_endpoint
from slipstream.commands.status import first_status

if TYPE_CHECKING:
  from replay_server.contract.status import RunStatus


def _define_flags(values: flags.FlagValues) -> None:
  define_server(values)
  flags.DEFINE_bool("yes", False, "Do not ask first.", flag_values=values)


def _run(arguments: Arguments) -> int:
  from launch.endpoint import connected
  from launch.requests import stop_run

  values = arguments.flags
  with connected(given_endpoint(values)) as connection:
    status = first_status(connection)
    if not (status.finished or values.yes or _agrees(status)):
      print("The run goes on.")
      return ExitCode.INTERRUPTED
    if not status.finished:
      stop_run(connection)
  print(f"Run {status.run_id} has ended.", flush=True)
  return ExitCode.DONE


def _agrees(status: "RunStatus") -> bool:
  """Asks on a terminal whether to end the run; elsewhere nobody could answer."""
  if not sys.stdin.isatty():
    return True
  taken = f"{status.environment_steps:,} of {status.environment_steps_budget:,} environment steps"
  answer = input(f"End run {status.run_id} ({status.name}, {taken}) for all of its processes? [y/N] ")
  return answer.strip().lower() in ("y", "yes")


COMMAND = Command("stop", "ends a running job", _define_flags, _run, parity=CLIENT)
