"""The replay memory in plain sets and lists: it keeps every fact by itself and derives the rest anew after every change."""

import dataclasses
from collections.abc import Sequence

from replay_memory.plan import Plan

Key = tuple[int, int]  # Episode and step.


@dataclasses.dataclass(frozen=True)
class Row:
  """What the memory looks at in a row."""

  episode: int
  step: int
  events: int = 0
  ended: str = ""  # "terminated", "truncated", or neither.

  @property
  def key(self) -> Key:
    return self.episode, self.step


@dataclasses.dataclass
class Episode:
  """An episode of which a row was received."""

  received: set[int]
  skipped: set[int]
  state: str = "open"


class Oracle:
  """The contents of a memory of this plan."""

  def __init__(self, plan: Plan):
    self.plan = plan
    self.tables: list[list[Key]] = [[] for _ in plan.names]
    self.weights: list[dict[Key, float]] = [{} for _ in plan.names]
    self.inserts = [0] * len(plan.names)
    self.stored: dict[Key, int] = {}  # -> its number in the stream.
    self.events: dict[Key, int] = {}
    self.sent: dict[Key, set[int]] = {}
    self.episodes: dict[int, Episode] = {}
    self.open: list[int] = []  # By the time of their last row.
    self.counts = dict.fromkeys(("new", "repeated", "late", "gaps", "missing", "lapses"), 0)
    self.received = 0
    self.new_weights: Sequence[float] = ()

  def add(self, row: Row, weights: Sequence[float]) -> None:
    number, self.received = self.received, self.received + 1
    self.new_weights = weights
    episode = self.episodes.get(row.episode)
    if episode is None and row.step >= 0:
      episode = self.episodes[row.episode] = Episode(set(), set())
    if self.plan.whole_episodes:
      self._end_abandoned(number)
    is_over = self.plan.whole_episodes and episode is not None and episode.state != "open"
    if episode is None or is_over or not self._is_wanted(episode, row.step):
      self.counts["repeated"] += 1
      return
    if self.plan.whole_episodes and row.episode in self.open:
      self.open.remove(row.episode)
      self.open.append(row.episode)
    is_late = row.step in episode.skipped
    self._note(episode, row.step, is_late)
    self._forget_unneeded()
    while len(self.stored) == self.plan.slots:
      self._lapse(self.open[0])
    self._store(row, episode, is_late, number)
    if not self.plan.whole_episodes:
      self._insert(0, row.key, weights)
      if is_late:
        for table in sorted(self._tables_of_later_events(row.key)):
          self._insert(table, row.key, weights)
      self._send_histories(row.key, weights)
    if row.ended and episode.state in ("open", "lapsed"):
      self._end(row.episode, row.ended)

  def _send_histories(self, last: Key, weights: Sequence[float]) -> None:
    episode, step = last
    for event in self.plan.events:
      if self.events[last] >> event.bit & 1:
        for key in ((episode, earlier) for earlier in range(step - event.history + 1, step + 1)):
          if key in self.stored and event.table not in self.sent[key]:
            self._insert(event.table, key, weights)

  def _is_wanted(self, episode: Episode, step: int) -> bool:
    return step in episode.skipped or step > max(episode.received, default=-1)

  def _note(self, episode: Episode, step: int, is_late: bool) -> None:
    if is_late:
      episode.skipped.remove(step)
      self.counts["late"] += 1
      self.counts["missing"] -= 1
    else:
      skipped = range(max(episode.received, default=-1) + 1, step)
      episode.skipped.update(skipped)
      self.counts["new"] += 1
      self.counts["gaps"] += len(skipped) > 0
      self.counts["missing"] += len(skipped)
    episode.received.add(step)

  def _lapse(self, identity: int) -> None:
    self._end(identity, "truncated" if self.plan.whole_episodes else "lapsed")
    self.counts["lapses"] += 1

  def _end(self, identity: int, state: str) -> None:
    if identity in self.open:
      self.open.remove(identity)
    if self.plan.whole_episodes:
      table, chain = self.tables[0], self.chain(identity)
      while len(table) + len(chain) > self.plan.capacities[0]:
        oldest = table[0][0]
        while table and table[0][0] == oldest:
          del self.weights[0][table.pop(0)]
      for key in chain:
        self._insert(0, key, self.new_weights)
      for key in chain:
        self._send_histories(key, self.new_weights)
    self.episodes[identity].state = state
    self._forget_unneeded()

  def _end_abandoned(self, number: int) -> None:
    for identity in list(self.open):
      if number - self.stored[self.chain(identity)[-1]] <= self.plan.capacities[0]:
        return
      self._end(identity, "truncated")

  def _store(self, row: Row, episode: Episode, is_late: bool, number: int) -> None:
    self.stored[row.key] = number
    self.events[row.key] = row.events
    self.sent[row.key] = set()
    if episode.state == "lapsed" and not is_late:
      episode.state = "open"
    if episode.state == "open":
      if row.episode in self.open:
        self.open.remove(row.episode)
      self.open.append(row.episode)
    self._forget_unneeded(but=row.key)

  def _insert(self, table: int, key: Key, weights: Sequence[float]) -> None:
    self.tables[table].append(key)
    self.weights[table][key] = weights[table]
    self.sent[key].add(table)
    self.inserts[table] += 1
    if len(self.tables[table]) > self.plan.capacities[table]:
      del self.weights[table][self.tables[table].pop(0)]
    self._forget_unneeded()

  def _forget_unneeded(self, but: Key | None = None) -> None:
    for key in list(self.stored):
      if key != but and not any(key in table for table in self.tables) and not self._is_in_window(key):
        del self.stored[key]

  def _is_in_window(self, key: Key) -> bool:
    episode = self.episodes[key[0]]
    return episode.state == "open" and key[1] > max(episode.received) - self.plan.longest_history

  def _tables_of_later_events(self, key: Key) -> set[int]:
    return {
      event.table
      for later in self.stored
      if later[0] == key[0] and later[1] > key[1]
      for event in self.plan.events
      if self.events[later] >> event.bit & 1 and later[1] - key[1] < event.history
    }

  @property
  def events_in_default(self) -> int:
    return sum(any(key in table for table in self.tables[1:]) for key in self.tables[0])

  def chain(self, episode: int) -> list[Key]:
    return sorted(key for key in self.stored if key[0] == episode)
