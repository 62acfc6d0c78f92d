"""The statistics on arrays whose answers are worked out by hand."""

import math

import numpy as np
import pytest

from experiments import statistics
from experiments.definition import Threshold
from tests.experiments.tiny import make_result

SOLVED = Threshold("eval_solved", 1.0, "the goal")


def test_steps_are_those_of_the_first_evaluation_that_reaches_the_threshold():
  result = make_result([-3, -1, 2, -1, 4])
  assert statistics.steps_to(result, SOLVED) == 300
  assert statistics.steps_to(result, Threshold("eval_return", -1.0, "")) == 200
  assert statistics.steps_to(result, Threshold("eval_return", 4.5, "")) == math.inf


def test_a_late_mean_is_that_of_the_last_quarter_of_the_steps():
  assert statistics.late_mean(make_result([9, 9, 9, 1]), "eval_return") == 1
  assert statistics.late_mean(make_result([9, 9, 9, 9, 9, 9, 1, 2]), "eval_return") == 1.5
  assert statistics.late_mean(make_result([9, 9, 9, 4, 1]), "eval_return") == 2.5


def test_the_interval_of_a_mean_is_about_that_of_normal_theory():
  values = np.random.default_rng(3).normal(5, 2, size=40)
  estimate = statistics.mean_of(list(values))
  error = 1.96 * values.std(ddof=1) / 40**0.5
  assert estimate.value == pytest.approx(values.mean())
  assert estimate.high - estimate.value == pytest.approx(error, rel=0.15)
  assert estimate.value - estimate.low == pytest.approx(error, rel=0.15)
  assert not statistics.mean_of([1.0]).has_interval


def test_a_curve_is_the_mean_over_seeds_at_the_evaluations_that_all_of_them_have():
  drawn = statistics.curve([make_result([0, 2, 9]), make_result([4, 8])], "eval_return", "std")
  np.testing.assert_array_equal(drawn.gradient_steps, [100, 200])
  np.testing.assert_array_equal(drawn.mean, [2, 5])
  # sqrt(((0 - 2)^2 + (4 - 2)^2) / 1) and sqrt((3^2 + 3^2) / 1)
  np.testing.assert_allclose(drawn.high - drawn.mean, [8**0.5, 18**0.5])
  np.testing.assert_allclose(drawn.mean - drawn.low, [8**0.5, 18**0.5])
  assert drawn.runs == 2


def test_a_bootstrap_band_is_that_of_the_mean_and_nothing_where_all_seeds_agree():
  values = np.random.default_rng(3).normal(5, 2, size=40)
  drawn = statistics.curve([make_result([value, 7]) for value in values], "eval_return", "bootstrap")
  error = 1.96 * values.std(ddof=1) / 40**0.5
  np.testing.assert_allclose(drawn.high[0] - drawn.mean[0], error, rtol=0.15)
  np.testing.assert_allclose(drawn.mean[0] - drawn.low[0], error, rtol=0.15)
  assert (drawn.low[1], drawn.high[1]) == (7, 7)


@pytest.mark.parametrize("band", ["std", "bootstrap"])
def test_one_seed_has_a_curve_and_no_band(band):
  drawn = statistics.curve([make_result([1, 2])], "eval_return", band)
  np.testing.assert_array_equal(drawn.mean, [1, 2])
  assert np.isnan(drawn.low).all()
  assert np.isnan(drawn.high).all()


def test_the_interquartile_mean_leaves_out_a_quarter_at_both_ends():
  estimate = statistics.interquartile_mean(np.array([1000.0, 2, 3, 4, 5, 6, 7, -1000]))
  assert estimate.value == pytest.approx((3 + 4 + 5 + 6) / 4)
  assert estimate.low < 4.5 < estimate.high


def test_a_run_that_never_gets_there_counts_with_its_budget_and_two_of_them_are_a_tie():
  row = statistics.compare([100, math.inf], [200, math.inf], budget=250, method="sset")
  assert (row.method, row.runs, row.reached) == ("sset", 2, 1)
  assert row.mean == (100 + 250) / 2
  assert row.std == pytest.approx(((75**2 + 75**2) / 1) ** 0.5)
  assert row.difference is not None
  assert row.difference.value == 175 - 225
  # 100 against 200 and 250 wins twice, 250 against 200 loses, 250 against 250 is a tie.
  assert row.improvement is not None
  assert row.improvement.value == (1 + 1 + 0 + 0.5) / 4


def test_methods_that_never_overlap_are_surely_apart():
  row = statistics.compare([100, 110, 120, 130], [300, 320, 340, 360], budget=1000)
  assert row.improvement == statistics.Estimate(1.0, 1.0, 1.0)
  assert row.difference is not None
  assert row.difference.value == 115 - 330
  assert row.difference.low < -215 < row.difference.high < 0


def test_equal_methods_are_not_apart():
  steps = list(range(100, 400, 10))
  row = statistics.compare(steps, steps, budget=1000)
  assert row.improvement is not None
  assert row.improvement.value == 0.5
  assert row.improvement.low < 0.5 < row.improvement.high
  assert row.difference is not None
  assert row.difference.value == 0
  assert row.difference.low < 0 < row.difference.high


def test_the_interval_of_a_difference_is_about_that_of_normal_theory():
  rng = np.random.default_rng(7)
  ours, theirs = rng.normal(0, 3, 60), rng.normal(1, 1, 50)
  estimate = statistics.difference_of_means(ours, theirs)
  error = 1.96 * (ours.var(ddof=1) / 60 + theirs.var(ddof=1) / 50) ** 0.5
  assert estimate.value == pytest.approx(ours.mean() - theirs.mean())
  assert estimate.high - estimate.low == pytest.approx(2 * error, rel=0.1)


def test_the_reference_is_not_compared_with_itself_and_one_seed_has_no_interval():
  row = statistics.compare([100], None, budget=250)
  assert (row.difference, row.improvement) == (None, None)
  assert math.isnan(row.std)
  assert row.interquartile_mean.value == 100
  assert not row.interquartile_mean.has_interval


def test_the_same_results_give_the_same_numbers():
  steps, reference = [100, 150, 250], [200, 260, 300]
  assert statistics.compare(steps, reference, 400) == statistics.compare(steps, reference, 400)
