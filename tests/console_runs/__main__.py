"""`make consoles`: the run of 21 consoles, measured, and with five consoles and five workers killed.

make consoles                      15 minutes on this machine
make consoles MINUTES=3            a short one, in which growth of memory is not judged
make consoles ARGS=hosts           consoles and workers on four hosts: network namespaces, which need root and iproute2
"""

import argparse
import pathlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from tests.console_runs.judge import Evidence, judge, table
from tests.console_runs.local import LocalRun
from tests.console_runs.notes import read_notes
from tests.console_runs.readings import draw, read_polls, write_samples
from tests.console_runs.rows import read_rows
from tests.console_runs.watch import Run, polls_of, watch
from tests.faults.fleet import CaseFailed


def main() -> int:
  """Runs it; returns 1 if something did not hold, 2 if this machine cannot run it."""
  parser = argparse.ArgumentParser(prog="make consoles", description=(__doc__ or "").splitlines()[0])
  parser.add_argument("part", nargs="?", default="local", choices=["local", "hosts"])
  parser.add_argument("--minutes", type=float, default=15.0, help="from the command on; at least 2")
  parser.add_argument("--picture", default="consoles_memory.png", help="file of the picture")
  parser.add_argument("--samples", default="consoles_samples.csv", help="file of the samples")
  parser.add_argument("--keep", action="store_true", help="keep the logs although everything held")
  arguments = parser.parse_args()
  if arguments.minutes < 2:
    parser.error("--minutes must be at least 2: a run takes half a minute to begin, and a minute to come back")
  if arguments.part == "hosts":
    from tests.faults.lab import sweep, why_impossible

    reason = why_impossible()
    if reason:
      print(reason, file=sys.stderr)
      return 2
    sweep()
  signal.signal(signal.SIGTERM, _end)
  folder = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-consoles-"))
  code = 1
  try:
    with _made(arguments.part, folder, arguments.minutes) as run:
      code = _try(run, arguments)
  except CaseFailed as error:
    print(f"{error}; logs: {folder}", file=sys.stderr)
  except KeyboardInterrupt:
    print("Interrupted: nothing of the run is left.", file=sys.stderr)
    code = 130
  if code == 1 or arguments.keep:
    print(f"Logs: {folder}")
  else:
    shutil.rmtree(folder, ignore_errors=True)
  return code


@contextmanager
def _made(part: str, folder: pathlib.Path, minutes: float) -> Iterator[Run]:
  """The run, of which everything is gone afterwards."""
  if part == "hosts":
    from tests.console_runs.hosts import HOSTS, HostsRun
    from tests.faults.lab import lab

    with lab(HOSTS) as hosts:
      far = HostsRun(folder, hosts.hosts, minutes)
      try:
        yield far
      finally:
        far.kill()
    return
  run = LocalRun(folder, minutes)
  try:
    yield run
  finally:
    run.kill()


def _try(run: Run, arguments: argparse.Namespace) -> int:
  print(f"{arguments.minutes:g} minutes with 21 consoles on {run.name}; logs in {run.folder}", flush=True)
  record = watch(run, arguments.minutes)
  left = run.left()
  readings = read_polls(polls_of(run))
  told = [
    [reading for reading in readings.get(address, []) if reading.time < record.ended_at]
    for _, address in sorted(record.addresses.items())
  ]
  evidence = Evidence(
    record, read_notes(run.notes), read_rows(run.run_dir), told, _row_megabytes(run), left, arguments.part == "local"
  )
  checks = judge(evidence)
  kills = [record.killed_at] if record.killed_at else []
  write_samples(pathlib.Path(arguments.samples), record.samples, record.began)
  draw(pathlib.Path(arguments.picture), record.samples, record.began, kills, f"21 consoles on {run.name}")
  print(f"\n{table(checks)}\nSamples: {arguments.samples}; picture: {arguments.picture}", flush=True)
  return int(any(check.holds is False for check in checks))


def _row_megabytes(run: Run) -> float:
  """What a row takes on the server, by the estimate that Slipstream itself makes before a run."""
  from configs import load_config
  from launch.roles import row_codec
  from replay_server.process.memory import REFERENCE_BYTES, STEP_OVERHEAD_BYTES

  width = row_codec(load_config(str(run.run_dir / "config.json"))).width
  return (4 * width + STEP_OVERHEAD_BYTES + REFERENCE_BYTES) / 1e6


def _end(number: int, frame: object) -> NoReturn:
  """Lets every `finally` run."""
  del frame
  raise SystemExit(128 + number)


if __name__ == "__main__":
  sys.exit(main())
