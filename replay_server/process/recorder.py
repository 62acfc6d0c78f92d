"""A run's record: `metrics.csv` and TensorBoard event files, written from its status."""

import contextlib
import csv
import dataclasses
import itertools
import math
import pathlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from replay_server.contract.messages import REFER_METRICS, SHARE_METRICS
from replay_server.contract.status import Evaluation, RunStatus, TableStatus
from replay_server.process.sinks import Sink

METRICS_FILE = "metrics.csv"
TENSORBOARD_FOLDER = "tb"

# Columns of every run, in this order; `_table_columns` follow them.
COLUMNS = (
  "seconds",
  "environment_steps",
  "gradient_steps",
  "policy_version",
  "environment_steps_per_second",
  "gradient_steps_per_second",
  "episodes",
  "recent_return",
  "recent_length",
  "train_return",
  "train_length",
  "eval_return",
  "eval_length",
  "eval_solved",
  "loss",
  "mean_q",
)
# Beginnings of the learner's metrics that are columns too.
_COLUMNS_OF_LEARNER = (REFER_METRICS, SHARE_METRICS)
_TABLE_MEASURES = ("size", "inserts_per_second", "samples_per_second")

# A run's record grows by less than 20 MB a day. A row of `metrics.csv` takes some 10 bytes a column, and its points in
# TensorBoard some 40 a tag: with 7 tables (37 columns, 36 tags) 1.8 kB, with 32 tables (112 columns, 111 tags) 5.6 kB.
# Rows come at every tick at first, later at least 1/200 of the run's time apart, up to the period in which BYTES_PER_SECOND
# (4 MB a day) make a row: 39 s with 7 tables, 121 s with 32. On the first day these are 1.9 + 3.6 MB and 7.2 + 2.9 MB.
# Evaluations come at most once a second by default and take 0.2 kB (0.28 kB with 32 tables), 17 MB a day. Later in a run they
# are at least 1/10,000 of its time apart: 31,600 rows on the first day, which are 6.3 MB (8.8 MB). A measure takes as much as a
# column and a tag, so with five of them evaluations are twice as far apart.
BYTES_PER_SECOND = 46.0
_CELL_BYTES = 10
_TAG_BYTES = 40
_ROWS_APART = 1 / 200
_EVALUATIONS_APART = 1 / 10_000
_MEASURES_PER_EVALUATION = 5.0

Row = dict[str, float | None]


def read_metrics(path: pathlib.Path) -> list[Row]:
  """The rows of a `metrics.csv`, in the order in which they were written.

  Args:
    path: of the file; one that does not exist has no rows.

  Returns:
    Column name -> value, None for an empty cell or one that is no number. A last row that is half written is left out: its
    last cell may be a part of a number.

  Raises:
    OSError: the file cannot be read.
  """
  if not path.is_file():
    return []
  lines = _read_text(path).rpartition("\n")[0].splitlines()
  header, *rows = csv.reader(lines, quoting=csv.QUOTE_NONE) if lines else [[]]
  return [
    {name: _parse(cell) for name, cell in itertools.zip_longest(header, row[: len(header)])} for row in rows if row
  ]


def _read_text(path: pathlib.Path) -> str:
  """The text of a CSV file; after a power failure it may end in zeros, or hold bytes that are no text."""
  return path.read_text(encoding="utf-8", errors="replace").replace("\0", "")


def _parse(cell: str | None) -> float | None:
  try:
    value = float(cell) if cell else math.nan
  except ValueError:
    return None
  return value if math.isfinite(value) else None


def row_period_seconds(seconds: float, columns: int, tags: int) -> float:
  """Least time between two rows of a status; 0 lets every change make a row.

  Args:
    seconds: since the run began.
    columns: of `metrics.csv`.
    tags: in TensorBoard.
  """
  return min(_ROWS_APART * seconds, (_CELL_BYTES * columns + _TAG_BYTES * tags) / BYTES_PER_SECOND)


