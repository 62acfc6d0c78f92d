"""Where a run's server is: a file in the run directory names its host and port, and other processes find the server by it.

A server that is started again, by a scheduler for example, may be on another host. `--server=@RUN_DIR` stands for the server of
the run in a directory that both sides see, wherever it is.
"""

import contextlib
import dataclasses
import json
import pathlib
import socket
import threading
import time
from collections.abc import Iterator

from configs import Stopped, UserError
from configs.errors import RunEnded, ServerAway
from configs.files import replace_text
from launch.process import RoleProcess
from launch.run_directory import RunDirectory

_MARK = "@"
_POLL_SECONDS = 0.5
# How often a role looks whether its server is elsewhere.
FOLLOW_SECONDS = 5.0
# A run that has ended may be about to go on, with a larger budget: its server says so when it has loaded its libraries.
ENDED_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class ServerPlace:
  """What a run directory says of the run's server.

  Attributes:
    run_id: of the run.
    address: "host:port", by which other hosts reach the server; empty if it has left. One that was killed leaves its last.
    ended: whether the run has ended.
  """

  run_id: str
  address: str = ""
  ended: bool = False


def write_place(run: RunDirectory, port: int = 0, ended: bool = False) -> None:
  """Says where the server of a run is; prints a sentence if that is impossible, as on a full disk.

  Args:
    run: its directory.
    port: of the server on this host; 0 if it leaves.
    ended: whether the run has ended.
  """
  place = ServerPlace(run.run_id, f"{_own_host()}:{port}" if port else "", ended)
  try:
    replace_text(run.server, json.dumps(dataclasses.asdict(place)) + "\n")
  except OSError as error:
    print(
      f"{run.server} cannot be written ({error.strerror}), so --server={_MARK}{run.path} finds no server.", flush=True
    )


def _own_host() -> str:
  name = socket.gethostname()
  try:
    socket.getaddrinfo(name, None)
  except OSError:
    print(f"This host does not know its own name, {name}: only processes on it find the server by --server=@RUN_DIR.")
    return "localhost"
  return name


def read_place(run: RunDirectory) -> ServerPlace | None:
  """What a run directory says of its server; None if it says nothing, or nothing that can be read."""
  try:
    place = ServerPlace(**json.loads(run.server.read_text()))
  except (OSError, ValueError, TypeError):
    return None
  is_sound = isinstance(place.run_id, str) and isinstance(place.address, str) and isinstance(place.ended, bool)
  return place if is_sound else None


def places(run: RunDirectory, patience_seconds: float, stop: threading.Event | None = None) -> Iterator[ServerPlace]:
  """Where to try to reach the server of a run, until somebody succeeds; the run directory's file is read again before each.

  Args:
    run: its directory.
    patience_seconds: to wait.
    stop: ends the wait.

  Raises:
    ServerAway: the run has no server that was reached in time.
    UserError: `run` is no run directory.
    RunEnded: the run has ended.
    Stopped: `stop` was set meanwhile.
  """
  began = time.monotonic()
  while True:
    place = read_place(run)
    if place is not None and place.address:
      yield place
    waited = time.monotonic() - began
    if place is not None and place.ended and waited >= min(ENDED_SECONDS, patience_seconds):
      raise RunEnded(f"Run {place.run_id} in {run.path} has ended.")
    if waited >= patience_seconds:
      raise _nobody(run, place, patience_seconds)
    _wait(run, stop)


def _wait(run: RunDirectory, stop: threading.Event | None) -> None:
  if stop is None:
    time.sleep(_POLL_SECONDS)
  elif stop.wait(_POLL_SECONDS):
    raise Stopped(f"Stopped while waiting for the server of the run in {run.path}.")


def address_of(server: str) -> str:
  """The address that `server` stands for now; see `launch.endpoint.connected`. Whether anybody answers there is not tried.

  Raises:
    UserError: it is a run directory's, which names none.
  """
  run = run_of(server)
  if run is None:
    return server
  place = read_place(run)
  if place is None or not place.address:
    raise _nobody(run, place, 0.0)
  return place.address


def run_of(server: str) -> RunDirectory | None:
  """The run directory of "@RUN_DIR"; None for an address.

  Raises:
    UserError: it names no folder.
  """
  if not server.startswith(_MARK):
    return None
  if server == _MARK:
    raise UserError(f"--server={_MARK} names no run directory: write --server={_MARK}RUN_DIR, or --server=host:port.")
  return RunDirectory(pathlib.Path(server.removeprefix(_MARK)).expanduser().resolve())


def _nobody(run: RunDirectory, place: ServerPlace | None, waited_seconds: float) -> UserError:
  """Why there is no server, in a sentence."""
  waited = f" (waited {waited_seconds:g} s)" if waited_seconds else ""
  start = f"'slipstream serve --run_dir={run.path}'"
  if not run.is_begun:
    return UserError(f"{run.path} is not a run directory{waited}: check the path, or begin a run there with {start}.")
  if place is None or not place.address:
    return ServerAway(f"The run in {run.path} has no server{waited}: start it with {start}.")
  return ServerAway(
    f"The server of the run in {run.path} was at {place.address}, where it does not answer{waited}: start it again with {start}, "
    "or check the network."
  )


@contextlib.contextmanager
def following(server: str, process: RoleProcess) -> Iterator[None]:
  """Watches the server of a run directory: a role ends when the run has, and is to be started again when the server is elsewhere.

  Without this a role would wait at the old address for as long as it waits for a server.

  Args:
    server: "host:port" or "@RUN_DIR"; a plain address is not watched.
    process: of the role.
  """
  run, done = run_of(server), threading.Event()
  before = None if run is None else read_place(run)
  if run is None or before is None:
    yield
    return

  def watch(run: RunDirectory, before: ServerPlace) -> None:
    while not done.wait(FOLLOW_SECONDS):
      place = read_place(run)
      if place is not None and place.ended:
        process.stop.set()
        return
      if place is not None and place.address and place.address != before.address:
        process.server_lost(
          f"The server of run {place.run_id} was at {before.address} and is at {place.address} now: start this role again."
        )
        return

  threading.Thread(target=watch, args=(run, before), name="server-place", daemon=True).start()
  try:
    yield
  finally:
    done.set()
