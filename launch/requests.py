"""Requests to a server: to end its run, or to write a snapshot."""

import contextlib
import socket
import time
from collections.abc import Callable

from configs import ServerLost
from configs.exit_codes import ExitCode
from launch.failures import RunFailed
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.messages import Request, encode
from replay_server.contract.run import read_live_status
from replay_server.contract.status import RunStatus

# In which a run that was asked to stop says that it has; the time of a snapshot does not count.
STOP_SECONDS = 60.0
SNAPSHOT_SECONDS = 600.0
_POLL_SECONDS = 0.2


def send_request(connection: Connection, request: Request) -> None:
  """Sends a request; the server obeys within a second, unless it writes a snapshot just then.

  Raises:
    ServerLost: the server does not answer.
  """
  connection.info()  # Fails within seconds if nobody is there.
  connection.writer().write(layout.HEARTBEATS, [encode(request)])


def sender_of(command: str) -> str:
  """How a request names its sender in the server's log."""
  return f"slipstream {command} on {socket.gethostname()}"


def stop_run(connection: Connection) -> None:
  """Ends the server's run, and waits until the server says so, or is gone.

  Raises:
    ServerLost: the server does not answer.
    RunFailed: it has not said so in time.
  """
  send_request(connection, Request("stop", sender_of("stop")))
  late = (
    f"The server at {connection.address} was asked to stop its run, and did not within {STOP_SECONDS:g} s: see its log."
  )
  with contextlib.suppress(ServerLost):  # It has ended.
    _wait_for(connection, lambda status: status.finished, STOP_SECONDS, late)


def take_snapshot(connection: Connection, before: RunStatus) -> RunStatus:
  """Lets the server write a snapshot, and waits for it.

  Args:
    connection: to the server.
    before: a status of it.

  Returns:
    The status after the snapshot.

  Raises:
    ServerLost: the server has not answered for that long.
    RunFailed: there is no new snapshot in time.
  """
  send_request(connection, Request("snapshot", sender_of("snapshot")))
  late = f"The server at {connection.address} has written no snapshot for {SNAPSHOT_SECONDS:g} s: see its log."
  return _wait_for(
    connection, lambda status: status.snapshot > before.snapshot and not status.is_snapshotting, SNAPSHOT_SECONDS, late
  )


def _wait_for(connection: Connection, condition: Callable[[RunStatus], bool], seconds: float, late: str) -> RunStatus:
  """Waits for a status that meets a condition.

  Raises:
    ServerLost: the server does not answer, and writes no snapshot.
    RunFailed: none did in time; says `late`.
  """
  deadline = time.monotonic() + seconds
  snapshotting_until = 0.0
  while True:
    try:
      status = read_live_status(connection)
    except ServerLost:
      if time.monotonic() > snapshotting_until:
        raise
      status = None
    if status is not None and condition(status):
      return status
    if status is not None and status.is_snapshotting and not snapshotting_until:
      snapshotting_until = time.monotonic() + SNAPSHOT_SECONDS
      deadline = max(deadline, snapshotting_until + seconds)
    if time.monotonic() > deadline:
      raise RunFailed(late, ExitCode.FAILED)
    time.sleep(_POLL_SECONDS)
