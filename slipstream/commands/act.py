"""`slipstream act`: one rollout worker, against a server."""

import functools
import os
import socket
import zlib
from collections.abc import Mapping

from absl import flags

from configs import UserError
from configs.specs import check_name
from launch.process import run_role
from launch.process_id import CLIENT
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import (
  define_allow_module,
  define_console,
  define_metrics_port,
  define_pythonpath,
  define_server,
  define_server_timeout,
  given_console,
  given_endpoint,
  given_environment,
  given_trust,
)

# Where orchestrators tell a process its place among its like: an Indexed Job of Kubernetes, then Slurm's job array and its step.
# A task of an array has a SLURM_PROCID as well, which is 0 in each.
INDEX_VARIABLES = ("JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID", "SLURM_PROCID")


def _define_flags(values: flags.FlagValues) -> None:
  define_server(values)
  define_server_timeout(values)
  define_pythonpath(values)
  define_allow_module(values)
  define_metrics_port(values)
  flags.DEFINE_string("name", "", "A name that is unique in the run; empty takes actor_<index>.", flag_values=values)
  define_console(values)
  flags.DEFINE_integer(
    "index",
    None,
    "Index of the worker: determines its seed and its exploration. Without it the first of these environment variables that is "
    f"set, else 0: {', '.join(INDEX_VARIABLES)}.",
    flag_values=values,
    lower_bound=0,
  )
  flags.DEFINE_bool(
    "host_index",
    False,
    "Take index and name from this host's name, in place of --index: for containers that are scaled, which have no number. They "
    "stay when the container is started again.",
    flag_values=values,
  )


def _run(arguments: Arguments) -> int:
  from launch.metrics.exporter import opened_exporter

  values = arguments.flags
  index, name = identity(values)
  check_name("Worker", name)
  server, trust, environment = given_endpoint(values), given_trust(values), given_environment(arguments)
  console = given_console(values)
  with opened_exporter(values.metrics_port, "actor", name) as exporter:
    from launch import roles  # It imports TensorFlow, while the exporter answers already.

    act = functools.partial(
      roles.act, endpoint=server, index=index, trust=trust, arguments=environment, console=console
    )
    return run_role(name, act, values.verbose, exporter)


def identity(values: flags.FlagValues) -> tuple[int, str]:
  """The worker's index and name, as the flags, this host's name or the environment say.

  Raises:
    UserError: both flags for the index are given, or the environment holds no index.
  """
  if values.host_index:
    if values.index is not None:
      raise UserError("Both --index and --host_index are given: leave one of them out.")
    host = socket.gethostname()
    return index_of_host(host), values.name or f"actor_{host}"
  index = index_from(os.environ) if values.index is None else values.index
  return index, values.name or f"actor_{index}"


def index_of_host(host: str) -> int:
  """A worker's index from its host's name: always the same, and hardly ever that of another host."""
  return zlib.crc32(host.encode()) % 2**20


def index_from(environment: Mapping[str, str]) -> int:
  """A worker's index, as an orchestrator gives it to its process in one of `INDEX_VARIABLES`; 0 without any.

  Raises:
    UserError: the variable holds no whole number from 0 on.
  """
  for name in INDEX_VARIABLES:
    if name in environment:
      value = environment[name]
      if not (value.isascii() and value.isdigit()):
        raise UserError(
          f"The environment variable {name} is {value!r}, and a worker's index is a whole number from 0 on: correct it, or give "
          "--index."
        )
      return int(value)
  return 0


COMMAND = Command(
  "act", "one rollout worker, against a server", _define_flags, _run, parity=CLIENT, takes_environment=True
)
