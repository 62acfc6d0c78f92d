"""`slipstream status`: shows what a running job does, once or until it ends."""

import time
from typing import TYPE_CHECKING

from absl import flags

from configs import UserError, to_json
from launch.process_id import CLIENT
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import define_server, given_endpoint

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

  from launch.endpoint import connected
  from launch.view.panel import render

  values = arguments.flags
  with connected(given_endpoint(values)) as connection:
    status = first_status(connection)
    if values.watch and not values.json:
      _watch(connection, status)
  if values.json:
    print(to_json(status))
  elif not values.watch:
    Console().print(render(status))
  return 0


def first_status(connection: "Connection") -> "RunStatus":
  """The status of a running server.

  Raises:
    UserError: no server answers, or it has no status.
    ServerLost: it no longer answers.
  """
  from replay_server.contract.run import read_live_status

  connection.wait_until_up(CONNECT_SECONDS)
  deadline = time.monotonic() + CONNECT_SECONDS
  while (status := read_live_status(connection)) is None:
    if time.monotonic() > deadline:
      raise UserError(f"The server at {connection.address} has no status after {CONNECT_SECONDS:g} s: see its log.")
    time.sleep(_POLL_SECONDS / 5)
  return status


def _watch(connection: "Connection", status: "RunStatus") -> None:
  from launch.view.run_view import RunView
  from replay_server.contract.run import read_live_status

  with RunView() as view:
    view.update(status)
    while not status.finished:
      time.sleep(_POLL_SECONDS)
      status = read_live_status(connection) or status
      view.update(status)


COMMAND = Command("status", "what a running job does", _define_flags, _run, parity=CLIENT)
