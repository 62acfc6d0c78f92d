"""Notices that the server gives no samples although it could, as on a stream whose other end is gone."""

import time
from collections.abc import Callable

from configs import ServerLost
from replay_server.contract.connection import Connection, OtherRun
from replay_server.contract.run import samples_of

# A server that answers, has samples to give and gives none for this long has lost the stream.
STALLED_SECONDS = 10.0


class ServerSilent(ServerLost):
  """The server does not answer at present; its streams may be whole."""


class StallCheck:
  """Raises if the streams of one drawing must be opened anew; for one thread."""

  def __init__(self, connection: Connection, awaited: Callable[[], tuple[str, float] | None]):
    """Begins with the server as it is at present.

    Args:
      connection: to the server.
      awaited: the table whose sample is waited for, and since when; None if none is.
    """
    self._connection = connection
    self._awaited = awaited
    self._restarts = connection.news.restarts
    self._checked = time.monotonic()
    self._before: tuple[str, float, int] | None = None

  def check(self) -> None:
    """Checks.

    Raises:
      ServerSilent: the server does not answer.
      ServerLost: the server was started again, or gives no samples.
    """
    connection, news = self._connection, self._connection.news
    if news.restarts != self._restarts:
      raise ServerLost(f"The replay server at {connection.address} was started again.")
    if news.is_silent:
      raise ServerSilent(f"The replay server at {connection.address} does not answer.")
    if time.monotonic() - self._checked < STALLED_SECONDS:
      return
    self._checked = time.monotonic()
    awaited = self._awaited()
    if awaited is None:
      self._before = None
      return
    table, since = awaited
    try:
      state = (table, since, samples_of(connection.info(), table))
      stalled = state == self._before and connection.gives_samples(table)
    except OtherRun:
      raise
    except ServerLost:  # The process's watchdog decides when to give up.
      return
    self._before = state
    if stalled:
      raise ServerLost(
        f"The replay server at {connection.address} has given no sample of table {table!r} for {STALLED_SECONDS:g} s, although "
        "it answers and the table has some."
      )