class Recorder:
  """Writes a run's record into its directory; the recorder of a resumed run appends to the files that it finds there.

  So that a run of days can be read, rows lie apart in proportion to the run's time: statuses 1/200 of it (`row_period_seconds`),
  evaluations 1/10,000. The last of each kind is always written, when the run ends and when the recorder is closed.

  `metrics.csv` has two kinds of rows. The row of a status fills all columns except eval_* and train_*; recent_* are of the last
  100 training episodes. The row of an evaluation fills eval_*, train_* (of the training episodes that ended since the evaluation
  before), seconds, environment_steps, gradient_steps and policy_version, and no others. Its last two are the evaluated policy's,
  a little behind the learner's.

  TensorBoard tags are those of Stable-Baselines3, and replay/<table>/...; the x-axis is environment steps.

  Measures have the same names in both, rollout/measures/<name> in a status and eval/measures/<name> in an evaluation. Their
  columns are added when a measure comes for the first time.
  """

  def __init__(self, run_dir: pathlib.Path, sinks: Sequence[Sink] = ()):
    """Makes the directory if it is missing; the first record opens the files.

    Args:
      run_dir: the run directory.
      sinks: other places for what TensorBoard gets.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    self._run_dir = run_dir
    self._sinks = sinks
    self._csv: CsvLog | None = None
    self._board: BoardLog | None = None
    self._status: RunStatus | None = None
    self._last: tuple[Any, ...] | None = None
    self._last_seconds = -math.inf
    self._evaluated = -math.inf  # When the last evaluation that is written was made.
    # Whether it is written, for the evaluations of the last status; those that left the status do not come back.
    self._written: dict[tuple[float, ...], bool] = {}

  def record(self, status: RunStatus) -> None:
    """Writes what is new in `status`, where it is due: a row for each new evaluation, and one for the rest if any count changed.

    Raises:
      OSError: the files cannot be written; the next record opens them again and appends.
    """
    self._status = status
    try:
      self._record(status, is_last=status.finished)
    except OSError:
      self._give_up_files()
      raise

  def _give_up_files(self) -> None:
    try:
      if self._csv is not None:
        self._csv.close()
    except OSError:
      # Its buffered rows are lost, so the next status is written in any case.
      self._last, self._last_seconds = None, -math.inf
    if self._board is not None:
      with contextlib.suppress(OSError):
        self._board.close()
    self._csv = self._board = None

  def _record(self, status: RunStatus, is_last: bool) -> None:
    if self._csv is None or self._board is None:
      path = self._run_dir / METRICS_FILE
      self._written = {_row_key(row): True for row in read_metrics(path) if row.get("eval_solved") is not None}
      self._csv = CsvLog(path, (*COLUMNS, *_table_columns(status.tables)))
      self._board = BoardLog(self._run_dir / TENSORBOARD_FOLDER, status.environment_steps)
    self._record_evaluations(self._csv, self._board, status.evaluations, is_last)
    counts, row, tags = _counts(status), _status_row(status), _status_tags(status)
    period = row_period_seconds(status.wall_seconds, len(row), len(tags))
    if counts != self._last and (is_last or status.wall_seconds - self._last_seconds >= period):
      self._csv.write(row)
      self._last = counts  # Set here, as the row must not be written twice if the next line fails.
      self._last_seconds = status.wall_seconds
      self._write_tags(self._board, tags, status.environment_steps)
    self._csv.flush()
    self._board.flush()

  def _record_evaluations(
    self, csv_log: "CsvLog", board: "BoardLog", evaluations: Sequence[Evaluation], is_last: bool
  ) -> None:
    written: dict[tuple[float, ...], bool] = {}
    # The last one that is written may have left the status.
    before = self._evaluated if evaluations and self._evaluated <= evaluations[0].seconds else -math.inf
    for evaluation in evaluations:
      key = _evaluation_key(evaluation)
      must = is_last and evaluation is evaluations[-1]
      apart = _EVALUATIONS_APART * (1 + len(evaluation.measures) / _MEASURES_PER_EVALUATION)
      is_due = evaluation.seconds - before >= apart * evaluation.seconds
      is_written = self._written.get(key)
      if (is_written is None and is_due) or (must and not is_written):
        csv_log.write(_evaluation_row(evaluation))
        self._write_tags(board, _evaluation_tags(evaluation), evaluation.environment_steps)
        is_written = True
      written[key] = bool(is_written)
      if is_written:
        before = self._evaluated = evaluation.seconds
    self._written = written

  def _write_tags(self, board: "BoardLog", tags: Row, step: int) -> None:
    board.write(tags, step)
    for sink in self._sinks:
      sink.write(dict(_measured(tags)), step)

  def close(self) -> None:
    """Writes the last status and closes the files; may be called twice."""
    with contextlib.ExitStack() as stack:  # Closes both, even if one of them fails.
      for log in (self._csv, self._board):
        if log is not None:
          stack.callback(log.close)
      status, self._status = self._status, None
      if status is not None and self._csv is not None:
        self._record(status, is_last=True)


def _counts(status: RunStatus) -> tuple[Any, ...]:
  """The values that change only as the run advances, unlike rates and the clock."""
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
    "train_return": evaluation.train_return,
    "train_length": evaluation.train_length,
    "eval_return": evaluation.mean_return,
    "eval_length": evaluation.mean_length,
    "eval_solved": int(evaluation.solved),
    **_measure_values("eval", evaluation.measures),
  }


def _evaluation_tags(evaluation: Evaluation) -> Row:
  return {
    "eval/mean_reward": evaluation.mean_return,
    "eval/mean_ep_length": evaluation.mean_length,
    **_measure_values("eval", evaluation.measures),
  }


def _measure_values(of: str, measures: Mapping[str, float]) -> Row:
  # Three parts, so that no table's column has the same name.
  return {f"{of}/measures/{name}": value for name, value in measures.items()}


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
    "recent_return": status.recent_return,
    "recent_length": status.recent_length,
    "loss": status.learner.get("loss"),
    "mean_q": status.learner.get("mean_q"),
    **_table_values(status.tables),
    **_measure_values("rollout", status.recent_measures),
    **{f"learner/{name}": value for name, value in status.learner.items() if name.startswith(_COLUMNS_OF_LEARNER)},
  }


def _status_tags(status: RunStatus) -> Row:
  return {
    "rollout/ep_rew_mean": status.recent_return,
    "rollout/ep_len_mean": status.recent_length,
    **_measure_values("rollout", status.recent_measures),
    "time/fps": status.environment_steps_per_second,
    "train/n_updates": status.gradient_steps,
    **{f"train/{name}": value for name, value in status.learner.items()},
    **{f"replay/{name}": value for name, value in _table_values(status.tables).items()},
  }


def _measured(values: Mapping[str, float | None]) -> Iterator[tuple[str, float]]:
  return ((name, value) for name, value in values.items() if value is not None and math.isfinite(value))


class CsvLog:
  """A CSV file with one header, to which rows are appended. A row with a new column widens it: all of it is written anew."""

  def __init__(self, path: pathlib.Path, columns: Sequence[str]):
    """Opens the file; its header has at least `columns`."""
    self._path = path
    self._open(columns)

  def _open(self, columns: Sequence[str]) -> None:
    self._file = _open_csv(self._path, columns)
    with self._path.open(newline="") as file:
      self._writer = csv.DictWriter(self._file, next(csv.reader(file)))

  def write(self, row: Row) -> None:
    """Appends a row; cells are empty where it has no finite value."""
    new = [name for name in row if name not in self._writer.fieldnames]
    if new:
      self._file.close()
      self._open(new)
    self._writer.writerow(
      {name: value if isinstance(value, int) else f"{value:.10g}" for name, value in _measured(row)}
    )

  def flush(self) -> None:
    """Writes buffered rows to the disk."""
    self._file.flush()

  def close(self) -> None:
    """Closes the file; may be called twice."""
    self._file.close()


def _open_csv(path: pathlib.Path, columns: Sequence[str]) -> IO[str]:
  """Opens `path` to append; adds missing `columns` to its header first, and removes a half-written last row."""
  old = _read_text(path).rpartition("\n")[0].splitlines() if path.is_file() else []
  rows = list(csv.reader(old))
  header = rows[0] if rows else []
  # A resumed run may have new tables, and any run new measures; their columns go to the right of the old ones.
  header = [*header, *(name for name in columns if name not in header)]
  rows = [header, *(row + [""] * (len(header) - len(row)) for row in rows[1:])]
  swap = path.with_suffix(".tmp")
  with swap.open("w", newline="") as file:
    csv.writer(file, lineterminator="\n").writerows(rows)
  swap.replace(path)
  return path.open("a", newline="")


@dataclasses.dataclass
class BoardLog:
  """TensorBoard's event files in a folder.

  Attributes:
    folder: of the files.
    first_step: of this part of the run; points that an earlier part wrote from there on are hidden.
  """

  folder: pathlib.Path
  first_step: int

  def __post_init__(self) -> None:
    # Imported here, so that reading metrics does not load TensorFlow.
    import tensorflow as tf

    # Not tf.summary: it runs ops, and the first op of a process takes the whole GPU's memory from the learner.
    self._tf = tf.compat.v1
    with tf.Graph().as_default(), self._raising_os_errors():
      # By default a file is named after the second, and would overwrite another one of that second.
      self._writer = self._tf.summary.FileWriter(str(self.folder), filename_suffix=f".{time.time_ns()}")
    self._writer.add_session_log(self._tf.SessionLog(status=self._tf.SessionLog.START), self.first_step)

  def write(self, tags: Row, step: int) -> None:
    """Adds a point at `step` for every tag with a finite value."""
    values = [self._tf.Summary.Value(tag=tag, simple_value=value) for tag, value in _measured(tags)]
    with self._raising_os_errors():
      self._writer.add_summary(self._tf.Summary(value=values), step)

  def write_animation(self, tag: str, animation: bytes, size: tuple[int, int], step: int) -> None:
    """Adds an animated GIF at `step`, as a picture.

    Args:
      tag: its name.
      animation: the GIF.
      size: width and height.
      step: of the run.
    """
    width, height = size
    image = self._tf.Summary.Image(width=width, height=height, colorspace=3, encoded_image_string=animation)
    with self._raising_os_errors():
      self._writer.add_summary(self._tf.Summary(value=[self._tf.Summary.Value(tag=tag, image=image)]), step)

  def flush(self) -> None:
    """Writes buffered points to the disk."""
    with self._raising_os_errors():
      self._writer.flush()

  def close(self) -> None:
    """Closes the file; may be called twice."""
    with self._raising_os_errors():
      self._writer.close()

  @contextlib.contextmanager
  def _raising_os_errors(self) -> Iterator[None]:
    try:
      yield
    except self._tf.errors.OpError as error:
      raise OSError(str(error)) from None
