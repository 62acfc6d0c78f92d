"""Workers, of which one is killed and replaced, write to a server that feeds the learner's memory."""

import contextlib
import pathlib
import subprocess
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from configs import LearnerConfig, Stopped, TableSpec
from learner.sources.feed import ServerFeed
from learner.sources.memory import MemoryParts, MemorySource
from learner.sources.usable_rows import UnusableRows
from replay_memory.journal import Journal
from replay_memory.memory import ReplayMemory
from replay_memory.plan import make_plan
from replay_server.contract.connection import Connection
from replay_server.contract.run import read_manifest
from tests.learner.sources.noting_writer import Key
from tests.serving import config_of, inserted_into, python_module, server_process

_ROOT = pathlib.Path(__file__).parents[3]
_CONFIG = config_of(
  [TableSpec("default", 0.5, capacity=20_000, min_size=20), TableSpec("goal", 0.5, capacity=10_000)],
  [("goal", 10)],
  {"sampling": "memory", "environment_steps_per_update": 5, "insert_tolerance_steps": 100},
  learner=LearnerConfig(batch_size=8, updates_per_block=1, prefetch=False),
)
_ROWS = 1_000


class _Writer:
  """A process of `noting_writer`, which imports what it needs before it is told where to write."""

  def __init__(self, folder: pathlib.Path, number: int, rows: int):
    self._notes = folder / f"{number}.txt"
    self._notes.touch()
    command = [*python_module("tests.learner.sources.noting_writer"), str(number), str(rows), str(self._notes)]
    self.process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, text=True)

  def begin(self, address: str) -> None:
    assert self.process.stdin is not None
    self.process.stdin.write(f"{address}\n")
    self.process.stdin.close()

  def confirmed(self) -> list[Key]:
    lines = [line.split() for line in self._notes.read_text().splitlines()]
    return [(int(episode), int(step)) for episode, step in lines]

  def kill(self) -> None:
    self.process.kill()
    self.process.wait()


@contextlib.contextmanager
def _writers(folder: pathlib.Path) -> Iterator[list[_Writer]]:
  """One that ends by itself, one that does not, and one to replace that."""
  writers = [_Writer(folder, number, rows) for number, rows in enumerate((_ROWS, 10**9, _ROWS))]
  try:
    yield writers
  finally:
    for writer in writers:
      writer.kill()


@pytest.mark.timeout(300)
def test_every_transition_that_was_confirmed_is_stored_once_though_a_worker_is_killed(tmp_path: pathlib.Path) -> None:
  with _writers(tmp_path) as writers, server_process(tmp_path, _CONFIG, distributed=True) as server:
    connection, stop = Connection(server.address), threading.Event()
    manifest = read_manifest(connection)
    assert manifest is not None
    memory = ReplayMemory(make_plan(_CONFIG, manifest.codec.width), manifest.codec)
    journal = Journal(tmp_path / "rows", manifest.run_id, manifest.codec)
    parts = MemoryParts(
      ServerFeed(connection, manifest, stop), memory, journal, UnusableRows(manifest), np.random.default_rng(0)
    )
    other, killed, replacement = writers
    for writer in (other, killed):
      writer.begin(server.address)

    def is_read() -> bool:
      return memory.received == inserted_into(connection, "default")

    def look() -> None:
      if killed.process.poll() is None:
        if len(killed.confirmed()) >= _ROWS // 2:
          killed.kill()
          replacement.begin(server.address)
      # What the killed one sent last may still be on its way into the table.
      elif all(writer.process.poll() is not None for writer in writers) and is_read():
        raise Stopped("all is read")

    def learn(source: MemorySource) -> None:
      while True:
        source.next_block(look)
        look()

    with contextlib.closing(MemorySource(_CONFIG, parts, {}, stop, inline=False)) as source:
      source.restore({})
      with pytest.raises(Stopped, match="all is read"):
        learn(source)
      counts = memory.counts
      assert (counts.repeated, counts.late, counts.missing, counts.gaps) == (0, 0, 0, 0)
      assert "memory_lost_rows" not in source.metrics()
    fields = manifest.codec.unpack(memory.take(memory.contents(0)))
    stored: list[Key] = list(zip(fields["episode"].tolist(), fields["step"].tolist(), strict=True))
    journal_rows = sum(len(rows) for _, rows in journal.read())
  confirmed = [key for writer in writers for key in writer.confirmed()]
  assert [writer.process.returncode for writer in writers] == [0, -9, 0]
  assert len(confirmed) == len(set(confirmed)) >= 2.5 * _ROWS
  assert len(stored) == len(set(stored)) == journal_rows
  assert set(confirmed) <= set(stored)
  # What was not confirmed is of the worker that was killed.
  assert {episode >> 32 for episode, _ in set(stored) - set(confirmed)} <= {1}
