"""The event-table adder: the only writer of transitions (SSET, Algorithm 1, lines 10 to 15).

A table's index is its place in the layout, as the learner counts it: 0 for the default table, 1, 2, ... for the event tables. In
a mask of tables its bit is 1 << index. An event's bit is its place in the config.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from acme.adders import base

from actors.row_writer import Row, RowSink
from configs import RunConfig
from environments.timestep import EventTimeStep
from replay_server.contract.codec import RowCodec
from replay_server.contract.layout import EPISODE_BITS, HISTORIES

# Steps that went to the default table are reported to the learner after at most this many, even without an event.
_REPORT_PERIOD_STEPS = 50
_DEFAULT_INDEX = 0
_DEFAULT_BIT = 1 << _DEFAULT_INDEX
_NO_POLICY = {"policy_version": 0}


@dataclasses.dataclass(slots=True)
class _OpenStep:
  """A step whose n-step window is still open, so that its row does not exist yet.

  Attributes:
    values: row fields that were known when the step was taken.
    reward: sum of gamma^k r_{t+k} so far.
    discount: gamma^(m-1) times the environment's discounts so far, for m steps.
    steps: m.
    tables: mask of the tables that wait for the row.
  """

  values: dict[str, Any]
  reward: float
  discount: float
  steps: int
  tables: int = _DEFAULT_BIT


@dataclasses.dataclass(slots=True)
class _Stored:
  """A row that was appended and can still be referenced.

  Attributes:
    row: for items.
    step: its number in the episode.
    tables: mask of the tables that it was sent to.
  """

  row: Row
  step: int
  tables: int = 0


class EventTableAdder(base.Adder):
  """Writes every transition to the default table, and every event's history to the event's table.

  When event i fires on a transition, its history of tau_i steps goes to the event's table: that transition and the tau_i - 1
  before it, except those that this table already has from this episode. These items reference rows that were appended before.
  With n-step returns a row is made when its window closes; an event table that waits for an open step gets the row then.

  As for any Acme adder: `add_first(timestep)`, then `add(action, next_timestep, extras)` until a last timestep, with
  `EventTimeStep`s. The extras are the row fields that describe the behaviour: the acting policy's version, and what the
  algorithm adds to rows (`ActingPolicy.explore`), such as `{"policy_version": 3, "mean": ..., "deviation": ...}`.

  Attributes:
    transitions: that it has written to the default table.
  """

  def __init__(
    self,
    writer: RowSink,
    codec: RowCodec,
    config: RunConfig,
    writer_id: int,
    histories: RowSink | None = None,
  ):
    """Makes an adder for one environment.

    Args:
      writer: for this adder alone; it keeps at least `references_needed(config)` references.
      codec: of the rows.
      config: of the run.
      writer_id: in [0, 2^31), unique among the adders of a run: the high half of episode ids.
      histories: writer that reports to the learner which steps went to which table; None if the learner does not need it.
    """
    self.transitions = 0
    self._writer = writer
    self._histories = histories
    # Table index -> the steps that went to it and were not reported yet, in order.
    self._unreported: dict[int, list[int]] = collections.defaultdict(list)
    self._packer = codec.packer()
    self._n_step = config.learner.n_step
    self._gamma = config.learner.discount
    self._tables = [table.name for table in config.replay.all_tables]
    self.set_priorities(())
    # (The event's bit, its table's bit, its history). An event without a table is only recorded in the rows, and so is every
    # event if the learner has its own memory, where it makes the event tables from the rows.
    self._events = [
      (1 << index, 1 << self._tables.index(event.table), event.history)
      for index, event in enumerate(config.events)
      if event.table is not None and config.replay.sampling == "server"
    ]
    self._open: collections.deque[_OpenStep] = collections.deque()
    self._stored: collections.deque[_Stored] = collections.deque(maxlen=references_needed(config) - 1)
    self._next_episode = writer_id << EPISODE_BITS
    self._observation: npt.NDArray[Any] | None = None

  def set_priorities(self, priorities: Sequence[float]) -> None:
    """Sets the priorities of new items.

    Args:
      priorities: one for each table, in layout order; empty for 1 everywhere.
    """
    self._priorities = priorities or [1.0] * len(self._tables)

  def reset(self) -> None:
    """Forgets the current episode: drops its open steps; rows that were sent stay."""
    self._report_histories()
    self._open.clear()
    self._stored.clear()
    self._observation = None

  def add_first(self, timestep: EventTimeStep) -> None:
    """Begins an episode."""
    self.reset()
    self._observation = np.asarray(timestep.observation)
    self._episode = self._next_episode
    self._next_episode += 1
    self._step = 0

  def add(self, action: Any, next_timestep: EventTimeStep, extras: Mapping[str, Any] = _NO_POLICY) -> None:
    """Adds the transition that `action` led to.

    Args:
      action: taken at the latest timestep.
      next_timestep: that the action led to.
      extras: name -> value of every row field that describes the behaviour: "policy_version", and the algorithm's own.

    Raises:
      UserError: a value is not finite or does not fit the spec; nothing of this step is stored.
      Stopped: asked to stop while the server held the writer back.
    """
    if self._observation is None:
      raise ValueError("add_first must be called before add")
    next_observation = np.asarray(next_timestep.observation)
    reward, discount = float(next_timestep.reward) + next_timestep.shaping, float(next_timestep.discount)
    self._extend_open(reward, discount)
    self._open.append(
      _OpenStep(
        values={
          "observation": self._observation,
          "action": np.asarray(action),
          "events": next_timestep.events,
          "episode": self._episode,
          "step": self._step,
          **extras,
        },
        reward=reward,
        discount=discount,
        steps=1,
      )
    )
    self._observation = next_observation
    self._step += 1
    last = next_timestep.last()
    while self._open and (last or self._open[0].steps >= self._n_step):
      self._close(self._open[0], next_observation, next_timestep)
      self._open.popleft()
    if next_timestep.events:
      self._add_events(next_timestep.events)
    if next_timestep.events or last or len(self._unreported[_DEFAULT_INDEX]) >= _REPORT_PERIOD_STEPS:
      self._report_histories()
    if last:
      self._writer.flush()
      self.reset()

  def _extend_open(self, reward: float, discount: float) -> None:
    for step in self._open:
      step.reward += step.discount * self._gamma * reward
      step.discount *= self._gamma * discount
      step.steps += 1

  def _close(self, step: _OpenStep, next_observation: npt.NDArray[Any], timestep: EventTimeStep) -> None:
    values = step.values
    values["next_observation"] = next_observation
    values["reward"] = step.reward
    values["discount"] = step.discount
    values["steps"] = step.steps
    values["terminated"] = timestep.terminated
    values["truncated"] = timestep.truncated
    stored = _Stored(self._writer.append(self._packer.pack(values)), values["step"])
    self._send(stored, step.tables)
    self._stored.append(stored)
    self.transitions += 1

  def _add_events(self, events: int) -> None:
    """Sends the history of every event in the mask: its rows now, its open steps when their windows close."""
    for event, table, history in self._events:
      if not events & event:
        continue
      closed = history - len(self._open)
      # Events that share a table may differ in their histories, so the steps not sent there yet need not be the latest.
      for index in range(max(0, len(self._stored) - closed), len(self._stored)):
        self._send(self._stored[index], table)
      for step in list(self._open)[-history:]:
        step.tables |= table

  def _send(self, stored: _Stored, tables: int) -> None:
    """Makes an item of the row in every table of the mask that lacks it."""
    missing = tables & ~stored.tables
    if not missing:
      return
    stored.tables |= missing
    for index, name in enumerate(self._tables):
      if missing >> index & 1:
        self._writer.create_item(name, stored.row, self._priorities[index])
        self._note(index, stored.step)

  def _note(self, table: int, step: int) -> None:
    if self._histories is not None:
      self._unreported[table].append(step)

  def _report_histories(self) -> None:
    if self._histories is None:
      return
    for table, steps in self._unreported.items():
      for first, last in runs_of(steps):
        record = np.array([table, self._episode, first, last], np.int64)
        self._histories.create_item(HISTORIES, self._histories.append(record))
    self._unreported.clear()


def references_needed(config: RunConfig) -> int:
  """How many rows an adder's writer must be able to reference: the longest history that it sends and the row just appended."""
  return (config.max_history if config.replay.sampling == "server" else 1) + 1


def runs_of(steps: Iterable[int]) -> list[tuple[int, int]]:
  """First and last of every run of consecutive numbers, in order."""
  runs: list[tuple[int, int]] = []
  for step in steps:
    if runs and runs[-1][1] + 1 == step:
      runs[-1] = (runs[-1][0], step)
    else:
      runs.append((step, step))
  return runs
