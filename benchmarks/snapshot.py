"""What a snapshot of the server costs: seconds, bytes, silence and steps; `python -m benchmarks.snapshot` is the server."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from actors.row_writer import RowWriter
from benchmarks import workload
from benchmarks.measure import Figure, Report
from configs import ServerLost
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest
from replay_server.process.server import ReplayServer

_ROWS = (100_000, 1_000_000, 2_500_000)
_WINDOW_SECONDS = 60.0
# Different rows; they are written over and over.
_DIFFERENT_ROWS = 1_000
_PROBE_SECONDS = 0.05
# A silence of the server is measured up to this long.
_PATIENCE_SECONDS = 600
# A benchmark that hangs must not leave its processes behind.
_LIFETIME_SECONDS = 4 * 3_600
_END_SECONDS = 30
_BURN = f"import signal\nsignal.alarm({_LIFETIME_SECONDS})\nwhile True: pass"


def run(runs: int, quick: bool, rows: Sequence[int] = _ROWS, window_seconds: float = _WINDOW_SECONDS) -> Report:
  """Snapshots of full tables, idle and with all cores busy, while a writer goes on.

  Args:
    runs: snapshots of each kind.
    quick: the smallest form.
    rows: of the default table, in turn.
    window_seconds: around each snapshot; the writer writes half of it before.
  """
  if quick:
    rows, window_seconds = (2_000,), 1.0
  figures: list[Figure] = []
  for count in rows:
    for load, measured in _measure(count, runs, window_seconds).items():
      figures += [Figure(f"{count:,} rows, {load}: {what}", _UNITS[what], values) for what, values in measured.items()]
  return Report(
    "snapshot",
    (
      "The server's part of a snapshot of a full table, written by a server in a process of its own, while "
      f"this process writes as fast as it can. Steps are those of the {window_seconds:g} s around the snapshot and of the half "
      "of it before; the silence is the longest time in which the server's info had no answer.",
    ),
    tuple(figures),
  )


_UNITS = {"snapshot": "s", "on the disk": "bytes", "silence": "s", "steps around it": "1/s", "steps before it": "1/s"}


def _measure(rows: int, runs: int, window_seconds: float) -> dict[str, dict[str, tuple[float, ...]]]:
  """Load -> quantity -> a value for each run; both loads take turns on one server."""
  config = workload.make_config((1.0,), capacity=rows)
  manifest = workload.make_manifest(config, workload.make_spec())
  results: dict[str, dict[str, tuple[float, ...]]] = {"idle": {}, "busy": {}}
  with _served(manifest) as server:
    different = workload.make_rows(manifest.codec, min(rows, _DIFFERENT_ROWS))
    with _writing(server.connection, different) as steps:
      while steps.count < rows:
        time.sleep(_PROBE_SECONDS)
    for _ in range(runs):
      for load, found in results.items():
        with _busy_cores() if load == "busy" else contextlib.nullcontext():
          for what, value in _measure_once(server, different, window_seconds).items():
            found[what] = (*found.get(what, ()), value)
  return results


def _measure_once(server: "_Server", rows: workload.Rows, window_seconds: float) -> Mapping[str, float]:
  with _writing(server.connection, rows) as steps, _probing(server.connection) as silence:
    began, first = time.monotonic(), steps.count
    time.sleep(window_seconds / 2)
    asked, before = time.monotonic(), steps.count
    taken = server.snapshot()
    time.sleep(max(0.0, window_seconds / 2 - (time.monotonic() - asked)))
    ended, last = time.monotonic(), steps.count
  return {
    "snapshot": taken["seconds"],
    "on the disk": taken["bytes"],
    "silence": silence.longest,
    "steps around it": (last - first) / (ended - began),
    "steps before it": (before - first) / (asked - began),
  }


class _Steps:
  """How many rows were written.

  Attributes:
    count: of them; the last few may not be confirmed.
  """

  count = 0


class _Silence:
  """How long the server has not answered.

  Attributes:
    longest: in seconds.
  """

  longest = 0.0


@contextlib.contextmanager
def _writing(connection: Connection, rows: workload.Rows) -> Iterator[_Steps]:
  """Writes rows over and over in a thread."""
  steps, stop = _Steps(), threading.Event()

  def write() -> None:
    with contextlib.closing(RowWriter(connection, 1, stop)) as writer:
      while not stop.is_set():
        for row in rows:
          writer.create_item("default", writer.append(row))
          steps.count += 1
          if stop.is_set():
            return

  thread = threading.Thread(target=write, name="writer", daemon=True)
  thread.start()
  try:
    yield steps
  finally:
    stop.set()
    thread.join(_END_SECONDS)


@contextlib.contextmanager
def _probing(connection: Connection) -> Iterator[_Silence]:
  """Asks for the server's info over and over in a thread."""
  silence, stop = _Silence(), threading.Event()

  def probe() -> None:
    while not stop.wait(_PROBE_SECONDS):
      began = time.monotonic()
      with contextlib.suppress(ServerLost):
        connection.info(_PATIENCE_SECONDS)
      silence.longest = max(silence.longest, time.monotonic() - began)

  thread = threading.Thread(target=probe, name="probe", daemon=True)
  thread.start()
  try:
    yield silence
  finally:
    stop.set()
    thread.join(_END_SECONDS)


