"""The one way to call a replay server: every call has a deadline, and one that fails says why in a sentence.

A bare Reverb call hangs forever when its server dies, and cannot be cancelled. Here a call that may hang runs in a helper
thread, which is abandoned when the deadline passes.

On the wire a table's name begins with its run's id (`layout.wire_name`). So if another run is served at the address, its server
itself refuses every row, priority and policy of this one. Everywhere else tables have their own names.
"""

import concurrent.futures
import math
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import reverb

from configs import ServerLost, Stopped, UserError
from configs.errors import NoServer
from replay_server.contract import layout
from replay_server.contract.codec import Packed
from replay_server.contract.deadlines import DeadlineCaller
from replay_server.contract.local_rows import LocalRows
from replay_server.contract.news import ServerNews
from replay_server.contract.probes import listens, speaks_tls
from replay_server.contract.progress import Progress
from replay_server.contract.reverb_api import Sampler, Writer, table_infos

T = TypeVar("T")
Column: TypeAlias = npt.NDArray[Any]

# A question that is not asked again gets more patience than one of many: a busy machine may stop for two seconds.
INFO_TIMEOUT_SECONDS = 5
PROBE_TIMEOUT_SECONDS = 2
CALL_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.2
_RENEWAL_SECONDS = 5.0
# In what Reverb says to a client that names a table which the server does not have.
_NO_TABLE = "was not found"


class OtherRun(ServerLost):
  """Another run is served at the address; waiting does not help."""


class NotInTime(ServerLost):
  """A call's deadline has passed."""


class Route(Protocol):
  """A way to a server other than a connection to its address, such as a TLS tunnel."""

  @property
  def path(self) -> str:
    """Of the Unix socket on which this end listens."""

  def refusal(self) -> str:
    """Why the server refuses this process, or this process the server, as a sentence; "" if neither does, as far as is known."""


