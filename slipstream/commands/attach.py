"""`slipstream attach`: more workers for a running job."""

from absl import flags

from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import define_pythonpath, define_server, require_server


def _define_flags(values: flags.FlagValues) -> None:
  define_server(values)
  define_pythonpath(values)
  flags.DEFINE_integer("actors", 1, "Number of worker processes to add.", flag_values=values, lower_bound=1)


def _run(arguments: Arguments) -> int:
  from launch.attach import attach

  values = arguments.flags
  return attach(require_server(values), values.actors, values.pythonpath, values.verbose)


COMMAND = Command("attach", "more workers for a running job", _define_flags, _run)
