"""The panel's part about processes: those that are alike are counted, and named where something is not well."""

import collections
import dataclasses
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from launch.view.formats import format_duration
from replay_server.contract.activity import Wait
from replay_server.contract.status import RoleStatus, RunStatus

# With more of a kind than this, a line for each would push the rest off the screen.
_MAX_LINES = 8
_MOST_GROUPS = 4
_PLURALS = {"actor": "workers"}
_WHOM = {"server": "the server", "learner": "the learner", "workers": "the workers", "world": "its world"}


@dataclasses.dataclass(frozen=True)
class Layout:
  """How much of a status the panel shows.

  Attributes:
    counts: whether processes of a kind are counted, and not listed, if there are more than two.
    most_lines: of the learner's facts, and of the returns'; None for as many as they need.
    has_gaps: whether an empty line lies between the parts.
    wraps: whether a long sentence about a process takes a second line.
    most_tables: that have a line each.
    has_measures: whether the episodes' measures are shown.
  """

  counts: bool = False
  most_lines: int | None = None
  has_gaps: bool = True
  wraps: bool = True
  most_tables: int | None = None
  has_measures: bool = True


def render_processes(status: RunStatus, layout: Layout) -> RenderableType:
  """A line for each process; of a kind that has many, only those that are not heard, and how many of the others do what."""
  counts = collections.Counter(role.role for role in status.roles)
  crowds = [kind for kind, count in counts.items() if count > (2 if layout.counts else _MAX_LINES)]
  others = [role for role in status.roles if role.role not in crowds]
  server = _server_state(status)
  first = [] if server is None else [(Text.assemble(("● ", "green"), "server"), "", server)]
  parts = [_processes([*first, *_listed(others)], layout)] if first or others else []
  for kind in crowds:
    parts += _crowd(kind, [role for role in status.roles if role.role == kind], layout, len(crowds))
  return Group(*parts)


def _crowd(kind: str, roles: Sequence[RoleStatus], layout: Layout, crowds: int) -> list[RenderableType]:
  """The processes of one kind among `crowds` kinds that have many."""
  alive = [role for role in roles if role.alive]
  dead = [role for role in roles if not role.alive]
  most = _MAX_LINES // 2 // crowds if layout.counts else 2 * _MAX_LINES
  left_out = [Text(f"  and {len(dead) - most} more", style="red")] if len(dead) > most else []
  count = Text.assemble(("● ", "green"), f"{len(alive)} of {len(roles)} {_PLURALS.get(kind, f'{kind}s')}")
  texts = _groups(alive, _MOST_GROUPS // crowds) or [Text()]
  groups = [(Text() if row else count, "", text) for row, text in enumerate(texts)]
  # Each has columns of its own, so that long names of some take no room from the others' sentences.
  return [
    *([_processes(_listed(dead[:most]), layout)] if dead else []),
    *left_out,
    _processes(groups, layout),
  ]


def _listed(roles: Iterable[RoleStatus]) -> list[tuple[Text, str, Text]]:
  return [(_role_name(role), role.host, _role_state(role)) for role in roles]


def _processes(rows: Sequence[tuple[Text, str, Text]], layout: Layout) -> RenderableType:
  """Name, host and what it does, of each; hosts only where there are several and there is room for them."""
  grid = Table.grid(padding=(0, 2), expand=True)
  grid.add_column(no_wrap=True, overflow="ellipsis", max_width=32)
  several_hosts = not layout.counts and len({host for _, host, _ in rows if host}) > 1
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


def _groups(roles: Iterable[RoleStatus], most: int) -> list[Text]:
  """How many of these do or wait for what, the commonest first; one or two are named."""
  groups: dict[tuple[str, str], list[RoleStatus]] = collections.defaultdict(list)
  for role in roles:
    groups[(role.state, "") if role.wait is None else (role.wait.whom, role.wait.until)].append(role)
  ordered = sorted(groups.values(), key=lambda group: -len(group))
  texts = [Text(_group(group)) for group in ordered[:most]]
  others = sum(len(group) for group in ordered[most:])
  return [*texts, Text(f"{others} in other states", style="dim")] if others else texts


def _group(roles: Sequence[RoleStatus]) -> str:
  count, names = len(roles), [role.name for role in roles]
  named = f" ({', '.join(names)})" if count <= 2 else ""
  waits = [role.wait for role in roles if role.wait is not None]
  if not waits:
    return f"{count} {roles[0].state}{named}"
  longest = max(wait.seconds for wait in waits)
  return f"{count} {'waits' if count == 1 else 'wait up to'} {_wait(waits[0], longest)}{named}"


def _count(names: Sequence[str]) -> str:
  """The names of one or two; of more, how many."""
  return " and ".join(names) if len(names) <= 2 else f"{len(names)} workers"
