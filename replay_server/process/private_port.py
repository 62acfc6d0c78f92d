"""Lets nobody but this host connect to a port of this process.

Reverb listens on every address and has no setting for that. But the kernel lets a process filter what its own sockets receive,
without any privilege. Others then see the port as if a firewall dropped their packets.
"""

import contextlib
import ctypes
import os
import pathlib
import socket
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


def keep_private(port: int) -> int:
  """Lets only this host connect to `port`, on which this process listens; returns how many sockets there are.

  Raises:
    OSError: the kernel takes no filter.
  """
  found = 0
  for descriptor in pathlib.Path("/proc/self/fd").iterdir():
    with contextlib.suppress(FileNotFoundError):  # Another thread may close it meanwhile.
      if descriptor.is_socket():
        found += _keep_private(int(descriptor.name), port)
  return found


def _keep_private(descriptor: int, port: int) -> bool:
  # The filter belongs to the socket, which a duplicate shares; the descriptor itself stays Reverb's.
  with socket.socket(fileno=os.dup(descriptor)) as listening:
    if listening.family not in (socket.AF_INET, socket.AF_INET6) or listening.type != socket.SOCK_STREAM:
      return False
    if not listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) or listening.getsockname()[1] != port:
      return False
    program = _assembled(_PROGRAM)
    buffer = ctypes.create_string_buffer(program)
    # struct sock_fprog: the number of instructions, and where they are.
    listening.setsockopt(
      socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(_PROGRAM), ctypes.addressof(buffer))
    )
    return True


def _assembled(program: Sequence[_Step]) -> bytes:
  places = {step.label: index for index, step in enumerate(program)}

  def distance(index: int, label: str) -> int:
    return places[label] - index - 1 if label else 0

  return b"".join(
    struct.pack("=HBBI", step.code, distance(index, step.then), distance(index, step.otherwise), step.value)
    for index, step in enumerate(program)
  )
