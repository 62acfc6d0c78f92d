"""Which runs are shown, and in which order: `--filter` and `--sort`."""

import dataclasses
import difflib
import fnmatch
import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from configs import UserError
from configs.changes import flat_config
from configs.errors import name_hint
from launch.stored_run import StoredRun

# Column -> the attribute of a run. Their order is that of `--json`.
COLUMNS: Mapping[str, Callable[[StoredRun], Any]] = {
  "name": lambda run: run.name,
  "run_id": lambda run: run.run_id,
  "when": lambda run: run.when.isoformat(timespec="seconds") if run.when else None,
  "method": lambda run: run.method or None,
  "seed": lambda run: run.seed,
  "environment_steps": lambda run: run.environment_steps,
  "gradient_steps": lambda run: run.gradient_steps,
  "best_return": lambda run: run.best_return,
  "last_return": lambda run: run.last_return,
  "solved": lambda run: run.solved,
  "phase": lambda run: run.phase,
  "run_dir": lambda run: str(run.path),
  "notes": lambda run: "; ".join(run.notes) or None,
}

_CONFIG = "config."
_KNOWN_ANYWAY = ("name", "method", "seed")
_CONDITION = re.compile(r"(?P<column>[^!<>=]+)(?P<comparison>!=|<=|>=|=|<|>)(?P<value>.*)")
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
  "<": operator.lt,
  "<=": operator.le,
  ">": operator.gt,
  ">=": operator.ge,
}


@dataclasses.dataclass(frozen=True)
class Condition:
  """One condition on a run.

  Attributes:
    column: one of `COLUMNS`, or `config.` and the path of a field.
    comparison: "=", "!=", "<", "<=", ">" or ">=".
    value: a number or a text; with "=" and "!=" the text may hold the wildcards `*` and `?`.
  """

  column: str
  comparison: str
  value: str

  def holds(self, run: StoredRun) -> bool:
    """Whether the run meets it; a run without a value meets only "!=", and "=none"."""
    value = value_of(run, self.column)
    if self.comparison in ("=", "!="):
      return _equals(value, self.value) == (self.comparison == "=")
    if value is None:
      return False
    compare, other = _ORDERS[self.comparison], _number(self.value)
    if isinstance(value, (int, float)):
      return other is not None and compare(value, other)
    return compare(str(value), self.value)


def parse_condition(text: str) -> Condition:
  """A condition as it is typed, such as `method=sset` or `best_return>=0.5`.

  Raises:
    UserError: it is no condition.
  """
  match = _CONDITION.fullmatch(text)
  if not match:
    raise UserError(f"--filter={text} is no condition: write COLUMN=VALUE, or one of !=, <, <=, > and >= between them.")
  return Condition(match["column"].strip(), match["comparison"], match["value"].strip())


def needs_config(text: str) -> bool:
  """Whether a condition is on a field of the config.

  Raises:
    UserError: it is no condition.
  """
  return parse_condition(text).column.startswith(_CONFIG)


def select(runs: Iterable[StoredRun], filters: Sequence[str]) -> list[StoredRun]:
  """The runs that meet all conditions, in the same order.

  Raises:
    UserError: a condition is malformed or names no column.
  """
  runs, conditions = list(runs), [parse_condition(text) for text in filters]
  for condition in conditions:
    _check_column(condition.column, runs)
  return [run for run in runs if all(condition.holds(run) for condition in conditions)]


def in_order(runs: Iterable[StoredRun], column: str) -> list[StoredRun]:
  """The runs by a column, from low to high, or from high to low if it begins with "-"; those without a value come last.

  Raises:
    UserError: there is no such column.
  """
  runs, name = sorted(runs, key=lambda run: (run.name, run.run_id)), column.removeprefix("-")
  _check_column(name, runs)
  known = [run for run in runs if value_of(run, name) is not None]
  values = [value_of(run, name) for run in known]
  numbers = all(isinstance(value, (int, float)) for value in values)
  known.sort(key=lambda run: _key(value_of(run, name), numbers), reverse=column.startswith("-"))
  return [*known, *(run for run in runs if value_of(run, name) is None)]


def value_of(run: StoredRun, column: str) -> Any:
  """The run's value of one of `COLUMNS` or of a field, `config.PATH`; None if it has none."""
  if column in COLUMNS:
    return COLUMNS[column](run)
  return field_of(run, column.removeprefix(_CONFIG))


def field_of(run: StoredRun, path: str) -> Any:
  """The value of a config's field; None if it has none. Name, method and seed are known without a config as well."""
  if path in _KNOWN_ANYWAY:
    return COLUMNS[path](run)
  return dict(flat_config(run.config)).get(path)


def check_field(path: str, runs: Iterable[StoredRun]) -> None:
  """Raises a `UserError` unless a run's config has the field; the sentence names the nearest."""
  known = sorted({*_KNOWN_ANYWAY, *(path for run in runs for path, _ in flat_config(run.config))})
  if path not in known:
    near = [name for name in known if name.endswith(f".{path}")] or difflib.get_close_matches(path, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "a run's config.json holds them all."
    raise UserError(f"No run's config has a field {path!r}: {hint}")


def _check_column(column: str, runs: Iterable[StoredRun]) -> None:
  if column.startswith(_CONFIG):
    check_field(column.removeprefix(_CONFIG), runs)
  elif column not in COLUMNS:
    raise UserError(f"Runs have no column {column!r}: {name_hint(column, COLUMNS)}")


def _equals(value: Any, text: str) -> bool:
  number = _number(text)
  if isinstance(value, (int, float)) and not isinstance(value, bool) and number is not None:
    return bool(value == number)
  return fnmatch.fnmatchcase(as_text(value), text)


def as_text(value: Any) -> str:
  """A value of a config or a column as it is typed: true, none, 0.5, sset, and JSON for lists and objects."""
  if isinstance(value, str):
    return value
  return "none" if value is None else json.dumps(value, sort_keys=True)


def _number(text: str) -> float | None:
  try:
    return float(text)
  except ValueError:
    return None


def _key(value: Any, numbers: bool) -> Any:
  return value if numbers else as_text(value)
