"""Shows a run's progress: a live panel on a terminal, a line now and then in a log."""

import collections
import dataclasses
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from replay_server.contract.activity import Wait
from replay_server.contract.status import Phase, RoleStatus, RunStatus, TableStatus

PHASE_WORDS: dict[Phase, str] = {
  "running": "running",
  "solved": "solved",
  "exhausted": "budget used up",
  "stopping": "stopping",
}
PLAIN_LINE_LENGTH = 160  # characters

# With more workers than this, a line for each would push the rest off the screen.
_MAX_WORKER_LINES = 8
# The panel of any run fits a terminal of 24 lines, with one left for the cursor; a higher terminal may show more.
_LEAST_LINES = 23
_LEAST_TABLES = 2
_MOST_GROUPS = 4
_WHOM = {"server": "the server", "learner": "the learner", "workers": "the workers", "world": "its world"}
_PHASE_STYLES: dict[Phase, str] = {
  "running": "cyan",
  "solved": "bold green",
  "exhausted": "yellow",
  "stopping": "yellow",
}
_LABEL_WIDTH = 9
_BLOCKS = "▁▂▃▄▅▆▇█"


def format_duration(seconds: float) -> str:
  """Seconds as "45 s", "2 min 03 s", "1 h 02 min" or "3 d 04 h"."""
  whole = max(0, int(seconds))
  minutes, hours, days = whole // 60, whole // 3600, whole // 86400
  if days:
    return f"{days} d {hours % 24:02d} h"
  if hours:
    return f"{hours} h {minutes % 60:02d} min"
  return f"{minutes} min {whole % 60:02d} s" if minutes else f"{whole} s"


def format_number(value: float | None) -> str:
  """A measured value in few characters; "-" for None."""
  if value is None:
    return "-"
  return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def format_rate(per_second: float) -> str:
  """A rate per second, with a decimal where it is small."""
  return f"{per_second:,.0f}" if per_second >= 10 or per_second == 0 else f"{per_second:.1f}"


def format_restarts(status: RunStatus) -> str:
  """How many processes of a run were started again, in words."""
  return f"{status.restarts} restart{'' if status.restarts == 1 else 's'}"


def _compact(count: int) -> str:
  if count < 100_000:
    return f"{count:,}"
  # From half a unit below the next one on, rounding would show 1,000 of the smaller unit.
  if count < 999_500:
    return f"{count / 1e3:.0f}k"
  return f"{count / 1e6:.2f}M" if count < 999_995_000 else f"{count / 1e9:,.2f}B"


