"""A replay server in a process of its own, `python -m benchmarks.server`, and a handle to it."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import numpy as np
import psutil
import reverb
import tensorflow as tf
from reverb.platform.checkpointers_lib import DefaultCheckpointer

from benchmarks import child
from replay_server.contract.codec import RowCodec
from replay_server.contract.connection import Connection
from replay_server.contract.layout import wire_name
from replay_server.contract.manifest import Manifest
from replay_server.process import tables

# Two tables beside a run's own: one with the same rows, and one with the same transitions in a column for each field.
UNIFORM = "uniform"
COLUMNS = "columns"
COLUMN_FIELDS = ("observation", "action", "reward", "next_observation", "discount")

# A benchmark that hangs must not leave its server behind.
_LIFETIME_SECONDS = 1_800
START_SECONDS = 120


class ServerProcess:
  """A server with a run's tables, `UNIFORM` and `COLUMNS`; the `with` statement ends it.

  The server ends when its standard input closes, so it also ends when this process dies, however that happens.

  Attributes:
    connection: to the server.
  """

  def __init__(self, manifest: Manifest):
    """Starts the server and waits until it answers.

    Args:
      manifest: its config and codec define the tables.

    Raises:
      RuntimeError: the server did not start.
    """
    self._log = tempfile.TemporaryFile()  # noqa: SIM115  # It stays open until `close`.
    self._process = subprocess.Popen(
      [sys.executable, "-m", "benchmarks.server"],
      cwd=pathlib.Path(__file__).resolve().parent.parent,
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=self._log,
      text=True,
    )
    assert self._process.stdin is not None
    assert self._process.stdout is not None
    try:
      self._process.stdin.write(manifest.to_json() + "\n")
      self._process.stdin.flush()
      address = self._process.stdout.readline().strip()
      if not address:
        self._log.seek(0)
        raise RuntimeError(f"the server did not start: {self._log.read().decode()[-2_000:]}")
      self.connection = Connection(address)
      self.connection.wait_until_up(START_SECONDS)
    except BaseException:
      self.close()
      raise

  def __enter__(self) -> "ServerProcess":
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def resident_bytes(self) -> int:
    """Memory that the server's process holds (RSS)."""
    return int(psutil.Process(self._process.pid).memory_info().rss)

  def close(self) -> None:
    """Ends the server."""
    child.end(self._process)
    self._log.close()


def make_tables(manifest: Manifest) -> list[reverb.Table]:
  """The run's tables and the two to compare with; none of them ever blocks a writer."""
  config, codec = manifest.config, manifest.codec
  capacity = sum(config.replay.capacity_of(table) for table in config.replay.all_tables)
  return [
    *tables.make_tables(manifest.run_id, config, codec, inline=True),
    _uniform_table(wire_name(manifest.run_id, UNIFORM), capacity, tables.row_signature(codec)),
    _uniform_table(wire_name(manifest.run_id, COLUMNS), capacity, _column_signature(codec)),
  ]


def _uniform_table(name: str, capacity: int, signature: object) -> reverb.Table:
  return reverb.Table(
    name=name,
    sampler=reverb.selectors.Uniform(),
    remover=reverb.selectors.Fifo(),
    max_size=capacity,
    rate_limiter=reverb.rate_limiters.MinSize(1),
    signature=signature,
  )


def _column_signature(codec: RowCodec) -> dict[str, tf.TensorSpec]:
  fields = {field.name: field for field in codec.fields}
  return {
    name: tf.TensorSpec(fields[name].shape, tf.as_dtype(np.dtype(fields[name].dtype)), name) for name in COLUMN_FIELDS
  }


def main() -> None:
  """Serves the tables of the manifest on standard input until it closes; prints the address."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one, which then ends it.
  signal.alarm(_LIFETIME_SECONDS)
  manifest = Manifest.from_json(sys.stdin.readline())
  with tempfile.TemporaryDirectory() as directory:
    server = reverb.Server(make_tables(manifest), checkpointer=DefaultCheckpointer(directory))
    print(f"localhost:{server.port}", flush=True)
    sys.stdin.read()
  # Reverb's threads can hold up the interpreter's end.
  sys.stdout.flush()
  os._exit(0)


if __name__ == "__main__":
  main()
