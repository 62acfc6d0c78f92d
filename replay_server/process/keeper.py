"""What the server process does besides serving: it reads what roles report, writes the status, and keeps the run's record."""

import contextlib
import dataclasses
import pathlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from configs import ServerLost, UserError
from configs.files import replace_text
from replay_server.contract import layout
from replay_server.contract.connection import Column, ItemWriter
from replay_server.contract.lifeline import LOST_AFTER_SECONDS
from replay_server.contract.messages import (
  EpisodeSummary,
  EvaluationSummary,
  Heartbeat,
  Request,
  Unreadable,
  decode,
  encode_text,
)
from replay_server.contract.run import environment_steps
from replay_server.contract.status import RunStatus, parse_status, status_json
from replay_server.process.guard import Guard
from replay_server.process.monitor import Monitor
from replay_server.process.recorder import Recorder
from replay_server.process.server import CheckpointFailed, ReplayServer
from replay_server.process.sinks import Sink

TICK_SECONDS = 0.5
# How long the last checkpoint waits for roles to end.
GOODBYE_SECONDS = 12.0
# How long a server that leaves waits for roles to pause.
PAUSE_SECONDS = 5.0
FIRST_CHECKPOINT_SECONDS = 30.0
# Until the next try after a failed checkpoint; never longer than the regular period.
RETRY_CHECKPOINT_SECONDS = 30.0
# How long a snapshot may take before it counts as failed.
SNAPSHOT_SECONDS = 600.0
# While Reverb copies a table it answers nobody. Of tables this large, roles are told before, and get the time to read it.
ANNOUNCED_ITEMS = 200_000
ANNOUNCE_SECONDS = 2.0
# A longer silence of the server is none of the roles'.
_SILENCE_SECONDS = 2.0
_MOST_MESSAGES = 1_000


@dataclasses.dataclass(frozen=True)
class SnapshotRecord:
  """The server's snapshots, as far as this process knows them.

  Attributes:
    written: by this process.
    failed: tries of this process that failed.
    at: when the last one was written, by this process or an earlier one, as a UNIX time; None before the first.
    seconds: that it took; None before this process has written one.
  """

  written: int = 0
  failed: int = 0
  at: float | None = None
  seconds: float | None = None