@contextlib.contextmanager
def _busy_cores() -> Iterator[None]:
  """As many processes that compute as there are cores."""
  processes = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(os.cpu_count() or 1)]
  try:
    yield
  finally:
    for process in processes:
      process.kill()
      process.wait()


class _Server:
  """A server in a process of its own.

  Attributes:
    connection: to it.
  """

  def __init__(self, process: "subprocess.Popen[str]", address: str):
    self._process = process
    self.connection = Connection(address)

  def snapshot(self) -> Mapping[str, float]:
    """Lets it write a snapshot; returns its seconds and its bytes."""
    assert self._process.stdin is not None
    assert self._process.stdout is not None
    self._process.stdin.write("snapshot\n")
    self._process.stdin.flush()
    taken: Mapping[str, float] = json.loads(self._process.stdout.readline())
    return taken


@contextlib.contextmanager
def _served(manifest: Manifest) -> Iterator[_Server]:
  """A server that ends with the `with` statement, and also when this process dies."""
  command = [sys.executable, "-m", "benchmarks.snapshot"]
  root = pathlib.Path(__file__).resolve().parent.parent
  with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
      process.stdin.write(manifest.to_json() + "\n")
      process.stdin.flush()
      address = process.stdout.readline().strip()
      if not address:
        raise RuntimeError("the server did not start")
      yield _Server(process, address)
    finally:
      process.stdin.close()
      try:
        process.wait(_END_SECONDS)
      except subprocess.TimeoutExpired:
        process.kill()


def main() -> None:
  """Serves the run of the manifest on standard input; each further line asks for a snapshot, and its end ends the server."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one, which then ends it.
  signal.alarm(_LIFETIME_SECONDS)
  manifest = Manifest.from_json(sys.stdin.readline())
  with tempfile.TemporaryDirectory() as folder:
    directory = pathlib.Path(folder) / "replay"
    with ReplayServer(manifest.config, manifest.spec, manifest.run_id, directory, inline=True) as server:
      print(server.address, flush=True)
      for _ in sys.stdin:
        seconds = server.checkpoint()
        newest = directory / f"{server.snapshot:06d}"
        size = sum(path.stat().st_size for path in newest.rglob("*") if path.is_file())
        print(json.dumps({"seconds": seconds, "bytes": size}), flush=True)
  # Reverb's threads can hold up the interpreter's end.
  sys.stdout.flush()
  os._exit(0)


if __name__ == "__main__":
  main()
