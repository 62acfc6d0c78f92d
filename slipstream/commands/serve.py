"""`slipstream serve`: the replay server alone."""

import functools
import pathlib
from typing import TYPE_CHECKING

from absl import flags

from configs import RunConfig, UserError
from configs.changes import config_changes
from configs.exit_codes import ExitCode
from launch.process import run_role
from launch.process_id import SERVER
from launch.run_directory import RunDirectory, begin_run_directory, create_run_directory
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import (
  chosen_sinks,
  define_config,
  define_metrics_port,
  define_port,
  define_run_dir,
  define_run_root,
  define_server_tls,
  define_sinks,
  given_run,
  given_server_tls,
  read_config,
)

if TYPE_CHECKING:
  from launch.metrics.exporter import Exporter

_PORT = 8000


def _define_flags(values: flags.FlagValues) -> None:
  define_config(values)
  define_run_root(values)
  define_run_dir(
    values,
    "The run's directory, for the first start and every later one: a new or empty folder begins the run, with the folder's name "
    "as its id; otherwise the run goes on from its last checkpoint. Empty makes a new one below --run_root.",
  )
  define_port(values, _PORT)
  define_server_tls(values)
  define_metrics_port(values)
  define_sinks(values)


def _run(arguments: Arguments) -> int:
  from launch.metrics.exporter import opened_exporter

  values = arguments.flags
  if values.metrics_port and values.metrics_port == values.port:
    raise UserError(f"--port and --metrics_port are both {values.port}: give one of them another port.")
  with opened_exporter(values.metrics_port, "server", "server") as exporter:
    return _serve(arguments, exporter)


def _serve(arguments: Arguments, exporter: "Exporter | None") -> int:
  from launch import roles  # It imports TensorFlow, while the exporter answers already.
  from launch.server_place import write_place
  from launch.train import why_finished
  from replay_server.process.memory import check_memory
  from replay_server.process.server import check_port
  from replay_server.process.sinks import check_sinks

  values = arguments.flags
  run, sinks = given_run(values), chosen_sinks(values)
  if run is not None and values["run_root"].present:
    raise UserError("Both --run_dir and --run_root are given: --run_dir alone says where the run is.")
  config = read_config(arguments)
  check_port(values.port)
  tls = given_server_tls(values)
  check_sinks(sinks)
  if run is not None and run.is_begun:
    changes = _changes(run, config)
    finished = why_finished(run, config)
    if finished:
      print(finished, flush=True)
      write_place(run, ended=True)  # Its last server may have been killed before it could say so.
      return ExitCode.DONE
    run.check_writable("make it a folder that you may write, or serve a copy of it.")
    for change in changes:
      print(f"Changed: {change}", flush=True)
  memory = check_memory(config, roles.row_codec(config))
  if run is None:
    run = create_run_directory(config, pathlib.Path(values.run_root))
  elif not run.is_begun:
    begin_run_directory(config, run.path, "--run_dir")
  print(f"{memory}\nRun directory: {run.path}", flush=True)
  serve = functools.partial(roles.serve, config=config, run=run, port=values.port, sinks=sinks, tls=tls)
  return run_role("server", serve, values.verbose, exporter)


def _changes(run: RunDirectory, config: RunConfig) -> list[str]:
  """What of the config is new for a run that has begun.

  Raises:
    UserError: the run is one of another config.
  """
  earlier = run.read_config()
  if earlier.name != config.name:
    raise UserError(
      f"The run in {run.path} is of the config {earlier.name!r}, and --config is {config.name!r}: name another --run_dir, or "
      "leave --config out."
    )
  return config_changes(earlier, config)


COMMAND = Command("serve", "the replay server alone", _define_flags, _run, parity=SERVER)
