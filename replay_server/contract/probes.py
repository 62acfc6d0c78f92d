"""What listens at an address: found out with a few bytes, and without Reverb."""

import ipaddress
import socket
import ssl

_TIMEOUT_SECONDS = 2.0
# With this a client of HTTP/2 begins, followed by empty settings; the server answers with its own settings.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_FRAME_HEADER_BYTES = 9
_TYPE_AT, _SETTINGS = 3, 4


def split_address(address: str) -> tuple[str, int]:
  """Host, without the brackets of an IPv6 address, and port of "host:port"."""
  host, _, port = address.rpartition(":")
  return host.strip("[]"), int(port)


def listens(address: str, timeout_seconds: float = _TIMEOUT_SECONDS) -> bool:
  """Whether somebody listens at "host:port"."""
  try:
    socket.create_connection(split_address(address), timeout=timeout_seconds).close()
  except OSError:
    return False
  return True


def speaks_tls(address: str, timeout_seconds: float = _TIMEOUT_SECONDS) -> bool:
  """Whether TLS is spoken at "host:port"; nothing is sent over it, and no certificate is checked or shown."""
  context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
  context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
  try:
    with socket.create_connection(split_address(address), timeout=timeout_seconds) as plain:
      context.wrap_socket(plain).close()
  except OSError:
    return False
  return True


def is_reachable_without_tls(address: str, timeout_seconds: float = _TIMEOUT_SECONDS) -> bool:
  """Whether gRPC without TLS is spoken at "host:port", which is on another host than this process."""
  try:
    with socket.create_connection(split_address(address), timeout=timeout_seconds) as plain:
      if _is_this_host(plain):
        return False
      plain.sendall(_PREFACE)
      header = bytearray()
      while len(header) < _FRAME_HEADER_BYTES:
        received = plain.recv(_FRAME_HEADER_BYTES - len(header))
        if not received:
          return False
        header += received
  except OSError:
    return False
  return header[_TYPE_AT] == _SETTINGS


def _is_this_host(connection: socket.socket) -> bool:
  ours, theirs = connection.getsockname()[0], connection.getpeername()[0]
  # Linux talks to an address of its own from the same one, but for those of the loopback device.
  return bool(ours == theirs) or ipaddress.ip_address(theirs).is_loopback
