"""The statistics on arrays whose answers are worked out by hand."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments import statistics
from experiments.definition import LateMeasure, Threshold
from tests.experiments.tiny import make_columns, make_result

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


def test_a_curve_and_a_late_mean_leave_out_evaluations_without_a_value():
  one, two = make_result([1, 2, 3, math.nan]), make_result([3, math.nan, 5, 6])
  drawn = statistics.curve([one, two], "eval_return", "std")
  assert list(drawn.steps) == [100, 300]
  assert list(drawn.mean) == [2, 4]
  assert math.isnan(statistics.late_mean(one, "eval_return"))
  assert statistics.late_mean(two, "eval_return") == 6
  assert len(statistics.curve([make_result([math.nan])] * 2, "eval_return", "interval").mean) == 0


def test_steps_are_those_that_the_experiment_counts():
  run = make_columns({"environment_steps": [30, 50, 70], "eval_return": [1, 2, 3]})
  assert list(statistics.curve([run], "eval_return", "std", over="environment_steps").steps) == [30, 50, 70]
  assert statistics.steps_to(run, Threshold("eval_return", 2, "two"), "environment_steps") == 50


def test_a_cumulative_curve_is_that_of_the_sums_over_the_evaluations_so_far():
  one, two = make_columns({"won": [0, 1, math.nan, 1]}), make_columns({"won": [1, 1, 1, 1]})
  np.testing.assert_array_equal(statistics.running_sum(one, "won"), [0, 1, 1, 2])
  drawn = statistics.curve([one, two], "won", "std", values_of=statistics.running_sum)
  np.testing.assert_array_equal(drawn.steps, [100, 200, 300, 400])
  np.testing.assert_array_equal(drawn.mean, [0.5, 1.5, 2, 3])


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=1, max_size=30))
def test_running_sums_end_at_the_sum_and_never_lack_a_value(values):
  sums = statistics.running_sum(make_columns({"off_course": values}), "off_course")
  assert len(sums) == len(values)
  assert sums[-1] == pytest.approx(sum(value for value in values if not math.isnan(value)), abs=1e-3)


def test_late_values_are_those_of_the_last_part_without_what_is_left_out():
  margins = [9.0, 9, 9, 9, 9, 9, 9, 9, -5, 12]
  won = [1.0, 1, 1, 1, 1, 1, 1, 1, 0, 1]
  run = make_columns({"margin": margins, "won": won})
  late = LateMeasure("margin", "margin", "margin", part=0.2)
  np.testing.assert_array_equal(statistics.late_values(run, late), [-5, 12])
  np.testing.assert_array_equal(statistics.late_values(run, dataclasses.replace(late, given="won")), [12])
  np.testing.assert_array_equal(statistics.late_values(run, dataclasses.replace(late, part=0.5)), [9, 9, 9, -5, 12])
  np.testing.assert_array_equal(statistics.late_values(run, dataclasses.replace(late, part=1.0)), margins)
  last_four = LateMeasure("margin", "margin", "margin", count=4)
  np.testing.assert_array_equal(statistics.late_values(run, last_four), [9, 9, -5, 12])
  np.testing.assert_array_equal(statistics.late_values(run, dataclasses.replace(last_four, given="won")), [9, 9, 12])
  assert (last_four.span, late.span) == ("last 4 evaluations", "last 20%")


def test_a_run_that_never_won_has_no_late_values():
  run = make_columns({"margin": [-3.0, -2], "won": [0.0, 0.0]})
  assert len(statistics.late_values(run, LateMeasure("margin", "", "", 1.0, given="won"))) == 0
  # A world may leave a measure out, such as the best lap of an episode without a whole one.
  run = make_columns({"lap": [math.nan, 124, math.nan]})
  np.testing.assert_array_equal(statistics.late_values(run, LateMeasure("lap", "", "", 1.0)), [124])


@given(st.integers(1, 300))
def test_the_last_fifth_and_half_of_equal_steps_have_as_many_evaluations_as_they_should(count):
  run = make_columns({"won": [1.0] * count})
  assert len(statistics.late_values(run, LateMeasure("won", "", "", 0.2))) == -(-count // 5)
  assert len(statistics.late_values(run, LateMeasure("won", "", "", 0.5))) == -(-count // 2)


def test_the_interval_of_a_mean_is_students():
  estimate = statistics.mean_of([1, 2, 3, 4, 5])
  # The standard error is sqrt(2.5 / 5), and t is 2.776 with four degrees of freedom.
  assert estimate.value == 3
  assert estimate.low == pytest.approx(3 - 2.776 * 0.5**0.5, abs=1e-3)
  assert estimate.high == pytest.approx(3 + 2.776 * 0.5**0.5, abs=1e-3)
  assert not statistics.mean_of([1.0]).has_interval


@given(st.floats(-1e6, 1e6), st.integers(1, 40))
def test_equal_values_do_not_show_how_far_runs_differ(value, runs):
  assert not statistics.mean_of([value] * runs).has_interval
  drawn = statistics.curve([make_result([value])] * runs, "eval_return", "interval")
  assert np.isnan([drawn.low, drawn.high]).all()


def test_values_that_differ_by_rounding_alone_are_equal():
  values = np.array([0.1 + 0.2, 0.3, 0.3])
  assert not statistics.mean_of(values).has_interval
  assert not statistics.difference_of_means(values, np.array([1.0, 2, 3])).has_interval


def test_a_curve_is_the_mean_over_seeds_at_the_evaluations_that_all_of_them_have():
  drawn = statistics.curve([make_result([0, 2, 9]), make_result([4, 8])], "eval_return", "std")
  np.testing.assert_array_equal(drawn.steps, [100, 200])
  np.testing.assert_array_equal(drawn.mean, [2, 5])
  # sqrt(((0 - 2)^2 + (4 - 2)^2) / 1) and sqrt((3^2 + 3^2) / 1)
  np.testing.assert_allclose(drawn.high - drawn.mean, [8**0.5, 18**0.5])
  np.testing.assert_allclose(drawn.mean - drawn.low, [8**0.5, 18**0.5])
  assert drawn.runs == 2


def test_a_running_mean_by_hand_leaves_out_what_has_no_value():
  run = make_result([1, 2, 6, math.nan, 4])
  assert statistics.running_mean(run, "eval_return", 1)[[0, 2, 4]].tolist() == [1, 6, 4]
  assert statistics.running_mean(run, "eval_return", 2).tolist() == [1, 1.5, 4, 6, 4]
  assert statistics.running_mean(run, "eval_return", 9).tolist() == [1, 1.5, 3, 3, 3.25]
  assert math.isnan(statistics.running_mean(make_result([math.nan]), "eval_return", 2)[0])


def test_a_band_is_the_interval_of_the_mean_and_nothing_where_all_seeds_agree():
  values = [5.0, 9, 4, 6]
  drawn = statistics.curve([make_result([value, 7]) for value in values], "eval_return", "interval")
  mean = statistics.mean_of(values)
  assert (drawn.low[0], drawn.mean[0], drawn.high[0]) == (mean.low, mean.value, mean.high)
  assert drawn.mean[1] == 7
  assert np.isnan([drawn.low[1], drawn.high[1]]).all()


def test_a_band_of_percentiles_by_hand():
  drawn = statistics.curve([make_result([value]) for value in (0, 1, 2, 3, 10)], "eval_return", "percentiles")
  # Of five values the 20th and the 80th percentile lie .8 of the way from the first to the second, and .2 from the fourth on.
  np.testing.assert_allclose([drawn.low[0], drawn.mean[0], drawn.high[0]], [0.8, 3.2, 4.4])


@pytest.mark.parametrize("band", ["std", "interval", "percentiles"])
def test_one_seed_has_a_curve_and_no_band(band):
  drawn = statistics.curve([make_result([1, 2])], "eval_return", band)
  np.testing.assert_array_equal(drawn.mean, [1, 2])
  assert np.isnan(drawn.low).all()
  assert np.isnan(drawn.high).all()


def test_the_interquartile_mean_leaves_out_a_quarter_at_both_ends():
  estimate = statistics.interquartile_mean(np.array([1000.0, 2, 3, 4, 5, 6, 7, -1000]))
  assert estimate.value == pytest.approx((3 + 4 + 5 + 6) / 4)


def test_the_interquartile_mean_has_an_interval_from_ten_runs_on_unless_most_are_equal():
  values = np.arange(10.0)
  assert not statistics.interquartile_mean(values[:9]).has_interval
  estimate = statistics.interquartile_mean(values)
  assert estimate.low < estimate.value == 4.5 < estimate.high
  assert not statistics.interquartile_mean(np.array([3.0] + [8] * 29)).has_interval


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


def test_methods_that_never_overlap_are_apart_but_not_beyond_doubt():
  row = statistics.compare([100, 110, 120, 130], [300, 320, 340, 360], budget=1000)
  assert row.improvement is not None
  assert (row.improvement.value, row.improvement.high) == (1, 1)
  assert 0.5 < row.improvement.low < 0.6
  assert row.difference is not None
  assert row.difference.value == 115 - 330
  assert row.difference.low < -215 < row.difference.high < 0


def test_where_no_run_gets_there_only_the_probability_has_an_interval():
  row = statistics.compare([100, 110, 120], [math.inf] * 3, budget=1000)
  assert row.difference is not None
  assert (row.difference.value, row.difference.has_interval) == (110 - 1000, False)
  assert row.improvement is not None
  assert (row.improvement.value, row.improvement.low < 0.5) == (1, True)
  neither = statistics.compare([math.inf] * 3, [math.inf] * 3, budget=1000)
  assert neither.difference is not None
  assert (neither.difference.value, neither.difference.has_interval) == (0, False)
  assert neither.improvement is not None
  assert neither.improvement.low < neither.improvement.value == 0.5 < neither.improvement.high


def test_equal_methods_are_not_apart():
  steps = list(range(100, 400, 10))
  row = statistics.compare(steps, steps, budget=1000)
  assert row.improvement is not None
  assert row.improvement.value == 0.5
  assert row.improvement.low < 0.5 < row.improvement.high
  assert row.difference is not None
  assert row.difference.value == 0
  assert row.difference.low < 0 < row.difference.high


def test_the_interval_of_a_difference_is_welchs():
  estimate = statistics.difference_of_means(np.array([1.0, 2, 3]), np.array([4.0, 6, 8]))
  # Variances of 1 and 4: that of the difference is 1/3 + 4/3, with (5/3)^2 / ((1/3)^2/2 + (4/3)^2/2) degrees of freedom.
  error = stats.t.ppf(0.975, (25 / 9) / (17 / 18)) * (5 / 3) ** 0.5
  assert estimate.value == -4
  assert estimate.low == pytest.approx(-4 - error)
  assert estimate.high == pytest.approx(-4 + error)


@given(st.permutations(range(10)), st.integers(2, 8))
def test_a_probability_of_improvement_differs_from_a_half_where_mann_and_whitneys_test_says_so(values, runs):
  ours, theirs = np.array(values[:runs], float), np.array(values[runs:], float)
  estimate = statistics.probability_of_fewer(ours, theirs)
  differs = stats.mannwhitneyu(ours, theirs, method="asymptotic").pvalue < 0.05
  assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
  assert (estimate.low > 0.5 or estimate.high < 0.5) == differs
  other = statistics.probability_of_fewer(theirs, ours)
  assert (1 - other.high, 1 - other.low) == pytest.approx((estimate.low, estimate.high))


def test_the_reference_is_not_compared_with_itself_and_one_seed_has_no_interval():
  row = statistics.compare([100], None, budget=250)
  assert (row.difference, row.improvement) == (None, None)
  assert math.isnan(row.std)
  assert row.interquartile_mean.value == 100
  assert not row.interquartile_mean.has_interval


def test_the_same_results_give_the_same_numbers():
  steps, reference = [100, 150, 250], [200, 260, 300]
  assert statistics.compare(steps, reference, 400) == statistics.compare(steps, reference, 400)
