"""Lets nobody but this host connect to a port of this process.

Reverb listens on every address and has no setting for that. But the kernel lets a process filter what its own sockets receive.
Others then see the port as if a firewall dropped their packets. Recent kernels (seen with 6.18) refuse the filter to a process
without privileges, as in a container. There the sockets are bound to the loopback device, for which Linux 5.7 and later ask none.
"""

import ctypes
import errno
import os
import pathlib
import socket
import stat
import struct
from collections.abc import Sequence
from typing import NamedTuple

# Linux's; Python has no name for it.
_SO_ATTACH_FILTER = 26
# A program of the classic Berkeley packet filter reads from here on the packet's IP header.
_IP = 0xFFF00000
_LOAD_BYTE, _LOAD, _TO_X, _FROM_X, _AND, _IF_EQUAL, _IF_EQUAL_X, _RETURN = (
  0x30,
  0x20,
  0x07,
  0x87,
  0x54,
  0x15,
  0x1D,
  0x06,
)


class Kept(NamedTuple):
  """What was closed to others.

  Attributes:
    sockets: that listen on the port.
    loopback_only: whether this host, too, reaches them by its loopback addresses alone.
  """

  sockets: int
  loopback_only: bool


class _Step(NamedTuple):
  code: int
  value: int = 0
  then: str = ""  # Label of the next step if a comparison holds; "" for the step after this one.
  otherwise: str = ""
  label: str = ""


# A packet of this host has one of its addresses as its source and as its destination, but for 127.0.0.0/8.
_PROGRAM = (
  _Step(_LOAD_BYTE, _IP),
  _Step(_AND, 0xF0),
  _Step(_IF_EQUAL, 0x40, otherwise="version 6"),
  _Step(_LOAD, _IP + 12),
  _Step(_TO_X),
  _Step(_LOAD, _IP + 16),
  _Step(_IF_EQUAL_X, then="accept"),
  _Step(_FROM_X),
  _Step(_AND, 0xFF000000),
  _Step(_IF_EQUAL, 0x7F000000, then="accept", otherwise="drop"),
  *(
    step
    for word in range(0, 16, 4)
    for step in (
      _Step(_LOAD, _IP + 8 + word, label="" if word else "version 6"),
      _Step(_TO_X),
      _Step(_LOAD, _IP + 24 + word),
      _Step(_IF_EQUAL_X, otherwise="drop"),
    )
  ),
  _Step(_RETURN, 0xFFFFFFFF, label="accept"),
  _Step(_RETURN, 0, label="drop"),
)


def keep_private(port: int) -> Kept:
  """Lets only this host connect to `port`, on which this process listens.

  Raises:
    OSError: the kernel allows neither way.
  """
  modes = []
  for descriptor in pathlib.Path("/proc/self/fd").iterdir():
    duplicate = _duplicate_socket(int(descriptor.name))
    if duplicate is not None:
      with duplicate:
        if _listens_on(duplicate, port):
          modes.append(_close_to_others(duplicate))
  return Kept(len(modes), any(modes))


def _duplicate_socket(descriptor: int) -> socket.socket | None:
  """Returns another descriptor of the same socket, which has its settings, or None if `descriptor` is none, or not any more.

  The descriptor itself stays Reverb's. Other threads may close it, and open another in its place, at any moment. Files are not
  duplicated: closing a duplicate would release their POSIX locks.
  """
  try:
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
      return None
    duplicate = os.dup(descriptor)
  except OSError as error:
    if error.errno != errno.EBADF:
      raise
    return None
  try:
    return socket.socket(fileno=duplicate)
  except OSError as error:
    os.close(duplicate)
    if error.errno != errno.ENOTSOCK:
      raise
    return None


def _listens_on(found: socket.socket, port: int) -> bool:
  if found.family not in (socket.AF_INET, socket.AF_INET6) or found.type != socket.SOCK_STREAM:
    return False
  return bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)) and found.getsockname()[1] == port


def _close_to_others(listening: socket.socket) -> bool:
  """Returns whether only loopback addresses lead to the socket from now on."""
  buffer = ctypes.create_string_buffer(_assembled(_PROGRAM))
  # struct sock_fprog: the number of instructions, and where they are.
  program = struct.pack("HP", len(_PROGRAM), ctypes.addressof(buffer))
  try:
    listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
  except PermissionError:
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
    return True
  return False


def _assembled(program: Sequence[_Step]) -> bytes:
  places = {step.label: index for index, step in enumerate(program)}

  def distance(index: int, label: str) -> int:
    return places[label] - index - 1 if label else 0

  return b"".join(
    struct.pack("=HBBI", step.code, distance(index, step.then), distance(index, step.otherwise), step.value)
    for index, step in enumerate(program)
  )
