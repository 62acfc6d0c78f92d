"""What the worlds noted against what the tables hold: finished steps, dropped episodes, pauses, ages of policies. Pure."""

import bisect
import collections
import dataclasses
import itertools
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Row:
  """A row of the default table.

  Attributes:
    episode: its id; the writer's id is in its upper bits.
    step: in the episode, from 0.
    digest: of the features that the step led to.
    is_last: whether the step ended the episode.
    policy_version: of the policy that chose the action; 0 for a random one.
  """

  episode: int
  step: int
  digest: str
  is_last: bool
  policy_version: int


@dataclasses.dataclass(frozen=True)
class Episode:
  """An episode as its console's world noted it.

  Attributes:
    pid: of the console's process.
    times: UNIX times of its ticks.
    digests: of the features that each tick led to.
    has_ended: whether its last tick ended it.
  """

  pid: int
  times: tuple[float, ...]
  digests: tuple[str, ...]
  has_ended: bool


@dataclasses.dataclass(frozen=True)
class Count:
  """The steps of finished episodes against the rows of the default table.

  Attributes:
    episodes: that ended.
    ticks: of them.
    rows: of them.
    unplayed: ticks between rows of an episode that have no row; at the real pace a late action makes one.
    lost: steps that must be there and are not: gaps in an episode's steps, and ticks after its last row if that is not its end.
    duplicates: rows beyond the first of a step.
  """

  episodes: int
  ticks: int
  rows: int
  unplayed: int
  lost: int
  duplicates: int


def read_notes(folder: pathlib.Path) -> list[Episode]:
  """The episodes that worlds noted in `folder`, by time."""
  episodes = []
  for path in folder.glob("*.csv"):
    ticks: dict[int, list[tuple[float, str, bool]]] = collections.defaultdict(list)
    for line in path.read_text().splitlines():
      seconds, episode, _, ended, digest = line.split(",")
      ticks[int(episode)].append((float(seconds), digest, ended == "1"))
    for told in ticks.values():
      times, digests, ends = zip(*told, strict=True)
      episodes.append(Episode(int(path.stem.partition("-")[0]), times, digests, ends[-1]))
  return sorted(episodes, key=lambda episode: episode.times[0])


class Match:
  """Episodes of the worlds, and the rows of their ticks."""

  def __init__(self, episodes: Sequence[Episode], rows: Iterable[Row]):
    """Finds each tick's row by its digest.

    Args:
      episodes: of the workers' consoles.
      rows: of the default table.
    """
    self.episodes = episodes
    self._by_digest: dict[str, Row] = {}
    self._steps: dict[int, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    for row in rows:
      self._by_digest[row.digest] = row
      self._steps[row.episode][row.step] += 1

  def played(self, episode: Episode) -> list[tuple[float, Row]]:
    """The ticks that have rows: time and row."""
    found = zip(episode.times, map(self._by_digest.get, episode.digests), strict=True)
    return [(seconds, row) for seconds, row in found if row is not None]

  def count(self, forgiven: Collection[Episode] = ()) -> Count:
    """Counts the steps of the episodes that ended, without those that are forgiven."""
    parts = [self._count(episode) for episode in self.episodes if episode.has_ended and episode not in forgiven]
    duplicates = sum(number - 1 for steps in self._steps.values() for number in steps.values())
    sums = [sum(column) for column in zip(*parts, strict=True)] or [0] * 4
    ticks, rows, unplayed, lost = sums
    return Count(len(parts), ticks, rows, unplayed, lost, duplicates)

  def _count(self, episode: Episode) -> tuple[int, int, int, int]:
    """Ticks, rows, ticks in between without rows, and steps lost."""
    ticks = len(episode.times)
    has_row = [digest in self._by_digest for digest in episode.digests]
    if not any(has_row):
      return ticks, 0, 0, ticks
    rows = [row for _, row in self.played(episode)]
    after = has_row[::-1].index(True)  # Ticks after the last row.
    tail = 0 if rows[-1].is_last else max(1, after)
    gaps = sum(
      max(row.step for row in rows if row.episode == name) + 1 - len(self._steps[name])
      for name in {row.episode for row in rows}
    )
    unplayed = ticks - len(rows) - after
    return ticks, len(rows), unplayed, gaps + tail

  def begun(self) -> list[Episode]:
    """The episodes of which there are rows: consoles also try their worlds before anyone plays."""
    return [episode for episode in self.episodes if any(digest in self._by_digest for digest in episode.digests)]

  def dropped(self, killed: Collection[int] = ()) -> list[Episode]:
    """The episodes that began and did not end, and will not: others followed on the same console, or it was killed.

    Args:
      killed: processes of consoles that were killed.
    """
    begun = self.begun()
    last: dict[int, Episode] = {}
    for episode in begun:
      if episode.pid not in last or episode.times[0] > last[episode.pid].times[0]:
        last[episode.pid] = episode
    return [one for one in begun if not one.has_ended and (one.pid in killed or one is not last[one.pid])]

  def pauses(self, pids: Mapping[int, int], since: float, until: float) -> dict[int, float]:
    """Console -> the longest time without a step that has a row, in seconds.

    Args:
      pids: process of a console -> its number.
      since: UNIX time.
      until: UNIX time.
    """
    times: dict[int, list[float]] = {console: [since, until] for console in pids.values()}
    for episode in self.episodes:
      if episode.pid in pids:
        times[pids[episode.pid]] += [seconds for seconds, _ in self.played(episode) if since < seconds < until]
    return {console: _longest(sorted(found)) for console, found in times.items()}

  def first_rows(self, pids: Mapping[int, int], since: float, other_than: Collection[int] = ()) -> dict[int, float]:
    """Console -> seconds after the UNIX time `since` until the first tick that has a row; consoles without any are missing.

    Args:
      pids: process of a console -> its number.
      since: UNIX time.
      other_than: writers whose rows do not count, as they were killed.
    """
    first: dict[int, float] = {}
    for episode in self.episodes:
      for seconds, row in self.played(episode) if episode.pid in pids else ():
        if seconds > since and writer_of(row) not in other_than:
          console = pids[episode.pid]
          first[console] = min(first.get(console, seconds - since), seconds - since)
    return first

  def writers(self, pids: Collection[int], before: float) -> set[int]:
    """Ids of those who wrote the steps of these consoles' processes until the UNIX time `before`."""
    return {
      writer_of(row)
      for episode in self.episodes
      if episode.pid in pids
      for seconds, row in self.played(episode)
      if seconds < before
    }

  def policy_ages(self, published: Sequence[tuple[float, int]]) -> list[float]:
    """Seconds from a policy's publication to each step that it chose; random actions are left out.

    Args:
      published: UNIX time and version, as they were first seen.
    """
    versions = [version for _, version in published]
    ages = []
    for episode in self.episodes:
      for seconds, row in self.played(episode):
        place = bisect.bisect_left(versions, row.policy_version)
        if row.policy_version and place < len(versions):
          ages.append(max(0.0, seconds - published[place][0]))
    return ages


def writer_of(row: Row) -> int:
  """The id of the writer of a row."""
  return row.episode >> 32


def at_the_edge(episodes: Iterable[Episode], moment: float, seconds: float) -> list[Episode]:
  """The episodes that began or ended so shortly before or after a moment that a death then may or may not have cost them."""
  return [
    one
    for one in episodes
    if abs(one.times[0] - moment) < seconds or (one.has_ended and abs(one.times[-1] - moment) < seconds)
  ]


def _longest(times: Sequence[float]) -> float:
  return max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)