class Keeper:
  """Keeps one run's status and record; `tick` updates them.

  Attributes:
    status: of the last tick; None before the first. This and what follows may be read by any thread.
    tables: of the last tick, name -> Reverb's `TableInfo` message.
    first_tables: of the first tick, since which this process counts.
    is_leaving: whether the server is about to end although the run goes on.
    snapshots: the server's.
  """

  def __init__(
    self, server: ReplayServer, run_dir: pathlib.Path, sinks: Sequence[Sink] = (), guard: Guard | None = None
  ):
    """Makes the keeper.

    Args:
      server: of the run.
      run_dir: for status.json, metrics.csv and tb/. The counts of a server that has resumed continue from its snapshot; what is
        known of processes continues from status.json, if there is one.
      sinks: other places for the run's numbers.
      guard: of a server that is served over TLS; None for another one.
    """
    self._server = server
    self._guard = guard
    self._run_dir = run_dir
    self._status_path = run_dir / "status.json"
    self._recorder = Recorder(run_dir, sinks)
    self._monitor = Monitor(
      server.manifest.config, server.manifest.run_id, resumed=_resumed_status(server, run_dir), epoch=server.epoch
    )
    self._writer: ItemWriter = server.connection.writer()
    self.status: RunStatus | None = None
    self.tables: Mapping[str, Any] = {}
    self.first_tables: Mapping[str, Any] = {}
    self.is_leaving = False
    self.snapshots = SnapshotRecord(at=server.resumed_at)
    self._checkpoint_period = server.manifest.config.replay.checkpoint_period_seconds
    # The first checkpoint comes early, so that a run that dies soon can be resumed too.
    self._checkpoint_due_in(FIRST_CHECKPOINT_SECONDS)
    self._lost_since: float | None = None
    self._answered = time.monotonic()
    self._is_snapshotting = False
    self._snapshot = server.snapshot
    self._failing: set[str] = set()
    self._unreadable: set[str] = set()

  @property
  def snapshot(self) -> int:
    """Number of the snapshot that was written last; 0 before the first."""
    return self._server.snapshot

  def tick(self, beats: Iterable[Heartbeat] = ()) -> RunStatus:
    """Reads the roles' messages, and writes the status to its table, to status.json and to the record.

    If the files cannot be written, for example on a full disk, one message is printed and every tick tries again.

    Args:
      beats: heartbeats of roles in this process, which need not go through the server.

    Raises:
      ServerLost: the server does not answer.
    """
    connection = self._server.connection
    tables = connection.info()
    self._note_answer()
    heard = connection.read_many(layout.HEARTBEATS, _MOST_MESSAGES, "reading heartbeats")
    summaries = connection.read_many(layout.EPISODES, _MOST_MESSAGES, "reading episodes")
    messages = self._read(heard, Heartbeat, Request)
    self._monitor.hear([*beats, *(message for message in messages if isinstance(message, Heartbeat))])
    self._monitor.count(
      self._read(summaries, EpisodeSummary, EvaluationSummary),
      environment_steps(tables, self._server.manifest.config.replay.default.name),
    )
    for request in messages:
      if isinstance(request, Request):
        self._obey(request)
    status = self._with_snapshot(self._monitor.status(tables))
    self.first_tables = self.first_tables or tables
    self.tables = tables
    self.status, text = status, status_json(status)
    self._publish(text)
    self._attempt(
      "files", lambda: self._write_files(status, text), f"The files of {self._run_dir} are not written", (OSError,)
    )
    return status

  @property
  def silent_seconds(self) -> float:
    """Since the server last answered."""
    return time.monotonic() - self._answered

  def _note_answer(self) -> None:
    """Notes that the server has answered, and how long nobody could be heard if it had not for long."""
    now = time.monotonic()
    if now - self._answered > _SILENCE_SECONDS:
      self._monitor.forgive(now - self._answered)
    self._answered = now

  def _with_snapshot(self, status: RunStatus) -> RunStatus:
    return dataclasses.replace(
      status,
      is_leaving=self.is_leaving,
      snapshot=self._snapshot,
      resumed_from=self._server.resumed_from,
      is_snapshotting=self._is_snapshotting,
      plain_port=0 if self._guard is None else self._guard.plain_port,
    )

  def _read(self, items: Iterable[Sequence[Column]], *types: type[Any]) -> list[Any]:
    """The messages that this version knows; counts the others, and says once for each sender that there are some."""
    messages = []
    for columns in items:
      try:
        messages.append(decode(columns[0], *types))
      except Unreadable as error:
        self._monitor.drop(error.sender)
        if error.sender not in self._unreadable:
          self._unreadable.add(error.sender)
          _log(
            f"A message of {error.sender!r} was dropped, as this release cannot read it ({error}): use one release everywhere."
          )
    return messages

  def _obey(self, request: Request) -> None:
    _log(f"Asked to {request.what} by {request.sender}.")
    if request.what == "stop":
      self._monitor.stop()
    else:
      self._checkpoint_due_in(0.0)

  def _publish(self, text: str) -> None:
    self._writer.write(layout.STATUS, [encode_text(text)])

  def _write_files(self, status: RunStatus, text: str) -> None:
    replace_text(self._status_path, text)
    self._recorder.record(status)

  def _attempt(
    self, kind: str, write: Callable[[], object], failed: str, failures: tuple[type[Exception], ...]
  ) -> bool:
    """Calls `write` and returns whether it succeeded; prints the first failure in a row, and the success after it.

    To end the server because of a file would lose the whole replay.
    """
    try:
      write()
    except failures as error:
      if kind not in self._failing:
        self._failing.add(kind)
        reason = str(error).rstrip(".")
        _log(f"{failed} ({reason}): the run goes on and tries again; check whether the disk is full.")
      return False
    if kind in self._failing:
      self._failing.remove(kind)
      _log(f"The {kind} are written again.")
    return True

  def _tick_patiently(self, beats: Iterable[Heartbeat] = ()) -> RunStatus | None:
    """The status after a tick; None if the server did not answer in time.

    Raises:
      ServerLost: the server has not answered for longer than roles wait, and writes no snapshot.
    """
    self._server.connection.progress.note()
    try:
      status = self.tick(beats)
    except ServerLost as error:
      if self._is_snapshotting:
        return None  # It copies its tables; the snapshot has a deadline of its own.
      if self._lost_since is None:
        self._lost_since = time.monotonic()
        _log(f"{error} The status will be written when it answers again.")
      elif time.monotonic() - self._lost_since > LOST_AFTER_SECONDS:
        raise
      return None
    self._lost_since = None
    return status

  def run(self, leave: threading.Event) -> RunStatus:
    """Ticks until the run ends, and then calls `finish`, or until `leave` is set, and then calls `leave`.

    Args:
      leave: set when this process should end although the run goes on.

    Returns:
      The last status; its phase is "running" if the run goes on.

    Raises:
      ServerLost: the server has not answered for longer than roles wait.
      UserError: others reach the tables without TLS, and the guard ends the server then; a snapshot is written before.
    """
    status = self._tick_patiently()
    while status is None or not status.finished:
      self._check_guard(status)
      if leave.wait(TICK_SECONDS):
        return self.leave()
      status = self._tick_patiently()
      if self.checkpoint_is_due():
        self.checkpoint()
    return self.finish()

  def _check_guard(self, status: RunStatus | None) -> None:
    if self._guard is None or status is None:
      return
    try:
      self._guard.check(status)
    except UserError:
      self.leave()
      raise

  def leave(self) -> RunStatus:
    """Tells the roles that the server is about to end, waits at most `PAUSE_SECONDS` until none of them writes any more, and
    writes a checkpoint, from which the next server goes on.

    Raises:
      ServerLost: the server has not answered for longer than roles wait.
    """
    self.is_leaving = True
    deadline = time.monotonic() + PAUSE_SECONDS
    status = self._tick_patiently()
    while status is None or (self._monitor.roles_writing() and time.monotonic() < deadline and not status.finished):
      time.sleep(TICK_SECONDS / 2)
      status = self._tick_patiently() or status
    if status.finished:
      return self.finish()
    self.checkpoint()
    return status

  def finish(self, beats: Iterable[Heartbeat] = ()) -> RunStatus:
    """Waits until every role has ended, at most `GOODBYE_SECONDS`; then writes the last checkpoint.

    Args:
      beats: last heartbeats of roles in this process.

    Raises:
      ServerLost: the server has not answered for longer than roles wait.
    """
    self._monitor.stop()
    deadline = time.monotonic() + GOODBYE_SECONDS
    beats = list(beats)
    status = self._tick_patiently(beats)
    while status is None or (self._monitor.roles_left() and time.monotonic() < deadline):
      time.sleep(TICK_SECONDS / 2)
      status = self._tick_patiently(beats if status is None else ()) or status
    self.checkpoint()
    return status

  def close(self) -> None:
    """Closes the record's files."""
    self._attempt("files", self._recorder.close, f"The last lines of {self._run_dir}'s files are lost", (OSError,))

  def checkpoint_is_due(self) -> bool:
    """Whether the next snapshot is due."""
    return time.monotonic() - self._checkpointed > self._checkpoint_period

  def _checkpoint_due_in(self, seconds: float) -> None:
    self._checkpointed = time.monotonic() - max(0.0, self._checkpoint_period - seconds)

  def checkpoint(self) -> None:
    """Writes the server's part of a snapshot, and keeps the status up to date meanwhile.

    If that fails, prints why; the next one is due soon.
    """
    failed = "The run keeps its earlier snapshots"
    if not self._attempt("snapshots", self._checkpoint, failed, (OSError, CheckpointFailed, ServerLost)):
      self._checkpoint_due_in(RETRY_CHECKPOINT_SECONDS)
      self.snapshots = dataclasses.replace(self.snapshots, failed=self.snapshots.failed + 1)

  def _checkpoint(self) -> None:
    number, due = self._server.next_snapshot, self._checkpointed
    stored = "" if self.status is None else status_json(self.status)
    try:
      self._announce(number)
      seconds = self._write_snapshot(stored)
    finally:
      self._is_snapshotting = False
      self._snapshot = self._server.snapshot
      with contextlib.suppress(ServerLost):  # The next tick publishes it as well.
        self._republish()
    if self._checkpointed == due:  # Nobody has asked for another one meanwhile.
      self._checkpointed = time.monotonic()
    self.snapshots = dataclasses.replace(
      self.snapshots, written=self.snapshots.written + 1, at=time.time(), seconds=seconds
    )
    _log(f"Snapshot {number} written in {seconds:.2f} s.")

  def _announce(self, number: int) -> None:
    """Tells the roles that the server writes a snapshot and may not answer for a while."""
    self._is_snapshotting, self._snapshot = True, number
    self._republish()
    if self.status is not None and sum(table.size for table in self.status.tables) > ANNOUNCED_ITEMS:
      time.sleep(ANNOUNCE_SECONDS)

  def _republish(self) -> None:
    if self.status is None:
      return
    self.status = self._with_snapshot(self.status)
    text = status_json(self.status)
    with contextlib.suppress(OSError):  # Every tick writes it as well, and says so if it cannot.
      replace_text(self._status_path, text)
    self._publish(text)

  def _write_snapshot(self, status: str) -> float:
    """Writes a snapshot in a thread and ticks meanwhile; returns the seconds it took.

    Args:
      status: of the run as JSON, as of now; it fits the tables.
    """
    outcome: list[float | Exception] = []

    def write() -> None:
      try:
        outcome.append(self._server.checkpoint(status))
      except Exception as error:  # Of any type; it is raised below.
        outcome.append(error)

    thread = threading.Thread(target=write, name="snapshot", daemon=True)
    deadline = time.monotonic() + SNAPSHOT_SECONDS
    thread.start()
    while thread.is_alive():
      thread.join(TICK_SECONDS)
      if thread.is_alive():
        self._tick_patiently()
        if time.monotonic() > deadline:
          raise CheckpointFailed(f"The snapshot was not written within {SNAPSHOT_SECONDS:g} s.")
    (result,) = outcome
    if isinstance(result, Exception):
      raise result
    return result


