"""A role's lifeline: it sends the role's heartbeats, keeps its news of the server, and ends it when server or run are gone."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable

from configs import ServerLost
from replay_server.contract import layout
from replay_server.contract.connection import PROBE_TIMEOUT_SECONDS, Connection, OtherRun
from replay_server.contract.keepalive import keep_alive
from replay_server.contract.lease import HeldLease
from replay_server.contract.messages import encode
from replay_server.contract.probes import is_reachable_without_tls, listens, split_address
from replay_server.contract.role import Role, heartbeat_of, new_instance
from replay_server.contract.run import read_live_status

PERIOD_SECONDS = 1.0
# A role gives up on its server after this long without an answer.
LOST_AFTER_SECONDS = 60.0
# A server that writes a snapshot of large tables may not answer meanwhile, and is waited for as long as its port is open.
SNAPSHOT_SECONDS = 600.0
_BEAT_SECONDS = 3.0
# How often a role tries whether it reaches the server's tables without TLS.
_PROBE_SECONDS = 30.0


class Lifeline:
  """Three daemon threads beside a role's loop.

  The watchdog asks the server for its info, the only call that reliably notices a dead server. The second thread sends
  heartbeats and reads the run's status; it may hang when the server dies, but the watchdog does not. The third one tries whether
  a server that is served over TLS can be reached without it.

  Attributes:
    role: whose heartbeats are sent; it may be replaced by another one of the same name.
    instance: the name of this life of the role.
  """

  def __init__(
    self,
    connection: Connection,
    role: Role,
    stop: threading.Event,
    on_lost: Callable[[str], None],
    lost_after: float = LOST_AFTER_SECONDS,
  ):
    """Makes the lifeline; `start` or the `with` statement starts it.

    Args:
      connection: to the server.
      role: whose heartbeats are sent; a thread of this object reads its state and metrics.
      stop: the lifeline sets it when the run has finished.
      on_lost: called once, in the watchdog's thread, with a sentence when the server no longer answers or has another run.
      lost_after: seconds without an answer after which the server is lost; 0 or less for never.
    """
    self.role = role
    self.instance = new_instance()
    self._connection = connection
    self._port = int(connection.address.rpartition(":")[2])
    self._stop = stop
    self._on_lost = on_lost
    self._lost_after = lost_after if lost_after > 0 else float("inf")
    self._closed = threading.Event()
    self._beat_lock = threading.Lock()
    self._beats = 0
    self._reached_plain_port = 0
    self._writer = connection.writer()
    if role.kind == "learner":
      connection.news.lease = HeldLease(self.instance)
    elif role.kind == "actor":
      connection.news.worker = (role.name, self.instance)

  def __enter__(self) -> "Lifeline":
    self.start()
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def start(self) -> None:
    """Starts the threads."""
    for target in (self._watch, self._live, self._probe):
      threading.Thread(target=target, name=f"lifeline-{target.__name__}", daemon=True).start()

  def close(self) -> None:
    """Sends the last heartbeat and ends the threads; does not raise when the server is gone."""
    self._closed.set()
    with contextlib.suppress(ServerLost):  # Then nobody is left to receive it.
      self._beat(ended=True)

  def _watch(self) -> None:
    news, heard = self._connection.news, time.monotonic()
    while not self._closed.wait(PERIOD_SECONDS):
      keep_alive(self._port)
      try:
        self._connection.info(PROBE_TIMEOUT_SECONDS)
        heard = time.monotonic()
        news.note_answer()
      except OtherRun as error:
        self._lose(str(error))
        return
      except ServerLost:
        route = self._connection.route
        if route is not None and (refusal := route.refusal()):
          self._lose(refusal)
          return
        self._connection.renew()
        patience = max(self._lost_after, SNAPSHOT_SECONDS) if self._is_snapshotting() else self._lost_after
        if time.monotonic() - heard > patience:
          self._lose(
            f"The replay server at {self._connection.address} has not answered for {patience:g} s, so {self.role.name} ends: "
            "start the server again (with its run directory) and then this role."
          )
          return

  def _lose(self, sentence: str) -> None:
    if not self._closed.is_set():
      self._on_lost(sentence)

  def _is_snapshotting(self) -> bool:
    """Whether the server has said that it writes a snapshot, and still listens."""
    status = self._connection.news.status
    if status is None or not status.is_snapshotting:
      return False
    return listens(self._connection.address, PERIOD_SECONDS)

  def _live(self) -> None:
    while not self._closed.is_set():
      try:
        self._beat(ended=False)
        self._follow_run()
      except ServerLost:
        pass  # The watchdog decides when to give up.
      self._closed.wait(PERIOD_SECONDS)

  def _beat(self, ended: bool) -> None:
    with self._beat_lock:
      if self._closed.is_set() and not ended:
        return  # After the last heartbeat, another would make the role look alive again.
      self._beats += 1
      beat = heartbeat_of(self.role, self.instance, self._beats, ended)
      beat = dataclasses.replace(beat, reached_plain_port=self._reached_plain_port)
      lease = self._connection.news.lease
      if lease is not None:
        lease.note_sending(self._beats)
      self._writer.write(layout.HEARTBEATS, [encode(beat)], timeout_seconds=_BEAT_SECONDS)

  def _follow_run(self) -> None:
    status = read_live_status(self._connection)
    if status is None:
      return
    self._connection.news.note_status(status)
    if status.finished:
      self._stop.set()

  def _probe(self) -> None:
    host, _ = split_address(self._connection.address)
    tried, tried_at = 0, 0.0
    while not self._closed.wait(PERIOD_SECONDS):
      status = self._connection.news.status
      port = status.plain_port if status is not None else 0
      if not port or (port == tried and time.monotonic() - tried_at < _PROBE_SECONDS):
        continue
      reaches = is_reachable_without_tls(f"{host}:{port}")
      if reaches and self._reached_plain_port != port:
        print(
          f"The server's port {port}, which is not protected, can be reached from this host: close it there (docs/security.md).",
          flush=True,
        )
      self._reached_plain_port, tried, tried_at = port if reaches else 0, port, time.monotonic()
