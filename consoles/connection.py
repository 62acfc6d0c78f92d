"""A worker's connection to a console: every answer has a deadline, and every failure a sentence."""

import contextlib
import os
import queue
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc

from consoles import console_pb2, console_pb2_grpc
from consoles.codec import MOST_BYTES

# How often the thread that keeps the deadlines looks.
_LOOK_SECONDS = 0.05
_CHANNEL_OPTIONS = (
  ("grpc.enable_http_proxy", 0),
  ("grpc.max_receive_message_length", MOST_BYTES),
  ("grpc.max_send_message_length", MOST_BYTES),
  # Channels to one address share their connection otherwise, and with it the wait after a failure.
  ("grpc.use_local_subchannel_pool", 1),
)
# Begins what is a console's own sentence.
_SAYS = "says: "
# What another attempt cannot mend.
_MISTAKES = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAUTHENTICATED)


class Failed(Exception):
  """A call of a console failed; the message is a clause that says why, without a full stop.

  Attributes:
    code: gRPC's.
  """

  def __init__(self, clause: str, code: grpc.StatusCode):
    super().__init__(clause)
    self.code = code

  @property
  def is_mistake(self) -> bool:
    """Whether the same call would fail again."""
    return bool(self.code in _MISTAKES)

  @property
  def is_preparing(self) -> bool:
    """Whether the console answers that it is not ready yet."""
    return bool(self.code == grpc.StatusCode.UNAVAILABLE and str(self).startswith(_SAYS))

  @property
  def is_held(self) -> bool:
    """Whether another worker has the console."""
    return bool(self.code == grpc.StatusCode.RESOURCE_EXHAUSTED)


class Connection:
  """A channel to a console. `play` gives the one stream of it."""

  def __init__(self, address: str, credentials: grpc.ChannelCredentials | None):
    """Connects when it is first used."""
    self._channel = (
      grpc.insecure_channel(address, _CHANNEL_OPTIONS)
      if credentials is None
      else grpc.secure_channel(address, credentials, _CHANNEL_OPTIONS)
    )
    self._stub = console_pb2_grpc.ConsoleStub(self._channel)

  def describe(self, setup: console_pb2.Setup, seconds: float) -> console_pb2.Description:
    """What a setup is.

    Raises:
      Failed: the console refuses it, or does not answer in time.
    """
    with _failing(seconds):
      return self._stub.Describe(setup, timeout=seconds)

  def health(self, seconds: float) -> console_pb2.HealthReply:
    """How the console is; raises as `describe` does."""
    with _failing(seconds):
      return self._stub.Health(console_pb2.HealthRequest(), timeout=seconds)

  def play(self) -> "Stream":
    """A stream."""
    return Stream(self._stub)

  def close(self) -> None:
    """Ends the stream, too."""
    self._channel.close()


class Stream:
  """A stream `Play`. A thread keeps its deadlines, and the lease while there is nothing to say."""

  def __init__(self, stub: Any):
    """Begins the stream; nothing is said yet."""
    self._outbox: queue.SimpleQueue[console_pb2.Request | None] = queue.SimpleQueue()
    self._call = stub.Play(iter(self._outbox.get, None))
    self._due = float("inf")
    self._late = False
    self._said = time.monotonic()
    self._ended = threading.Event()
    self.keep_alive_seconds = float("inf")
    threading.Thread(target=self._watch, name="console-deadlines", daemon=True).start()

  def ask(self, request: console_pb2.Request, seconds: float) -> console_pb2.Reply:
    """The reply to a request.

    Raises:
      Failed: there is none within `seconds`, or the stream ended. It cannot be used any more.
    """
    now = time.monotonic()
    self._said, self._due = now, now + seconds
    self._outbox.put(request)
    try:
      return next(self._call)
    except StopIteration:
      raise Failed("ended the session", grpc.StatusCode.CANCELLED) from None
    except grpc.RpcError as error:
      self.close()
      if self._late:
        raise Failed(f"did not answer within {seconds:.3g} s", grpc.StatusCode.DEADLINE_EXCEEDED) from None
      raise _failed(error, seconds) from None
    finally:
      self._due = float("inf")

  def close(self) -> None:
    """Ends the stream at once."""
    self._ended.set()
    self._outbox.put(None)
    self._call.cancel()

  def _watch(self) -> None:
    while not self._ended.wait(_LOOK_SECONDS):
      now = time.monotonic()
      if now > self._due:
        self._late = True
        self._call.cancel()
        return
      if now > self._said + self.keep_alive_seconds:
        self._said = now
        self._outbox.put(console_pb2.Request(keep_alive=console_pb2.KeepAlive()))


@contextlib.contextmanager
def _failing(seconds: float) -> Iterator[None]:
  try:
    yield
  except grpc.RpcError as error:
    raise _failed(error, seconds) from None


def _failed(error: Any, seconds: float) -> Failed:
  code, details = error.code(), " ".join(str(error.details() or "").split()).rstrip(".")
  if code == grpc.StatusCode.DEADLINE_EXCEEDED and not details.startswith("nothing"):
    return Failed(f"did not answer within {seconds:.3g} s", code)
  if code == grpc.StatusCode.UNIMPLEMENTED:
    return Failed(
      "speaks no version of the protocol that this worker knows: bring both to the same version of Slipstream", code
    )
  if code == grpc.StatusCode.UNAVAILABLE and (
    "connect" in details or "reset" in details or "closed" in details.lower()
  ):
    return Failed(f"does not answer ({details})", code)
  return Failed(f"{_SAYS}{details or code.name}", code)


def own_name() -> str:
  """This process, for the people who read who holds a console."""
  return f"process {os.getpid()} on {socket.gethostname()}"