class Connection:
  """A connection to the replay server at one address, for use by one process.

  It belongs to one run: to the one that the server had at its first answer.

  Attributes:
    address: "host:port".
    target: the address as gRPC is given it.
    client: Reverb's own client, for its public API.
    route: on which the server is reached; None for a plain connection to its address.
    run_id: of the run; "" before the first answer, or if the server has no tables of a run.
    news: what a lifeline has last heard of the server.
    progress: of the loop that uses this connection; whatever waits here for long notes that it goes round.
    local_rows: the transitions of an inline run whose learner has its own memory; they do not pass through the server. None in
      every other run.
  """

  def __init__(self, address: str, run_id: str = "", is_bulk: bool = False, route: Route | None = None):
    """Opens a connection; nothing is sent yet.

    Args:
      address: of the server.
      run_id: of the run, if it is known.
      is_bulk: whether it has a TCP connection of its own; see `bulk`.
      route: on which the server is reached; None for a plain connection to its address.

    Raises:
      UserError: `address` is not host:port.
    """
    self.address = check_address(address)
    self.route = route
    self._name = "bulk" if is_bulk else "client"
    self._renewals = 0
    self.target = self._spelling()
    self.client = reverb.Client(self.target)
    self._renewed = time.monotonic()
    self._bulk: Connection | None = None
    self.run_id = run_id
    self.news = ServerNews()
    self.progress = Progress()
    self.local_rows: LocalRows | None = None
    self._caller = DeadlineCaller()
    self._writers: weakref.WeakSet[ItemWriter] = weakref.WeakSet()

  def _spelling(self) -> str:
    """The address for gRPC, which shares a connection among all clients that write it alike."""
    if self.route is not None:
      return f"unix:{self.route.path}?{self._name}={self._renewals}"
    if self._renewals:
      return f"dns:///{self.address}?{self._name}={self._renewals}"
    return self.address if self._name == "client" else f"dns:{self.address}"

  def renew(self) -> None:
    """Makes a new client if the server listens although the present one gets no answer; at most once in five seconds.

    After every failed try gRPC waits longer for the next one, up to two minutes, for all clients that write the address alike. So
    a server that was away for a minute would be found half a minute after it has come back.
    """
    if time.monotonic() - self._renewed < _RENEWAL_SECONDS or not listens(self.address):
      return
    self._renewed = time.monotonic()
    self._renewals += 1
    self.target = self._spelling()
    self.client = reverb.Client(self.target)
    if self._bulk is not None:
      self._bulk.renew()

  def bulk(self) -> "Connection":
    """A connection to the same server with a TCP connection of its own, for large items; closes with this one.

    On a slow link a large item fills the buffers on its way for as long as it travels, so that on the same TCP connection every
    answer would be late: the watchdog would take the server for dead, and the server its learner.
    """
    if self._bulk is None:
      self._bulk = Connection(self.address, self.run_id, is_bulk=True, route=self.route)
      self._bulk.news, self._bulk.progress = self.news, self.progress
    return self._bulk

  def call(
    self,
    function: Callable[[], T],
    purpose: str,
    timeout_seconds: float = CALL_TIMEOUT_SECONDS,
    stop: threading.Event | None = None,
  ) -> T:
    """Calls `function()` and returns its result, within a deadline.

    Args:
      function: calls the server.
      purpose: of the call, such as "fetching the policy", for the error message.
      timeout_seconds: after which the call is abandoned.
      stop: if given, the call is abandoned when it is set, and when the server is started again meanwhile.

    Raises:
      OtherRun: the server has another run.
      NotInTime: it did not return in time.
      ServerLost: the server was started again.
      Stopped: `stop` was set meanwhile.
    """
    try:
      return self._caller.call(function, timeout_seconds, None if stop is None else self.interruption(stop))
    except RuntimeError as error:
      raise self.explained(error) from None
    except concurrent.futures.TimeoutError:
      raise NotInTime(
        f"The replay server at {self.address} did not answer within {timeout_seconds:g} s ({purpose}): check that it "
        "still runs and that the network reaches it."
      ) from None

  def interruption(self, stop: threading.Event) -> Callable[[], None]:
    """A function for long waits: it raises Stopped if `stop` is set, and ServerLost if the server was started again since now.

    What was on its way to a server that is gone, or from it, may never arrive.
    """
    restarts = self.news.restarts

    def check() -> None:
      self.progress.note()
      if stop.is_set():
        raise Stopped(f"Stopped while waiting for the replay server at {self.address}.")
      if self.news.restarts != restarts:
        raise ServerLost(f"The replay server at {self.address} was started again meanwhile.")

    return check

  def explained(self, error: RuntimeError) -> Exception:
    """What to raise for an error of Reverb's: it has no such table if it has another run, and no methods while it ends."""
    if isinstance(error, NotImplementedError):  # gRPC's UNIMPLEMENTED.
      return ServerLost(f"The replay server at {self.address} is ending: it takes no more calls.")
    return self._other_run() if _NO_TABLE in str(error) and self.run_id else error

  def _other_run(self, run_id: str = "") -> OtherRun:
    served = f"run {run_id}" if run_id else "another run"
    return OtherRun(
      f"The replay server at {self.address} has {served}, and not {self.run_id}: this process wrote nothing to it and ends; join "
      "the other run with a new one."
    )

  def info(self, timeout_seconds: int = INFO_TIMEOUT_SECONDS) -> dict[str, Any]:
    """Table name -> Reverb's `TableInfo` message, for every table of the run.

    Raises:
      OtherRun: the server has another run.
      ServerLost: the server does not answer.
    """
    try:
      infos = table_infos(self.client, timeout_seconds)
    except Exception as error:  # Reverb raises several types if nobody answers.
      raise ServerLost(
        f"The replay server at {self.address} does not answer ({type(error).__name__}): check that it still runs."
      ) from None
    run_id = layout.run_of(infos)
    if run_id:
      self.run_id = self.run_id or run_id
      if run_id != self.run_id:
        raise self._other_run(run_id)
    prefix = layout.wire_name(self.run_id, "")
    for info in infos.values():
      info.name = info.name.removeprefix(prefix)
    tables = {info.name: info for info in infos.values()}
    if self.local_rows is not None:
      self.local_rows.describe(tables[self.local_rows.table])
    return tables

  def wire_name(self, table: str) -> str:
    """The table's name on the wire; asks the server for its run if it has not answered yet.

    Raises:
      ServerLost: the server does not answer.
    """
    if not self.run_id:
      self.info()
    return layout.wire_name(self.run_id, table)

  def wait_until_up(self, timeout_seconds: float, stop: threading.Event | None = None) -> None:
    """Waits for the server to answer.

    Raises:
      NoServer: it did not answer within `timeout_seconds`.
      UserError: it does not let this process in, or only one of both speaks TLS.
      Stopped: `stop` was set.
    """
    deadline = time.monotonic() + timeout_seconds
    while not self._answers():
      self.progress.note()
      if time.monotonic() > deadline:
        raise NoServer(
          f"No replay server answers at {self.address} (waited {timeout_seconds:g} s): start one with 'slipstream serve', "
          "or check the host, the port and the firewall."
        )
      if stop is not None and stop.wait(_POLL_SECONDS):
        raise Stopped(f"Stopped while waiting for the replay server at {self.address}.")
      if stop is None:
        time.sleep(_POLL_SECONDS)

  def _answers(self) -> bool:
    # gRPC waits longer after every failed try, so a plain socket checks first whether anybody listens.
    if not listens(self.address):
      return False
    try:
      self.info(PROBE_TIMEOUT_SECONDS)
    except ServerLost:
      if refusal := self.refusal():
        raise UserError(refusal) from None
      return False
    return True

  def refusal(self) -> str:
    """Why a server that does not answer may refuse this process, as a sentence; "" if nothing is known."""
    if self.route is not None:
      return self.route.refusal()
    if speaks_tls(self.address):
      return f"The server at {self.address} is reached by TLS alone: give --tls_cert, --tls_key and --tls_ca (docs/security.md)."
    return ""

  def wait_for_answer(self, stop: threading.Event, timeout_seconds: float = math.inf) -> None:
    """Waits until the server answers again.

    Args:
      stop: ends the wait; a lifeline sets it if that takes too long.
      timeout_seconds: for a process without a lifeline.

    Raises:
      OtherRun: the server has another run.
      ServerLost: it did not answer within `timeout_seconds`.
      Stopped: `stop` was set.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
      self.progress.note()
      try:
        self.info(PROBE_TIMEOUT_SECONDS)
        return
      except OtherRun:
        raise
      except ServerLost:
        if time.monotonic() > deadline:
          raise
        self.renew()
        if stop.wait(_POLL_SECONDS):
          raise Stopped(f"Stopped while waiting for the replay server at {self.address}.") from None

  def takes_inserts(self, table: str) -> bool:
    """Whether the limiter of `table` lets another item in, as the server says.

    Raises:
      ServerLost: the server does not answer.
    """
    limiter = self.info()[table].rate_limiter_info
    inserts, samples = limiter.insert_stats.completed + 1, limiter.sample_stats.completed
    within: bool = inserts * limiter.samples_per_insert - samples <= limiter.max_diff
    return within or inserts <= limiter.min_size_to_sample

  def gives_samples(self, table: str) -> bool:
    """Whether the limiter of `table` lets an item be sampled, as the server says.

    Raises:
      ServerLost: the server does not answer.
    """
    info = self.info()[table]
    limiter = info.rate_limiter_info
    inserts, samples = limiter.insert_stats.completed, limiter.sample_stats.completed + 1
    within: bool = inserts * limiter.samples_per_insert - samples >= limiter.min_diff
    return within and info.current_size >= max(1, limiter.min_size_to_sample)

  def read(
    self,
    table: str,
    purpose: str,
    timeout_seconds: float = CALL_TIMEOUT_SECONDS,
    stop: threading.Event | None = None,
  ) -> list[Column] | None:
    """The columns of one item of `table`; None if the table is empty.

    Args:
      table: to read.
      purpose: of the call; see `call`.
      timeout_seconds: for the item to arrive.
      stop: ends the wait when set, if given.

    Raises:
      NotInTime: the item did not arrive in time.
      ServerLost: the server does not answer.
      Stopped: `stop` was set meanwhile.
    """
    items = self.read_many(table, 1, purpose, timeout_seconds, stop)
    return items[0] if items else None

  def read_many(
    self,
    table: str,
    most: int,
    purpose: str,
    timeout_seconds: float = CALL_TIMEOUT_SECONDS,
    stop: threading.Event | None = None,
  ) -> list[list[Column]]:
    """The columns of up to `most` items of `table`, as its selector draws them; does not wait for items to be written.

    Other arguments and errors are those of `read`.
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

    return self.call(sample, purpose, timeout_seconds, stop)

  def take_rows(self, table: str, most: int, width: int, stop: threading.Event | None = None) -> Packed:
    """Takes up to `most` transitions out of a queue, oldest first; does not wait for transitions to be written.

    Args:
      table: whose items can be sampled once.
      most: rows.
      width: of a row.
      stop: ends the wait for rows that are there, if given.

    Returns:
      float32 [n, width].

    Raises:
      NotInTime: the rows did not arrive in time; those that were on their way are lost.
      ServerLost: the server does not answer.
      Stopped: `stop` was set meanwhile; the same is lost.
    """
    count = min(most, self.info()[table].current_size)
    rows = np.empty((count, width), np.float32)
    if not count:
      return rows

    def take() -> Packed:
      # It takes no more than it was made for, and is never closed before it has given all of them.
      self.open_sampler(table, count, in_flight=count).fill(rows)
      return rows

    return self.call(take, f"reading {count} transitions", CALL_TIMEOUT_SECONDS, stop)

  def clear(self, table: str) -> None:
    """Removes every item of `table`.

    Raises:
      ServerLost: the server does not answer.
    """
    self.call(lambda: self.client.reset(self.wire_name(table)), f"clearing the table {table!r}")

  def update_priorities(self, table: str, priorities: Mapping[int, float]) -> None:
    """Gives items of `table` new priorities; the server ignores keys that the table has evicted.

    Raises:
      ServerLost: the server does not answer.
    """
    self.call(
      lambda: self.client.mutate_priorities(self.wire_name(table), dict(priorities)),
      f"updating priorities of table {table!r}",
    )

  def open_sampler(self, table: str, samples: int, in_flight: int) -> Sampler:
    """A stream of items of `table`.

    Opening it has no deadline and hangs if the server is gone; see `Sampler`.

    Args:
      table: to sample from.
      samples: number of samples after which the stream ends.
      in_flight: number of samples that it may fetch in advance.
    """
    return Sampler(self.client, self.wire_name(table), samples, in_flight)

  def open_writer(
    self, max_references: int, timeout_seconds: float = CALL_TIMEOUT_SECONDS, stop: threading.Event | None = None
  ) -> Writer:
    """A writer of steps, opened once the server has answered.

    Args:
      max_references: how many of the latest steps items may reference.
      timeout_seconds: for the server to answer; rounded up to whole seconds.
      stop: as in `call`.

    Raises:
      OtherRun: the server has another run.
      ServerLost: the server does not answer, or was started again.
      Stopped: `stop` was set meanwhile.
    """

    def open_stream() -> Writer:
      # A writer whose stream fails at once corrupts memory, and every stream does so while the server is away; see `Writer`.
      self.info(max(1, math.ceil(timeout_seconds)))
      return Writer(self.client, max_references, layout.wire_name(self.run_id, ""))

    # The question has a deadline of its own, which tells better what is wrong.
    return self.call(open_stream, "opening a writer", timeout_seconds + INFO_TIMEOUT_SECONDS, stop)

  def writer(self) -> "ItemWriter":
    """A writer for anything but transitions, such as messages and policies."""
    writer = ItemWriter(self)
    self._writers.add(writer)
    return writer

  def close(self) -> None:
    """Closes all item writers; a server that stops waits 5 s for open ones."""
    for writer in list(self._writers):
      writer.close()
    if self._bulk is not None:
      self._bulk.close()


