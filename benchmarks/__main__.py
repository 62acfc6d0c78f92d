"""The command line: `python -m benchmarks [NAME ...] [--quick] [--runs N] [...]`; `--help` lists all options."""

import argparse
import contextlib
import dataclasses
import importlib
import json
import os
import pathlib
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import launch  # noqa: F401  # First, as it sets environment variables that libraries read when they are imported.
from benchmarks.measure import Report, format_report

NAMES = (
  "adder",
  "sampler",
  "memory",
  "learner",
  "cagrad",
  "continuous",
  "inline",
  "worlds",
  "start",
  "consoles",
  "replay",
  "reaper",
  "nmer",
  "refer",
  "feed",
  "snapshot",
  "tls",
  "sbx",
)
# The first one takes half an hour and more, the second one needs stunnel, the third one an environment with SBX: they run only if
# they are named.
_NAMED = ("snapshot", "tls", "sbx")
_RUNS = 5


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs benchmarks and prints what they found; returns the process's exit code."""
  parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
  parser.add_argument(
    "names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(NAMES)}; by default all but {', '.join(_NAMED)}"
  )
  parser.add_argument("--quick", action="store_true", help="the smallest form, which shows that it works, not how fast")
  parser.add_argument(
    "--runs", type=int, default=0, metavar="N", help=f"runs of each contender ({_RUNS}; with --quick 1)"
  )
  parser.add_argument(
    "--rows", type=_counts, default=(), metavar="N,N", help="snapshot: rows of the tables (100000,1000000,2500000)"
  )
  parser.add_argument(
    "--window", type=float, default=0.0, metavar="S", help="snapshot: seconds around each that are measured (60)"
  )
  parser.add_argument(
    "--cpprb", type=pathlib.Path, metavar="PYTHON", help="replay: a Python with cpprb, to compare with (none)"
  )
  parser.add_argument(
    "--sbx", type=pathlib.Path, metavar="PYTHON", help="sbx: a Python with sbx-rl, to compare with (none)"
  )
  parser.add_argument(
    "--reaper",
    type=pathlib.Path,
    metavar="PYTHON",
    help="reaper: a Python with its authors' code, to compare with (none)",
  )
  parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="a file for all measurements")
  options = parser.parse_args(arguments)
  unknown = sorted(set(options.names) - set(NAMES))
  if unknown:
    parser.error(f"there is no benchmark {', '.join(unknown)}: choose among {', '.join(NAMES)}")
  if options.runs < 0:
    parser.error("--runs must be 1 or more")
  for python in (options.cpprb, options.sbx, options.reaper):
    if python and not python.is_file():
      parser.error(f"there is no file {python}")
  if (options.rows or options.window) and options.names != ["snapshot"]:
    parser.error("--rows and --window are for the benchmark snapshot alone")
  given = {"rows": options.rows, "window_seconds": options.window}
  settings = {
    "replay": {"cpprb": options.cpprb},
    "snapshot": {name: value for name, value in given.items() if value},
    "reaper": {"peer": options.reaper},
    "sbx": {"peer": options.sbx},
  }
  runs = options.runs or (1 if options.quick else _RUNS)
  reports = []
  print(f"{platform.machine()}, {os.cpu_count()} cores; medians of {runs} interleaved runs.\n", flush=True)
  for name in dict.fromkeys(options.names or [name for name in NAMES if name not in _NAMED]):
    report = run_benchmark(name, runs, options.quick, **settings.get(name, {}))
    reports.append(report)
    print(format_report(report), flush=True)
  if options.json:
    options.json.write_text(json.dumps([dataclasses.asdict(report) for report in reports], indent=2) + "\n")
  return 0


def _counts(text: str) -> tuple[int, ...]:
  counts = tuple(int(count) for count in text.split(","))
  if min(counts) < 1:
    raise ValueError(f"{text} has a count below 1")
  return counts


def run_benchmark(name: str, runs: int, quick: bool, **settings: Any) -> Report:
  """Runs one benchmark by its name; what Reverb writes to standard error is shown only if it fails."""
  with _quiet_stderr():
    from launch.roles import prepare_tensorflow

    prepare_tensorflow(threads=1)
    module = importlib.import_module(f"benchmarks.{name}")
    report: Report = module.run(runs, quick, **settings)
  return report


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
  """Redirects standard error, including what C++ libraries log, to a file; prints its end after an error."""
  sys.stderr.flush()
  kept = os.dup(2)
  with tempfile.TemporaryFile() as log:
    os.dup2(log.fileno(), 2)
    failed = True
    try:
      yield
      failed = False
    finally:
      sys.stderr.flush()
      os.dup2(kept, 2)
      os.close(kept)
      if failed:
        log.seek(0)
        sys.stderr.write(log.read().decode(errors="replace")[-4_000:])


if __name__ == "__main__":
  sys.exit(main())
