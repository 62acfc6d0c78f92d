"""`slipstream report`: runs compared on one page."""

import pathlib
import shlex

from absl import flags

from configs import UserError
from slipstream.commands.command import Arguments, Command
from slipstream.commands.extras import require_statistics
from slipstream.commands.flags import define_filter


def _define_flags(values: flags.FlagValues) -> None:
  flags.DEFINE_multi_string(
    "run_dir", [], "A run directory, or a folder that holds some; several words name several.", flag_values=values
  )
  flags.DEFINE_string("out", "runs/report", "Folder for the page, the picture and the curves.", flag_values=values)
  flags.DEFINE_string("curve", "eval_return", "Column of metrics.csv that is compared.", flag_values=values)
  flags.DEFINE_string(
    "x", "environment_steps", "What the curves are drawn over: environment_steps or gradient_steps.", flag_values=values
  )
  flags.DEFINE_string(
    "by",
    "method",
    "Fields of the config that name the groups, such as method,learner.learning_rate.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "reference", "", "Group that others are compared with; empty takes uniform, or else the first.", flag_values=values
  )
  define_filter(values)


def _run(arguments: Arguments) -> int:
  require_statistics("report")
  from experiments.comparison.report import Request, make_report

  values = arguments.flags
  if not values.run_dir:
    raise UserError("No run directory is given: write 'slipstream report runs', or name the runs to compare.")
  by = tuple(field.strip() for field in values.by.split(",") if field.strip())
  request = Request(
    folders=tuple(map(pathlib.Path, values.run_dir)),
    out=pathlib.Path(values.out),
    curve=values.curve,
    x=values.x,
    by=by or ("method",),
    reference=values.reference,
    filters=tuple(values.filter),
    command=_same_command(values),
  )
  return make_report(request)


def _same_command(values: flags.FlagValues) -> str:
  words = ["slipstream", "report", *values.run_dir]
  for name in ("out", "curve", "x", "by", "reference"):
    words += [f"--{name}={values[name].value}"] if values[name].value != values[name].default else []
  return shlex.join([*words, *(f"--filter={text}" for text in values.filter)])


COMMAND = Command("report", "runs compared on one page", _define_flags, _run, positional="run_dir")
