"""The one way to call a replay server: every call has a deadline, and one that fails says why in a sentence.

A bare Reverb call hangs forever when its server dies, and cannot be cancelled. Here a call that may hang runs in a helper
thread, which is abandoned when the deadline passes.
"""

import concurrent.futures
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy.typing as npt
import reverb

from configs import ServerLost, Stopped, UserError
from replay_server.contract.reverb_api import Sampler, Writer, table_infos

T = TypeVar("T")
Column: TypeAlias = npt.NDArray[Any]

INFO_TIMEOUT_SECONDS = 2
CALL_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.2


class Connection:
  """A connection to the replay server at one address, for use by one process.

  Attributes:
    address: "host:port".
    client: Reverb's own client, for its public API.
  """

  def __init__(self, address: str):
    """Opens a connection; nothing is sent yet.

    Raises:
      UserError: `address` is not host:port.
    """
    self.address = check_address(address)
    self.client = reverb.Client(self.address)
    self._caller = _DeadlineCaller()
    self._writers: weakref.WeakSet[ItemWriter] = weakref.WeakSet()

  def call(self, function: Callable[[], T], purpose: str, timeout_seconds: float = CALL_TIMEOUT_SECONDS) -> T:
    """Calls `function()` and returns its result, within a deadline.

    Args:
      function: calls the server.
      purpose: of the call, such as "fetching the policy", for the error message.
      timeout_seconds: after which the call is abandoned.

    Raises:
      ServerLost: it did not return in time.
    """
    try:
      return self._caller.call(function, timeout_seconds)
    except concurrent.futures.TimeoutError:
      raise ServerLost(
        f"The replay server at {self.address} did not answer within {timeout_seconds:g} s ({purpose}): check that it "
        "still runs and that the network reaches it."
      ) from None

  def info(self, timeout_seconds: int = INFO_TIMEOUT_SECONDS) -> dict[str, Any]:
    """Table name -> Reverb's `TableInfo` message, for every table.

    Raises:
      ServerLost: the server does not answer.
    """
    try:
      return table_infos(self.client, timeout_seconds)
    except Exception as error:  # Reverb raises several types if nobody answers.
      raise ServerLost(
        f"The replay server at {self.address} does not answer ({type(error).__name__}): check that it still runs."
      ) from None

  def wait_until_up(self, timeout_seconds: float, stop: threading.Event | None = None) -> None:
    """Waits for the server to answer.

    Raises:
      UserError: it did not answer within `timeout_seconds`.
      Stopped: `stop` was set.
    """
    deadline = time.monotonic() + timeout_seconds
    while not self._answers():
      if time.monotonic() > deadline:
        raise UserError(
          f"No replay server answers at {self.address} (waited {timeout_seconds:g} s): start one with 'slipstream serve', "
          "or check the host, the port and the firewall."
        )
      if stop is not None and stop.wait(_POLL_SECONDS):
        raise Stopped(f"Stopped while waiting for the replay server at {self.address}.")
      if stop is None:
        time.sleep(_POLL_SECONDS)

  def _answers(self) -> bool:
    # gRPC waits longer after every failed try, so a plain socket checks first whether anybody listens.
    host, _, port = self.address.rpartition(":")
    try:
      socket.create_connection((host.strip("[]"), int(port)), timeout=INFO_TIMEOUT_SECONDS).close()
      self.info()
    except (OSError, ServerLost):
      return False
    return True

  def read(self, table: str, purpose: str) -> list[Column] | None:
    """The columns of one item of `table`; None if the table is empty.

    Raises:
      ServerLost: the server does not answer.
    """
    items = self.read_many(table, 1, purpose)
    return items[0] if items else None

  def read_many(self, table: str, most: int, purpose: str) -> list[list[Column]]:
    """The columns of up to `most` items of `table`, as its selector draws them; does not wait for items to arrive.

    Raises:
      ServerLost: the server does not answer.
    """
    info = self.info().get(table)
    if info is None:
      raise UserError(
        f"The server at {self.address} has no table {table!r}, so it is no Slipstream server of this version: check the address, "
        "or use one release on both sides."
      )
    count = min(most, info.current_size)
    if not count:
      return []

    def sample() -> list[list[Column]]:
      sampler = self.open_sampler(table, count, in_flight=1)
      return [sampler.next().columns for _ in range(count)]

    return self.call(sample, purpose)

  def clear(self, table: str) -> None:
    """Removes every item of `table`.

    Raises:
      ServerLost: the server does not answer.
    """
    self.call(lambda: self.client.reset(table), f"clearing the table {table!r}")

  def open_sampler(self, table: str, samples: int, in_flight: int) -> Sampler:
    """A stream of items of `table`.

    Opening it has no deadline and hangs if the server is gone; see `Sampler`.

    Args:
      table: to sample from.
      samples: number of samples after which the stream ends.
      in_flight: number of samples that it may fetch in advance.
    """
    return Sampler(self.client, table, samples, in_flight)

  def open_writer(self, max_references: int) -> Writer:
    """A writer of steps.

    Args:
      max_references: how many of the latest steps items may reference.

    Raises:
      ServerLost: the server does not answer.
    """
    return self.call(lambda: Writer(self.client, max_references), "opening a writer")

  def writer(self) -> "ItemWriter":
    """A writer for anything but transitions, such as messages and policies."""
    writer = ItemWriter(self)
    self._writers.add(writer)
    return writer

  def close(self) -> None:
    """Closes all item writers; a server that stops waits 5 s for open ones."""
    for writer in list(self._writers):
      writer.close()


