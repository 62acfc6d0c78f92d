"""A TCP proxy that stands for a slow link."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

_PIECE = 2_048
# Little is buffered on the way, as otherwise the first hundreds of kilobytes would arrive at once.
_BUFFER = 8_192


class SlowLink:
  """Passes bytes to a server and back, each direction at a limited rate shared by all connections.

  Attributes:
    address: "host:port" of the proxy.
    bytes_per_second: of each direction; may be changed at any time.
  """

  def __init__(self, target: str, bytes_per_second: float):
    """Listens; `close` or the `with` statement of `slow_link` ends it."""
    host, _, port = target.rpartition(":")
    self._target = (host, int(port))
    self.bytes_per_second = bytes_per_second
    self._listener = socket.create_server(("localhost", 0))
    self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    self.address = f"localhost:{self._listener.getsockname()[1]}"
    self._sockets = [self._listener]
    self._free_at = [0.0, 0.0]
    self._lock = threading.Lock()
    self._accepting = threading.Thread(target=self._accept, daemon=True)
    self._accepting.start()

  def _accept(self) -> None:
    with contextlib.suppress(OSError):
      while True:
        client, _ = self._listener.accept()
        server = socket.socket()
        self._sockets += [client, server]  # First, as the server may be gone.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        server.connect(self._target)
        for direction, (source, sink) in enumerate([(client, server), (server, client)]):
          threading.Thread(target=self._pass, args=(source, sink, direction), daemon=True).start()

  def _pass(self, source: socket.socket, sink: socket.socket, direction: int) -> None:
    with contextlib.suppress(OSError):
      while piece := source.recv(_PIECE):
        with self._lock:
          begins = max(time.monotonic(), self._free_at[direction])
          self._free_at[direction] = begins + len(piece) / self.bytes_per_second
        time.sleep(max(0.0, self._free_at[direction] - time.monotonic()))
        sink.sendall(piece)
    for side in (source, sink):
      with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)

  def close(self) -> None:
    """Ends all connections."""
    with contextlib.suppress(OSError):
      self._listener.shutdown(socket.SHUT_RDWR)
    self._accepting.join()  # It may be about to take one more.
    for one in self._sockets:
      with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
      one.close()


@contextlib.contextmanager
def slow_link(target: str, bytes_per_second: float) -> Iterator[SlowLink]:
  """A slow link to `target`, "host:port"."""
  with contextlib.closing(SlowLink(target, bytes_per_second)) as link:
    yield link
