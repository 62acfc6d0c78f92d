"""Algorithm 1 of the SSET paper (lines 10 to 15) in plain lists, written from the paper and independent of the adder."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Event:
  """nu_i = (omega_i, tau_i) and the table that it feeds; omega_i is bit i of a step's mask."""

  table: str
  tau: int


@dataclasses.dataclass(frozen=True)
class Step:
  """Step t: the action a_t, and the reward r_t, discount d_t and events of the transition to s_{t+1}."""

  action: int
  reward: float
  discount: float
  events: int


@dataclasses.dataclass(frozen=True)
class Episode:
  """Steps, and how the last one ended."""

  steps: Sequence[Step]
  terminated: bool

  def observation(self, number: int, t: int) -> list[float]:
    """s_t of the `number`-th episode; it identifies both."""
    return [number, t, number + t / 1024]


class Table:
  """A table with first-in-first-out eviction."""

  def __init__(self, capacity: int):
    self.capacity = capacity
    self.rows: list[Row] = []

  def add(self, row: Row) -> None:
    self.rows.append(row)
    if len(self.rows) > self.capacity:
      self.rows.pop(0)


def replay(
  episodes: Sequence[Episode],
  events: Sequence[Event],
  capacities: Mapping[str, int],
  n_step: int,
  gamma: float,
  first_episode_id: int,
) -> dict[str, list[Row]]:
  """Every table's rows after these episodes, from the oldest to the newest; "default" is B_0."""
  tables = {name: Table(capacity) for name, capacity in capacities.items()}
  for number, episode in enumerate(episodes):
    sent: dict[str, set[int]] = {name: set() for name in tables}  # Steps that are in the table or will be.
    wanted: dict[str, list[int]] = {name: [] for name in tables}  # Those whose row does not exist yet.
    rows: dict[int, Row] = {}
    for t, step in enumerate(episode.steps):
      ended = t == len(episode.steps) - 1
      # The row of step s exists once [s, s + n) has passed, or the episode is over.
      for s in range(t + 1):
        if s in rows or not (s + n_step - 1 <= t or ended):
          continue
        rows[s] = make_row(episode, number, s, t, n_step, gamma, first_episode_id + number)
        tables["default"].add(rows[s])
        for name, steps in wanted.items():
          if s in steps:
            tables[name].add(rows[s])
      # omega_i(s_{t+1}): E_{t - tau + 1}, ..., E_t, except those that the table has from this episode.
      for bit, event in enumerate(events):
        if not step.events & (1 << bit):
          continue
        for s in range(max(0, t - event.tau + 1), t + 1):
          if s in sent[event.table]:
            continue
          sent[event.table].add(s)
          if s in rows:
            tables[event.table].add(rows[s])
          else:
            wanted[event.table].append(s)
  return {name: table.rows for name, table in tables.items()}


def make_row(episode: Episode, number: int, s: int, t: int, n_step: int, gamma: float, episode_id: int) -> Row:
  """x_s with the return over its window, once step t was taken."""
  window = episode.steps[s : s + n_step]
  passed = [1.0, *itertools.accumulate((step.discount for step in window), lambda x, y: x * y)]
  over = t == len(episode.steps) - 1
  return {
    "observation": episode.observation(number, s),
    "next_observation": episode.observation(number, s + len(window)),
    "action": episode.steps[s].action,
    "reward": sum(gamma**k * passed[k] * step.reward for k, step in enumerate(window)),
    "discount": gamma ** (len(window) - 1) * passed[len(window)],
    "steps": len(window),
    "terminated": over and episode.terminated,
    "truncated": over and not episode.terminated,
    "events": episode.steps[s].events,
    "episode": episode_id,
    "step": s,
    "policy_version": number + 1,
  }
