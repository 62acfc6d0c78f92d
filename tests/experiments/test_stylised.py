"""ReaPER's stylised setting: its errors by hand, and the paper's findings."""

import csv

import numpy as np
import pytest

from experiments.stylised import LENGTHS, LEVELS, METHODS, SelectReaper, first_errors, get_stylised, updates_needed


def test_errors_at_the_start_by_hand() -> None:
  assert first_errors(4, 0).tolist() == [0, 0, 0, 1]
  assert first_errors(4, 2).tolist() == [1, -1, 1, 0]  # The values are 0, 1, 0, 1.
  assert first_errors(5, 4).tolist() == [0, 0, 1, -1, 1]  # The values are 0, 0, 0, 1, 0.


def test_an_update_moves_the_error_to_the_row_before() -> None:
  chosen: list[int] = []

  def select(errors: np.ndarray, rng: np.random.Generator) -> int:
    chosen.append(int(np.flatnonzero(errors)[-1]))
    return chosen[-1]

  assert updates_needed(first_errors(4, 0), select, np.random.default_rng(0)) == 4
  assert chosen == [3, 2, 1, 0]
  assert updates_needed(first_errors(4, 2), select, np.random.default_rng(0)) == 2


def test_reaper_takes_the_last_error_where_per_cannot_tell_them_apart() -> None:
  errors = first_errors(10, 2)
  assert {SelectReaper(10)(errors, np.random.default_rng(seed)) for seed in range(5)} == {8}


@pytest.mark.parametrize("level", LEVELS)
def test_reaper_takes_the_oracles_updates_and_per_only_where_targets_are_reliable(level: str) -> None:
  def count(method: str) -> int:
    select = METHODS[method][1](50)
    return updates_needed(first_errors(50, LEVELS[level]), select, np.random.default_rng(0))

  oracle = count("oracle")
  assert count("reaper") == oracle == {"high": 50, "medium": 38, "low": 25}[level]
  assert (count("per") == oracle) == (level == "high")
  assert count("uniform") > 2 * count("per")


def test_it_writes_a_csv_a_picture_and_a_table(tmp_path, monkeypatch) -> None:
  monkeypatch.setattr("experiments.stylised.LENGTHS", LENGTHS[:2])
  shown = get_stylised().write(2, tmp_path, "slipstream experiment reaper_stylised")
  with (tmp_path / "reaper_stylised.csv").open() as file:
    rows = list(csv.DictReader(file))
  assert len(rows) == len(METHODS) * len(LEVELS) * 2 * 2
  table = (tmp_path / "reaper_stylised.md").read_text()
  assert table in shown
  assert "| ReaPER, greedy | 5 | 10 |" in table
  assert (tmp_path / "reaper_stylised.png").stat().st_size > 10_000