def _log(sentence: str) -> None:
  with contextlib.suppress(OSError):  # The log may be on the full disk.
    print(sentence, flush=True)


def read_status(run_dir: pathlib.Path) -> RunStatus | None:
  """The last status of a run directory; None if it has none.

  Raises:
    UserError: the file cannot be read.
  """
  path = run_dir / "status.json"
  if not path.is_file():
    return None
  try:
    return parse_status(path.read_text())
  except (UserError, ValueError) as error:
    raise UserError(f"{path} cannot be read ({error}): remove it to resume without the run's earlier counts.") from None


def _resumed_status(server: ReplayServer, run_dir: pathlib.Path) -> RunStatus | None:
  """What a run continues from; None if it begins.

  The counts are those of the snapshot, so that they fit its tables. The time goes on, and what is known of processes is as new
  as possible: a learner may still hold its lease, except that of an inline run, which has ended with its server.
  """
  newer, stored = read_status(run_dir), server.restored_status
  if newer is None:
    return stored
  if stored is None and not server.restored:  # The run ended before its first snapshot, and begins once more.
    stored = dataclasses.replace(
      newer, episodes=0, evaluations=(), solved_streak=0, gradient_steps=0, policy_version=0, learner={}
    )
  if stored is None:
    stored = newer
  return dataclasses.replace(
    stored,
    wall_seconds=max(stored.wall_seconds, newer.wall_seconds),
    roles=newer.roles,
    lease=None if server.manifest.inline else newer.lease,
    lives=newer.lives,
    dropped_messages=newer.dropped_messages,
    dropped_episodes=newer.dropped_episodes,
  )
