"""Where a learner with its own memory gets its rows: from the server's queue, or directly from an inline run's worker."""

import threading
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from replay_server.contract.codec import Packed
from replay_server.contract.connection import Connection
from replay_server.contract.local_rows import LocalRows
from replay_server.contract.manifest import Manifest

# Rows of one read. More are no faster, and a learner that is killed loses up to one read.
MOST_ROWS = 4_096


class Feed(Protocol):
  """Gives every row of the run once, oldest first."""

  def take(self, most: int) -> Packed:
    """The rows that wait, at most `most` of them and `MOST_ROWS`; float32 [n, width], and n is 0 if none waits.

    Raises:
      ServerLost: the server does not answer.
      Stopped: stopped meanwhile.
    """
    ...

  def given(self) -> int:
    """Rows that it has ever given, to any learner of the run.

    Raises:
      ServerLost: the server does not answer.
    """
    ...

  def state(self) -> Mapping[str, npt.NDArray[Any]]:
    """What a restart must not lose; named arrays."""
    ...

  def restore(self, state: Mapping[str, npt.NDArray[Any]], received: int) -> None:
    """Restores what `state` returned.

    Args:
      state: empty if there is none.
      received: rows that it has given.
    """
    ...


class ServerFeed:
  """Reads the default table, which is a queue."""

  def __init__(self, connection: Connection, manifest: Manifest, stop: threading.Event):
    """Reads nothing yet.

    Args:
      connection: to the server.
      manifest: of the run.
      stop: ends a wait for the server.
    """
    # Of its own, as a read of many rows would hold up the answers to everything else on a slow link.
    self._connection = connection.bulk()
    self._table = manifest.config.replay.default.name
    self._width = manifest.codec.width
    self._stop = stop

  def take(self, most: int) -> Packed:
    """As `Feed.take`."""
    return self._connection.take_rows(self._table, min(most, MOST_ROWS), self._width, self._stop)

  def given(self) -> int:
    """As `Feed.given`; a server that was restored from a snapshot counts from that."""
    info = self._connection.info()[self._table]
    return int(info.rate_limiter_info.insert_stats.completed) - int(info.current_size)

  def state(self) -> Mapping[str, npt.NDArray[Any]]:
    """Empty: rows that were not read wait on the server."""
    return {}

  def restore(self, state: Mapping[str, npt.NDArray[Any]], received: int) -> None:
    """Restores nothing."""
    del state, received


class LocalFeed:
  """Takes the rows of the same process's worker."""

  def __init__(self, rows: LocalRows):
    """Takes from `rows`."""
    self._rows = rows

  def take(self, most: int) -> Packed:
    """As `Feed.take`."""
    return self._rows.take(min(most, MOST_ROWS))

  def given(self) -> int:
    """As `Feed.given`."""
    return self._rows.inserted - self._rows.waiting

  def state(self) -> Mapping[str, npt.NDArray[Any]]:
    """The rows that were not taken yet."""
    return {"waiting": self._rows.copy(), "given": np.array(self.given())}

  def restore(self, state: Mapping[str, npt.NDArray[Any]], received: int) -> None:
    """As `Feed.restore`; rows that waited then and were given since do not wait again."""
    waiting = state["waiting"][received - int(state["given"]) :] if state else self._rows.copy()
    self._rows.restore(received + len(waiting), waiting)
