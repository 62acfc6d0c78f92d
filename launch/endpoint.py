"""Where a role finds its server, and the connection to it."""

import contextlib
import dataclasses
import math
import threading
from collections.abc import Callable, Iterator

from configs.errors import NoServer
from launch.process import SERVER_TIMEOUT_SECONDS
from launch.run_directory import RunDirectory
from launch.server_place import ServerPlace, places, run_of
from launch.tls import Tls
from launch.tunnel import client_tunnel
from replay_server.contract.connection import Connection, check_address


@dataclasses.dataclass(frozen=True)
class Endpoint:
  """A server, as a role is told of it.

  Attributes:
    address: "host:port", or "@RUN_DIR" for that of the run in this directory; see `launch.server_place`.
    timeout_seconds: to wait for the server, at the start and whenever it does not answer; 0 waits for ever.
    tls: with which files the role proves who it is; None for a server without TLS.
  """

  address: str
  timeout_seconds: float = SERVER_TIMEOUT_SECONDS
  tls: Tls | None = None

  def __post_init__(self) -> None:
    """Checks the address.

    Raises:
      UserError: it is neither host:port nor a run directory's.
    """
    if run_of(self.address) is None:
      check_address(self.address)

  @property
  def patience_seconds(self) -> float:
    """To wait for the server; may be infinite."""
    return self.timeout_seconds if self.timeout_seconds > 0 else math.inf

  @property
  def words(self) -> list[str]:
    """The flags for a role that this process starts."""
    tls = [] if self.tls is None else self.tls.words
    return [f"--server={self.address}", f"--server_timeout={self.timeout_seconds}", *tls]


@contextlib.contextmanager
def connected(
  endpoint: Endpoint, on_lost: Callable[[str], None] | None = None, stop: threading.Event | None = None
) -> Iterator[Connection]:
  """A connection to a server, through a TLS tunnel of this process if the endpoint says so; it ends with the `with` statement.

  The server of a run directory is waited for until it answers; whether anybody answers at host:port is not tried.

  Args:
    endpoint: of the server.
    on_lost: called in another thread with a sentence if the tunnel ends and cannot be started again.
    stop: ends the wait.

  Raises:
    UserError: the tunnel cannot be started, or the run directory's server does not answer.
    RunEnded: the run in the directory has ended.
    Stopped: `stop` was set meanwhile.
  """
  with contextlib.ExitStack() as stack:

    def opened(address: str, run_id: str = "") -> Connection:
      stack.close()  # The tunnel to the place where the server was before.
      route = None
      if endpoint.tls is not None:
        route = stack.enter_context(client_tunnel(endpoint.tls, address, on_lost))
      return Connection(address, run_id, route=route)

    run = run_of(endpoint.address)
    yield opened(endpoint.address) if run is None else _connect(run, endpoint.patience_seconds, stop, opened)


def _connect(
  run: RunDirectory, patience_seconds: float, stop: threading.Event | None, opened: Callable[[str, str], Connection]
) -> Connection:
  """A connection to the server of a run directory, which answers; see `connected`.

  Args:
    run: the directory.
    patience_seconds: to wait for the server.
    stop: ends the wait.
    opened: opens a connection to an address, for the run of an id: another run's server may have taken the port of one that was
      killed.
  """
  tried: tuple[ServerPlace, Connection] | None = None
  for place in places(run, patience_seconds, stop):
    if tried is None or tried[0] != place:
      tried = place, opened(place.address, place.run_id)
    with contextlib.suppress(NoServer):
      tried[1].wait_until_up(0.0, stop)
      return tried[1]
  raise AssertionError("`places` ends with an exception")
