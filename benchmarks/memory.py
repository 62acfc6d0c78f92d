"""Memory that a step takes on the server, and that each further table which references it adds."""

import threading

import numpy as np
import numpy.typing as npt

from actors.row_writer import RowWriter
from benchmarks import server, workload
from benchmarks.measure import Figure, Report
from replay_server.contract.manifest import Manifest


def run(runs: int, quick: bool) -> Report:
  """Growth of a fresh server's resident memory while rows are written to one, two and three tables."""
  steps, counts = (2_000, (1, 3)) if quick else (50_000, (1, 2, 3))
  config = workload.make_config((0.4, 0.3, 0.3), capacity=5 * steps)
  manifest = workload.make_manifest(config, workload.make_spec())
  codec = manifest.codec
  tables = [table.name for table in config.replay.all_tables]
  rows = workload.make_rows(codec, steps)
  measured: dict[int, list[float]] = {count: [] for count in counts}
  for _ in range(runs):
    for count, values in measured.items():
      values.append(_bytes_per_step(manifest, rows, tables[:count]))
  figures = {count: Figure(f"a step in {count} table(s)", "bytes", tuple(values)) for count, values in measured.items()}
  one, three = figures[1].values, figures[3].values
  row = 4 * codec.width
  return Report(
    "memory",
    (
      f"Rows of {row} bytes (random: what compresses takes less); growth of the server's RSS over {_counted(steps):,} steps.",
    ),
    (
      *figures.values(),
      Figure("a step in 1 table, beyond its row", "bytes", tuple(value - row for value in one)),
      Figure("a further table", "bytes", tuple((b - a) / 2 for a, b in zip(one, three, strict=True))),
    ),
  )


def _counted(steps: int) -> int:
  """How many steps are measured: not the first fifth, for which the server also makes threads, buffers and arenas."""
  return steps - steps // 5


def _bytes_per_step(manifest: Manifest, rows: npt.NDArray[np.float32], tables: list[str]) -> float:
  with server.ServerProcess(manifest) as process:
    writer = RowWriter(process.connection, 1, threading.Event())
    begin = len(rows) - _counted(len(rows))
    _write(writer, rows[:begin], tables)
    before = process.resident_bytes()
    _write(writer, rows[begin:], tables)
    grown = process.resident_bytes() - before
    writer.close()
  return grown / _counted(len(rows))


def _write(writer: RowWriter, rows: npt.NDArray[np.float32], tables: list[str]) -> None:
  for row in rows:
    reference = writer.append(row)
    for name in tables:
      writer.create_item(name, reference)
  writer.flush()