def sparkline(values: Sequence[float], width: int) -> str:
  """`values` as a line of at most `width` blocks, from their least to their greatest.

  If there are more values than blocks, each block is the mean of several. Values that are not finite are left out.
  """
  finite = [value for value in values if math.isfinite(value)]
  if not finite or width < 1:
    return ""
  count = min(width, len(finite))
  edges = [index * len(finite) // count for index in range(count + 1)]
  means = [math.fsum(finite[start:end]) / (end - start) for start, end in itertools.pairwise(edges)]
  low, high = min(means), max(means)
  scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
  return "".join(_BLOCKS[round((mean - low) * scale)] for mean in means)


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


@dataclasses.dataclass(frozen=True)
class _Layout:
  """How much of a status the panel shows.

  Attributes:
    sums_workers: whether workers are counted, and not listed, if there are more than two.
    most_lines: of the learner's facts, and of the returns'; None for as many as they need.
    has_gaps: whether an empty line lies between the parts.
    wraps: whether a long sentence about a process takes a second line.
    most_tables: that have a line each.
  """

  sums_workers: bool = False
  most_lines: int | None = None
  has_gaps: bool = True
  wraps: bool = True
  most_tables: int | None = None


# From everything to what matters most; without gaps, tables are left out too before the next one is tried.
_LAYOUTS = (
  _Layout(),
  _Layout(sums_workers=True),
  _Layout(sums_workers=True, most_lines=2),
  _Layout(sums_workers=True, most_lines=2, has_gaps=False),
  _Layout(sums_workers=True, most_lines=1, has_gaps=False),
  _Layout(sums_workers=True, most_lines=1, has_gaps=False, wraps=False),
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


def _panel(status: RunStatus, layout: _Layout) -> RenderableType:
  lines = Table.grid(padding=(0, 1), expand=True)
  lines.add_column(width=_LABEL_WIDTH, style="dim", no_wrap=True)
  lines.add_column(ratio=1)
  lines.add_row("progress", _progress(status))
  lines.add_row("", _Flow(_pace(status), layout.most_lines))
  lines.add_row("learner", _Flow(_learner(status), layout.most_lines))
  lines.add_row("returns", _Flow(_returns(status), layout.most_lines))
  if status.evaluations:
    lines.add_row("", _Curve([evaluation.mean_return for evaluation in status.evaluations]))
  parts: list[RenderableType] = [_header(status), lines]
  if status.hosts_on_plain_port:
    parts.append(_exposure(status))
  if status.tables:
    parts.append(_tables(status.tables, layout.most_tables))
  if status.roles:
    parts.append(_roles(status, layout))
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
      f"{_compact(table.size)} / {_compact(table.capacity)}",
      format_rate(table.inserts_per_second),
      format_rate(table.samples_per_second),
      style="" if table.size else "yellow",
    )
  left_out = [] if most is None else tables[most:]
  if left_out:
    empty = sum(not table.size for table in left_out)
    grid.add_row(Text(f"and {len(left_out)} more, {empty} empty", style="yellow" if empty else "dim"))
  return grid


def _roles(status: RunStatus, layout: _Layout) -> RenderableType:
  workers = [role for role in status.roles if role.role == "actor"]
  others = [role for role in status.roles if role.role != "actor"]
  server = _server_state(status)
  first = [] if server is None else [(Text.assemble(("● ", "green"), "server"), "", server)]
  if len(workers) <= (2 if layout.sums_workers else _MAX_WORKER_LINES):
    return _processes([*first, *_listed(status.roles)], layout)
  alive = [worker for worker in workers if worker.alive]
  dead = [worker for worker in workers if not worker.alive]
  most = _MAX_WORKER_LINES // 2 if layout.sums_workers else 2 * _MAX_WORKER_LINES
  left_out = [Text(f"  and {len(dead) - most} more", style="red")] if len(dead) > most else []
  count = Text.assemble(("● ", "green"), f"{len(alive)} of {len(workers)} workers")
  groups = [(Text() if row else count, "", text) for row, text in enumerate(_worker_groups(alive) or [Text()])]
  # Each has columns of its own, so that long names of some take no room from the others' sentences.
  return Group(
    _processes([*first, *_listed(others)], layout),
    *([_processes(_listed(dead[:most]), layout)] if dead else []),
    *left_out,
    _processes(groups, layout),
  )


def _listed(roles: Iterable[RoleStatus]) -> list[tuple[Text, str, Text]]:
  return [(_role_name(role), role.host, _role_state(role)) for role in roles]


def _processes(rows: Sequence[tuple[Text, str, Text]], layout: _Layout) -> RenderableType:
  """Name, host and what it does, of each; hosts only where there are several and there is room for them."""
  grid = Table.grid(padding=(0, 2), expand=True)
  grid.add_column(no_wrap=True, overflow="ellipsis", max_width=32)
  several_hosts = not layout.sums_workers and len({host for _, host, _ in rows if host}) > 1
  if several_hosts:
    grid.add_column(style="dim", no_wrap=True, overflow="ellipsis", max_width=20)
  grid.add_column(ratio=1, no_wrap=not layout.wraps, overflow="fold" if layout.wraps else "ellipsis")
  for name, host, text in rows:
    grid.add_row(name, *([host] if several_hosts else []), text)
  return grid


def _server_state(status: RunStatus) -> Text | None:
  """What the server waits for or does beside serving; None if there is nothing."""
  writing = [role.name for role in status.roles if role.role == "actor" and role.alive and not role.paused]
  if status.is_leaving and writing:
    return Text(f"leaves; waits on {_count(writing)}, until they have paused, some seconds at most")
  return Text("writes a snapshot") if status.is_snapshotting else None


def _role_name(role: RoleStatus) -> Text:
  if role.ended:
    return Text(f"○ {role.name}", style="dim")
  return Text.assemble(("● ", "green") if role.alive else ("✗ ", "bold red"), (role.name, "" if role.alive else "red"))


def _role_state(role: RoleStatus) -> Text:
  if role.alive:
    return Text(role.state if role.wait is None else f"waits {_wait(role.wait, role.wait.seconds)}")
  if role.ended:
    return Text("ended", style="dim")
  return Text(f"not heard for {format_duration(role.seconds_since_heartbeat)} (last: {role.state})", style="red")


def _wait(wait: Wait, seconds: float) -> str:
  """On whom, since when, and until what, after "waits"."""
  return f"{format_duration(seconds)} on {_WHOM.get(wait.whom, wait.whom)}, until {wait.until}"


def _worker_groups(workers: Iterable[RoleStatus]) -> list[Text]:
  """How many workers do or wait for what, the commonest first; one or two workers are named."""
  groups: dict[tuple[str, str], list[RoleStatus]] = collections.defaultdict(list)
  for worker in workers:
    groups[(worker.state, "") if worker.wait is None else (worker.wait.whom, worker.wait.until)].append(worker)
  ordered = sorted(groups.values(), key=lambda group: -len(group))
  texts = [Text(_group(group)) for group in ordered[:_MOST_GROUPS]]
  others = sum(len(group) for group in ordered[_MOST_GROUPS:])
  return [*texts, Text(f"{others} in other states", style="dim")] if others else texts


def _group(workers: Sequence[RoleStatus]) -> str:
  count, names = len(workers), [worker.name for worker in workers]
  named = f" ({', '.join(names)})" if count <= 2 else ""
  waits = [worker.wait for worker in workers if worker.wait is not None]
  if not waits:
    return f"{count} {workers[0].state}{named}"
  longest = max(wait.seconds for wait in waits)
  return f"{count} {'waits' if count == 1 else 'wait up to'} {_wait(waits[0], longest)}{named}"


def _count(names: Sequence[str]) -> str:
  """The names of one or two; of more, how many."""
  return " and ".join(names) if len(names) <= 2 else f"{len(names)} workers"


def plain_line(status: RunStatus) -> str:
  """The essentials in one line of ASCII, at most `PLAIN_LINE_LENGTH` characters; what does not fit is left out."""
  parts = [
    f"{PHASE_WORDS[status.phase]} {format_duration(status.wall_seconds)}",
    f"env {status.environment_steps:,}/{_compact(status.environment_steps_budget)} "
    f"{format_rate(status.environment_steps_per_second)}/s",
    f"learner {status.gradient_steps:,} {format_rate(status.gradient_steps_per_second)}/s",
    _plain_returns(status),
  ]
  dead = [role.name for role in status.roles if not role.alive and not role.ended]
  if dead:
    parts.append(f"not heard: {dead[0]}" + (f" and {len(dead) - 1} more" if len(dead) > 1 else ""))
  if status.hosts_on_plain_port:
    parts.append(f"port {status.plain_port} is open to {status.hosts_on_plain_port[0]}")
  if status.restarts:
    parts.append(format_restarts(status))
  if "loss" in status.learner:
    parts.append(f"loss {format_number(status.learner['loss'])}")
  parts += [f"{table.name} {_compact(table.size)}" for table in status.tables]
  line = parts[0]
  for part in parts[1:]:
    if len(line) + 3 + len(part) > PLAIN_LINE_LENGTH:
      break
    line += f" | {part}"
  return line


def _plain_returns(status: RunStatus) -> str:
  last = status.evaluations[-1].mean_return if status.evaluations else None
  returns = f"return train {format_number(status.recent_return)} eval {format_number(last)}"
  if status.solved_evaluations > 0:
    returns += f" solved {status.solved_streak}/{status.solved_evaluations}"
  return returns


class RunView:
  """Shows a run's progress in the form that the output allows.

      with RunView() as view:
        view.waiting("starting the server ...")
        while not status.finished:
          view.update(status)

  On a terminal one panel is redrawn in place, and its last frame stays. Elsewhere `plain_line` is printed at the first
  status, when the phase changes, and every `period_seconds`.
  """

  def __init__(
    self,
    console: Console | None = None,
    quiet: bool = False,
    period_seconds: float = 10.0,
    clock: Callable[[], float] = time.monotonic,
  ):
    """Makes a view; nothing is shown yet.

    Args:
      console: to print to; None is standard output.
      quiet: show nothing but messages.
      period_seconds: between two plain lines.
      clock: gives seconds since any fixed moment.
    """
    # Bound to the present standard output, which is redirected during a run.
    self._console = console or Console(file=sys.stdout)
    self._quiet = quiet
    self._period_seconds = period_seconds
    self._clock = clock
    self._live: Live | None = None
    self._shown: RunStatus | None = None
    self._shown_at = -math.inf

  def __enter__(self) -> "RunView":
    return self

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
  ) -> None:
    self.close()

  def waiting(self, text: str) -> None:
    """Shows what the run is waiting for, while there is no status."""
    if self._quiet:
      return
    if self._redraws:
      self._draw(render_waiting(text))
    else:
      self.message(text)

  def update(self, status: RunStatus) -> None:
    """Shows a newer status."""
    if self._quiet:
      return
    if self._redraws:
      self._draw(render(status))
      self._shown = status
    elif self._is_due(status):
      self.message(plain_line(status))
      self._shown, self._shown_at = status, self._clock()

  def message(self, text: str) -> None:
    """Prints a text, above the panel if there is one."""
    # Soft wrap, so that a line of a log or a path to copy stays one line.
    self._console.print(text, markup=False, highlight=False, soft_wrap=True)

  def close(self) -> None:
    """Ends the live panel and leaves its last frame; may be called twice."""
    if self._live is None:
      return
    # Before the first status there is only a spinner, which is erased.
    self._live.transient = self._shown is None
    self._live.stop()
    self._live = None

  @property
  def _redraws(self) -> bool:
    console = self._console
    # The panel needs block characters; with another encoding printing them would raise.
    return console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")

  def _is_due(self, status: RunStatus) -> bool:
    changed = self._shown is None or self._shown.phase != status.phase
    return changed or self._clock() - self._shown_at >= self._period_seconds

  def _draw(self, renderable: RenderableType) -> None:
    if self._live is None:
      self._live = Live(
        console=self._console,
        refresh_per_second=4,
        redirect_stdout=False,
        # Rich would print it to the console, which is wrong if standard error goes to a file.
        redirect_stderr=sys.stderr.isatty(),
      )
      self._live.start()
    # An empty line for the cursor: a ^C that the terminal echoes would otherwise break the panel's last line.
    self._live.update(Group(renderable, Text()))
