"""The server of the protocol, for any gymnasium Env or VectorEnv."""

import queue
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any, NoReturn

import grpc

from configs.errors import UserError
from consoles import console_pb2, console_pb2_grpc
from consoles.codec import MOST_BYTES, PROTOCOL
from consoles.credentials import for_server
from consoles.lease import Held, Lease
from consoles.options import ConsoleOptions
from consoles.session import Inbox, Refusal, Session
from consoles.stage import Setup, Stage, WorldFailed

_THREADS = 16
# A stream that says nothing at all, not even `Open`, ends after this.
_OPEN_SECONDS = 10.0


class ConsoleServer(console_pb2_grpc.ConsoleServicer):
  """One console. It answers `Health` from `start` on, and everything else when `prepare` is done."""

  def __init__(self, options: ConsoleOptions):
    """Prepares the server; nothing listens yet.

    Raises:
      UserError: something is wrong with the files for TLS.
    """
    self._options = options
    self._credentials = for_server({"tls_cert": options.tls_cert, "tls_key": options.tls_key, "tls_ca": options.tls_ca})
    self._lease = Lease()
    self._stage: Stage | None = None
    self._session: Session | None = None  # The present one, or the last.
    self._port = 0
    self._server = grpc.server(
      futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="console"),
      # Without so_reuseport=0 a second console could take the same port.
      options=[
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", MOST_BYTES),
        ("grpc.max_send_message_length", MOST_BYTES),
      ],
    )
    console_pb2_grpc.add_ConsoleServicer_to_server(self, self._server)

  @property
  def address(self) -> str:
    """host:port."""
    host = self._options.host
    return f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"

  @property
  def control_seconds(self) -> float:
    """From one tick to the next; after `prepare`."""
    assert self._stage is not None
    return self._stage.control_seconds

  def start(self) -> None:
    """Listens.

    Raises:
      UserError: the port, or the address, cannot be had.
    """
    self._port = self._options.port
    try:
      if self._credentials is None:
        self._port = self._server.add_insecure_port(self.address)
      else:
        self._port = self._server.add_secure_port(self.address, self._credentials)
    except RuntimeError:
      raise UserError(
        f"The console cannot listen at {self.address}: another process may have the port, or the host is not this one; take "
        "another --port or --host."
      ) from None
    self._server.start()

  def prepare(self) -> None:
    """Makes the world and warms it up.

    Raises:
      UserError: it cannot be made or played.
    """
    try:
      self._stage = Stage(self._options)
    except WorldFailed as error:
      sentence = str(error)
      raise UserError(f"{sentence[0].upper()}{sentence[1:]} while it was tried: fix it.", error.trace) from error

  def stop(self, seconds: float = 1.0) -> None:
    """Ends all streams, and waits until they have ended, for up to `seconds` and a little more."""
    self._server.stop(0).wait(seconds)
    if self._stage is not None:
      self._stage.close()

  def Describe(self, request: console_pb2.Setup, context: Any) -> console_pb2.Description:
    """See console.proto."""
    try:
      return self._ready(context).describe(Setup.of(request))
    except UserError as error:
      _abort(context, grpc.StatusCode.INVALID_ARGUMENT, error)
    except WorldFailed as error:
      _abort_failed(context, error)

  def Health(self, request: console_pb2.HealthRequest, context: Any) -> console_pb2.HealthReply:
    """See console.proto."""
    holder, state = self._lease.describe()
    session = self._session
    reply = console_pb2.HealthReply(
      ready=self._stage is not None,
      state=state if self._stage is not None else "the world is being made and compiled",
      holder=holder,
      holder_silent_seconds=self._lease.silent_seconds(),
      leases=self._lease.given,
    )
    if session is not None:
      reply.tick, reply.missed_ticks, reply.late_ticks = session.tick, session.missed, session.clock.late
    return reply

  def Play(self, request_iterator: Iterator[console_pb2.Request], context: Any) -> Iterator[console_pb2.Reply]:
    """See console.proto."""
    stage = self._ready(context)
    inbox = Inbox(request_iterator)
    threading.Thread(target=inbox.read, name="requests", daemon=True).start()
    try:
      self._open(inbox)
    except Refusal as refusal:
      _abort(context, refusal.code, refusal)
    session = Session(stage, self._options.pace == "real", self._options.lease_seconds)
    self._session = session
    well = True
    asked_to_close = False
    try:
      yield console_pb2.Reply(opened=console_pb2.Opened())
      asked_to_close = yield from session.run(inbox)
    except Refusal as refusal:
      _abort(context, refusal.code, refusal)
    except UserError as error:
      _abort(context, grpc.StatusCode.INVALID_ARGUMENT, error)
    except WorldFailed as error:
      well = False
      _abort_failed(context, error)
    finally:
      session.finish(well)
      holder, _ = self._lease.describe()
      late = session.clock.late
      print(f"{holder}: {session.tick} ticks, {session.missed} of them missed; {late} more were too late.", flush=True)
      self._lease.give_back()
    if asked_to_close:  # Said last, so that whoever hears it finds the console free.
      yield console_pb2.Reply(closed=console_pb2.Closed())

  def _ready(self, context: Any) -> Stage:
    if self._stage is None:
      _abort(context, grpc.StatusCode.UNAVAILABLE, "the world is being made and compiled")
    return self._stage

  def _open(self, inbox: Inbox) -> None:
    """Takes the lease for a stream whose first request asks for it.

    Raises:
      Refusal: it does not, or another worker has the lease.
    """
    try:
      request = inbox.take(_OPEN_SECONDS)
    except queue.Empty:
      request = None
    if request is None or not request.HasField("open"):
      raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, "a stream must begin with open")
    if request.open.protocol != PROTOCOL:
      raise Refusal(
        grpc.StatusCode.FAILED_PRECONDITION,
        f"the worker speaks version {request.open.protocol} of the protocol, and the console {PROTOCOL}",
      )
    try:
      self._lease.take(request.open.holder, inbox.silent_seconds)
    except Held as held:
      raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, str(held)) from None


def _abort(context: Any, code: grpc.StatusCode, reason: object) -> NoReturn:
  """Ends the call with a sentence."""
  context.abort(code, str(reason).rstrip("."))
  raise AssertionError("abort raises")


def _abort_failed(context: Any, failed: WorldFailed) -> NoReturn:
  """Ends the call; the traceback is for whoever reads this process's output."""
  print(failed.trace, file=sys.stderr, end="", flush=True)
  _abort(context, grpc.StatusCode.INTERNAL, failed)
