"""Flags that several commands share: their definitions, and how they are read."""

import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from absl import flags

from configs import PRESETS, ActorConfig, RunConfig, UserError, load_config, override, to_dict
from configs.consoles import check_address
from configs.methods import METHODS, apply_method
from configs.serialization import parse_value
from launch.process import SERVER_TIMEOUT_SECONDS
from launch.run_directory import RunDirectory, open_run_directory
from slipstream.commands.command import Arguments

if TYPE_CHECKING:
  from environments.trust import Trust
  from launch.endpoint import Endpoint
  from launch.tls import ServerTls, Tls

_TLS_FILES = {
  "tls_cert": "This process's certificate",
  "tls_key": "its private key, which nobody else may read",
  "tls_ca": "the CA's certificate, from which all others must come",
}


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


def define_allow_module(values: flags.FlagValues) -> None:
  """--allow_module; see `given_trust`."""
  flags.DEFINE_list(
    "allow_module",
    [],
    "Installed packages, separated by ',', that may be imported because the run's config names them.",
    flag_values=values,
  )


def define_console(values: flags.FlagValues) -> None:
  """--console; see `given_console`."""
  flags.DEFINE_string(
    "console",
    "",
    "host:port of the console to play on, which has the run's environment; empty to make the environment in this process.",
    flag_values=values,
  )


def given_console(values: flags.FlagValues) -> str:
  """The console's address; empty for none.

  Raises:
    UserError: it is no address.
  """
  if values.console:
    check_address(values.console)
  return str(values.console)


def given_trust(values: flags.FlagValues) -> "Trust":
  """What --pythonpath and --allow_module allow to import."""
  from environments.trust import Trust  # Here, so that a command's help does not load gymnasium.

  return Trust(tuple(_folders(values)), tuple(values.allow_module))


def define_server(values: flags.FlagValues) -> None:
  """--server, --tls_cert, --tls_key and --tls_ca; see `given_endpoint`."""
  flags.DEFINE_string(
    "server",
    "",
    "The replay server, host:port; or @RUN_DIR for the server of the run in that directory, wherever it is.",
    flag_values=values,
  )
  define_tls(values)


def define_server_timeout(values: flags.FlagValues) -> None:
  """--server_timeout; see `given_endpoint`."""
  flags.DEFINE_float(
    "server_timeout",
    SERVER_TIMEOUT_SECONDS,
    "Seconds to wait for the server, at the start and whenever it does not answer; 0 waits for ever.",
    flag_values=values,
    lower_bound=0.0,
  )


def define_tls(values: flags.FlagValues) -> None:
  """--tls_cert, --tls_key and --tls_ca; see `given_tls`."""
  for name, what in _TLS_FILES.items():
    flags.DEFINE_string(name, "", f"For TLS: a file in PEM form with {what}.", flag_values=values)


def given_tls(values: flags.FlagValues) -> "Tls | None":
  """The files of `define_tls`; None if none is given.

  Raises:
    UserError: only some of them are given, or something is wrong with them.
  """
  from launch.tls import Tls  # Here, so that a command's help loads no more than it needs.

  files = _tls_files(values)
  return Tls(**files) if files else None


def define_server_tls(values: flags.FlagValues) -> None:
  """The flags of `define_tls`, --tls_crl and --tls_only; see `given_server_tls`."""
  define_tls(values)
  flags.DEFINE_string(
    "tls_crl",
    "",
    "With --tls_cert: the CA's list of revoked certificates; read again when it changes.",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "tls_only",
    False,
    "With --tls_cert: end the server when a role on another host reaches its tables without TLS.",
    flag_values=values,
  )


def given_server_tls(values: flags.FlagValues) -> "ServerTls | None":
  """What the flags of `define_server_tls` say; None without TLS.

  Raises:
    UserError: only some of them are given, or something is wrong with the files.
  """
  from launch.tls import ServerTls

  files = _tls_files(values)
  if files:
    return ServerTls(**files, crl=_absolute(values.tls_crl) if values.tls_crl else None, only=values.tls_only)
  for name in ("tls_crl", "tls_only"):
    if values[name].value:
      raise UserError(f"--{name} is for a server with TLS: add --tls_cert, --tls_key and --tls_ca, or leave it out.")
  return None


