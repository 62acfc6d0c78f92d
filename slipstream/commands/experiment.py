"""`slipstream experiment`: a paper's experiment."""

from absl import flags

from slipstream.commands.command import Arguments, Command
from slipstream.commands.extras import require_statistics


def _define_flags(values: flags.FlagValues) -> None:
  flags.DEFINE_string("name", "", "Name of the experiment; empty lists all of them.", flag_values=values)
  flags.DEFINE_integer(
    "seeds", None, "Number of seeds of every method; by default the budget's.", flag_values=values, lower_bound=1
  )
  flags.DEFINE_integer(
    "jobs",
    None,
    "Number of runs at once, each on one core; by default as many as there are cores.",
    flag_values=values,
    lower_bound=1,
  )
  flags.DEFINE_string("budget", "quick", "How much to run: quick takes minutes, paper hours.", flag_values=values)
  flags.DEFINE_string(
    "out", "", "Folder for runs, CSV, picture and table; empty takes runs/experiments/NAME/BUDGET.", flag_values=values
  )
  flags.DEFINE_string(
    "methods", "", "Names of methods, separated by commas; empty takes all of the experiment's.", flag_values=values
  )


def _run(arguments: Arguments) -> int:
  require_statistics("experiment")
  from experiments.command import run_command

  values = arguments.flags
  return run_command(values.name, values.seeds, values.jobs, values.budget, values.out, values.methods)


COMMAND = Command(
  "experiment", "a paper's experiment: its runs, curves and table", _define_flags, _run, positional="name"
)
