"""Flags that several commands share: their definitions, and how they are read."""

import os
import pathlib
import sys

from absl import flags

from configs import PRESETS, RunConfig, UserError, load_config, override
from configs.methods import METHODS, apply_method
from launch.run_directory import RunDirectory, open_run_directory
from slipstream.commands.command import Arguments


def define_config(values: flags.FlagValues) -> None:
  """The flags of a command that takes a config; see `read_config`."""
  flags.DEFINE_string(
    "config",
    "",
    f"A preset ({', '.join(sorted(PRESETS))}), or a .py file with get_config(), or a .json file. --config.path.to.key=value "
    "changes a value of it; tables and events are reached by name, as in --config.replay.tables.done.probability=0.2.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "method",
    "",
    f"Changes the config into that of a method that is compared ({', '.join(METHODS)}), before --config.* is applied.",
    flag_values=values,
  )
  flags.DEFINE_bool("print_config", False, "Print the config as JSON and do nothing else.", flag_values=values)
  define_pythonpath(values)


def define_pythonpath(values: flags.FlagValues) -> None:
  """--pythonpath; see `add_pythonpath`."""
  flags.DEFINE_string(
    "pythonpath",
    "",
    "Folders, separated by ':', from which environments and event conditions of your own are imported.",
    flag_values=values,
  )


def define_server(values: flags.FlagValues) -> None:
  """--server; see `require_server`."""
  flags.DEFINE_string("server", "", "The replay server, host:port.", flag_values=values)


def define_run_root(values: flags.FlagValues) -> None:
  """--run_root."""
  flags.DEFINE_string("run_root", "runs", "Folder below which run directories lie.", flag_values=values)


def define_run_dir(values: flags.FlagValues, explanation: str) -> None:
  """--run_dir; see `given_run`."""
  flags.DEFINE_string("run_dir", "", explanation, flag_values=values)


def define_port(values: flags.FlagValues, default: int) -> None:
  """--port."""
  flags.DEFINE_integer("port", default, "Port of the replay server; 0 takes a free one.", flag_values=values)


def define_sinks(values: flags.FlagValues) -> None:
  """--wandb and --mlflow; see `chosen_sinks`."""
  for name, service in (("wandb", "Weights & Biases"), ("mlflow", "MLflow")):
    flags.DEFINE_bool(
      name, False, f"Send the run's numbers to {service} too, through its own client.", flag_values=values
    )


def chosen_sinks(values: flags.FlagValues) -> tuple[str, ...]:
  """The names of the services of `define_sinks` that are asked for."""
  return tuple(name for name in ("wandb", "mlflow") if values[name].value)


def define_resume(values: flags.FlagValues) -> None:
  """--resume; see `read_config`."""
  flags.DEFINE_string(
    "resume", "", "A run directory to resume, with its replay, networks and counters.", flag_values=values
  )


def define_filter(values: flags.FlagValues) -> None:
  """--filter, which may be given several times."""
  flags.DEFINE_multi_string(
    "filter",
    [],
    "A condition on a column, or on a field of the config, that a run must meet, such as --filter=method=sset, "
    "--filter='best_return>=0.5' or --filter=config.learner.learning_rate=0.001; may be given several times.",
    flag_values=values,
  )


def add_pythonpath(values: flags.FlagValues) -> None:
  """Makes the folders of --pythonpath importable, here and in processes that this one starts.

  Raises:
    UserError: it names something that is not a folder.
  """
  folders = [str(pathlib.Path(folder).resolve()) for folder in values.pythonpath.split(os.pathsep) if folder]
  for folder in folders:
    if not pathlib.Path(folder).is_dir():
      raise UserError(f"--pythonpath names {folder}, which is not a folder: check the path.")
  sys.path[:0] = folders


def read_config(arguments: Arguments, otherwise: RunConfig | None = None) -> RunConfig:
  """The config of --config or --resume, after --method and then the overrides are applied.

  Args:
    arguments: of the command.
    otherwise: the config to start from if neither flag is given.

  Raises:
    UserError: neither is given, or the config is not valid.
  """
  values = arguments.flags
  resume = values.resume if "resume" in values else ""
  if resume and values.config:
    raise UserError(
      "Both --config and --resume are given: a resumed run has its config; change it with --config.KEY=VALUE."
    )
  if resume and values.method:
    raise UserError("Both --method and --resume are given: a resumed run has its method.")
  if resume:
    config = open_run_directory(resume).read_config()
  elif values.config:
    config = load_config(values.config)
  elif otherwise is not None:
    config = otherwise
  else:
    raise UserError("No --config is given: name a preset (see 'slipstream presets') or a file.")
  if values.method:
    config = apply_method(config, values.method)
  return override(config, _shorthands(values) | dict(arguments.overrides))


def _shorthands(values: flags.FlagValues) -> dict[str, str]:
  """The overrides for which a command has flags of their own."""
  given = values.video_period_seconds if "video_period_seconds" in values else None
  return {} if given is None else {"evaluator.video_period_seconds": repr(given)}


def require_server(values: flags.FlagValues) -> str:
  """The --server flag.

  Raises:
    UserError: it is not given.
  """
  if not values.server:
    raise UserError("No --server is given: write --server=host:port of a running replay server.")
  return str(values.server)


def given_run(values: flags.FlagValues) -> RunDirectory | None:
  """The run directory of --run_dir; None if it is not given."""
  return RunDirectory(pathlib.Path(values.run_dir).resolve()) if values.run_dir else None
