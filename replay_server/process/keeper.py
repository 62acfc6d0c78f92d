"""What the server process does besides serving: it reads what roles report, writes the status, and keeps the run's record."""

import contextlib
import pathlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from configs import ServerLost, UserError
from configs.files import replace_text
from replay_server.contract import layout
from replay_server.contract.connection import ItemWriter
from replay_server.contract.lifeline import LOST_AFTER_SECONDS
from replay_server.contract.messages import EpisodeSummary, EvaluationSummary, Heartbeat, decode, encode_text
from replay_server.contract.run import environment_steps
from replay_server.contract.status import RunStatus, parse_status, status_json
from replay_server.process.monitor import Monitor
from replay_server.process.recorder import Recorder
from replay_server.process.server import CheckpointFailed, ReplayServer
from replay_server.process.sinks import Sink

TICK_SECONDS = 0.5
# How long the last checkpoint waits for roles to end.
GOODBYE_SECONDS = 12.0
FIRST_CHECKPOINT_SECONDS = 30.0
# Until the next try after a failed checkpoint; never longer than the regular period.
RETRY_CHECKPOINT_SECONDS = 30.0
_MOST_MESSAGES = 1_000


class Keeper:
  """Keeps one run's status and record; `tick` updates them."""

  def __init__(self, server: ReplayServer, run_dir: pathlib.Path, sinks: Sequence[Sink] = ()):
    """Makes the keeper.

    Args:
      server: of the run.
      run_dir: for status.json, metrics.csv and tb/; if it has a status.json, its counts continue.
      sinks: other places for the run's numbers.
    """
    self._server = server
    self._run_dir = run_dir
    self._status_path = run_dir / "status.json"
    self._recorder = Recorder(run_dir, sinks)
    self._monitor = Monitor(server.manifest.config, server.manifest.run_id, resumed=read_status(run_dir))
    self._writer: ItemWriter = server.connection.writer()
    self._status: RunStatus | None = None
    self._checkpoint_period = server.manifest.config.replay.checkpoint_period_seconds
    # The first checkpoint comes early, so that a run that dies soon can be resumed too.
    self._checkpoint_due_in(FIRST_CHECKPOINT_SECONDS)
    self._lost_since: float | None = None
    self._failing: set[str] = set()

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
    heard = connection.read_many(layout.HEARTBEATS, _MOST_MESSAGES, "reading heartbeats")
    summaries = connection.read_many(layout.EPISODES, _MOST_MESSAGES, "reading episodes")
    self._monitor.hear([*beats, *(decode(columns[0], Heartbeat) for columns in heard)])
    self._monitor.count(
      (decode(columns[0], EpisodeSummary, EvaluationSummary) for columns in summaries),
      environment_steps(tables, self._server.manifest.config.replay.default.name),
    )
    status = self._monitor.status(tables)
    self._status, text = status, status_json(status)
    self._publish(text)
    self._attempt(
      "files", lambda: self._write_files(status, text), f"The files of {self._run_dir} are not written", (OSError,)
    )
    return status

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
      ServerLost: the server has not answered for longer than roles wait.
    """
    try:
      status = self.tick(beats)
    except ServerLost as error:
      if self._lost_since is None:
        self._lost_since = time.monotonic()
        _log(f"{error} The status will be written when it answers again.")
      elif time.monotonic() - self._lost_since > LOST_AFTER_SECONDS:
        raise
      return None
    self._lost_since = None
    return status

  def run(self, stop: threading.Event) -> RunStatus:
    """Ticks until the run ends by itself or `stop` is set, then calls `finish`.

    Raises:
      ServerLost: the server has not answered for longer than roles wait.
    """
    status = self._tick_patiently()
    while status is None or not status.finished:
      if stop.wait(TICK_SECONDS):
        self._monitor.stop()
      if status is None:
        time.sleep(TICK_SECONDS)  # `stop.wait` no longer waits once it is set.
      status = self._tick_patiently()
      if self.checkpoint_is_due():
        self.checkpoint()
    return self.finish()

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
    """Whether the next checkpoint of the tables is due."""
    return time.monotonic() - self._checkpointed > self._checkpoint_period

  def _checkpoint_due_in(self, seconds: float) -> None:
    self._checkpointed = time.monotonic() - max(0.0, self._checkpoint_period - seconds)

  def checkpoint(self) -> None:
    """Writes a checkpoint of the tables; if that fails, prints why, and the next one is due soon."""
    failed = "The tables keep their previous checkpoint"
    if not self._attempt("checkpoints", self._checkpoint, failed, (OSError, CheckpointFailed, ServerLost)):
      self._checkpoint_due_in(RETRY_CHECKPOINT_SECONDS)

  def _checkpoint(self) -> None:
    """Writes a checkpoint, without the status of a run that has ended.

    Roles may join a server that resumes from the checkpoint before it has written its own status. If they read that the run has
    ended, they would leave at once.
    """
    if self._status is None or not self._status.finished:
      seconds = self._server.checkpoint()
    else:
      self._server.connection.clear(layout.STATUS)
      try:
        seconds = self._server.checkpoint()
      finally:
        self._publish(status_json(self._status))
    self._checkpointed = time.monotonic()
    _log(f"Tables checkpointed in {seconds:.2f} s.")


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
