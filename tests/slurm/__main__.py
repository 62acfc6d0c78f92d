"""`make test-slurm`: docker/slurm's files on a real Slurm of three nodes on this machine.

A run comes up, scales from 2 to 8 actors, loses a node, comes to its time limit, is preempted, and ends solved.
"""

import argparse
import pathlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NoReturn

from tests.faults.fleet import CaseFailed
from tests.slurm.cluster import Cluster, why_impossible
from tests.slurm.scenario import Row, Scenario, write_logs


def main() -> int:
  """Runs it; returns 1 if something did not hold, 2 if it cannot be run here."""
  parser = argparse.ArgumentParser(prog="make test-slurm", description=(__doc__ or "").splitlines()[0])
  parser.add_argument("--keep", action="store_true", help="keep the logs although all held")
  parser.add_argument("--consoles", action="store_true", help="every worker and the evaluator play on consoles")
  parser.add_argument("--minutes", type=int, default=12, help="after which it fails; a busy machine needs more")
  arguments = parser.parse_args()
  reason = why_impossible()
  if reason:
    print(f"test-slurm cannot be run here. {reason}")
    return 2
  signal.signal(signal.SIGTERM, _end)
  signal.signal(signal.SIGALRM, _late)
  signal.alarm(60 * arguments.minutes)
  folder = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-slurm-"))
  fault = _try(folder, arguments.consoles)
  if fault or arguments.keep:
    print(f"Logs: {folder}")
  else:
    shutil.rmtree(folder)
  return int(bool(fault))


def _try(folder: pathlib.Path, has_consoles: bool) -> str:
  """Runs everything, prints the table, and returns what did not hold; "" if all did."""
  began, rows, fault = time.monotonic(), list[Row](), ""
  cluster = Cluster(folder)
  try:
    cluster.start()
    scenario = Scenario(cluster, has_consoles)
    for phase in (
      scenario.come_up,
      scenario.scale,
      scenario.lose_node,
      scenario.reach_limit,
      scenario.preempt,
      scenario.end,
    ):
      row = phase()
      rows.append(row)
      print(f"[{time.strftime('%H:%M:%S')}] {_line(row)}", flush=True)
  except CaseFailed as error:
    fault = str(error)
    print(write_logs(cluster.folder))
  finally:
    signal.alarm(0)
    left = cluster.stop()
  if left and not fault:
    fault = f"left: {', '.join(left)}"
  print(
    f"\n{_markdown(rows)}\n\n{'FAILED: ' + fault if fault else 'All held'}; {time.monotonic() - began:.0f} s",
    flush=True,
  )
  return fault


def _line(row: Row) -> str:
  seconds = ("" if value is None else f"{value:.0f}" for value in (row.steps_seconds, row.updates_seconds))
  return " | ".join([row.done, *seconds, row.notes])


def _markdown(rows: Sequence[Row]) -> str:
  head = ["| done | steps rise after [s] | gradient steps after [s] | also seen |", "| --- | --- | --- | --- |"]
  return "\n".join([*head, *(f"| {_line(row)} |" for row in rows)])


def _end(number: int, frame: object) -> NoReturn:
  """Lets every `finally` run."""
  raise SystemExit(128 + number)


def _late(number: int, frame: object) -> NoReturn:
  raise CaseFailed("not all was done in time: --minutes allows more")


if __name__ == "__main__":
  sys.exit(main())
