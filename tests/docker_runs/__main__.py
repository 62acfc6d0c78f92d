"""`make test-docker`: the image and docker/compose.yaml on a real Docker engine.

make test-docker                              everything, some 15 minutes on two cores
make test-docker ARGS=--list                  the cases
make test-docker ARGS="--only=lint,build"     some of them; those from `up` to `finish` need those before them
make test-docker ARGS="--image=slipstream:cpu"    with an image that exists

It needs Docker's client, Compose and an engine of this machine (or DOCKER_HOST), and the base image or a registry that has it.
"""

import argparse
import dataclasses
import os
import signal
import sys
import time
from typing import NoReturn

from tests.docker_runs.cases import CASES, Bench, Case, LeftOut, main_stack
from tests.docker_runs.engine import CaseFailed, left, remove_all, why_impossible

_NAMES = [case.name for case in CASES]


@dataclasses.dataclass(frozen=True)
class Row:
  """A row of the table: a case and how it ended."""

  case: Case
  figures: str
  holds: str


def main() -> int:
  """Runs the cases; returns 1 if one failed, 2 if there is nothing to run on."""
  arguments = _arguments()
  if arguments.list:
    print("\n".join(f"{case.name}: {case.done}" for case in CASES))
    return 0
  reason = why_impossible()
  if reason:
    print(reason, file=sys.stderr)
    return 2
  signal.signal(signal.SIGTERM, _end)
  project = f"slipstreamtest{os.getpid()}"
  image = arguments.image or f"slipstream-test:{os.getpid()}"
  bench = Bench(image, not arguments.image, main_stack(project, image))
  began = time.monotonic()
  rows: list[Row] = []
  try:
    rows.extend(_try(case, bench) for case in CASES if case.name in arguments.only)
  finally:
    bench.stack.down()
    remove_all()
  remains = left(project)
  print(f"\n{_table(rows)}\n\n{time.monotonic() - began:.0f} s; {', '.join(remains) or 'nothing'} is left", flush=True)
  return int(bool(remains) or any(row.holds.startswith("no") for row in rows))


def _arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="make test-docker", description=(__doc__ or "").splitlines()[0])
  parser.add_argument("--only", type=_cases, default=_NAMES, help="cases, separated by commas; all if none is named")
  parser.add_argument("--image", default="", help="an image to try; the suite builds one otherwise")
  parser.add_argument("--list", action="store_true", help="list the cases and end")
  return parser.parse_args()


def _cases(words: str) -> list[str]:
  names = words.split(",")
  unknown = [name for name in names if name not in _NAMES]
  if unknown:
    raise argparse.ArgumentTypeError(f"there is no case {unknown[0]!r}; see --list")
  return names


def _try(case: Case, bench: Bench) -> Row:
  print(f"[{time.strftime('%H:%M:%S')}] {case.name}: {case.done}", flush=True)
  try:
    row = Row(case, case.run(bench), "yes")
  except LeftOut as error:
    row = Row(case, str(error), "left out")
  except (CaseFailed, OSError, ValueError, KeyError) as error:
    print(bench.stack.last_words(), flush=True)
    row = Row(case, f"{type(error).__name__}: {error}", "no")
  print(f"  {row.holds}: {row.figures}", flush=True)
  return row


def _table(rows: list[Row]) -> str:
  head = ["| case | figures | holds |", "| --- | --- | --- |"]
  return "\n".join([*head, *(f"| {row.case.done} | {' '.join(row.figures.split())} | {row.holds} |" for row in rows)])


def _end(number: int, frame: object) -> NoReturn:
  """Lets every `finally` run."""
  del frame
  raise SystemExit(128 + number)


if __name__ == "__main__":
  sys.exit(main())
