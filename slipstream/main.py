"""The command line: `slipstream COMMAND [--flag=value ...]`."""

import sys
from collections.abc import Sequence

from absl import flags

from configs import ServerLost, Stopped, UserError
from configs.errors import name_hint
from slipstream.commands import COMMANDS, Command, add_pythonpath, print_config, split_overrides


def main(arguments: Sequence[str] | None = None) -> None:
  """The console script; ends the process with the command's exit code."""
  from launch.process import exit_process

  exit_process(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
  """Runs a command; returns its exit code: 2 after a mistake that one sentence on standard error explains."""
  try:
    return _run(list(arguments))
  except UserError as error:
    print(error, file=sys.stderr)
    return UserError.EXIT_CODE
  except (KeyboardInterrupt, Stopped):
    print("Interrupted.", file=sys.stderr)
    return 130
  except BrokenPipeError:
    return 141  # Whoever read our output is gone, as with `slipstream presets | head -1`.


def _run(arguments: list[str]) -> int:
  if not arguments or arguments[0] in ("-h", "--help", "help"):
    print(overview())
    return 0
  name, *rest = arguments
  if name not in COMMANDS:
    raise UserError(f"There is no command {name!r}: {name_hint(name, COMMANDS)}")
  command = COMMANDS[name]
  if {"-h", "--help"} & set(rest):
    print(command_help(command))
    return 0
  rest, overrides = split_overrides(rest)
  if overrides and not command.takes_config:
    raise UserError(f"'slipstream {name}' takes no --config.* of its own: give it to 'train' or 'serve'.")
  values = _parse(command, rest)
  if "pythonpath" in values:
    add_pythonpath(values)
  if command.takes_config and values.print_config:
    print_config(values, overrides)
    return 0
  return _run_command(command, values, overrides)


def _run_command(command: Command, values: flags.FlagValues, overrides: dict[str, str]) -> int:
  from launch.failures import RunFailed

  try:
    return command.run(values, overrides)
  except RunFailed as error:
    print(error, file=sys.stderr)
    return error.exit_code
  except ServerLost as error:
    print(error, file=sys.stderr)
    return UserError.EXIT_CODE


def _parse(command: Command, arguments: list[str]) -> flags.FlagValues:
  values = flags.FlagValues()
  command.define(values)
  try:
    values.set_gnu_getopt(bool(command.positional))  # Flags may follow a word without dashes.
    rest = values([command.name, *arguments])[1:]
    if command.positional and rest:
      values[command.positional].parse(rest.pop(0))
  except flags.Error as error:
    raise UserError(f"{str(error).rstrip('.')} (see 'slipstream {command.name} --help').") from None
  if rest:
    raise UserError(f"{rest[0]!r} is not a flag of 'slipstream {command.name}': flags begin with --.")
  return values


def overview() -> str:
  """The help of the program."""
  lines = ["slipstream COMMAND [--flag=value ...]", ""]
  lines += [f"  {command.name:10} {command.summary}" for command in COMMANDS.values()]
  return "\n".join([*lines, "", "slipstream COMMAND --help lists its flags."])


def command_help(command: Command) -> str:
  """The help of one command."""
  values = flags.FlagValues()
  command.define(values)
  word = f" [{command.positional.upper()}]" if command.positional else ""
  lines = [f"slipstream {command.name}{word}: {command.summary}", ""]
  for name in sorted(values):
    flag = values[name]
    default = "" if flag.default in ("", None) else f" [{flag.default}]"
    lines.append(f"  --{name}{default}\n      {flag.help}")
  return "\n".join(lines)