class ItemWriter:
  """Writes one item at a time and waits until the server has it; for one thread.

  After a failure it opens its stream anew, because a stream may stay broken when the server is back.
  """

  def __init__(self, connection: Connection):
    self._connection = connection
    self._writer: Writer | None = connection.open_writer(max_references=1)

  def write(
    self,
    table: str,
    data: Sequence[Column],
    timeout_seconds: float = CALL_TIMEOUT_SECONDS,
    stop: threading.Event | None = None,
    priority: float = 1.0,
  ) -> None:
    """Writes one item.

    Args:
      table: to write to.
      data: an array for every column of the table's signature, in its order.
      timeout_seconds: to wait for the server's confirmation, and before that, if a stream must be opened, for its answer.
      stop: if given, the wait ends when it is set, and when the server is started again meanwhile.
      priority: of the item.

    Raises:
      NotInTime: the server did not confirm the item in time; it may still arrive.
      ServerLost: the item cannot be sent, or the server does not answer or was started again.
      Stopped: `stop` was set meanwhile; the item may still arrive.
    """
    if self._writer is None:
      self._writer = self._connection.open_writer(1, min(timeout_seconds, CALL_TIMEOUT_SECONDS), stop)
    writer = self._writer
    try:
      writer.create_item(table, writer.append(list(data)), priority)
      self._flush(writer, timeout_seconds, stop)
    except ServerLost:
      self.close()
      raise
    except (TimeoutError, RuntimeError) as error:
      self.close()
      if isinstance(explained := self._connection.explained(RuntimeError(str(error))), OtherRun):
        raise explained from None
      failure = NotInTime if isinstance(error, TimeoutError) else ServerLost
      raise failure(
        f"The replay server at {self._connection.address} did not confirm an item for table {table!r} within "
        f"{timeout_seconds:g} s ({str(error).splitlines()[0]}): check that it still runs and that the network reaches it."
      ) from None

  def _flush(self, writer: Writer, timeout_seconds: float, stop: threading.Event | None) -> None:
    deadline = time.monotonic() + timeout_seconds
    check = None if stop is None else self._connection.interruption(stop)
    while check is not None and (left := deadline - time.monotonic()) > _POLL_SECONDS:
      try:
        writer.flush(0, int(1000 * min(_POLL_SECONDS, left)))
        return
      except TimeoutError:
        check()
    writer.flush(0, max(1, int(1000 * (deadline - time.monotonic()))))

  def close(self) -> None:
    """Ends the stream; may be called twice. Another write opens a new one."""
    if self._writer is not None:
      self._writer.close()
      self._writer = None


def check_address(address: str) -> str:
  """`address`, if it is host:port.

  Raises:
    UserError: it is not.
  """
  host, separator, port = address.rpartition(":")
  if not separator or not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65_536:
    raise UserError(f"The server address {address!r} is not valid: write host:port, as in localhost:8000.")
  return address
