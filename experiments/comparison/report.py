"""`slipstream report`: compares runs on one page."""

import contextlib
import csv
import dataclasses
import datetime as dt
import io
import math
import pathlib
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from configs import UserError
from configs.errors import name_hint
from configs.files import replace_text
from experiments.comparison.drawing import save_png
from experiments.comparison.finding import find_runs, with_config
from experiments.comparison.grouping import Group, group_runs, worlds_of
from experiments.comparison.listing import make_console
from experiments.comparison.measures import X_COLUMNS, Summary, check_curve, counted_runs, curve_of, summarise
from experiments.comparison.media import media_of
from experiments.comparison.page import Comparison, World, in_words, render_page
from experiments.comparison.selection import needs_config, select
from experiments.pictures import styles_of
from experiments.statistics import Estimate
from launch.stored_run import StoredRun
from launch.view.formats import format_number

PAGE_FILE, PICTURE_FILE, CURVES_FILE = "report.html", "curves.png", "curves.csv"


@dataclasses.dataclass(frozen=True)
class Request:
  """What is compared, and how.

  Attributes:
    folders: run directories, and folders that hold some.
    out: folder for the files.
    curve: a column of metrics.csv.
    x: of the horizontal axis, one of `X_COLUMNS`.
    by: fields of the config that name the groups.
    reference: label of the group that others are compared with; empty takes the first of the method "uniform", or else
      the first of all.
    filters: conditions that a run must meet.
    command: with which the page is made again.
  """

  folders: tuple[pathlib.Path, ...]
  out: pathlib.Path
  curve: str = "eval_return"
  x: str = X_COLUMNS[0]
  by: tuple[str, ...] = ("method",)
  reference: str = ""
  filters: tuple[str, ...] = ()
  command: str = ""


def make_report(request: Request) -> int:
  """Writes the page, the picture and the curves, and prints the numbers; returns the exit code.

  Raises:
    UserError: there are no such runs, no run has the curve, a field or the reference is unknown, or the folder cannot be written.
  """
  if request.x not in X_COLUMNS:
    raise UserError(f"--x={request.x} is no axis: {name_hint(request.x, X_COLUMNS)}")
  runs = _runs(request)
  check_curve(request.curve, request.x, runs)
  groups = group_runs(runs, request.by)
  labels = list(dict.fromkeys(group.label for group in groups))
  if request.reference and request.reference not in labels:
    raise UserError(f"--reference={request.reference} is no group: {name_hint(request.reference, labels)}")
  _make_folder(request.out)  # Before the work of a minute.
  worlds = tuple(_world(name, members, request) for name, members in worlds_of(groups).items())
  comparison = Comparison(
    worlds=worlds,
    curve=request.curve,
    x=request.x,
    styles={key: style for world in worlds for key, style in _styles(world).items()},
    media=tuple(media_of([run for world in worlds for group in world.groups for run in group.runs])),
    command=request.command,
    made=dt.datetime.now(dt.timezone.utc),
  )
  _write(comparison, request.out)
  console = make_console()
  for world in worlds:
    console.print(_table(world, request))
  print(f"Written: {', '.join(str(request.out / name) for name in (PAGE_FILE, PICTURE_FILE, CURVES_FILE))}", flush=True)
  return 0


def _styles(world: World) -> dict[tuple[str, str], tuple[str, str]]:
  """Colours and dashes of a world's groups. The first group of a method has this method's colour in every picture."""
  names: dict[tuple[str, str], str] = {}
  for group in world.groups:
    method = group.runs[0].method
    names[group.key] = group.label if method in names.values() else method
  styles = styles_of(list(names.values()))
  return {key: styles[name] for key, name in names.items()}


