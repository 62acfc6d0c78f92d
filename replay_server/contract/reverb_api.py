"""Reverb's C++ client: the only file that calls Reverb's private API.

Reverb's Python client is slow where an item is one step. Its `TrajectoryWriter` keeps lists that grow with the episode, and
makes a dozen function calls per item; its samplers are data sets that take milliseconds to open; its `server_info` decodes
signatures that nobody needs. The C++ client below it does none of that. `make bench` measures the difference.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import reverb
from reverb.cc import schema_pb2

Column: TypeAlias = npt.NDArray[Any]
# A `reverb.pybind.WeakCellRef`: one column of an appended step.
Reference: TypeAlias = Any


def table_infos(client: reverb.Client, timeout_seconds: int) -> dict[str, Any]:
  """Table name -> Reverb's `TableInfo` message, for every table of a server.

  Raises:
    Exception: of several types, if nobody answers.
  """
  infos = [schema_pb2.TableInfo.FromString(text) for text in client._client.ServerInfo(timeout_seconds)]
  return {info.name: info for info in infos}


class Sample(NamedTuple):
  """One item of a table, as it was when the server drew it.

  Attributes:
    key: of the item on the server.
    probability: with which the selector drew it.
    table_size: items in the table.
    priority: of the item.
    columns: an array for every column of the table's signature, in its order.
  """

  key: int
  probability: float
  table_size: int
  priority: float
  columns: list[Column]


class Sampler:
  """A stream of items of one table, as its selector draws them; for one thread, except `close`.

  Neither opening it nor `next` has a deadline, and both hang when the server dies: call them in a thread that can be abandoned.
  """

  def __init__(self, client: reverb.Client, table: str, samples: int, in_flight: int):
    """Opens the stream; see `Connection.open_sampler`."""
    self._sampler = client._client.NewSampler(table, samples, in_flight)

  def next(self) -> Sample:
    """The next item; waits until the table's rate limiter allows it.

    Raises:
      RuntimeError: all samples were taken, the stream was closed, or the server refused.
    """
    key, probability, table_size, priority, *columns = self._sampler.GetNextTrajectory()
    return Sample(key.item(), probability.item(), table_size.item(), priority.item(), columns)

  def fill(self, rows: npt.NDArray[np.float32]) -> None:
    """The only column of the next items, one item a row: float32 [n, width]; as `next`, in fewer calls."""
    take = self._sampler.GetNextTrajectory
    for row in rows:
      row[:] = take()[4]

  def close(self) -> None:
    """Ends the stream, and a `next` waiting in another thread; may be called twice."""
    self._sampler.Close()


class Writer:
  """Appends steps, and makes items that reference them; for one thread.

  A step is sent with the first item that references it, in a chunk of its own. In a longer chunk, one item would keep all steps
  in memory, and no item could be sampled before the chunk is full.

  Open it only when the server has just answered. Its constructor starts the stream's thread before it sets the fields in which
  the thread notes how the stream ended. If the stream fails at once, as it does while gRPC waits to try the server again, the
  thread may find what an earlier object left there and release memory that is not its own; later the process dies in `malloc`.
  """

  def __init__(self, client: reverb.Client, max_references: int, prefix: str):
    """Opens the writer; see `Connection.open_writer`. `prefix` begins every table's name."""
    self._prefix = prefix
    options = reverb.pybind.ConstantChunkerOptions(max_chunk_length=1, num_keep_alive_refs=max_references)
    self._writer = client._client.NewTrajectoryWriter(options, None)

  def append(self, columns: list[Column]) -> list[Reference]:
    """Appends a step, one array per column; returns their references, valid until `max_references` more steps are appended."""
    references: list[Reference] = self._writer.Append(columns)
    return references

  def create_item(self, table: str, references: Sequence[Reference], priority: float = 1.0) -> None:
    """Makes an item of one step; does not wait.

    Args:
      table: to write to.
      references: those that `append` returned, in the order of the table's columns.
      priority: of the item; not checked, although a single NaN makes the table unusable.
    """
    self._writer.CreateItem(
      self._prefix + table, priority, [[reference] for reference in references], [True] * len(references)
    )

  def flush(self, pending_items: int, timeout_ms: int) -> None:
    """Sends all items and waits until the server has confirmed all but `pending_items`.

    Raises:
      TimeoutError: it has not confirmed them in time; they are still being sent.
      RuntimeError: they cannot be sent.
    """
    try:
      self._writer.Flush(pending_items, timeout_ms)
    except RuntimeError as error:
      if "Timeout exceeded" in str(error):
        raise TimeoutError(str(error)) from None
      raise

  def close(self) -> None:
    """Drops pending items; may be called twice."""
    self._writer.Close()

  def __del__(self) -> None:
    # When an open C++ writer is deleted, it waits for its items: forever if the server is gone, and holding the GIL.
    if hasattr(self, "_writer"):
      self.close()
