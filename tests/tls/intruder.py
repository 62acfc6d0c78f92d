"""`python -m tests.tls.intruder ADDRESS CA [CERTIFICATE KEY]`: shakes hands as a client that does not check itself.

Prints what the server answers: "let in", or the reason in OpenSSL's words.
"""

import socket
import ssl
import sys

_SECONDS = 20.0
# With this a client of HTTP/2 begins; a server that has let it in answers.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


def main(address: str, ca: str, *pair: str) -> None:
  """Prints what the server at `address` answers to the certificate and the key of `pair`, or to none."""
  host, _, port = address.rpartition(":")
  context = ssl.create_default_context(cafile=ca)
  if pair:
    context.load_cert_chain(*pair)
  try:
    with (
      socket.create_connection((host, int(port)), timeout=_SECONDS) as plain,
      context.wrap_socket(plain, server_hostname=host) as secured,
    ):
      answer = _ask(secured)
  except ssl.SSLError as error:
    answer = error.reason or str(error)
  print(answer)


def _ask(secured: ssl.SSLSocket) -> str:
  secured.settimeout(1.0)
  try:
    secured.recv(1)  # An alert comes by itself.
  except TimeoutError:
    secured.settimeout(_SECONDS)
    secured.sendall(_PREFACE)
    return "let in" if secured.recv(1) else "closed"
  return "let in"


if __name__ == "__main__":
  main(*sys.argv[1:])
