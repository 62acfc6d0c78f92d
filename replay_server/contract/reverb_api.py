"""Reverb's C++ client, below its Python one: the one file that calls Reverb's private API.

The Python `TrajectoryWriter` keeps its history as lists that grow with the episode and takes a dozen function calls for an
item of one step; its samplers are data sets that take milliseconds to open; its `server_info` decodes signatures that nobody
asks for. What lies below does none of that. `make bench` measures what it saves.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import reverb
from reverb.cc import schema_pb2

# A `reverb.pybind.WeakCellRef`: one column of one step that a writer has taken.
Reference: TypeAlias = Any


def table_infos(client: reverb.Client, timeout_seconds: int) -> dict[str, Any]:
  """Name -> Reverb's `TableInfo` message, of every table of a server.

  Raises:
    Exception: of several types, for one thing: nobody answers.
  """
  infos = [schema_pb2.TableInfo.FromString(text) for text in client._client.ServerInfo(timeout_seconds)]
  return {info.name: info for info in infos}


class Sample(NamedTuple):
  """One item of a table, as it was when the server chose it.

  Attributes:
    key: of the item on the server.
    probability: with which the selector chose it.
    table_size: items in the table.
    priority: of the item.
    columns: an array for every column of the table's signature, in its order.
  """

  key: int
  probability: float
  table_size: int
  priority: float
  columns: list[np.ndarray]


class Sampler:
  """A stream of items of one table, in the order in which its selector chooses them; for one thread, but for `close`.

  Neither opening it nor `next` has a deadline, and both hang when the server dies: run them where they can be given up.
  """

  def __init__(self, client: reverb.Client, table: str, samples: int, in_flight: int):
    """Opens the stream; see `Connection.open_sampler`."""
    self._sampler = client._client.NewSampler(table, samples, in_flight)

  def next(self) -> Sample:
    """The next item; waits until the table's limiter lets it be sampled.

    Raises:
      RuntimeError: all samples were taken, the stream was closed, or the server refused.
    """
    key, probability, table_size, priority, *columns = self._sampler.GetNextTrajectory()
    return Sample(key.item(), probability.item(), table_size.item(), priority.item(), columns)

  def close(self) -> None:
    """Ends the stream, and a `next` that waits in another thread; may be called twice."""
    self._sampler.Close()


class Writer:
  """Appends steps, and makes items that reference them; for one thread.

  A step is sent with the first item that references it, in a chunk of its own: a longer chunk would be pinned whole by any
  item on it, and would hide its items until it is full.
  """

  def __init__(self, client: reverb.Client, max_references: int):
    """Opens the writer; hangs when the server is gone. See `Connection.open_writer`."""
    options = reverb.pybind.ConstantChunkerOptions(max_chunk_length=1, num_keep_alive_refs=max_references)
    self._writer = client._client.NewTrajectoryWriter(options, None)

  def append(self, columns: list[np.ndarray]) -> list[Reference]:
    """Takes a step of one array a column; a reference to each, good until `max_references` more steps were appended."""
    references: list[Reference] = self._writer.Append(columns)
    return references

  def create_item(self, table: str, references: Sequence[Reference], priority: float = 1.0) -> None:
    """Makes an item of one step; does not wait.

    Args:
      table: to write to.
      references: what `append` gave, in the order of the table's columns.
      priority: of the item; not checked, and one NaN silences the table for good.
    """
    self._writer.CreateItem(table, priority, [[reference] for reference in references], [True] * len(references))

  def flush(self, pending_items: int, timeout_ms: int) -> None:
    """Sends all items and waits until the server has confirmed all but `pending_items`.

    Raises:
      TimeoutError: it has not; the items go on being sent.
      RuntimeError: they cannot be sent.
    """
    try:
      self._writer.Flush(pending_items, timeout_ms)
    except RuntimeError as error:
      if "Timeout exceeded" in str(error):
        raise TimeoutError(str(error)) from None
      raise

  def close(self) -> None:
    """Drops what is pending; may be called twice."""
    self._writer.Close()

  def __del__(self) -> None:
    # Unclosed, the C++ writer waits for its items when it goes, without end if the server is gone, holding Python's lock.
    if hasattr(self, "_writer"):
      self.close()
