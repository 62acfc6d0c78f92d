"""`slipstream runs`: a table of the runs in a folder."""

import json
import pathlib
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from configs import UserError
from experiments.comparison.finding import find_runs, without_columns
from experiments.comparison.selection import COLUMNS, in_order, select
from launch.stored_run import StoredRun
from launch.view.formats import format_number

PHASE_STYLES = {"running": "cyan", "starting": "cyan", "solved": "green", "killed": "red", "unknown": "red"}
HEADINGS = (
  "name",
  "run id",
  "when (UTC)",
  "method",
  "seed",
  "environment steps",
  "gradient steps",
  "best return",
  "last return",
  "solved",
  "phase",
)
_NUMBERS = ("seed", "environment steps", "gradient steps", "best return", "last return")
_ONE_LINE = ("run id", "when (UTC)")
# What a narrow terminal does without: a run's id begins with when it began.
_DISPENSABLE = ("when (UTC)", "gradient steps", "best return", "solved", "seed")
# What does not go to a terminal has no width to keep to; rich would assume 80 characters.
_PLAIN_WIDTH = 1_000


def list_runs(folder: pathlib.Path, sort: str, filters: Sequence[str], as_json: bool) -> int:
  """Prints the runs in a folder; returns the exit code.

  Args:
    folder: to search.
    sort: a column, with "-" in front of it from high to low.
    filters: conditions that a run must meet to be shown.
    as_json: whether to print JSON instead of a table.

  Raises:
    UserError: the folder holds no runs, or a column is unknown.
  """
  found = [without_columns(run) for run in find_runs(folder)]
  if not found:
    raise UserError(
      f"There are no runs in {folder}: name a folder that holds some, or start one with 'slipstream train'."
    )
  runs = in_order(select(found, filters), sort)
  if as_json:
    print(json.dumps([as_dict(run) for run in runs], indent=2, allow_nan=False))
    return 0
  console = make_console()
  if runs:
    table, left_out = fitting_table(runs, console)
    console.print(table)
    if left_out:
      console.print(
        f"Too narrow for {', '.join(left_out)}: widen the terminal, or use --json.", style="dim", markup=False
      )
  hidden = f", {len(found) - len(runs)} more do not meet the filter" if filters else ""
  console.print(f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} in {folder}{hidden}", markup=False)
  return 0


def make_console() -> Console:
  """A console that keeps lines whole where nobody looks at them on a terminal."""
  return Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False)


def as_dict(run: StoredRun) -> dict[str, object]:
  """A run as JSON values: all columns, its config and when it was solved."""
  columns = {name: value(run) for name, value in COLUMNS.items()}
  return {**columns, "solved_at": run.solved_at if run.solved else None, "config": dict(run.config)}


def fitting_table(runs: Sequence[StoredRun], console: Console) -> tuple[Table, tuple[str, ...]]:
  """A table no wider than the console, and the columns that were left out for it."""
  for count in range(len(_DISPENSABLE) + 1):
    left_out = _DISPENSABLE[:count]
    table = runs_table(runs, left_out)
    if Measurement.get(console, console.options.update(max_width=_PLAIN_WIDTH), table).maximum <= console.width:
      break
  return table, left_out


def runs_table(runs: Sequence[StoredRun], left_out: Sequence[str] = ()) -> Table:
  """One row for each run; a column of notes only if a run has some.

  Args:
    runs: in the order of the rows.
    left_out: headings of columns that are not shown.
  """
  table = Table(box=None, pad_edge=False, header_style="bold")
  notes = ("notes",) if any(run.notes for run in runs) else ()
  headings = (*HEADINGS, *notes)
  shown = [index for index, heading in enumerate(headings) if heading not in left_out]
  for index in shown:
    heading = headings[index]
    words = heading if heading in _ONE_LINE else heading.replace(" ", "\n", 1)
    table.add_column(words, justify="right" if heading in _NUMBERS else "left", overflow="fold")
  for run in runs:
    cells = [*map(Text, cells_of(run)), Text("; ".join(run.notes), style="yellow")]
    cells[HEADINGS.index("phase")].stylize(PHASE_STYLES.get(run.phase, ""))
    table.add_row(*(cells[index] for index in shown))
  return table


def cells_of(run: StoredRun) -> tuple[str, ...]:
  """A run's cells in the table, without its notes."""
  return (
    run.name,
    run.run_id,
    f"{run.when:%Y-%m-%d %H:%M}" if run.when else "-",
    run.method or "-",
    "-" if run.seed is None else str(run.seed),
    "-" if run.environment_steps is None else f"{run.environment_steps:,}",
    "-" if run.gradient_steps is None else f"{run.gradient_steps:,}",
    format_number(run.best_return),
    format_number(run.last_return),
    {None: "-", True: "yes", False: "no"}[run.solved],
    run.phase,
  )
