"""From the server's queue into the learner's own memory, against reading the queue alone."""

import contextlib
import dataclasses
import itertools
import pathlib
import tempfile
import threading
import time
from collections.abc import Callable, Mapping

import numpy as np

from benchmarks import adder, server, workload
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from configs import RunConfig
from learner.sources.feed import MOST_ROWS, ServerFeed
from learner.sources.memory import make_memory_source
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest

_EVENT_RATE = 0.02


def run(runs: int, quick: bool) -> Report:
  """Rows per second out of a queue in which they wait, into the memory and into nothing."""
  rows = 1_000 if quick else 20_000
  config = _config(rows)
  manifest = workload.make_manifest(config, workload.make_spec())
  stop = threading.Event()
  with contextlib.ExitStack() as stack:
    connection = stack.enter_context(server.ServerProcess(manifest)).connection
    directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    stack.enter_context(contextlib.redirect_stdout(None))  # The source says how much memory it takes.
    source = make_memory_source(connection, manifest, 0, stop, directory)
    stack.callback(source.close)
    source.restore({})
    feed = ServerFeed(connection, manifest, stop)
    episodes = itertools.count(step=rows)

    def contender(drain: Callable[[], object]) -> Contender:
      return lambda: _drained(connection, manifest, rows, next(episodes), drain)

    measured = interleave(
      {
        # One block of one row: it reads all rows that wait.
        "queue to memory": contender(source.next_block),
        "the queue alone": contender(lambda: _read_all(feed)),
      },
      runs,
    )
  ours, theirs = (Figure(what, "rows/s", values["rows"]) for what, values in measured.items())
  idle = Figure("queue to memory", "rows/s of CPU time", measured["queue to memory"]["idle"])
  return Report(
    "feed",
    (
      f"{rows:,} rows wait in the server's queue; those of the benchmark adder. A learner's source reads them, keeps them on the "
      f"disk and makes three tables of them, or its feed reads them alone, {MOST_ROWS:,} at a time.",
      "Required: 100,000 rows/s on an idle core, which is a second of the reader's CPU time; the server takes another.",
    ),
    (ours, theirs, idle),
    (Ratio.of("queue to memory / the queue alone", ours, theirs, required=0.8, aim=0.95),),
  )


def _config(rows: int) -> RunConfig:
  """A queue that holds as many rows; blocks of a single row, drawn when they are asked for."""
  config = workload.in_memory(adder.make_config(2 * rows))
  learner = dataclasses.replace(config.learner, batch_size=1, updates_per_block=1, prefetch=False)
  return dataclasses.replace(config, learner=learner)


def _drained(
  connection: Connection, manifest: Manifest, rows: int, first_episode: int, drain: Callable[[], object]
) -> Mapping[str, float]:
  rng = np.random.default_rng(first_episode)
  events = np.where(rng.random(rows) < _EVENT_RATE, 1 << rng.integers(0, len(manifest.config.events), rows), 0)
  table = manifest.config.replay.default.name
  written = workload.make_rows(manifest.codec, rows, events=events.astype(np.int32), first_episode=first_episode)
  workload.fill(connection, written, {table: rows})
  assert connection.info()[table].current_size == rows
  began, used = time.perf_counter(), time.process_time()
  drain()
  seconds, core_seconds = time.perf_counter() - began, time.process_time() - used
  assert not connection.info()[table].current_size
  return {"rows": rows / seconds, "idle": rows / core_seconds}


def _read_all(feed: ServerFeed) -> None:
  while len(feed.take(MOST_ROWS)):
    pass
