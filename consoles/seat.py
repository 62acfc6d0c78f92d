"""A worker's seat at a console: found, taken, lost and taken again."""

import contextlib
import random
import threading
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import grpc

from configs.errors import EpisodesLost, UserError, name_hint
from consoles import console_pb2
from consoles.codec import PROTOCOL
from consoles.connection import Connection, Failed, Stream, own_name

# Seconds: to find the console and to find it free at the start; for one that answers that its world is still being made, which
# takes a minute or two where many consoles compile at once; for a reply; for the reply to a launch, which may make a world.
TIMEOUTS: Mapping[str, float] = {"start": 30.0, "ready": 300.0, "step": 10.0, "launch": 60.0}
# Between attempts to come back.
_LEAST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_CLOSE_SECONDS = 1.0
# A lease is kept by at least so many words within the silence that would end it.
_WORDS_PER_LEASE = 4


class Seat:
  """A console, and the stream of the one who plays there.

  Attributes:
    address: host:port.
    setup: what is played.
    timeouts: seconds, as in `TIMEOUTS`.
    description: of the setup, as the console gave it at the start.
    lost_reason: why the stream was lost, or cannot be had; empty while all is well.
    losses: streams that were lost.
  """

  def __init__(
    self,
    address: str,
    setup: console_pb2.Setup,
    world: str,
    timeouts: Mapping[str, float],
    credentials: grpc.ChannelCredentials | None,
  ):
    """Finds the console; its lease is not taken yet.

    Args:
      address: host:port.
      setup: what to play.
      world: that is expected; empty for any.
      timeouts: seconds, as in `TIMEOUTS`.
      credentials: for TLS; None without it.

    Raises:
      UserError: no console answers there in time, or it is another one than expected.
    """
    self.address = address
    self.setup = setup
    self.timeouts = timeouts
    self.lost_reason = ""
    self.losses = 0
    self._world = world
    self._credentials = credentials
    self._connection: Connection | None = None
    self._stream: Stream | None = None
    self._was_taken = False
    self._failures = 0
    self._failed_at = 0.0
    self._leaving = threading.Event()
    self.description = self._find()

  @property
  def is_taken(self) -> bool:
    """Whether there is a stream."""
    return self._stream is not None

  def take(self) -> None:
    """Opens a stream, after a pause if the last one failed. It is longer after each failure, up to 5 s.

    Raises:
      EpisodesLost: the console does not answer, or another worker has it; a further call tries again.
      UserError: it is not the console that it was; or at the first time another worker keeps it.
    """
    pause = min(_LEAST_PAUSE * 2 ** min(self._failures, 10), _LONGEST_PAUSE) if self._failures else 0.0
    # Not all workers of a host that went away should come back at once.
    until = self._failed_at + pause * random.uniform(0.5, 1.0)
    self._leaving.wait(max(0.0, until - time.monotonic()))
    until = time.monotonic() + (0.0 if self._was_taken else self.timeouts["start"])
    while True:
      try:
        self._open()
        break
      except Failed as failed:
        self._drop()
        sentence = self._sentence(failed)
        if not failed.is_held or self._was_taken:
          self.fail(failed)
        if time.monotonic() >= until:
          raise UserError(sentence) from None
      self._leaving.wait(_LEAST_PAUSE)
    self._was_taken = True

  def ask(self, request: console_pb2.Request, seconds: float, kind: str) -> Any:
    """The reply to a request: its part `kind`.

    Raises:
      EpisodesLost: there is none in time, or the stream was lost.
      UserError: the console refuses what another attempt would ask again.
    """
    assert self._stream is not None
    try:
      reply = self._stream.ask(request, seconds)
    except Failed as failed:
      self.fail(failed)
    if reply.WhichOneof("kind") != kind:
      self.lose(f"The console at {self.address} answered {reply.WhichOneof('kind')} where {kind} belongs.")
    return getattr(reply, kind)

  def note_step(self) -> None:
    """The console plays, so that the next failure is a first one."""
    self._failures = 0
    self.lost_reason = ""

  def fail(self, failed: Failed) -> NoReturn:
    """Gives the stream up; see `ask` for what is raised."""
    if failed.is_mistake:
      self._drop()
      raise UserError(self._sentence(failed))
    self.lose(self._sentence(failed))

  def lose(self, sentence: str) -> NoReturn:
    """Gives the stream up, and raises `EpisodesLost` with this sentence."""
    self.losses += self._stream is not None
    self._drop()
    self._failures += 1
    self._failed_at = time.monotonic()
    self.lost_reason = sentence
    raise EpisodesLost(sentence)

  def health(self) -> console_pb2.HealthReply:
    """How the console is, by its own account.

    Raises:
      UserError: it does not answer.
    """
    connection = self._connection or Connection(self.address, self._credentials)
    try:
      return connection.health(self.timeouts["step"])
    except Failed as failed:
      raise UserError(self._sentence(failed)) from None
    finally:
      if connection is not self._connection:
        connection.close()

  def leave(self) -> None:
    """Gives the console back."""
    self._leaving.set()
    if self._stream is not None:
      with contextlib.suppress(Failed):  # It is gone, and the lease with it.
        self._stream.ask(console_pb2.Request(close=console_pb2.Close()), _CLOSE_SECONDS)
    self._drop()

  def _find(self) -> console_pb2.Description:
    """The description of a console that may still be starting."""
    began = time.monotonic()
    until = began + self.timeouts["start"]
    pause = _LEAST_PAUSE
    while True:
      connection = Connection(self.address, self._credentials)
      try:
        description = connection.describe(self.setup, max(until - time.monotonic(), _LEAST_PAUSE))
        self._check(description)
        return description
      except Failed as failed:
        if failed.is_mistake:
          self._check_world(connection)
        if failed.is_preparing:
          until = max(until, began + self.timeouts["ready"])
        if failed.is_mistake or time.monotonic() + pause >= until:
          raise UserError(self._sentence(failed)) from None
      finally:
        connection.close()
      self._leaving.wait(pause)
      pause = min(2 * pause, 1.0)

  def _check_world(self, connection: Connection) -> None:
    """Raises a UserError if the console, which refuses what is to be played, is another one than expected: then this is why."""
    with contextlib.suppress(Failed):
      self._check(connection.describe(console_pb2.Setup(), self.timeouts["step"]))

  def _check(self, description: console_pb2.Description) -> None:
    """Raises a UserError if it is another world, or a protocol that is not known."""
    if description.protocol != PROTOCOL:
      raise UserError(
        f"The console at {self.address} speaks version {description.protocol} of the protocol, and this worker version "
        f"{PROTOCOL}: bring both to the same version of Slipstream."
      )
    if self._world and description.world != self._world:
      raise UserError(
        f"The console at {self.address} plays {description.world!r}, and {self._world!r} is expected: check the address, or "
        f"start it with --world={self._world}."
      )
    wanted = self.setup.scenario
    if wanted and wanted not in description.scenarios:
      raise UserError(
        f"The console at {self.address} has no scenario {wanted!r}: {name_hint(wanted, description.scenarios)}"
      )

  def _open(self) -> None:
    """Takes the lease.

    Raises:
      Failed: it cannot be had.
      UserError: the console is not what it was.
    """
    self._connection = Connection(self.address, self._credentials)
    description, ours = self._connection.describe(self.setup, self.timeouts["step"]), self.description
    self._check(description)
    if (ours.cars, ours.features, ours.actions) != (description.cars, description.features, description.actions):
      self._drop()
      raise UserError(
        f"The console at {self.address} has other cars or spaces than before: start it again with the same world and options."
      )
    self._stream = self._connection.play()
    opening = console_pb2.Open(protocol=PROTOCOL, holder=own_name())
    self._stream.ask(console_pb2.Request(open=opening), self.timeouts["step"])
    self._stream.keep_alive_seconds = description.lease_seconds / _WORDS_PER_LEASE

  def _drop(self) -> None:
    if self._stream is not None:
      self._stream.close()
    if self._connection is not None:
      self._connection.close()
    self._stream = self._connection = None

  def _sentence(self, failed: Failed) -> str:
    what = f"The console at {self.address} {failed}"
    if failed.is_mistake:  # The console's own sentence says what to do.
      return what if what.endswith("?") else f"{what}."
    if failed.is_preparing:
      return f"{what}: wait until it prints that it is ready."
    if failed.is_held:
      return f"{what}: wait for that worker to end, or take another console."
    return f"{what}: see that it runs there and can be reached."
