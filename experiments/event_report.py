"""How events fire in episodes, and the SSET paper's advice on them: pure functions of event masks."""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from configs import RunConfig, TableSpec

# Section 8 of the paper: "reasonable caps on the event table sizes (say no more than 30% total)".
MOST_SHARE = 0.3
# The paper gives no numbers for these.
_NEARLY_ALWAYS = 0.5
_NEARLY_EVERYTHING = 0.9
_REACHES = 0.5


@dataclasses.dataclass(frozen=True)
class EpisodeTrace:
  """One episode.

  Attributes:
    masks: for each step, the events that it fired; bit i is event i of the config.
    whole: False if the roll-out ended before the episode.
  """

  masks: Sequence[int]
  whole: bool = True


@dataclasses.dataclass(frozen=True)
class EventUse:
  """How one event fired.

  Attributes:
    name: of the event.
    table: the table that it feeds; None if it is only watched.
    history: in steps.
    firings: how often it fired.
    per_step: firings per step, the theory's mu.
    episode_share: share of the whole episodes in which it fired; None if no episode ended.
    back_median: median over the firings of `steps_back` to any event, which is the history that reaches back there.
    back_90: its 90 % quantile.
    back_most: its maximum.
    back_table_median: as `back_median`, but only events that feed the same table count.
    reaching: share of the firings whose history reaches back to any event or to the episode's start.
  """

  name: str
  table: str | None
  history: int
  firings: int
  per_step: float
  episode_share: float | None
  back_median: int | None
  back_90: int | None
  back_most: int | None
  back_table_median: int | None
  reaching: float | None


@dataclasses.dataclass(frozen=True)
class TableUse:
  """What one table received.

  Attributes:
    name: of the table.
    probability: its share of every batch (eta_i).
    capacity: in transitions (kappa_i).
    min_size: in transitions (d_i).
    sent: transitions sent to it, including those that it would have evicted.
    step_share: share of all transitions that was sent to it.
    filled: share of its capacity that is filled.
    drawn: how often a transition that is in this table and in the default table is drawn, as a multiple of how often it is
      drawn without event tables, once every table takes part; None if nothing was sent.
  """

  name: str
  probability: float
  capacity: int
  min_size: int
  sent: int
  step_share: float
  filled: float
  drawn: float | None


@dataclasses.dataclass(frozen=True)
class EventsReport:
  """What a roll-out says about a config's events.

  Attributes:
    steps: environment steps.
    episodes: number of episodes that ended.
    events: in the config's order.
    tables: the default table first.
    advice: sentences.
  """

  steps: int
  episodes: int
  events: tuple[EventUse, ...]
  tables: tuple[TableUse, ...]
  advice: tuple[str, ...]


def make_report(config: RunConfig, traces: Sequence[EpisodeTrace]) -> EventsReport:
  """What these episodes, of at least one step in all, say about the config's events."""
  steps = sum(len(trace.masks) for trace in traces)
  events = tuple(_event_use(config, bit, traces, steps) for bit in range(len(config.events)))
  tables = _table_uses(config, traces, steps)
  return EventsReport(
    steps=steps,
    episodes=sum(trace.whole for trace in traces),
    events=events,
    tables=tables,
    advice=tuple(_advise(steps, events, tables)),
  )


def steps_back(masks: Sequence[int], event: int, others: int) -> list[int]:
  """For each firing of `event`, the number of steps since one of `others` last fired, or since the episode's start.

  The step of the firing counts, the one of the earlier event does not.

  Args:
    masks: of an episode.
    event: bit mask of the event.
    others: bit mask of the earlier events to look for.
  """
  result, last = [], -1
  for step, mask in enumerate(masks):
    if mask & event:
      result.append(step - last)
    if mask & others:
      last = step
  return result


def sent_steps(masks: Sequence[int], events: Sequence[tuple[int, int]]) -> int:
  """How many steps of an episode go to one table (SSET, Algorithm 1); where histories overlap, a step goes there once.

  Args:
    masks: of the episode.
    events: (bit mask, history in steps) of each event that feeds the table.
  """
  histories = sorted(
    (max(0, step - history + 1), step) for step, mask in enumerate(masks) for event, history in events if mask & event
  )
  count, covered = 0, -1  # All steps up to `covered` that are in a history are counted.
  for first, last in histories:
    count += max(0, last - max(first, covered + 1) + 1)
    covered = max(covered, last)
  return count


