"""`slipstream learn`: a learner, against a server."""

import functools
import pathlib

from absl import flags

from launch.process import run_role
from launch.process_id import CLIENT
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import (
  define_metrics_port,
  define_pythonpath,
  define_run_dir,
  define_run_root,
  define_server,
  define_server_timeout,
  given_endpoint,
  given_run,
)


def _define_flags(values: flags.FlagValues) -> None:
  define_server(values)
  define_server_timeout(values)
  define_run_root(values)
  define_pythonpath(values)
  define_metrics_port(values)
  define_run_dir(values, "The run's directory, for its checkpoints; empty takes RUN_ROOT/<name>/<run id>.")
  flags.DEFINE_string(
    "device", "", "A TensorFlow device, such as GPU:0; empty takes the config's learner.device.", flag_values=values
  )


def _run(arguments: Arguments) -> int:
  from launch.metrics.exporter import opened_exporter

  values = arguments.flags
  server = given_endpoint(values)
  with opened_exporter(values.metrics_port, "learner", "learner") as exporter:
    from launch import roles  # It imports TensorFlow, while the exporter answers already.

    learn = functools.partial(
      roles.learn,
      endpoint=server,
      run_root=pathlib.Path(values.run_root),
      run=given_run(values),
      device=values.device,
    )
    return run_role("learner", learn, values.verbose, exporter)


COMMAND = Command("learn", "a learner, against a server", _define_flags, _run, parity=CLIENT)
