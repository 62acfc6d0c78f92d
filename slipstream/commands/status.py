"""`slipstream status`: shows what a running job does, once or until it ends."""

import time
from typing import TYPE_CHECKING

from absl import flags

from configs import UserError, to_json
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import define_server, require_server

if TYPE_CHECKING:
  from replay_server.contract.connection import Connection
  from replay_server.contract.status import RunStatus

CONNECT_SECONDS = 5.0
_POLL_SECONDS = 1.0


def _define_flags(values: flags.FlagValues) -> None:
  define_server(values)
  flags.DEFINE_bool("watch", False, "Keep showing it until the run ends.", flag_values=values)
  flags.DEFINE_bool("json", False, "Print it as JSON.", flag_values=values)


def _run(arguments: Arguments) -> int:
  from rich.console import Console

  from launch.view import render
  from replay_server.contract.connection import Connection

  values = arguments.flags
  connection = Connection(require_server(values))
  connection.wait_until_up(CONNECT_SECONDS)
  status = _first_status(connection)
  if values.json:
    print(to_json(status))
  elif values.watch:
    _watch(connection, status)
  else:
    Console().print(render(status))
  return 0


def _first_status(connection: "Connection") -> "RunStatus":
  from replay_server.contract.run import read_live_status

  deadline = time.monotonic() + CONNECT_SECONDS
  while (status := read_live_status(connection)) is None:
    if time.monotonic() > deadline:
      raise UserError(f"The server at {connection.address} has no status after {CONNECT_SECONDS:g} s: see its log.")
    time.sleep(_POLL_SECONDS / 5)
  return status


def _watch(connection: "Connection", status: "RunStatus") -> None:
  from launch.view import RunView
  from replay_server.contract.run import read_live_status

  with RunView() as view:
    view.update(status)
    while not status.finished:
      time.sleep(_POLL_SECONDS)
      status = read_live_status(connection) or status
      view.update(status)


COMMAND = Command("status", "what a running job does", _define_flags, _run)
