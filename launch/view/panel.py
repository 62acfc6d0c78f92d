"""The panel of a run's status, for a terminal."""

import dataclasses
import math
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from launch.view.formats import (
  PHASE_WORDS,
  compact,
  format_duration,
  format_number,
  format_rate,
  format_restarts,
  sparkline,
)
from launch.view.processes import Layout, render_processes
from replay_server.contract.status import Phase, RunStatus, TableStatus

# The panel of any run fits a terminal of 24 lines, with one left for the cursor; a higher terminal may show more.
_LEAST_LINES = 23
_LEAST_TABLES = 2
_PHASE_STYLES: dict[Phase, str] = {
  "running": "cyan",
  "solved": "bold green",
  "exhausted": "yellow",
  "stopping": "yellow",
}
_LABEL_WIDTH = 9


@dataclasses.dataclass(frozen=True)
class _Flow:
  """Short texts side by side, on as many lines as they need and may have; no text is broken."""

  items: Sequence[Text]
  most_lines: int | None = None

  def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
    lines = [Text()]
    for item in self.items:
      if lines[-1] and lines[-1].cell_len + 3 + item.cell_len > options.max_width:
        lines.append(Text())
      lines[-1] = Text("   ").join([lines[-1], item]) if lines[-1] else item.copy()
      lines[-1].no_wrap, lines[-1].overflow = True, "ellipsis"
    yield from lines[: self.most_lines]

  def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
    return Measurement(1, options.max_width)


@dataclasses.dataclass(frozen=True)
class _Curve:
  """A sparkline that fills the width, with its range."""

  values: Sequence[float]

  def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
    finite = [value for value in self.values if math.isfinite(value)]
    noun = "evaluation" if len(self.values) == 1 else "evaluations"
    label = (
      f"  {format_number(min(finite))} to {format_number(max(finite))} in {len(self.values)} {noun}" if finite else ""
    )
    blocks = sparkline(finite, options.max_width - len(label))
    yield Text.assemble((blocks, "cyan"), (label, "dim"), no_wrap=True, overflow="ellipsis")

  def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
    return Measurement(1, options.max_width)


def render_waiting(text: str) -> RenderableType:
  """What is shown before there is a status, such as "starting the server ..."."""
  return Spinner("dots", Text(text), style="cyan")


# From everything to what matters most; without gaps, tables are left out too before the next one is tried.
_LAYOUTS = (
  Layout(),
  Layout(counts=True),
  Layout(counts=True, most_lines=2),
  Layout(counts=True, most_lines=2, has_gaps=False),
  Layout(counts=True, most_lines=1, has_gaps=False),
  Layout(counts=True, most_lines=1, has_gaps=False, wraps=False, has_measures=False),
)


@dataclasses.dataclass(frozen=True)
class _Fitting:
  """The panel of a status, with as much as the terminal has lines for."""

  status: RunStatus

  def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
    most, tables = max(_LEAST_LINES, console.height - 1), len(self.status.tables)
    for layout in _LAYOUTS:
      panel = _panel(self.status, layout)
      left_over = most - len(console.render_lines(panel, options.update(height=None)))
      if left_over >= 0:
        break
      # Beside those that are shown, one line says how many are left out.
      shown = tables + left_over - 1
      if not layout.has_gaps and (shown >= _LEAST_TABLES or layout is _LAYOUTS[-1]):
        panel = _panel(self.status, dataclasses.replace(layout, most_tables=max(_LEAST_TABLES, shown)))
        break
    yield panel


def render(status: RunStatus) -> RenderableType:
  """The panel of one status, for 80 columns and wider, and for 24 lines and more."""
  return _Fitting(status)


def _panel(status: RunStatus, layout: Layout) -> RenderableType:
  lines = Table.grid(padding=(0, 1), expand=True)
  lines.add_column(width=_LABEL_WIDTH, style="dim", no_wrap=True)
  lines.add_column(ratio=1)
  lines.add_row("progress", _progress(status))
  lines.add_row("", _Flow(_pace(status), layout.most_lines))
  lines.add_row("learner", _Flow(_learner(status), layout.most_lines))
  lines.add_row("returns", _Flow(_returns(status), layout.most_lines))
  if status.evaluations:
    lines.add_row("", _Curve([evaluation.mean_return for evaluation in status.evaluations]))
  measures = _measures(status) if layout.has_measures else []
  if measures:
    lines.add_row("measures", _Flow(measures, layout.most_lines))
  parts: list[RenderableType] = [_header(status), lines]
  if status.hosts_on_plain_port:
    parts.append(_exposure(status))
  if status.tables:
    parts.append(_tables(status.tables, layout.most_tables))
  if status.roles:
    parts.append(render_processes(status, layout))
  gap = (int(layout.has_gaps), 0, 0, 0)
  title = Text(status.name, style="bold")
  return Panel(
    Group(parts[0], *(Padding(part, gap) for part in parts[1:])),
    title=title,
    title_align="left",
    border_style=_PHASE_STYLES[status.phase],
    padding=(0, 1),
  )


def _header(status: RunStatus) -> RenderableType:
  header = Table.grid(padding=(0, 1), expand=True)
  header.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
  header.add_column(justify="right", no_wrap=True)
  phase = (PHASE_WORDS[status.phase], _PHASE_STYLES[status.phase])
  restarts = (f"{format_restarts(status)}  ", "yellow") if status.restarts else ""
  header.add_row(
    Text(f"run {status.run_id}", style="dim"),
    Text.assemble(restarts, phase, f"  {format_duration(status.wall_seconds)}"),
  )
  return header


