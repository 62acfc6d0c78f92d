"""`slipstream status`: what a running job does, once or until it ends."""

import time

from rich.console import Console

from configs import UserError, to_json
from launch.view import RunView, render
from replay_server.contract.connection import Connection
from replay_server.contract.run import read_live_status
from replay_server.contract.status import RunStatus

_CONNECT_SECONDS = 5.0
_POLL_SECONDS = 1.0


def show_status(server: str, watch: bool, as_json: bool) -> int:
  """Shows the status of the run at `server`; returns the exit code.

  Raises:
    UserError: no server answers there, or it holds no run.
    ServerLost: the server went away while it was watched.
  """
  connection = Connection(server)
  connection.wait_until_up(_CONNECT_SECONDS)
  status = _first_status(connection)
  if as_json:
    print(to_json(status))
  elif not watch:
    Console().print(render(status))
  else:
    with RunView() as view:
      view.update(status)
      while not status.finished:
        time.sleep(_POLL_SECONDS)
        status = read_live_status(connection) or status
        view.update(status)
  return 0


def _first_status(connection: Connection) -> RunStatus:
  deadline = time.monotonic() + _CONNECT_SECONDS
  while (status := read_live_status(connection)) is None:
    if time.monotonic() > deadline:
      raise UserError(f"The server at {connection.address} has no status after {_CONNECT_SECONDS:g} s: see its log.")
    time.sleep(_POLL_SECONDS / 5)
  return status
