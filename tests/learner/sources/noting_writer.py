"""A worker that notes what the server has confirmed: `python -m tests.learner.sources.noting_writer WRITER_ID ROWS NOTES`.

It writes ROWS transitions in episodes of many lengths to the server whose address comes on standard input, and after each flush
adds a line for every confirmed one to the file NOTES: the episode and the step. `test_memory_writers.py` runs it.
"""

import contextlib
import pathlib
import random
import sys
import threading

import numpy as np

from actors.adder import EventTableAdder, references_needed
from actors.row_writer import RowWriter
from replay_server.contract.codec import RowCodec
from replay_server.contract.connection import Connection
from replay_server.contract.run import read_manifest
from tests.serving import ACTION, first, step

Key = tuple[int, int]


class _NotingWriter(RowWriter):
  """Knows the episode and the step of every transition that was not confirmed yet."""

  codec: RowCodec
  unconfirmed: list[Key]

  def create_item(self, table, row, priority=1.0):
    fields = self.codec.unpack(row.values)
    self.unconfirmed.append((int(fields["episode"]), int(fields["step"])))
    super().create_item(table, row, priority)


def _write(writer: _NotingWriter, adder: EventTableAdder, rows: int, notes: pathlib.Path) -> None:
  rng, written = random.Random(rows), 0
  shape = next(field.shape for field in writer.codec.fields if field.name == "observation")
  observation = np.zeros(shape)
  while written < rows:
    length = rng.randrange(3, 40)
    adder.add_first(first(observation))
    for t in range(length):
      over = t == length - 1
      adder.add(ACTION, step(observation, events=int(over), terminated=over), {"policy_version": 1})
      if rng.random() < 0.2 or over:
        writer.flush()
        with notes.open("ab", buffering=0) as file:  # One write, so that a kill leaves whole lines.
          file.write("".join(f"{episode} {t}\n" for episode, t in writer.unconfirmed).encode())
        written += len(writer.unconfirmed)
        writer.unconfirmed = []


def main() -> None:
  """Writes, once it knows where to."""
  writer_id, rows, notes = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
  connection = Connection(sys.stdin.readline().strip())
  manifest = read_manifest(connection)
  assert manifest is not None
  config = manifest.config
  with contextlib.closing(_NotingWriter(connection, references_needed(config), threading.Event())) as writer:
    writer.codec, writer.unconfirmed = manifest.codec, []
    _write(writer, EventTableAdder(writer, manifest.codec, config, writer_id), rows, notes)


if __name__ == "__main__":
  main()