def _tls_files(values: flags.FlagValues) -> dict[str, pathlib.Path]:
  """Field of `launch.tls.Tls` -> file; empty if none is given."""
  missing = [name for name in _TLS_FILES if not values[name].value]
  if missing and len(missing) < len(_TLS_FILES):
    raise UserError(f"--{missing[0]} is missing: TLS needs --tls_cert, --tls_key and --tls_ca together.")
  return {} if missing else {name.removeprefix("tls_"): _absolute(str(values[name].value)) for name in _TLS_FILES}


def _absolute(path: str) -> pathlib.Path:
  # Not resolved: a volume of Kubernetes replaces its files by pointing a link at others.
  return pathlib.Path(path).absolute()


def define_run_root(values: flags.FlagValues) -> None:
  """--run_root."""
  flags.DEFINE_string("run_root", "runs", "Folder below which run directories lie.", flag_values=values)


def define_run_dir(values: flags.FlagValues, explanation: str) -> None:
  """--run_dir; see `given_run`."""
  flags.DEFINE_string("run_dir", "", explanation, flag_values=values)


def define_port(values: flags.FlagValues, default: int) -> None:
  """--port."""
  flags.DEFINE_integer("port", default, "Port of the replay server; 0 takes a free one.", flag_values=values)


def define_metrics_port(values: flags.FlagValues) -> None:
  """--metrics_port; None without it."""
  flags.DEFINE_integer(
    "metrics_port",
    None,
    "Port for /metrics (Prometheus), /healthz and /readyz, on all addresses; 0 takes a free one. Without it there are none.",
    flag_values=values,
  )


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
  folders = _folders(values)
  for folder in folders:
    if not pathlib.Path(folder).is_dir():
      raise UserError(f"--pythonpath names {folder}, which is not a folder: check the path.")
  sys.path[:0] = folders


def _folders(values: flags.FlagValues) -> list[str]:
  return [str(pathlib.Path(folder).resolve()) for folder in values.pythonpath.split(os.pathsep) if folder]


def read_config(arguments: Arguments, otherwise: RunConfig | None = None) -> RunConfig:
  """The config of --config, or else of --resume or --run_dir, after --method and then the overrides are applied.

  Args:
    arguments: of the command.
    otherwise: the config to start from if no flag gives one.

  Raises:
    UserError: none is given, or the config is not valid.
  """
  values = arguments.flags
  resume = values.resume if "resume" in values else ""
  if resume and values.config:
    raise UserError(
      "Both --config and --resume are given: a resumed run has its config; change it with --config.KEY=VALUE."
    )
  if resume and values.method:
    raise UserError("Both --method and --resume are given: a resumed run has its method.")
  run = given_run(values) if "run_dir" in values else None
  if resume:
    config = open_run_directory(resume).read_config()
  elif values.config:
    config = load_config(values.config)
  elif run is not None and run.is_begun:
    if values.method:
      raise UserError("--method is given without --config, and the run in --run_dir has its method: leave it out.")
    config = run.read_config()
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


def given_endpoint(values: flags.FlagValues) -> "Endpoint":
  """The server of --server, --server_timeout (if the command has it) and the flags of `define_tls`.

  Raises:
    UserError: no server is given, its address is not valid, or something is wrong with the files for TLS.
  """
  from launch.endpoint import Endpoint

  if not values.server:
    raise UserError("No --server is given: write --server=host:port of a running replay server, or --server=@RUN_DIR.")
  timeout = values.server_timeout if "server_timeout" in values else SERVER_TIMEOUT_SECONDS
  return Endpoint(values.server, timeout, given_tls(values))


def given_environment(arguments: Arguments) -> dict[str, Any]:
  """The arguments of --environment.NAME=VALUE, as JSON values; a value is read as that of an override of the config.

  Raises:
    UserError: a name is none of a keyword argument, or a value is not JSON.
  """
  for name in arguments.environment:
    if not name.isidentifier():
      raise UserError(f"--environment.{name} names no argument of an environment: write --environment.NAME=VALUE.")
  given = {name: parse_value(text) for name, text in arguments.environment.items()}
  return dict(to_dict(ActorConfig(environment_arguments=given))["environment_arguments"])


def given_run(values: flags.FlagValues) -> RunDirectory | None:
  """The run directory of --run_dir; None if it is not given."""
  return RunDirectory(pathlib.Path(values.run_dir).resolve()) if values.run_dir else None
