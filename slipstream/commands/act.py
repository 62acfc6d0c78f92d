"""`slipstream act`: one rollout worker, against a server."""

import functools

from absl import flags

from configs.specs import check_name
from launch.process import run_role
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import define_pythonpath, define_server, require_server


def _define_flags(values: flags.FlagValues) -> None:
  define_server(values)
  define_pythonpath(values)
  flags.DEFINE_string("name", "", "A name that is unique in the run; empty takes actor_<index>.", flag_values=values)
  flags.DEFINE_integer(
    "index", 0, "Index of the worker: determines its seed and its exploration.", flag_values=values, lower_bound=0
  )


def _run(arguments: Arguments) -> int:
  from launch import roles

  values = arguments.flags
  name = values.name or f"actor_{values.index}"
  check_name("Worker", name)
  act = functools.partial(roles.act, address=require_server(values), index=values.index)
  return run_role(name, act, values.verbose)


COMMAND = Command("act", "one rollout worker, against a server", _define_flags, _run)