def _exposure(status: RunStatus) -> Text:
  hosts = ", ".join(status.hosts_on_plain_port)
  return Text(f"port {status.plain_port} is not protected, and can be reached from {hosts}: close it", style="bold red")


def _progress(status: RunStatus) -> RenderableType:
  row = Table.grid(padding=(0, 2), expand=True)
  row.add_column(ratio=1)
  row.add_column(justify="right", no_wrap=True)
  steps = f"{status.environment_steps:,} / {status.environment_steps_budget:,} steps"
  row.add_row(_bar(status.environment_steps, status.environment_steps_budget), f"{steps} ({_share(status):.0%})")
  return row


def _share(status: RunStatus) -> float:
  return min(1.0, status.environment_steps / max(1, status.environment_steps_budget))


def _bar(completed: int, total: int) -> ProgressBar:
  return ProgressBar(
    total=max(1, total),
    completed=min(completed, max(1, total)),
    complete_style="cyan",
    finished_style="cyan",
  )


def _pace(status: RunStatus) -> list[Text]:
  items = [
    _fact(format_rate(status.environment_steps_per_second), "steps/s"),
    _fact(f"{status.episodes:,}", "episode" if status.episodes == 1 else "episodes"),
  ]
  if status.dropped_episodes:
    items.append(Text(f"{status.dropped_episodes:,} dropped", style="yellow"))
  missed = sum(role.missed_ticks for role in status.roles)
  if missed:
    items.append(Text(f"{missed:,} ticks missed", style="yellow"))
  if status.unread_steps:
    items.append(Text(f"{status.unread_steps:,} not read by the learner", style="dim"))
  left = status.environment_steps_budget - status.environment_steps
  if status.phase == "running" and left > 0 and status.environment_steps_per_second > 0:
    items.append(Text(f"budget lasts {format_duration(left / status.environment_steps_per_second)}", style="dim"))
  return items


def _fact(value: str, unit: str) -> Text:
  return Text.assemble((value, "bold"), (f" {unit}", "dim"))


def _metric(name: str, value: float | None) -> Text:
  # A loss that is not finite must not be overlooked.
  broken = value is not None and not math.isfinite(value)
  return Text.assemble((f"{name} ", "dim"), (format_number(value), "bold red" if broken else "bold"))


def _learner(status: RunStatus) -> list[Text]:
  names = sorted(status.learner, key=lambda name: (name != "loss", name))
  return [
    _fact(f"{status.gradient_steps:,}", f"gradient steps, {format_rate(status.gradient_steps_per_second)}/s"),
    _metric("policy version", status.policy_version),
    *(_metric(name.replace("_", " "), status.learner[name]) for name in names),
    *(_metric(f"unusable rows of {writer}", rows) for writer, rows in status.unusable_rows.items()),
  ]


def _returns(status: RunStatus) -> list[Text]:
  last = status.evaluations[-1] if status.evaluations else None
  items = [_metric("train", status.recent_return), _metric("evaluator", last.mean_return if last else None)]
  if status.recent_length is not None:
    items.append(_metric("episode length", status.recent_length))
  if status.solved_evaluations > 0:
    streak = f"solved {status.solved_streak}/{status.solved_evaluations} in a row"
    items.append(Text(streak, style="bold green" if status.solved_streak else "dim"))
  passed_over = sum(evaluation.passed_over for evaluation in status.evaluations)
  if passed_over:
    items.append(Text(f"{passed_over} evaluations passed over", style="yellow"))
  return items


def _measures(status: RunStatus) -> list[Text]:
  """Each measure's means: over the recent training episodes, and over the last evaluation, as far as they have it."""
  train, evaluator = status.recent_measures, status.evaluations[-1].measures if status.evaluations else {}
  items = []
  for name in dict.fromkeys((*train, *evaluator)):
    given = [(label, means[name]) for label, means in (("train", train), ("evaluator", evaluator)) if name in means]
    parts = [part for label, mean in given for part in ((f" {label} ", "dim"), (format_number(mean), "bold"))]
    items.append(Text.assemble((name.replace("_", " "), "dim"), *parts))
  return items


def _tables(tables: Sequence[TableStatus], most: int | None) -> RenderableType:
  grid = Table(box=None, expand=True, padding=(0, 1), pad_edge=False, header_style="dim")
  grid.add_column("table", no_wrap=True, overflow="ellipsis", max_width=24)
  grid.add_column("filled", ratio=1)
  for header in ("size / capacity", "inserts/s", "samples/s"):
    grid.add_column(header, justify="right", no_wrap=True)
  for table in tables[:most]:
    grid.add_row(
      table.name,
      _bar(table.size, table.capacity),
      f"{compact(table.size)} / {compact(table.capacity)}",
      format_rate(table.inserts_per_second),
      format_rate(table.samples_per_second),
      style="" if table.size else "yellow",
    )
  left_out = [] if most is None else tables[most:]
  if left_out:
    empty = sum(not table.size for table in left_out)
    grid.add_row(Text(f"and {len(left_out)} more, {empty} empty", style="yellow" if empty else "dim"))
  return grid
