"""A role that joins at the first moment: for each address on standard input, it prints the learning rate of the manifest.

It waits for the port, not for the server, so that it reads as soon as anything answers. `test_server.py` runs it.
"""

import contextlib
import socket
import sys
import time

from replay_server.contract.connection import Connection
from replay_server.contract.run import read_manifest


def wait_for_port(address: str) -> None:
  """Waits until something listens at `address`; ends only then."""
  host, _, port = address.rpartition(":")
  while True:
    with contextlib.suppress(OSError):
      socket.create_connection((host, int(port)), timeout=1).close()
      return


def main() -> None:
  """Answers until standard input ends."""
  print("ready", flush=True)
  for line in sys.stdin:
    wait_for_port(line.strip())
    connection = Connection(line.strip())
    while (manifest := read_manifest(connection)) is None:
      time.sleep(0.001)
    print(manifest.config.learner.learning_rate, flush=True)


main()
