"""`make test-faults`: the faults that a run must survive, tried on real processes, hosts and disks.

make test-faults                   everything, less than 60 minutes
make test-faults ARGS=kill         a part: network, kill or snapshot
make test-faults ARGS="kill --only='evaluator|clocks'"    the cases whose words contain one of these
make test-faults ARGS=--list       what there is
"""

import argparse
import pathlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from tests.faults import kill, network, snapshot
from tests.faults.case import Case, Row, markdown, write_table
from tests.faults.lab import sweep, why_impossible

_PARTS: Mapping[str, tuple[Callable[[pathlib.Path, str], list[Row]], list[Case]]] = {
  "network": (network.run, network.CASES),
  "kill": (kill.run, kill.CASES),
  "snapshot": (snapshot.run, snapshot.CASES),
}


def main() -> int:
  """Runs the parts that are asked for; returns 1 if a case failed."""
  arguments = _arguments()
  signal.signal(signal.SIGTERM, _end)
  if arguments.list:
    for part, (_, cases) in _PARTS.items():
      print("\n".join(f"{part}: {case.done}" for case in cases))
    return 0
  folder = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-faults-"))
  began = time.monotonic()
  rows: list[Row] = []
  try:
    for part in arguments.parts or _PARTS:
      rows += _try_part(part, folder / part, arguments.only)
  finally:
    if rows:
      print(f"\n{markdown(rows)}\n\n{time.monotonic() - began:.0f} s", flush=True)
      if arguments.table:
        write_table(pathlib.Path(arguments.table), rows)
    if arguments.keep or any(row.fault for row in rows):
      print(f"Logs: {folder}")
    else:
      shutil.rmtree(folder, ignore_errors=True)
  return int(any(row.fault for row in rows))


def _arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="make test-faults", description=(__doc__ or "").splitlines()[0])
  parser.add_argument("parts", nargs="*", choices=[[], *_PARTS], help="parts; all if none is named")
  parser.add_argument("--only", default="", help="the cases whose words contain this; | separates several")
  parser.add_argument("--table", default="", help="a file for the table")
  parser.add_argument("--keep", action="store_true", help="keep the logs although all cases held")
  parser.add_argument("--list", action="store_true", help="list the cases and end")
  return parser.parse_args()


def _try_part(part: str, folder: pathlib.Path, only: str) -> list[Row]:
  if part == "network":
    reason = why_impossible()
    if reason:
      print(f"The part 'network' is left out. {reason}", flush=True)
      return []
    sweep()
  return _PARTS[part][0](folder, only)


def _end(number: int, frame: object) -> NoReturn:
  """Lets every `finally` run."""
  del frame
  raise SystemExit(128 + number)


if __name__ == "__main__":
  sys.exit(main())
