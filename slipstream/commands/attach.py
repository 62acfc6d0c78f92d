"""`slipstream attach`: more workers for a running job."""

from absl import flags

from launch.process_id import CLIENT
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import (
  define_allow_module,
  define_pythonpath,
  define_server,
  define_server_timeout,
  given_endpoint,
  given_environment,
  given_trust,
)


def _define_flags(values: flags.FlagValues) -> None:
  define_server(values)
  define_server_timeout(values)
  define_pythonpath(values)
  define_allow_module(values)
  flags.DEFINE_integer("actors", 1, "Number of worker processes to add.", flag_values=values, lower_bound=1)
  flags.DEFINE_list(
    "consoles",
    [],
    "host:port of the console of each worker, separated by commas; empty for workers that make their environments themselves.",
    flag_values=values,
  )


def _run(arguments: Arguments) -> int:
  from launch.attach import attach

  values = arguments.flags
  return attach(
    given_endpoint(values),
    values.actors,
    given_trust(values),
    values.verbose,
    given_environment(arguments),
    values.consoles,
  )


COMMAND = Command(
  "attach", "more workers for a running job", _define_flags, _run, parity=CLIENT, takes_environment=True
)
