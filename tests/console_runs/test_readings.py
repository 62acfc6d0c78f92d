"""How the run of 21 consoles judges memory and the consoles' own accounts."""

import json
import os
import pathlib

import pytest

from tests.console_runs.readings import (
  KINDS,
  REST,
  Process,
  Reading,
  Sample,
  Ticks,
  back_at,
  classify,
  growth,
  memory_of,
  processes_of,
  read_polls,
  rows_per_second,
  ticks_of,
)


def _sample(seconds: float, learner: float = 500.0, server: float = 600.0, rows: int = 0) -> Sample:
  return Sample(seconds, {**dict.fromkeys(KINDS, 0.0), "learner": learner, "server": server}, 90, rows, 0, 0, 0)


@pytest.mark.parametrize("slope", [0.0, 3.0])
def test_growth_is_the_slope_between_kills_without_rows(slope: float) -> None:
  samples = []
  for seconds in range(0, 900, 10):
    # Memory rises steeply until minute 3 and for half a minute after the kill, and has another level then.
    level = 500 + min(seconds, 180) + (0 if seconds <= 300 else -100 + min(seconds - 300, 30))
    samples.append(_sample(seconds, level + slope * seconds / 60, 600 + 0.004 * 200 * seconds, 200 * seconds))
  slopes = growth(samples, 180.0, [300.0], row_megabytes=0.004)
  assert slopes["learner"] == pytest.approx(slope)
  assert slopes["server"] == pytest.approx(0.0, abs=1e-9)
  assert slopes[REST] == pytest.approx(slope)
  assert growth(samples, 180.0, [300.0], row_megabytes=0.003)["server"] == pytest.approx(12.0)


def test_too_few_samples_have_no_growth() -> None:
  assert growth([_sample(0.0), _sample(200.0), _sample(210.0)], 180.0, [], 0.0) == {}


def test_rows_a_second_between_two_times() -> None:
  samples = [_sample(seconds, rows=200 * seconds) for seconds in range(0, 100, 10)]
  assert rows_per_second(samples, 15.0, 75.0) == 200.0
  assert rows_per_second(samples, 81.0, 95.0) != rows_per_second(samples, 81.0, 95.0)


def _reading(seconds: float, tick: int, missed: int = 0, leases: int = 1, held: bool = True) -> Reading:
  return Reading(seconds, True, held, tick, missed, 0, leases)


def test_ticks_are_summed_over_streams_and_lives() -> None:
  # A second stream, then a console that was started again with a first one.
  one = [
    _reading(0, 10, 5),
    _reading(2, 30, 6),
    _reading(4, 8, 1, leases=2),
    _reading(6, 28, 3, leases=2),
    _reading(8, 9, leases=1),
  ]
  assert ticks_of([one]) == Ticks(20 + 8 + 20 + 9, 1 + 1 + 2 + 0, 0)
  assert ticks_of([one, one], since=2, until=6) == Ticks(2 * 28, 2 * 3, 0)
  assert ticks_of([[]]).missed_share == 0.0


def test_a_console_is_back_when_it_steps_for_good() -> None:
  readings = [_reading(0, 100), _reading(2, 120), _reading(4, 120, held=False), _reading(6, 10), _reading(8, 30)]
  assert back_at(readings, 1.0, is_played=True) == 6
  assert back_at(readings, 1.0, is_played=False) == 2
  assert back_at(readings[:3], 1.0, is_played=True) == float("inf")


def test_polls_are_read_by_console(tmp_path: pathlib.Path) -> None:
  told = {"ready": True, "holder": "process 1 on a", "tick": 5, "missed": 1, "late": 0, "leases": 2}
  path = tmp_path / "polls"
  path.write_text(
    json.dumps({"time": 3.5, "consoles": {"a:1": told, "a:2": {**told, "holder": ""}}})
    + '\nI0000 a warning\n{"time": 4'
  )
  assert read_polls(path) == {
    "a:1": [Reading(3.5, True, True, 5, 1, 0, 2)],
    "a:2": [Reading(3.5, True, False, 5, 1, 0, 2)],
  }
  assert read_polls(tmp_path / "none") == {}


def test_processes_are_told_apart_by_their_commands() -> None:
  worker = classify(1, ["python", "-m", "slipstream", "act", "--index=3", "--console=localhost:9"])
  assert (worker.kind, worker.flag("index"), worker.flag("console"), worker.flag("port")) == (
    "workers",
    "3",
    "localhost:9",
    "",
  )
  supervisor = ["python", "-I", "-S", "supervisor.py", '{"command": ["python", "-m", "slipstream", "act"]}']
  for words in (supervisor, ["python", "-m", "slipstream", "train"], ["python", "-m"], []):
    assert classify(2, words) == Process(2, "parents", ())


def test_the_memory_of_this_process_is_its_parents() -> None:
  own = next(process for process in processes_of([os.getpid()]) if process.pid == os.getpid())
  memory = memory_of([own, Process(2**22 + 1, "server", ())])
  assert memory["parents"] > 10
  assert memory["server"] == 0
