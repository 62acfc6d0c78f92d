"""Curves and numbers of groups, against values worked out by hand."""

import pathlib
from collections.abc import Sequence

import numpy as np
import pytest

from configs import UserError
from experiments.comparison.finding import find_runs
from experiments.comparison.grouping import group_runs
from experiments.comparison.measures import GroupCurve, Summary, check_curve, counted_runs, curve_of, summarise
from tests.experiments.comparison.storing import HEADER, make_config, store_run


def compared(root: pathlib.Path, curve: str = "eval_return") -> dict[str, tuple[GroupCurve, Summary]]:
  """Group -> its curve and its numbers, compared with uniform."""
  groups = group_runs(list(find_runs(root)), ("method",))
  counted = counted_runs(groups)
  curves = {group.label: curve_of(group, "environment_steps", curve, counted) for group in groups}
  reference = curves.get("uniform", next(iter(curves.values())))
  return {label: (curve, summarise(curve, reference, counted)) for label, curve in curves.items()}


def store(
  root: pathlib.Path, method: str, seed: int, returns: Sequence[float], phase: str = "exhausted"
) -> pathlib.Path:
  return store_run(root, make_config(method, seed=str(seed), evaluator__solved_evaluations="0"), returns, phase)


def test_the_mean_is_over_seeds_where_all_of_them_have_points(tmp_path: pathlib.Path) -> None:
  store(tmp_path, "uniform", 0, [0, 2, 4, 6])
  store(tmp_path, "uniform", 1, [2, 4, 8])
  curve, _ = compared(tmp_path)["uniform"]
  np.testing.assert_array_equal(curve.x, [100, 200, 300])
  np.testing.assert_array_equal(curve.mean, [1, 3, 6])
  assert [len(line.x) for line in curve.lines] == [4, 3]
  assert (curve.low <= curve.mean).all()
  assert (curve.mean <= curve.high).all()
  cut_off_by = curve.cut_off_by
  assert cut_off_by is not None
  assert cut_off_by.seed == 1


def test_lines_are_straight_between_points_that_runs_do_not_share(tmp_path: pathlib.Path) -> None:
  store(tmp_path, "uniform", 0, [0, 10, 20])
  other = store(tmp_path, "uniform", 1, [0])
  rows = ["100,1,0,0,0", "150,2,0,50,0", "300,3,0,80,0"]
  (other / "metrics.csv").write_text("\n".join([HEADER, *rows, ""]))
  curve, _ = compared(tmp_path)["uniform"]
  np.testing.assert_array_equal(curve.x, [100, 150, 200, 300])
  np.testing.assert_array_equal(curve.mean, [0, (5 + 50) / 2, (10 + 60) / 2, (20 + 80) / 2])


def test_a_level_is_the_mean_over_the_last_quarter_of_a_runs_steps(tmp_path: pathlib.Path) -> None:
  store(tmp_path, "uniform", 0, [0, 0, 0, 0, 0, 0, 2, 4])
  store(tmp_path, "uniform", 1, [0, 0, 0, 8])
  store(tmp_path, "sset", 0, [0, 0, 0, 9])
  store(tmp_path, "sset", 1, [0, 0, 0, 8])
  numbers = compared(tmp_path)
  _, uniform = numbers["uniform"]
  assert uniform.levels == (3, 8)
  assert uniform.mean is not None
  assert uniform.mean.value == 5.5
  assert uniform.difference is None
  _, sset = numbers["sset"]
  assert sset.difference is not None
  assert sset.difference.value == 8.5 - 5.5
  assert sset.improvement is not None
  assert sset.improvement.value == (1 + 1 + 1 + 0.5) / 4  # 9 > 3, 9 > 8, 8 > 3, 8 = 8


def test_a_killed_run_is_drawn_and_counts_in_no_number_unless_it_was_solved(tmp_path: pathlib.Path) -> None:
  store(tmp_path, "uniform", 0, [-1, 1, 1, 1])
  store(tmp_path, "uniform", 1, [-9, -9], "running")
  store(tmp_path, "uniform", 2, [5], "running")
  curve, summary = compared(tmp_path)["uniform"]
  assert [line.run.seed for line in curve.lines] == [0]
  assert [line.run.seed for line in curve.others] == [1, 2]
  assert summary.levels == (1,)
  assert summary.solved == 2
  assert summary.steps_to_solve is not None
  assert (summary.steps_to_solve.runs, summary.steps_to_solve.mean) == (2, (200 + 100) / 2)


def test_all_runs_count_if_none_has_ended_by_itself(tmp_path: pathlib.Path) -> None:
  store(tmp_path, "uniform", 0, [-1, -3], "running")
  store(tmp_path, "uniform", 1, [-9], "stopping")
  curve, summary = compared(tmp_path)["uniform"]
  assert [line.run.seed for line in curve.lines] == [0, 1]
  assert summary.levels == (-3, -9)
  np.testing.assert_array_equal(curve.mean, [-5])


def test_a_run_that_was_not_solved_counts_with_all_its_steps(tmp_path: pathlib.Path) -> None:
  store(tmp_path, "uniform", 0, [-1, -1, -1, -1])
  store(tmp_path, "sset", 0, [-1, 1])
  numbers = compared(tmp_path)
  steps = {label: summary.steps_to_solve for label, (_, summary) in numbers.items()}
  assert {label: item.mean for label, item in steps.items() if item is not None} == {"uniform": 400, "sset": 200}
  assert [summary.solved for _, summary in numbers.values()] == [1, 0]
  assert steps["sset"] is not None
  assert steps["sset"].difference is not None
  assert steps["sset"].difference.value == -200


def test_runs_without_a_goal_have_no_steps_to_it(tmp_path: pathlib.Path) -> None:
  store_run(tmp_path, make_config(evaluator__solved_event=""), [1, 2])
  _, summary = compared(tmp_path)["sset"]
  assert (summary.solved, summary.steps_to_solve) == (None, None)


def test_a_run_without_points_is_in_its_group_without_a_line(tmp_path: pathlib.Path) -> None:
  store(tmp_path, "uniform", 0, [1])
  store(tmp_path, "uniform", 1, [])
  curve, summary = compared(tmp_path)["uniform"]
  assert len(curve.group.runs) == 2
  assert len(curve.lines) == 1
  assert summary.levels == (1,)


def test_an_unknown_curve_is_refused_with_those_there_are(tmp_path: pathlib.Path) -> None:
  store(tmp_path, "uniform", 0, [1])
  runs = list(find_runs(tmp_path))
  check_curve("train_return", "gradient_steps", runs)
  with pytest.raises(UserError, match=r"No run has a curve 'q': there are train_return, eval_return, eval_solved\."):
    check_curve("q", "gradient_steps", runs)
  with pytest.raises(UserError, match=r"No run has a curve 'eval_retrun': did you mean 'eval_return'\?"):
    check_curve("eval_retrun", "gradient_steps", runs)
  with pytest.raises(UserError, match=r"No run has any curve over gradient_steps: wait for the first evaluation"):
    check_curve("eval_return", "gradient_steps", [])
