"""Reads run directories as they are, also those of runs that go on, were killed, are damaged, or come from another version."""

import csv
import dataclasses
import datetime as dt
import json
import math
import os
import pathlib
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from configs import UserError, from_json, to_dict
from configs.files import is_locked
from configs.methods import method_of
from launch.run_directory import RunDirectory
from replay_server.process.recorder import METRICS_FILE, Row, read_metrics

# A folder with two of these is a run directory, whatever else is missing.
_MARKS = ("config.json", "versions.txt", "status.json", METRICS_FILE, "checkpoints", "logs")
_STARTED = re.compile(r"(\d{8}-\d{6})-[0-9a-f]+")
# A server writes its status twice a second. The run's lock tells at once that its process is gone, but not on every network file
# system, so a fresh status counts as well.
_FRESH_SECONDS = 10.0
# Until the first status of a run is there: its libraries are loaded, its server starts.
_START_SECONDS = 60.0

Array = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class StoredRun:
  """What is known of a run. None or an empty value stands for what is not.

  Attributes:
    path: of the run directory, or of the file with the run's result.
    name: from its config.
    run_id: name of the directory, or of the result.
    when: the run began, in UTC; for a run of an experiment, when its result was written.
    method: the config's method, see `configs.methods.method_of`.
    seed: from its config.
    phase: "starting", "running", "stopping", "stopped", "solved", "exhausted" (its budget is used up), "left" (its server was
      told to leave), "killed", or "unknown".
    environment_steps: taken so far.
    gradient_steps: made so far.
    best_return: the largest of its evaluations.
    last_return: of its last evaluation.
    solved_at: environment steps at the evaluation that completed the streak in `evaluator.solved_evaluations` (at the first
      solved evaluation if that is 0); infinity if there is none yet; None if it has no goal, or none is known.
    notes: what is missing or damaged, in words.
    config: as nested JSON values, with defaults if this version can read it.
    versions: library -> version.
    columns: the columns [rows] of its metrics, NaN where they have no value.
  """

  path: pathlib.Path
  name: str
  run_id: str
  when: dt.datetime | None = None
  method: str = ""
  seed: int | None = None
  phase: str = "unknown"
  environment_steps: int | None = None
  gradient_steps: int | None = None
  best_return: float | None = None
  last_return: float | None = None
  solved_at: float | None = None
  notes: tuple[str, ...] = ()
  config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
  columns: Mapping[str, Array] = dataclasses.field(default_factory=dict)

  @property
  def solved(self) -> bool | None:
    """Whether its goal was reached; None if it has none, or none is known."""
    return None if self.solved_at is None else math.isfinite(self.solved_at)

  def curve(self, x: str, y: str) -> tuple[Array, Array]:
    """The values of columns `x` and `y` [points] in the rows that have both."""
    if x not in self.columns or y not in self.columns:
      return np.empty(0), np.empty(0)
    both = np.isfinite(self.columns[x]) & np.isfinite(self.columns[y])
    return self.columns[x][both], self.columns[y][both]


def is_run_directory(folder: pathlib.Path) -> bool:
  """Whether a run was begun in this folder."""
  # Unlike pathlib's, this is False for a folder that may not be read.
  return sum(os.path.exists(folder / mark) for mark in _MARKS) >= 2  # noqa: PTH110


def read_run(folder: pathlib.Path) -> StoredRun:
  """All that a run directory tells about its run; what cannot be read becomes a note."""
  notes: list[str] = []
  config, method = _read_config(folder, notes)
  status = _read_json(folder / "status.json", notes) if (folder / "status.json").exists() else {}
  rows = current_rows(_read_rows(folder / METRICS_FILE, notes))
  columns = _columns(rows)
  returns = columns.get("eval_return", np.empty(0))
  returns = returns[np.isfinite(returns)]
  phase = _phase(folder, status, notes)
  return StoredRun(
    path=folder,
    name=str(config.get("name") or status.get("name") or folder.resolve().parent.name),
    run_id=folder.resolve().name,
    when=_started(folder),
    method=method,
    seed=_whole(config.get("seed")),
    phase=phase,
    environment_steps=_steps(status, columns, "environment_steps"),
    gradient_steps=_steps(status, columns, "gradient_steps"),
    best_return=float(returns.max()) if len(returns) else None,
    last_return=float(returns[-1]) if len(returns) else None,
    solved_at=_solved_at(rows, config, phase),
    notes=tuple(notes),
    config=config,
    versions=_read_versions(folder),
    columns=columns,
  )


def current_rows(rows: Sequence[Row]) -> list[Row]:
  """The rows without those that the run repeated when it was resumed from an older checkpoint."""
  kept: list[Row] = []
  first_later_steps = math.inf
  for row in reversed(rows):
    steps = row.get("environment_steps")
    if steps is not None and steps <= first_later_steps:
      kept.append(row)
      first_later_steps = steps
  return kept[::-1]


