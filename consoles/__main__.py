"""`python -m consoles --world=NAME [...]`: one console, in a process that needs little else; `--help` lists the flags."""

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from configs.errors import UserError
from configs.exit_codes import ExitCode
from consoles.options import ConsoleOptions


class _Parser(argparse.ArgumentParser):
  """Says what is wrong in one sentence."""

  def error(self, message: str) -> NoReturn:
    raise UserError(f"The flags cannot be read ({message}): see 'python -m consoles --help'.")


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs a console; returns the exit code."""
  parser = _Parser(prog="python -m consoles", description=__doc__, allow_abbrev=False)
  for field in dataclasses.fields(ConsoleOptions):
    parser.add_argument(
      f"--{field.name}", type=type(field.default), default=field.default, help=str(field.metadata["help"])
    )
  parser.add_argument("--verbose", action="store_true", help="If the world fails at the start, print its traceback.")
  verbose = False
  try:
    given = parser.parse_args(arguments)
    from consoles.process import serve  # Here, so that help is quick.

    verbose = vars(given).pop("verbose")
    return serve(ConsoleOptions(**vars(given)))
  except UserError as error:
    if verbose:
      print(error.trace, file=sys.stderr, end="")
    print(error, file=sys.stderr)
    return ExitCode.MISTAKE


if __name__ == "__main__":
  code = main()
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(code)  # gRPC's own threads would take their time.
