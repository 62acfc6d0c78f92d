"""How events fire along episodes, and what the SSET paper would say of it: pure functions of event masks."""

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
    masks: of the events that each step fired; bit i is event i of the config.
    whole: False where it was cut off because there were steps enough.
  """

  masks: Sequence[int]
  whole: bool = True


@dataclasses.dataclass(frozen=True)
class EventUse:
  """How one event fired.

  Attributes:
    name: of the event.
    table: that it feeds; None where it is only watched.
    history: tau in steps.
    firings: how often it fired.
    per_step: firings in each step, mu of the theory.
    episode_share: share of the whole episodes in which it fired; None where no episode ended.
    back_median: steps, the event's own included, from the last earlier step at which any event fired, or from the episode's
      start, to the event: what its history must hold to reach back there. Half of the firings need at most so many.
    back_90: 90 % of the firings need at most so many.
    back_most: all of them do.
    back_table_median: the same as `back_median`, of the events on the same table alone.
    reaching: share of the firings whose history reaches back.
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
  """What one table got.

  Attributes:
    name: of the table.
    probability: eta_i.
    capacity: kappa_i in transitions.
    min_size: d_i in transitions.
    sent: transitions sent to it, those that it would have evicted included.
    step_share: share of all transitions that was sent to it.
    filled: share of its capacity that is filled.
    drawn: how many times as often as without event tables a transition that is in this and the default table is drawn, once
      every table takes part; None where nothing was sent.
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
  """What some steps say about a config's events.

  Attributes:
    steps: looked at.
    episodes: that ended.
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
  """What these episodes say about the config's events; at least one step in all."""
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
  """For each step at which `event` fires, the steps after the last earlier one at which `others` fire, up to and with it.

  Where there was none in the episode, it is the steps from the episode's start.

  Args:
    masks: of an episode.
    event: bit mask of the event.
    others: bit mask of the events that count as earlier ones.
  """
  result, last = [], -1
  for step, mask in enumerate(masks):
    if mask & event:
      result.append(step - last)
    if mask & others:
      last = step
  return result


def sent_steps(masks: Sequence[int], events: Sequence[tuple[int, int]]) -> int:
  """How many steps of an episode go to one table (SSET, Algorithm 1): histories overlap, and a step goes there once.

  Args:
    masks: of the episode.
    events: (bit mask, tau) of each event that feeds the table.
  """
  histories = sorted(
    (max(0, step - history + 1), step) for step, mask in enumerate(masks) for event, history in events if mask & event
  )
  count, covered = 0, -1  # Steps up to `covered` have been counted, where they are in a history.
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
  """The least of the values that `share` of them do not exceed."""
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
      "unless events are chosen with care: lower their probabilities, or be sure of the events."
    )
  fed = [event for event in events if event.table is not None]
  advice += [sentence for event in fed for sentence in _advise_event(event, steps)]
  always = {event.table for event in events if event.per_step >= _NEARLY_ALWAYS}
  advice += [sentence for table in tables[1:] if table.name not in always for sentence in _advise_table(table, steps)]
  return advice


def _advise_event(event: EventUse, steps: int) -> list[str]:
  if not event.firings:
    return [
      f"Event {event.name!r} never fired in {steps:,} steps: correct its condition, or look further with a policy that gets "
      "there (--checkpoint) or with more --steps; until it fires, its table takes no part."
    ]
  if event.per_step >= _NEARLY_ALWAYS:
    return [
      f"Event {event.name!r} fired at {event.per_step:.0%} of the steps, so it singles out nothing: make it rarer, or wrap it "
      "in environments.conditions:Rising if it is a state rather than a moment."
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
      f"Table {table.name!r} got {table.sent:,} transitions in {steps:,} steps and takes part from {table.min_size:,} on: "
      "lower its min_size if that is too late."
    ]
  if table.step_share >= _NEARLY_EVERYTHING:
    return [
      f"Table {table.name!r} got {table.step_share:.0%} of all transitions, so it is hardly different from the default table: "
      "shorten the histories, or choose rarer events."
    ]
  return []
