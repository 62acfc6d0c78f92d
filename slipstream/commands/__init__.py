"""The commands, one file each: a `Command` of its flags and the function that runs it."""

from slipstream.commands import (
  act,
  attach,
  console,
  doctor,
  evaluate,
  events,
  experiment,
  learn,
  presets,
  report,
  runs,
  serve,
  snapshot,
  status,
  stop,
  theory,
  train,
)

# In the order of the overview.
_MODULES = (
  train,
  serve,
  learn,
  act,
  evaluate,
  attach,
  console,
  status,
  snapshot,
  stop,
  runs,
  report,
  experiment,
  events,
  theory,
  doctor,
  presets,
)

COMMANDS = {module.COMMAND.name: module.COMMAND for module in _MODULES}