def solved_at(rows: Sequence[Row], solved_evaluations: int) -> float | None:
  """The environment steps after which `solved_evaluations` in a row were solved; None if that never happened."""
  streak = 0
  for row in rows:
    solved = row.get("eval_solved")
    if solved is None:
      continue
    streak = streak + 1 if solved else 0
    if solved and streak == solved_evaluations:
      return row["environment_steps"]
  return None


def _read_json(path: pathlib.Path, notes: list[str]) -> dict[str, Any]:
  try:
    data = json.loads(path.read_text())
  except OSError as error:
    notes.append(f"{path.name} cannot be read ({error.strerror})" if path.exists() else f"{path.name} is missing")
    return {}
  except (ValueError, RecursionError):
    notes.append(f"{path.name} is damaged")
    return {}
  if isinstance(data, dict):
    # Half of a surrogate pair is JSON, but no text that can be printed.
    clean = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")
    return dict(json.loads(clean))
  notes.append(f"{path.name} is damaged")
  return {}


def _read_config(folder: pathlib.Path, notes: list[str]) -> tuple[dict[str, Any], str]:
  """The config as JSON values, and its method."""
  data = _read_json(RunDirectory(folder).config, notes)
  if not data:
    return {}, ""
  try:
    config = from_json(json.dumps(data))
  except UserError:
    notes.append("config.json is from another version")
    return data, str(data.get("method", ""))
  return to_dict(config), method_of(config)


def _read_rows(path: pathlib.Path, notes: list[str]) -> list[Row]:
  try:
    return read_metrics(path)
  except (OSError, csv.Error):
    notes.append(f"{path.name} cannot be read")
    return []


def _read_versions(folder: pathlib.Path) -> dict[str, str]:
  try:
    lines = (folder / "versions.txt").read_text(errors="replace").splitlines()
  except OSError:
    return {}
  pairs = (line.partition("==") for line in lines)
  return {name: version for name, separator, version in pairs if separator}


def _columns(rows: Sequence[Row]) -> dict[str, Array]:
  names = rows[0] if rows else ()
  cells = {name: [row.get(name) for row in rows] for name in names}
  return {name: np.array([math.nan if cell is None else cell for cell in column]) for name, column in cells.items()}


def _steps(status: Mapping[str, Any], columns: Mapping[str, Array], column: str) -> int | None:
  counted = _whole(status.get(column))
  if counted is not None:
    return counted
  values = columns.get(column, np.empty(0))
  values = values[np.isfinite(values)]
  return int(values.max()) if len(values) else None


def _whole(value: Any) -> int | None:
  return (
    int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) else None
  )


def _solved_at(rows: Sequence[Row], config: Mapping[str, Any], phase: str) -> float | None:
  goal = config.get("evaluator")
  goal = goal if isinstance(goal, Mapping) else {}
  if not goal.get("solved_event") and goal.get("solved_return") is None and phase != "solved":
    return None
  reached = solved_at(rows, _whole(goal.get("solved_evaluations")) or 1)
  if reached is None and phase == "solved":
    # The record may lack what the status counted, for example if the disk was full.
    reached = next((row["environment_steps"] for row in reversed(rows) if row.get("eval_solved")), 0.0)
  return math.inf if reached is None else reached


def _phase(folder: pathlib.Path, status: Mapping[str, Any], notes: list[str]) -> str:
  phase = status.get("phase")
  if phase in ("solved", "exhausted"):
    return str(phase)
  if phase in ("running", "stopping"):
    if _is_alive(folder):
      return str(phase)
    if phase == "stopping":
      return "stopped"
    return "left" if status.get("is_leaving") else "killed"
  if (folder / "status.json").exists() or (folder / METRICS_FILE).exists():
    return "unknown"
  if is_locked(_lock(folder)) or _age_seconds(folder / "config.json") < _START_SECONDS:
    return "starting"
  notes.append("it ended before its first status")
  return "killed"


def _lock(folder: pathlib.Path) -> pathlib.Path:
  replay = RunDirectory(folder).replay_checkpoint
  return replay.with_name(f"{replay.name}.lock")


def _is_alive(folder: pathlib.Path) -> bool:
  return is_locked(_lock(folder)) or _age_seconds(folder / "status.json") < _FRESH_SECONDS


def _age_seconds(path: pathlib.Path) -> float:
  try:
    return time.time() - path.stat().st_mtime
  except OSError:
    return math.inf


def _started(folder: pathlib.Path) -> dt.datetime | None:
  """From the run's id, or else from the oldest file."""
  match = _STARTED.fullmatch(folder.resolve().name)
  if match:
    try:
      return dt.datetime.strptime(match[1], "%Y%m%d-%H%M%S").replace(tzinfo=dt.timezone.utc)
    except ValueError:
      pass  # It only looks like a time.
  try:
    with os.scandir(folder) as entries:
      oldest = min((entry.stat().st_mtime for entry in entries), default=folder.stat().st_mtime)
  except OSError:
    return None
  return dt.datetime.fromtimestamp(oldest, dt.timezone.utc)
