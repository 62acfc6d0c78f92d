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

  def add(self, row: Row, weights: Sequence[float]) -> None:
    number, self.received = self.received, self.received + 1
    episode = self.episodes.get(row.episode)
    if episode is None and row.step >= 0:
      episode = self.episodes[row.episode] = Episode(set(), set())
    if episode is None or not self._is_wanted(episode, row.step):
      self.counts["repeated"] += 1
      return
    is_late = row.step in episode.skipped
    self._note(episode, row.step, is_late)
    self._forget_unneeded()
    while len(self.stored) == self.plan.slots:
      self._lapse(self.open[0])
    self._store(row, episode, is_late, number)
    self._insert(0, row.key, weights)
    if is_late:
      for table in sorted(self._tables_of_later_events(row.key)):
        self._insert(table, row.key, weights)
    for event in self.plan.events:
      if row.events >> event.bit & 1:
        for step in range(row.step - event.history + 1, row.step + 1):
          key = (row.episode, step)
          if key in self.stored and event.table not in self.sent[key]:
            self._insert(event.table, key, weights)
    if row.ended and episode.state in ("open", "lapsed"):
      episode.state = row.ended
      if row.episode in self.open:
        self.open.remove(row.episode)
      self._forget_unneeded()

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
    self.open.remove(identity)
    self.episodes[identity].state = "lapsed"
    self.counts["lapses"] += 1
    self._forget_unneeded()

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
