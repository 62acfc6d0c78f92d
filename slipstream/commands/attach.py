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
  given_trust,
)


def _define_flags(values: flags.FlagValues) -> None:
  define_server(values)
  define_server_timeout(values)
  define_pythonpath(values)
  define_allow_module(values)
  flags.DEFINE_integer("actors", 1, "Number of worker processes to add.", flag_values=values, lower_bound=1)


def _run(arguments: Arguments) -> int:
  from launch.attach import attach

  values = arguments.flags
  return attach(given_endpoint(values), values.actors, given_trust(values), values.verbose)


COMMAND = Command("attach", "more workers for a running job", _define_flags, _run, parity=CLIENT)
