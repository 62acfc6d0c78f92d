"""What a run leaves to read: `metrics.csv` and TensorBoard event files, written from its status."""

import contextlib
import csv
import dataclasses
import math
import pathlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from replay_server.contract.status import Evaluation, RunStatus, TableStatus

METRICS_FILE = "metrics.csv"
TENSORBOARD_FOLDER = "tb"

# Of every run, in this order; `_table_columns` come after them.
COLUMNS = (
  "seconds",
  "environment_steps",
  "gradient_steps",
  "policy_version",
  "environment_steps_per_second",
  "gradient_steps_per_second",
  "episodes",
  "train_return",
  "train_length",
  "eval_return",
  "eval_length",
  "eval_solved",
  "loss",
  "mean_q",
)
_TABLE_MEASURES = ("size", "inserts_per_second", "samples_per_second")

Row = dict[str, float | None]


def read_metrics(path: pathlib.Path) -> list[Row]:
  """The rows of a `metrics.csv`, in the order in which they were written.

  Args:
    path: of the file; one that does not exist has no rows.

  Returns:
    Column name -> value, None where the cell is empty. A row that a crash cut off has None in the cells it lacks.
  """
  if not path.is_file():
    return []
  with path.open(newline="") as file:
    return [{name: _parse(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def _parse(cell: str | None) -> float | None:
  try:
    value = float(cell) if cell else math.nan
  except ValueError:
    return None
  return value if math.isfinite(value) else None


class Recorder:
  """Writes a run's history into its directory; made again for a resumed run, it goes on where the files end.

  A row of `metrics.csv` is one of two kinds. A status fills all but the eval_* columns. An evaluation fills these, and
  its own seconds, environment_steps, gradient_steps and policy_version (those the policy had learned for, which lie a
  little behind the learner's); its other cells are empty.

  TensorBoard tags are those of Stable-Baselines3, and replay/<table>/...; the x-axis is environment steps.
  """

  def __init__(self, run_dir: pathlib.Path):
    """Makes the directory where it is missing; files are opened at the first record."""
    run_dir.mkdir(parents=True, exist_ok=True)
    self._run_dir = run_dir
    self._csv: _CsvLog | None = None
    self._board: _BoardLog | None = None
    self._last: tuple[Any, ...] | None = None
    self._seen: set[tuple[float, ...]] = set()

  def record(self, status: RunStatus) -> None:
    """Writes what is new in `status`: a row for each new evaluation, and one for the rest if any count changed.

    Raises:
      OSError: the files cannot be written; the next record opens them anew and goes on where they end.
    """
    try:
      self._record(status)
    except OSError:
      self._give_up_files()
      raise

  def _give_up_files(self) -> None:
    try:
      if self._csv is not None:
        self._csv.close()
    except OSError:
      self._last = None  # Rows that it held back are lost.
    if self._board is not None:
      with contextlib.suppress(OSError):
        self._board.close()
    self._csv = self._board = None

  def _record(self, status: RunStatus) -> None:
    if self._csv is None or self._board is None:
      path = self._run_dir / METRICS_FILE
      self._seen = {_row_key(row) for row in read_metrics(path) if row.get("eval_solved") is not None}
      self._csv = _CsvLog(path, (*COLUMNS, *_table_columns(status.tables)))
      self._board = _BoardLog(self._run_dir / TENSORBOARD_FOLDER, status.environment_steps)
    for evaluation in status.evaluations:
      if _evaluation_key(evaluation) not in self._seen:
        self._csv.write(_evaluation_row(evaluation))
        self._board.write(_evaluation_tags(evaluation), evaluation.environment_steps)
    # Those that left the status do not come back.
    self._seen = {_evaluation_key(evaluation) for evaluation in status.evaluations}
    counts = _counts(status)
    if counts != self._last:
      self._csv.write(_status_row(status))
      self._last = counts  # A row is not written twice where the next line fails.
      self._board.write(_status_tags(status), status.environment_steps)
    self._csv.flush()
    self._board.flush()

  def close(self) -> None:
    """Closes the files; may be called twice."""
    with contextlib.ExitStack() as stack:  # Both, also where one cannot be written to its end.
      for log in (self._csv, self._board):
        if log is not None:
          stack.callback(log.close)


def _counts(status: RunStatus) -> tuple[Any, ...]:
  """What moves only when the run does; rates and the clock move by themselves."""
  tables = tuple((table.name, table.size, table.inserted) for table in status.tables)
  return status.environment_steps, status.gradient_steps, status.policy_version, status.episodes, tables


def _evaluation_key(evaluation: Evaluation) -> tuple[float, ...]:
  return _row_key(_evaluation_row(evaluation))


def _row_key(row: Mapping[str, float | None]) -> tuple[float, ...]:
  return tuple(row.get(name) or 0.0 for name in ("seconds", "environment_steps", "gradient_steps", "policy_version"))


def _evaluation_row(evaluation: Evaluation) -> Row:
  return {
    "seconds": round(evaluation.seconds, 3),
    "environment_steps": evaluation.environment_steps,
    "gradient_steps": evaluation.gradient_steps,
    "policy_version": evaluation.policy_version,
    "eval_return": evaluation.mean_return,
    "eval_length": evaluation.mean_length,
    "eval_solved": int(evaluation.solved),
  }


def _evaluation_tags(evaluation: Evaluation) -> Row:
  return {"eval/mean_reward": evaluation.mean_return, "eval/mean_ep_length": evaluation.mean_length}


def _table_columns(tables: Iterable[TableStatus]) -> list[str]:
  return [f"{table.name}/{measure}" for table in tables for measure in _TABLE_MEASURES]


def _table_values(tables: Iterable[TableStatus]) -> Row:
  return {f"{table.name}/{measure}": getattr(table, measure) for table in tables for measure in _TABLE_MEASURES}


def _status_row(status: RunStatus) -> Row:
  return {
    "seconds": round(status.wall_seconds, 3),
    "environment_steps": status.environment_steps,
    "gradient_steps": status.gradient_steps,
    "policy_version": status.policy_version,
    "environment_steps_per_second": round(status.environment_steps_per_second, 3),
    "gradient_steps_per_second": round(status.gradient_steps_per_second, 3),
    "episodes": status.episodes,
    "train_return": status.train_return,
    "train_length": status.train_length,
    "loss": status.learner.get("loss"),
    "mean_q": status.learner.get("mean_q"),
    **_table_values(status.tables),
  }


def _status_tags(status: RunStatus) -> Row:
  return {
    "rollout/ep_rew_mean": status.train_return,
    "rollout/ep_len_mean": status.train_length,
    "time/fps": status.environment_steps_per_second,
    "train/n_updates": status.gradient_steps,
    **{f"train/{name}": value for name, value in status.learner.items()},
    **{f"replay/{name}": value for name, value in _table_values(status.tables).items()},
  }


def _measured(values: Mapping[str, float | None]) -> Iterator[tuple[str, float]]:
  return ((name, value) for name, value in values.items() if value is not None and math.isfinite(value))


class _CsvLog:
  """A CSV file that is appended to, with one header."""

  def __init__(self, path: pathlib.Path, columns: Sequence[str]):
    self._file = _open_csv(path, columns)
    with path.open(newline="") as file:
      self._writer = csv.DictWriter(self._file, next(csv.reader(file)), extrasaction="ignore")

  def write(self, row: Row) -> None:
    self._writer.writerow(
      {name: value if isinstance(value, int) else f"{value:.10g}" for name, value in _measured(row)}
    )

  def flush(self) -> None:
    self._file.flush()

  def close(self) -> None:
    self._file.close()


def _open_csv(path: pathlib.Path, columns: Sequence[str]) -> IO[str]:
  """Opens `path` to append, with a header that has `columns` at least and no half-written row at its end."""
  old = path.read_text().rpartition("\n")[0].splitlines() if path.is_file() else []
  rows = list(csv.reader(old))
  header = rows[0] if rows else []
  # A resumed run may have tables that it had not before; their columns go to the right of the old ones.
  header = [*header, *(name for name in columns if name not in header)]
  rows = [header, *(row + [""] * (len(header) - len(row)) for row in rows[1:])]
  swap = path.with_suffix(".tmp")
  with swap.open("w", newline="") as file:
    csv.writer(file, lineterminator="\n").writerows(rows)
  swap.replace(path)
  return path.open("a", newline="")


@dataclasses.dataclass
class _BoardLog:
  """TensorBoard event files in `folder`; points of an earlier part from `first_step` on are taken back."""

  folder: pathlib.Path
  first_step: int

  def __post_init__(self) -> None:
    # Here, so that reading metrics does not load TensorFlow.
    import tensorflow as tf

    # Not tf.summary: it runs ops, and the first op of a process takes the whole GPU's memory from the learner.
    self._tf = tf.compat.v1
    with tf.Graph().as_default(), self._failing_as_files_do():
      # A name of its own: the default's is the second, and a file of the same second would be overwritten.
      self._writer = self._tf.summary.FileWriter(str(self.folder), filename_suffix=f".{time.time_ns()}")
    self._writer.add_session_log(self._tf.SessionLog(status=self._tf.SessionLog.START), self.first_step)

  def write(self, tags: Row, step: int) -> None:
    values = [self._tf.Summary.Value(tag=tag, simple_value=value) for tag, value in _measured(tags)]
    with self._failing_as_files_do():
      self._writer.add_summary(self._tf.Summary(value=values), step)

  def flush(self) -> None:
    with self._failing_as_files_do():
      self._writer.flush()

  def close(self) -> None:
    with self._failing_as_files_do():
      self._writer.close()

  @contextlib.contextmanager
  def _failing_as_files_do(self) -> Iterator[None]:
    try:
      yield
    except self._tf.errors.OpError as error:
      raise OSError(str(error)) from None
