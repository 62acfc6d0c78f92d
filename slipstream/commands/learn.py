"""`slipstream learn`: a learner, against a server."""

import functools
import pathlib

from absl import flags

from launch.process import run_role
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import (
  define_pythonpath,
  define_run_dir,
  define_run_root,
  define_server,
  given_run,
  require_server,
)


def _define_flags(values: flags.FlagValues) -> None:
  define_server(values)
  define_run_root(values)
  define_pythonpath(values)
  define_run_dir(values, "The run's directory, for its checkpoints; empty takes RUN_ROOT/<name>/<run id>.")
  flags.DEFINE_string(
    "device", "", "A TensorFlow device, such as GPU:0; empty takes the config's learner.device.", flag_values=values
  )


def _run(arguments: Arguments) -> int:
  from launch import roles

  values = arguments.flags
  learn = functools.partial(
    roles.learn,
    address=require_server(values),
    run_root=pathlib.Path(values.run_root),
    run=given_run(values),
    device=values.device,
  )
  return run_role("learner", learn, values.verbose)


COMMAND = Command("learn", "a learner, against a server", _define_flags, _run)
