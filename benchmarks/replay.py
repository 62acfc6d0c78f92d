"""Draws from the learner's own memory, against the server's source and against cpprb's buffers."""

import contextlib
import dataclasses
import pathlib
import tempfile
import threading
from collections.abc import Iterator

import numpy as np

from benchmarks import server, workload
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from benchmarks.peer import Peer
from benchmarks.sampler import OpenSampler, timed
from configs import RunConfig
from learner.sources.feed import LocalFeed
from learner.sources.memory import MemoryParts, MemorySource
from learner.sources.quotas import QuotaSchedule
from learner.sources.usable_rows import UnusableRows
from learner.weights.importance import importance_weights
from replay_memory.journal import Journal
from replay_memory.memory import ReplayMemory
from replay_memory.plan import make_plan
from replay_server.contract.local_rows import LocalRows

_BATCH_SIZE, _SMALL_BATCH_SIZE = 256, 32
_SERVER_ROWS = 20_000
_MEMORY, _SERVER = "a source on the memory", "the source on the server"


@dataclasses.dataclass(frozen=True)
class _Line:
  """What is measured against cpprb.

  Attributes:
    what: the figure of the memory.
    theirs: the figure of cpprb.
    kind: of cpprb's buffer.
    batch_size: rows.
    batches: that the memory draws at once.
    required: of the ratio.
    aim: of the ratio.
  """

  what: str
  theirs: str
  kind: str
  batch_size: int
  batches: int
  required: float
  aim: float


def run(runs: int, quick: bool, cpprb: pathlib.Path | None = None) -> Report:
  """Rows per second out of the memory.

  Args:
    runs: of each contender.
    quick: the smallest form.
    cpprb: an interpreter that has cpprb; None leaves cpprb out.
  """
  rows, server_rows, seconds = (7_000, 700, 0.05) if quick else (200_000, _SERVER_ROWS, 0.5)
  uniform = workload.in_memory(workload.make_config(workload.SHARES, rows, _BATCH_SIZE))
  prioritized = workload.prioritized(uniform)
  memories = {"uniform": _filled(uniform), "prioritized": _filled(prioritized)}
  batches = uniform.learner.updates_per_block
  lines = _lines(batches)
  block = batches * _BATCH_SIZE
  with contextlib.ExitStack() as stack:
    source = stack.enter_context(_source_on(memories["uniform"], uniform))
    streams = stack.enter_context(_source_on_server(server_rows))
    contenders: dict[str, Contender] = {
      _MEMORY: timed(source.next_block, block, seconds),
      _SERVER: timed(streams.draw, block, seconds),
    }
    peer = None if cpprb is None else stack.enter_context(_cpprb(cpprb, rows))
    for line in lines:
      contenders[line.what] = _draws(memories[line.kind], line, seconds)
      if peer is not None:
        contenders[line.theirs] = peer.contender(line.kind, line.batch_size, seconds)
    measured = interleave(contenders, runs)
  figures = {name: Figure(name, "transitions/s", values["transitions"]) for name, values in measured.items()}
  pairs = [(line, figures[line.what], figures[line.theirs]) for line in lines if line.theirs in figures]
  return Report(
    "replay",
    (
      f"{rows:,} rows in seven tables with the shares {', '.join(f'{share:g}' for share in workload.SHARES)}; on the server "
      f"{server_rows:,}, as in the benchmark sampler. Blocks of {batches} batches.",
      "A source: blocks as a learner gets them. The memory alone: draws and copies of the rows; PER has its weights and new "
      "priorities too, in every table.",
      "cpprb: batch by batch, from one table of as many rows."
      if cpprb
      else "cpprb is left out: --cpprb=PYTHON names the interpreter of an environment that has it.",
    ),
    tuple(figures.values()),
    (
      Ratio.of(f"{_MEMORY} / {_SERVER}", figures[_MEMORY], figures[_SERVER], required=10, aim=50),
      *(
        Ratio.of(f"{line.what} / {line.theirs}", ours, theirs, line.required, line.aim) for line, ours, theirs in pairs
      ),
    ),
  )


def _cpprb(python: pathlib.Path, rows: int) -> Peer:
  return Peer(python, "cpprb_peer.py", (rows, workload.OBSERVATION_SIZE, workload.ACTION_SIZE), "cpprb")


def _lines(batches: int) -> tuple[_Line, ...]:
  size, small = _BATCH_SIZE, _SMALL_BATCH_SIZE
  return (
    _Line(f"the memory alone, blocks of batches of {size}", f"cpprb, {size}", "uniform", size, batches, 0.8, 1.5),
    _Line(
      f"the memory alone, PER, blocks of batches of {size}", f"cpprb, PER, {size}", "prioritized", size, batches, 1, 2
    ),
    _Line(f"the memory alone, PER, one batch of {small}", f"cpprb, PER, {small}", "prioritized", small, 1, 0.4, 0.8),
  )


def _filled(config: RunConfig) -> ReplayMemory:
  """A memory whose tables are full."""
  codec = workload.make_manifest(config, workload.make_spec()).codec
  sizes = [config.replay.capacity_of(table) for table in config.replay.all_tables]
  memory = ReplayMemory(make_plan(config, codec.width), codec)
  memory.add(workload.make_rows(codec, sum(sizes), events=workload.events_of(sizes)))
  return memory


@contextlib.contextmanager
def _source_on(memory: ReplayMemory, config: RunConfig) -> Iterator[MemorySource]:
  """A learner's source on a full memory; no further rows come."""
  manifest = workload.make_manifest(config, workload.make_spec())
  with tempfile.TemporaryDirectory() as folder:
    parts = MemoryParts(
      feed=LocalFeed(LocalRows(config.replay.default.name, manifest.codec.width)),
      memory=memory,
      journal=Journal(pathlib.Path(folder), manifest.run_id, manifest.codec),
      unusable=UnusableRows(manifest),
      rng=np.random.default_rng(0),
    )
    with contextlib.closing(MemorySource(config, parts, {}, threading.Event(), inline=True)) as source:
      yield source


@contextlib.contextmanager
def _source_on_server(rows: int) -> Iterator[OpenSampler]:
  """The source of the benchmark `sampler` with seven tables."""
  config = workload.make_config(workload.SHARES, rows, _BATCH_SIZE)
  manifest = workload.make_manifest(config, workload.make_spec())
  sizes = {table.name: config.replay.capacity_of(table) for table in config.replay.all_tables}
  with server.ServerProcess(manifest) as process:
    workload.fill(process.connection, workload.make_rows(manifest.codec, sum(sizes.values())), sizes)
    with OpenSampler(process.connection, config) as opened:
      yield opened


def _draws(memory: ReplayMemory, line: _Line, seconds: float) -> Contender:
  """A run of draws from the memory, with everything that a buffer of cpprb does for them."""
  rng = np.random.default_rng(0)
  rows = line.batches * line.batch_size
  quotas = QuotaSchedule(np.array(workload.SHARES), line.batch_size)
  priorities = np.abs(rng.standard_normal(rows)) + 1e-6
  everywhere = np.ones((line.batches, line.batch_size), bool)

  def draw() -> None:
    drawn = memory.draw(quotas.next_block(line.batches), rng)
    memory.take(drawn.slots)
    if line.kind == "prioritized":
      importance_weights(drawn.probabilities, drawn.table_sizes, everywhere, exponent=0.4)
      memory.set_priorities(drawn.handles.ravel(), drawn.tables.ravel(), priorities)

  return timed(draw, rows, seconds)
