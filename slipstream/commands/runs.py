"""`slipstream runs`: a table of runs."""

import pathlib

from absl import flags

from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import define_filter


def _define_flags(values: flags.FlagValues) -> None:
  flags.DEFINE_string("dir", "runs", "Folder that is searched, with all folders below it.", flag_values=values)
  flags.DEFINE_string(
    "sort", "-when", "Column to sort by, from low to high; with - in front of it from high to low.", flag_values=values
  )
  define_filter(values)
  flags.DEFINE_bool("json", False, "Print them as JSON, with their configs.", flag_values=values)


def _run(arguments: Arguments) -> int:
  from experiments.comparison.listing import list_runs

  values = arguments.flags
  return list_runs(pathlib.Path(values.dir), values.sort, values.filter, values.json)


COMMAND = Command("runs", "a table of runs, in any state", _define_flags, _run, positional="dir")
