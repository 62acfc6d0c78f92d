"""How the run of 21 consoles counts, on notes and rows that are worked out by hand."""

import pathlib

import numpy as np
import pytest

from tests.console_runs.notes import Count, Episode, Match, Row, at_the_edge, read_notes
from tests.console_runs.world import NOTES, Noted, digest

_WRITER = 7 << 32


def _episode(number: int, ticks: int, began: float = 100.0, pid: int = 1, ended: bool = True) -> Episode:
  times = tuple(began + tick / 10 for tick in range(ticks))
  return Episode(pid, times, tuple(f"{pid}.{number}.{tick}" for tick in range(ticks)), ended)


def _rows(episode: Episode, name: int, ticks: range | list[int], version: int = 0) -> list[Row]:
  """Rows of these ticks, in the steps 0, 1, ..."""
  last = len(episode.digests) - 1
  return [
    Row(name, step, episode.digests[tick], episode.has_ended and tick == last, version)
    for step, tick in enumerate(ticks)
  ]


def test_a_world_notes_what_its_rows_hold(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setenv(NOTES, str(tmp_path))
  world = Noted()
  told = []
  for ticks in (3, 2):
    world.reset(seed=1)
    told.append(tuple(digest(world.step(np.zeros(2, np.float32))[0]) for _ in range(ticks)))
  world.close()
  assert [(one.digests, one.has_ended) for one in read_notes(tmp_path)] == [(one, False) for one in told]


def test_all_steps_of_finished_episodes_are_found_by_episode_and_step() -> None:
  whole, open_ = _episode(0, 4), _episode(1, 3, ended=False)
  rows = _rows(whole, _WRITER, range(4)) + _rows(open_, _WRITER + 1, range(2))
  assert Match([whole, open_], rows).count() == Count(episodes=1, ticks=4, rows=4, unplayed=0, lost=0, duplicates=0)


def test_a_tick_without_an_action_is_no_lost_step() -> None:
  episode = _episode(0, 4)
  count = Match([episode], _rows(episode, _WRITER, [0, 2, 3])).count()
  assert (count.rows, count.unplayed, count.lost) == (3, 1, 0)


@pytest.mark.parametrize(("missing", "lost"), [([1], 1), ([0, 1], 2), ([3], 1), ([2, 3], 2), ([0, 1, 2, 3], 4)])
def test_steps_that_are_not_in_the_table_are_lost(missing: list[int], lost: int) -> None:
  episode = _episode(0, 4)
  rows = [row for row in _rows(episode, _WRITER, range(4)) if row.step not in missing]
  assert Match([episode], rows).count().lost == lost
  assert Match([episode], rows).count([episode]).lost == 0
  assert Match([episode], rows + rows[:1]).count().duplicates == len(rows[:1])


def test_what_neither_ended_nor_will_is_dropped() -> None:
  # Console 1 was killed in its second episode; on console 2 a worker died in the first, and the last is still open.
  ended, cut = _episode(0, 3, 100.0), _episode(1, 2, 101.0, ended=False)
  left, next_ = _episode(0, 5, 100.0, pid=2, ended=False), _episode(1, 2, 110.0, pid=2, ended=False)
  tried = _episode(9, 2, 90.0, ended=False)
  episodes = [tried, ended, cut, left, next_]
  rows = [row for name, one in enumerate(episodes[1:]) for row in _rows(one, _WRITER + name, [0, 1])]
  assert Match(episodes, rows).dropped(killed=[1]) == [cut, left]
  assert Match(episodes, rows).dropped() == [left]


def test_episodes_at_the_edge_of_a_death() -> None:
  began, ended = _episode(0, 30, 99.5), _episode(0, 10, 98.5, pid=2)
  neither = [_episode(0, 50, 97.5, pid=3), _episode(0, 30, 98.6, pid=4, ended=False)]
  assert at_the_edge([began, ended, *neither], 100.0, 1.0) == [began, ended]


def test_pauses_count_from_row_to_row() -> None:
  one, two = _episode(0, 10, 100.0), _episode(1, 10, 101.5)
  rows = _rows(one, _WRITER, range(10)) + _rows(two, _WRITER + 1, range(10))
  assert Match([one, two], rows).pauses({1: 0}, 100.0, 102.4) == {0: pytest.approx(0.6)}
  assert Match([one, two], rows[:10]).pauses({1: 0}, 100.0, 102.4) == {0: pytest.approx(1.5)}
  assert Match([], []).pauses({1: 0}, 100.0, 102.0) == {0: 2.0}


def test_the_first_row_of_a_new_writer() -> None:
  before, after = _episode(0, 5, 100.0), _episode(1, 5, 110.0)
  match = Match([before, after], _rows(before, _WRITER, range(5)) + _rows(after, 8 << 32, [1, 2, 3, 4]))
  assert match.first_rows({1: 4}, 99.0) == {4: pytest.approx(1.0)}
  assert match.writers({1}, 105.0) == {7}
  assert match.first_rows({1: 4}, 100.2, {7}) == {4: pytest.approx(9.9)}
  assert match.first_rows({2: 5}, 99.0) == {}


def test_a_policys_age_is_from_its_publication() -> None:
  random, old = _episode(0, 2, 100.0), _episode(1, 2, 110.0)
  rows = _rows(random, _WRITER, range(2)) + _rows(old, _WRITER + 1, range(2), version=3)
  assert Match([random, old], rows).policy_ages([(101.0, 2), (105.0, 3), (109.0, 4)]) == pytest.approx([5.0, 5.1])
