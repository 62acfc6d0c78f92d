"""TCP keepalive on this process's connections to its server, which Reverb does not offer.

If the server's host loses power while a call waits for an answer, nothing is ever sent on its connection again, so the client
never learns that it is dead, and the call hangs for good. With keepalive the kernel asks, and the call fails after some seconds.
"""

import contextlib
import os
import pathlib
import socket

# The first probe after so many seconds of silence, the next ones after so many more; after the third the connection is dead.
IDLE_SECONDS = 5
INTERVAL_SECONDS = 2
PROBES = 3
# Data that was not acknowledged for so long ends a connection too; otherwise the kernel tries for a quarter of an hour, at ever
# longer intervals, although the server has long been back.
UNACKNOWLEDGED_SECONDS = 20

_OPTIONS = {
  (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
  (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): IDLE_SECONDS,
  (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): INTERVAL_SECONDS,
  (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): PROBES,
  (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT): 1000 * UNACKNOWLEDGED_SECONDS,
}


def keep_alive(port: int) -> int:
  """Switches keepalive on for all of this process's TCP connections to `port` that lack it; returns how many those were."""
  changed = 0
  for descriptor in pathlib.Path("/proc/self/fd").iterdir():
    with contextlib.suppress(OSError):  # Another thread may close it meanwhile.
      if descriptor.is_socket():
        changed += _keep_alive(int(descriptor.name), port)
  return changed


def _keep_alive(descriptor: int, port: int) -> bool:
  # Options belong to the connection, which a duplicate shares; the descriptor itself stays Reverb's.
  with socket.socket(fileno=os.dup(descriptor)) as connection:
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
      return False
    if connection.getpeername()[1] != port or connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
      return False
    for (level, option), value in _OPTIONS.items():
      connection.setsockopt(level, option, value)
    return True
