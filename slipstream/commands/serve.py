"""`slipstream serve`: the replay server alone."""

import functools
import pathlib

from absl import flags

from launch.process import run_role
from launch.run_directory import create_run_directory, open_run_directory
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import (
  chosen_sinks,
  define_config,
  define_port,
  define_resume,
  define_run_root,
  define_sinks,
  read_config,
)

_PORT = 8000


def _define_flags(values: flags.FlagValues) -> None:
  define_config(values)
  define_run_root(values)
  define_resume(values)
  define_port(values, _PORT)
  define_sinks(values)


def _run(arguments: Arguments) -> int:
  from launch import roles
  from launch.train import refuse_finished
  from replay_server.process.memory import check_memory
  from replay_server.process.server import check_port
  from replay_server.process.sinks import check_sinks

  values = arguments.flags
  config = read_config(arguments)
  check_port(values.port)
  check_sinks(chosen_sinks(values))
  earlier = open_run_directory(values.resume) if values.resume else None
  if earlier is not None:
    refuse_finished(earlier, config)
  memory = check_memory(config, roles.row_codec(config))
  run = earlier or create_run_directory(config, pathlib.Path(values.run_root))
  print(f"{memory}\nRun directory: {run.path}", flush=True)
  serve = functools.partial(roles.serve, config=config, run=run, port=values.port, sinks=chosen_sinks(values))
  return run_role("server", serve, values.verbose)


COMMAND = Command("serve", "the replay server alone", _define_flags, _run)