def _event_use(config: RunConfig, bit: int, traces: Sequence[EpisodeTrace], steps: int) -> EventUse:
  event = config.events[bit]
  everything = (1 << len(config.events)) - 1
  same_table = sum(1 << index for index, other in enumerate(config.events) if other.table == event.table)
  back = [count for trace in traces for count in steps_back(trace.masks, 1 << bit, everything)]
  back_table = [count for trace in traces for count in steps_back(trace.masks, 1 << bit, same_table)]
  whole = [any(mask >> bit & 1 for mask in trace.masks) for trace in traces if trace.whole]
  return EventUse(
    name=event.name,
    table=event.table,
    history=event.history,
    firings=len(back),
    per_step=len(back) / steps,
    episode_share=sum(whole) / len(whole) if whole else None,
    back_median=_quantile(back, 0.5),
    back_90=_quantile(back, 0.9),
    back_most=_quantile(back, 1.0),
    back_table_median=_quantile(back_table, 0.5),
    reaching=sum(count <= event.history for count in back) / len(back) if back else None,
  )


def _quantile(values: Sequence[int], share: float) -> int | None:
  """The least value that at least `share` of the values do not exceed."""
  return int(np.quantile(values, share, method="inverted_cdf")) if values else None


def _table_uses(config: RunConfig, traces: Sequence[EpisodeTrace], steps: int) -> tuple[TableUse, ...]:
  feeding: dict[str, list[tuple[int, int]]] = collections.defaultdict(list)
  for bit, event in enumerate(config.events):
    if event.table is not None:
      feeding[event.table].append((1 << bit, event.history))
  default, capacity = config.replay.default, config.replay.capacity_of
  default_size = min(steps, capacity(default))

  def use(table: TableSpec, sent: int, extra: float) -> TableUse:
    size = min(sent, capacity(table))
    return TableUse(
      name=table.name,
      probability=table.probability,
      capacity=capacity(table),
      min_size=table.min_size,
      sent=sent,
      step_share=sent / steps,
      filled=size / capacity(table),
      drawn=table.probability * default_size / size + extra if size else None,
    )

  uses = [use(default, steps, 0.0)]
  for table in config.replay.tables:
    sent = sum(sent_steps(trace.masks, feeding[table.name]) for trace in traces)
    uses.append(use(table, sent, default.probability))
  return tuple(uses)


def _advise(steps: int, events: Sequence[EventUse], tables: Sequence[TableUse]) -> list[str]:
  """The paper's advice (Section 8), where it applies."""
  advice = []
  share = sum(table.probability for table in tables[1:])
  if share > MOST_SHARE + 1e-9:
    advice.append(
      f"The event tables take {share:.0%} of every batch together, more than the {MOST_SHARE:.0%} that the paper advises "
      "unless events are chosen with care: lower their shares (`probability`), or be sure of the events."
    )
  fed = [event for event in events if event.table is not None]
  advice += [sentence for event in fed for sentence in _advise_event(event, steps)]
  always = {event.table for event in events if event.per_step >= _NEARLY_ALWAYS}
  advice += [sentence for table in tables[1:] if table.name not in always for sentence in _advise_table(table, steps)]
  return advice


def _advise_event(event: EventUse, steps: int) -> list[str]:
  if not event.firings:
    return [
      f"Event {event.name!r} never fired in {steps:,} steps: correct its condition, or try a policy that gets there "
      "(--checkpoint) or more --steps; until it fires, its table takes no part."
    ]
  if event.per_step >= _NEARLY_ALWAYS:
    return [
      f"Event {event.name!r} fired at {event.per_step:.0%} of the steps, so it singles out nothing: make it rarer, or, if it "
      "is a state rather than a moment, wrap it in environments.conditions:Rising."
    ]
  if event.reaching is not None and event.reaching < _REACHES:
    return [
      f"The history of event {event.name!r} ({event.history} steps) reaches back to an earlier event or to the start in "
      f"{event.reaching:.0%} of its firings, and half of them need {event.back_median} or more: lengthen the history, or add "
      "an event on the way."
    ]
  return []


def _advise_table(table: TableUse, steps: int) -> list[str]:
  if 0 < table.sent < table.min_size:
    return [
      f"Table {table.name!r} got {table.sent:,} transitions in {steps:,} steps and takes part once it holds "
      f"{table.min_size:,}: lower its min_size if that is too late."
    ]
  if table.step_share >= _NEARLY_EVERYTHING:
    return [
      f"Table {table.name!r} got {table.step_share:.0%} of all transitions, so it is hardly different from the default table: "
      "shorten the histories, or choose rarer events."
    ]
  return []
