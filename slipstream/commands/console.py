"""`slipstream console`: a world behind the console protocol."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

from absl import flags

from consoles.options import ConsoleOptions
from launch.process import SUPERVISOR
from launch.process_id import die_with
from slipstream.commands.command import Arguments, Command

_DEFINE: Mapping[type, Callable[..., Any]] = {
  str: flags.DEFINE_string,
  int: flags.DEFINE_integer,
  float: flags.DEFINE_float,
}


def _define_flags(values: flags.FlagValues) -> None:
  for field in dataclasses.fields(ConsoleOptions):
    _DEFINE[type(field.default)](field.name, field.default, str(field.metadata["help"]), flag_values=values)


def _run(arguments: Arguments) -> int:
  given: dict[str, Any] = {
    field.name: arguments.flags[field.name].value for field in dataclasses.fields(ConsoleOptions)
  }
  options = ConsoleOptions(**given)
  if SUPERVISOR in os.environ:
    die_with(int(os.environ[SUPERVISOR]))  # It keeps nothing, and would outlive a run whose processes were all killed.
  from consoles.process import serve  # Here, so that help and mistakes are quick.

  return serve(options)


COMMAND = Command("console", "a world for one worker at a time, by a network protocol", _define_flags, _run)