def _runs(request: Request) -> list[StoredRun]:
  """The runs of all folders, each once."""
  found: dict[tuple[pathlib.Path, str, str], StoredRun] = {}
  for folder in request.folders:
    before = len(found)
    for run in find_runs(folder):
      found.setdefault((run.path.resolve(), run.run_id, run.method), run)
    if len(found) == before and not any(path.is_relative_to(folder.resolve()) for path, _, _ in found):
      raise UserError(f"There are no runs in {folder}: name a run directory, or a folder that holds some.")
  # The config of an experiment's run is planned anew, so those of runs that are not shown are not.
  runs = select(found.values(), [text for text in request.filters if not needs_config(text)])
  if runs:
    runs = select(map(with_config, runs), [text for text in request.filters if needs_config(text)])
  if not runs:
    raise UserError("No run meets the filter: see the runs' columns with 'slipstream runs'.")
  return runs


def _world(name: str, groups: Sequence[Group], request: Request) -> World:
  counted = counted_runs(groups)
  # The reference comes first.
  ordered = sorted(groups, key=lambda group: _distance(group, request.reference, counted))
  curves = tuple(curve_of(group, request.x, request.curve, counted) for group in ordered)
  summaries = tuple(summarise(curve, curves[0], counted) for curve in curves)
  left_out = tuple(run for group in ordered for run in group.runs if not any(run is other for other in counted))
  return World(name, curves, summaries, left_out)


def _distance(group: Group, reference: str, counted: Sequence[StoredRun]) -> tuple[bool, int]:
  """The least for the reference. If none is named, that is the group of the method "uniform" with the most runs that count."""
  if reference:
    return group.label != reference, 0
  is_uniform = group.runs[0].method == "uniform"
  count = sum(any(run is other for other in counted) for run in group.runs)
  return not is_uniform or not count, -count if is_uniform else 0


@contextlib.contextmanager
def _writing_to(out: pathlib.Path) -> Iterator[None]:
  try:
    yield
  except OSError as error:
    raise UserError(f"The folder {out} cannot be written ({error.strerror}): choose another with --out.") from None


def _make_folder(out: pathlib.Path) -> None:
  with _writing_to(out):
    out.mkdir(parents=True, exist_ok=True)


def _write(comparison: Comparison, out: pathlib.Path) -> None:
  worlds = {world.name: world.curves for world in comparison.worlds if world.has_lines}
  page = render_page(comparison)
  with _writing_to(out):
    save_png(worlds, (in_words(comparison.x), in_words(comparison.curve)), comparison.styles, out / PICTURE_FILE)
    replace_text(out / CURVES_FILE, _curves_csv(comparison))
    replace_text(out / PAGE_FILE, page)


def _curves_csv(comparison: Comparison) -> str:
  """A row for each point of each group's mean; empty cells where there is no interval."""
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(("world", "group", "runs", comparison.x, comparison.curve, "low", "high"))
  for world in comparison.worlds:
    for curve in world.curves:
      for x, *values in zip(curve.x, curve.mean, curve.low, curve.high, strict=True):
        cells = (f"{value:.10g}" if math.isfinite(value) else "" for value in (x, *values))
        writer.writerow((world.name, curve.group.label, len(curve.lines), *cells))
  return text.getvalue()


def _table(world: World, request: Request) -> Table:
  title = f"{world.name}: {in_words(request.curve)} over the last quarter"
  table = Table(box=None, pad_edge=False, header_style="bold", title=Text(title), title_justify="left")
  table.add_column("group", overflow="fold")
  heads = ("runs", "mean", "interquartile mean", f"mean less {world.reference}'s", "solved")
  for head in heads:
    table.add_column(Text(head), justify="right")
  for summary in world.summaries:
    table.add_row(*map(Text, _cells(summary)))
  return table


def _cells(summary: Summary) -> tuple[str, ...]:
  to_solve = summary.steps_to_solve
  solved = "-" if to_solve is None else f"{summary.solved} of {to_solve.runs}"
  estimates = (summary.mean, summary.interquartile_mean, summary.difference)
  return summary.group.label, str(len(summary.levels)), *map(_cell, estimates), solved


def _cell(estimate: Estimate | None) -> str:
  if estimate is None:
    return "-"
  value = format_number(estimate.value)
  return f"{value} [{format_number(estimate.low)}, {format_number(estimate.high)}]" if estimate.has_interval else value