class ItemWriter:
  """Writes one item at a time and waits until the server has it; for one thread."""

  def __init__(self, connection: Connection):
    self._connection = connection
    self._writer = connection.open_writer(max_references=1)

  def write(self, table: str, data: Sequence[Column], timeout_seconds: float = CALL_TIMEOUT_SECONDS) -> None:
    """Writes one item.

    Args:
      table: to write to.
      data: an array for every column of the table's signature, in its order.
      timeout_seconds: to wait for the server's confirmation.

    Raises:
      ServerLost: the server did not confirm the item in time; it may still arrive.
    """
    self._writer.create_item(table, self._writer.append(list(data)))
    try:
      self._writer.flush(0, int(1000 * timeout_seconds))
    except (TimeoutError, RuntimeError) as error:
      raise ServerLost(
        f"The replay server at {self._connection.address} did not confirm an item for table {table!r} within "
        f"{timeout_seconds:g} s ({str(error).splitlines()[0]}): check that it still runs and that the network reaches it."
      ) from None

  def close(self) -> None:
    """Ends the writer; may be called twice."""
    self._writer.close()


class _DeadlineCaller:
  """Runs every call in an idle daemon thread, and starts one if none is idle; a thread that hangs is abandoned."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._idle: list[_DaemonThread] = []

  def call(self, function: Callable[[], T], timeout_seconds: float) -> T:
    with self._lock:
      worker = self._idle.pop() if self._idle else _DaemonThread()
    future = worker.submit(function)
    try:
      return future.result(timeout_seconds)
    finally:
      if future.done():  # Otherwise the call hangs, and its thread must not be used again.
        with self._lock:
          self._idle.append(worker)


class _DaemonThread:
  """A thread that runs submitted functions; unlike an executor's, it does not delay the end of the process."""

  def __init__(self) -> None:
    self._wake = threading.Semaphore(0)
    self._work: list[tuple[concurrent.futures.Future[Any], Callable[[], Any]]] = []
    threading.Thread(target=self._run, name="server-call", daemon=True).start()

  def submit(self, function: Callable[[], T]) -> concurrent.futures.Future[T]:
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    self._work.append((future, function))
    self._wake.release()
    return future

  def _run(self) -> None:
    while self._wake.acquire():
      future, function = self._work.pop()
      try:
        future.set_result(function())
      except BaseException as error:
        future.set_exception(error)
      # The result may be large, or a writer: this thread must not keep it alive until its next call.
      del future, function


def check_address(address: str) -> str:
  """`address`, if it is host:port.

  Raises:
    UserError: it is not.
  """
  host, separator, port = address.rpartition(":")
  if not separator or not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65_536:
    raise UserError(f"The server address {address!r} is not valid: write host:port, as in localhost:8000.")
  return address
