"""Events that nobody wrote: rare places on the way to the goal, found in episodes (SSET, Section 8, leaves this open).

McGovern and Barto (2001) look for subgoals in the same way: states that most successful episodes pass, and others do not.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from configs import EventSpec, RunConfig, TableSpec, UserError

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]

# A dimension with at most so many values is taken value by value, any other in as many parts as that.
_MOST_VALUES = 32
_PARTS = 12
# Of more dimensions none is combined with another.
_MOST_COMBINED = 16
# Share of the episodes that reach the goal which must pass a waypoint, and how much more often they must than the others.
_PASSED, _MORE_OFTEN = 0.9, 0.05
# Waypoints, the start and the goal are at least this part of the way from each other.
_APART = 0.1
# Of the steps from one waypoint to the next.
_REACHES = 0.9
# Share of a batch for all event tables where the config has none (SSET, Section 8).
_SHARE = 0.3


@dataclasses.dataclass(frozen=True)
class Journey:
  """An episode, or the beginning of one.

  Attributes:
    states: float64 [T, D], the flat observation that each step led to.
    goal: the first step that reached the goal; None if none did.
  """

  states: Array
  goal: int | None = None


@dataclasses.dataclass(frozen=True)
class Waypoint:
  """A place on the way to the goal: a box in one or two dimensions of the observation.

  Attributes:
    dimensions: of the flat observation.
    low: the box's lower bound in each of them; None for no bound.
    high: the upper bound, likewise.
    passed: share of the journeys to the goal that pass it.
    passed_by_others: share of the other journeys that do.
    per_step: share of all steps that lead into it.
    place: where it is on the way, as the median share of the steps to the goal.
    history: steps that reach back to the waypoint before it, or to the start, in nine of ten journeys to the goal.
  """

  dimensions: tuple[int, ...]
  low: tuple[float | None, ...]
  high: tuple[float | None, ...]
  passed: float
  passed_by_others: float
  per_step: float
  place: float
  history: int = 1


@dataclasses.dataclass(frozen=True)
class _Candidate:
  """A waypoint, how good it is, and the first step of each journey to the goal in it; T where none is."""

  waypoint: Waypoint
  score: float
  first: Cells


def find_waypoints(journeys: Sequence[Journey], count: int) -> tuple[Waypoint, ...]:
  """The best places of one or two dimensions for events, in the order of the way; fewer than `count` if there are no more.

  A place must be passed by nine of ten journeys to the goal. Its score is by how much more often these pass it than others do,
  times -log of its share of all steps: so it is best if it tells the journeys to the goal from others, and is rare. The best is
  taken first, and then the best of those that are not near it.

  Args:
    journeys: at least one to the goal.
    count: the most to find.

  Raises:
    UserError: no journey reaches the goal, or none goes beyond its first step.
  """
  reached = [journey for journey in journeys if journey.goal]
  if not reached:
    raise UserError(
      f"None of the {len(journeys):,} episodes reaches the goal, so nothing precedes it: take more --steps, or a policy that "
      "gets there (--checkpoint)."
    )
  candidates = sorted(_candidates(journeys), key=lambda candidate: -candidate.score)
  chosen: list[_Candidate] = []
  for candidate in candidates:
    if len(chosen) < count and all(_is_apart(candidate, other) for other in chosen):
      chosen.append(candidate)
  chosen.sort(key=lambda candidate: candidate.waypoint.place)
  return tuple(_with_histories(chosen))


def _is_apart(one: _Candidate, other: _Candidate) -> bool:
  return abs(one.waypoint.place - other.waypoint.place) >= _APART


def _with_histories(chosen: Sequence[_Candidate]) -> Iterator[Waypoint]:
  before = -np.ones_like(chosen[0].first) if chosen else np.empty(0, np.int64)
  for candidate in chosen:
    steps = candidate.first - before
    between = steps[steps > 0]
    history = int(np.quantile(between, _REACHES, method="inverted_cdf")) if len(between) else 1
    yield dataclasses.replace(candidate.waypoint, history=max(1, history))
    before = candidate.first


def _candidates(journeys: Sequence[Journey]) -> Iterator[_Candidate]:
  states = np.concatenate([journey.states for journey in journeys])
  edges = [_edges(states[:, dimension]) for dimension in range(states.shape[1])]
  cells = np.stack([np.searchsorted(own, states[:, index]) for index, own in enumerate(edges)], axis=1)
  varying = [index for index, own in enumerate(edges) if len(own)]
  pairs = itertools.combinations(varying, 2) if len(varying) <= _MOST_COMBINED else ()
  # What comes after the goal does not lead to it.
  ends = np.cumsum([len(journey.states) for journey in journeys])
  for dimensions in (*((index,) for index in varying), *pairs):
    shape = [len(edges[index]) + 1 for index in dimensions]
    found = np.ravel_multi_index([cells[:, index] for index in dimensions], shape)
    yield from _of_dimensions(journeys, np.split(found, ends[:-1]), dimensions, edges, shape)


def _edges(values: Array) -> Array:
  """Where a dimension is cut: between all of its values, if they are few, or into equal parts of its middle 98 %."""
  distinct = np.unique(values)
  if len(distinct) <= _MOST_VALUES:
    return np.asarray((distinct[1:] + distinct[:-1]) / 2)
  low, high = np.quantile(values, [0.01, 0.99])
  return np.linspace(low, high, _PARTS + 1)[1:-1] if low < high else np.empty(0)


def _of_dimensions(
  journeys: Sequence[Journey],
  cells: Sequence[Cells],
  dimensions: tuple[int, ...],
  edges: Sequence[Array],
  shape: Sequence[int],
) -> Iterator[_Candidate]:
  """The candidates among the cells of these dimensions; `cells` has the cell of each step of each journey."""
  size = math.prod(shape)
  steps = np.bincount(np.concatenate(cells), minlength=size)
  ways = [own[: journey.goal] for journey, own in zip(journeys, cells, strict=True) if journey.goal]
  others = [own for journey, own in zip(journeys, cells, strict=True) if journey.goal is None]
  first = np.stack([_first_steps(own, size) for own in ways])
  passed = (first < [[len(way)] for way in ways]).mean(axis=0)
  by_others = sum((np.bincount(np.unique(own), minlength=size) for own in others), np.zeros(size)) / max(1, len(others))
  for cell in np.flatnonzero((passed >= _PASSED) & (passed - by_others >= _MORE_OFTEN)):
    passing = [(step, len(way)) for step, way in zip(first[:, cell], ways, strict=True) if step < len(way)]
    place = float(np.median([(step + 1) / (length + 1) for step, length in passing]))
    if not _APART <= place <= 1 - _APART:
      continue
    per_step = float(steps[cell] / steps.sum())
    places = np.unravel_index(cell, shape)
    bounds = [_bounds(edges[index], int(at)) for index, at in zip(dimensions, places, strict=True)]
    waypoint = Waypoint(
      dimensions,
      tuple(low for low, _ in bounds),
      tuple(high for _, high in bounds),
      float(passed[cell]),
      float(by_others[cell]),
      per_step,
      place,
    )
    yield _Candidate(waypoint, float(passed[cell] - by_others[cell]) * -math.log(per_step), first[:, cell])


def _first_steps(cells: Cells, size: int) -> Cells:
  """The first step in each of `size` cells, int64 [size]; the number of steps for a cell without any."""
  first = np.full(size, len(cells))
  found, index = np.unique(cells, return_index=True)
  first[found] = index
  return first


def _bounds(edges: Array, cell: int) -> tuple[float | None, float | None]:
  low = float(edges[cell - 1]) if cell else None
  return low, float(edges[cell]) if cell < len(edges) else None


def with_waypoints(config: RunConfig, waypoints: Sequence[Waypoint]) -> RunConfig:
  """`config` with the goal and these waypoints as its only events, each with a table.

  The tables divide the share of all of the config's event tables, or .3 if it has none. The goal's history is its own if it feeds
  a table, and else that of the longest way.

  Raises:
    UserError: the config names no goal (`evaluator.solved_event`).
  """
  goal = goal_of(config)
  others = [
    EventSpec(
      f"waypoint_{number}",
      "environments.conditions:Rising",
      waypoint.history,
      arguments={
        "condition": {
          "condition": "environments.conditions:Region",
          "arguments": {
            "low": list(waypoint.low),
            "high": list(waypoint.high),
            "dimensions": list(waypoint.dimensions),
          },
        }
      },
    )
    for number, waypoint in enumerate(waypoints, start=1)
  ]
  if goal.table is None:
    history = max((waypoint.history for waypoint in waypoints), default=goal.history)
    goal = dataclasses.replace(goal, table=goal.name, history=history)
  names = [goal.table or goal.name, *(event.name for event in others)]
  share = 1 - config.replay.default.probability or _SHARE
  tables = tuple(TableSpec(name, round(share / len(names), 9)) for name in names)
  default = dataclasses.replace(config.replay.default, probability=1 - sum(table.probability for table in tables))
  replay = dataclasses.replace(config.replay, default=default, tables=tables)
  return dataclasses.replace(config, events=(goal, *others), replay=replay)


def goal_of(config: RunConfig) -> EventSpec:
  """The event that the evaluator takes for the goal.

  Raises:
    UserError: there is none.
  """
  for event in config.events:
    if event.name == config.evaluator.solved_event:
      return event
  raise UserError(f"The config {config.name!r} has no goal event: name one of its events in evaluator.solved_event.")
