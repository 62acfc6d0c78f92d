"""The command line: `slipstream COMMAND [--flag=value ...]`."""

import sys
from collections.abc import Sequence

from configs import ServerLost, Stopped, UserError, to_json
from configs.errors import RunEnded, name_hint
from configs.exit_codes import ExitCode
from slipstream.commands import COMMANDS
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import add_pythonpath, read_config


def main(arguments: Sequence[str] | None = None) -> None:
  """The console script; ends the process with the command's exit code."""
  from launch.process import exit_process
  from launch.process_id import take_process_id

  words = list(sys.argv[1:] if arguments is None else arguments)
  command = COMMANDS.get(words[0]) if words else None
  if command is not None and command.parity is not None:
    take_process_id(command.parity)
  exit_process(run(words))


def run(arguments: Sequence[str]) -> int:
  """Runs a command; returns its exit code, 2 for a mistake that one sentence on standard error explains."""
  try:
    return _run(list(arguments))
  except UserError as error:
    print(error, file=sys.stderr)
    return ExitCode.MISTAKE
  except RunEnded as error:
    print(error)
    return ExitCode.DONE
  except (KeyboardInterrupt, Stopped):
    print("Interrupted.", file=sys.stderr)
    return ExitCode.INTERRUPTED
  except BrokenPipeError:
    return ExitCode.OUTPUT_CLOSED


def _run(words: list[str]) -> int:
  if not words or words[0] in ("-h", "--help", "help"):
    print(overview())
    return 0
  name, *rest = words
  if name not in COMMANDS:
    raise UserError(f"There is no command {name!r}: {name_hint(name, COMMANDS)}")
  command = COMMANDS[name]
  if {"-h", "--help"} & set(rest):
    print(command.help())
    return 0
  arguments = command.parse(rest)
  if "pythonpath" in arguments.flags:
    add_pythonpath(arguments.flags)
  if "print_config" in arguments.flags and arguments.flags.print_config:
    print(to_json(read_config(arguments)))
    return 0
  return _run_command(command, arguments)


def _run_command(command: Command, arguments: Arguments) -> int:
  from launch.failures import RunFailed, explain
  from launch.process import report_failure

  verbose = arguments.flags.verbose
  try:
    return command.run(arguments)
  except UserError as error:
    report_failure(str(error), ExitCode.MISTAKE, error.trace, verbose)
    return ExitCode.MISTAKE
  except RunFailed as error:
    print(explain(str(error), error.trace, verbose), file=sys.stderr)
    return error.exit_code
  except ServerLost as error:
    print(error, file=sys.stderr)
    return ExitCode.SERVER_LOST


def overview() -> str:
  """The program's help."""
  lines = ["slipstream COMMAND [--flag=value ...]", ""]
  lines += [f"  {command.name:10} {command.summary}" for command in COMMANDS.values()]
  return "\n".join([*lines, "", "slipstream COMMAND --help lists its flags."])
