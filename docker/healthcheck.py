#!/usr/local/bin/python3 -IS
"""Asks the role in this container whether it is well; in the image this is `slipstream-health [PORT [PATH]]`.

Exits with 0 if http://127.0.0.1:PORT/PATH (9464, healthz) answers with 200 within two seconds, else with 1, and prints what it
was told. An engine runs this every few seconds in every container, so it imports as little as possible: http.client alone would
double its CPU time.
"""

import socket
import sys

DEFAULT_PORT = 9464
TIMEOUT_SECONDS = 2.0
_MOST_BYTES = 2_000


def ask(port: int, path: str) -> tuple[bool, str]:
  """Whether the answer is 200, and its text or why there is none."""
  try:
    with (
      socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as connection,
      connection.makefile("rb") as answer,
    ):
      connection.sendall(f"GET /{path.lstrip('/')} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
      head, _, body = answer.read(_MOST_BYTES).partition(b"\r\n\r\n")
  except OSError as error:
    return False, f"Nobody answers on port {port} ({error}): is --metrics_port={port} given?"
  return head.split()[1:2] == [b"200"], body.decode(errors="replace").strip()


def main(words: list[str]) -> int:
  """Asks and prints; returns the exit code."""
  port, path = [*words, *(str(DEFAULT_PORT), "healthz")[len(words) :]]
  is_well, text = ask(int(port), path)
  print(text)
  return 0 if is_well else 1


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
