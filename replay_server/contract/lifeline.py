"""A role's lifeline: it sends the role's heartbeats, and ends the role when the server is lost or the run has finished."""

import contextlib
import threading
import time
from collections.abc import Callable

from configs import ServerLost
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.messages import encode
from replay_server.contract.role import Role, heartbeat_of
from replay_server.contract.run import read_live_status

PERIOD_SECONDS = 1.0
# A role gives up on its server after this long without an answer. It has ended less than 30 s after the last answer.
LOST_AFTER_SECONDS = 10.0


class Lifeline:
  """Two daemon threads beside a role's loop.

  The watchdog asks the server for its info, the only call that reliably notices a dead server. The other thread sends
  heartbeats and reads the run's status; it may hang when the server dies, but the watchdog does not.
  """

  def __init__(
    self,
    connection: Connection,
    role: Role,
    stop: threading.Event,
    on_lost: Callable[[str], None],
  ):
    """Makes the lifeline; `start` or the `with` statement starts it.

    Args:
      connection: to the server.
      role: whose heartbeats are sent; a thread of this object reads its state and metrics.
      stop: the lifeline sets it when the run has finished.
      on_lost: called once, in the watchdog's thread, with a sentence when the server no longer answers.
    """
    self._connection = connection
    self._role = role
    self._stop = stop
    self._on_lost = on_lost
    self._closed = threading.Event()
    self._beat_lock = threading.Lock()
    self._writer = connection.writer()

  def __enter__(self) -> "Lifeline":
    self.start()
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def start(self) -> None:
    """Starts both threads."""
    for target in (self._watch, self._live):
      threading.Thread(target=target, name=f"lifeline-{target.__name__}", daemon=True).start()

  def close(self) -> None:
    """Sends the last heartbeat and ends the threads; does not raise when the server is gone."""
    self._closed.set()
    with contextlib.suppress(ServerLost):  # Then nobody is left to receive it.
      self._beat(ended=True)

  def _watch(self) -> None:
    heard = time.monotonic()
    while not self._closed.wait(PERIOD_SECONDS):
      try:
        self._connection.info()
        heard = time.monotonic()
      except ServerLost:
        if time.monotonic() - heard > LOST_AFTER_SECONDS and not self._closed.is_set():
          self._on_lost(
            f"The replay server at {self._connection.address} has not answered for {LOST_AFTER_SECONDS:g} s, so "
            f"{self._role.name} ends: start the server again (with its checkpoint) and then this role."
          )
          return

  def _live(self) -> None:
    while not self._closed.is_set():
      try:
        self._beat(ended=False)
        self._follow_run()
      except ServerLost:
        pass  # The watchdog decides when to give up.
      self._closed.wait(PERIOD_SECONDS)

  def _beat(self, ended: bool) -> None:
    beat = heartbeat_of(self._role, ended)
    with self._beat_lock:
      if self._closed.is_set() and not ended:
        return  # After the last heartbeat, another would make the role look alive again.
      self._writer.write(layout.HEARTBEATS, [encode(beat)], timeout_seconds=3.0)

  def _follow_run(self) -> None:
    status = read_live_status(self._connection)
    if status is not None and status.finished:
      self._stop.set()
