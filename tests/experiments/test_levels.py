"""The level of the intervals: how often two methods that do not differ are told apart, simulated on values like the results'."""

import functools
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from experiments import statistics
from experiments.statistics import Array

SEEDS = (3, 5, 9, 10, 30)
PAIRS = 400
# Of 400 pairs .05 is expected, with a standard error of .011.
LIMIT = 0.08

Draw = Callable[[np.random.Generator, tuple[int, int]], Array]


def _normal(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
  """As the returns of HalfCheetah."""
  return rng.normal(4_500, 300, shape)


def _skewed(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
  """As the sums of learned values, of which one in thirty explodes."""
  return rng.lognormal(6, 1.5, shape)


def _stepped(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
  """As uniform replay's steps in three rooms: multiples of the evaluation period, a tenth of them tied at the budget."""
  steps: Array = 320 * np.ceil(rng.normal(14_500, 3_700, shape) / 320)
  return np.minimum(steps, 19_200)


def _tied(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
  """As the steps in the obstacle course, where three runs of ten get there: of five, all or all but one are often equal."""
  return np.where(rng.random(shape) < 0.3, 1_600 * rng.integers(13, 40, shape), 64_000)


def _two_peaked(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
  """As the returns of late evaluations in the rooms, most of which are either nearly all good or nearly all bad."""
  return -50 * rng.beta(0.4, 0.8, shape)


KINDS: dict[str, Draw] = {
  "normal": _normal,
  "skewed": _skewed,
  "stepped": _stepped,
  "tied": _tied,
  "two-peaked": _two_peaked,
}


@functools.cache
def _pairs(kind: str, seeds: int) -> tuple[Array, Array]:
  rng = np.random.default_rng([seeds, sorted(KINDS).index(kind)])
  return KINDS[kind](rng, (PAIRS, seeds)), KINDS[kind](rng, (PAIRS, seeds))


def _level(low: Array, high: Array, same: float) -> float:
  """The share of intervals, from low [pairs] to high [pairs], that do not contain the value of methods that are the same."""
  return float(np.mean((low > same) | (high < same)))


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_difference_is_claimed_of_methods_that_do_not_differ_in_one_case_of_twenty(kind: str, seeds: int) -> None:
  ours, theirs = _pairs(kind, seeds)
  assert _level(*statistics.welch_interval(ours.T, theirs.T), same=0) <= LIMIT


# It depends on ranks alone, and so not on the distribution of values that are all different.
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("kind", ["normal", "stepped", "tied"])
def test_an_improvement_is_claimed_of_methods_that_do_not_differ_in_one_case_of_twenty(kind: str, seeds: int) -> None:
  estimates = [statistics.probability_of_fewer(x, y) for x, y in zip(*_pairs(kind, seeds), strict=True)]
  low, high = np.array([(estimate.low, estimate.high) for estimate in estimates]).T
  assert _level(low, high, same=0.5) <= LIMIT


@pytest.mark.parametrize("seeds", [3, 5, 9])
def test_a_percentile_bootstrap_exceeds_that_limit_with_fewer_than_ten_seeds(seeds: int) -> None:
  levels = []
  for kind in KINDS:
    interval = stats.bootstrap(
      _pairs(kind, seeds),
      lambda ours, theirs, axis: ours.mean(axis=axis) - theirs.mean(axis=axis),
      n_resamples=500,
      axis=-1,
      vectorized=True,
      method="percentile",
      random_state=np.random.default_rng(0),
    ).confidence_interval
    levels.append(_level(interval.low, interval.high, same=0))
  assert max(levels) > LIMIT


@pytest.mark.parametrize("seeds", [3, 5, 9])
def test_a_difference_of_five_standard_deviations_is_mostly_seen(seeds: int) -> None:
  ours, theirs = _pairs("normal", seeds)
  _, high = statistics.welch_interval(ours.T, theirs.T + 1_500)
  assert np.mean(high < 0) > 0.8


def test_a_probability_of_improvement_is_covered_where_methods_differ_in_place_and_spread() -> None:
  rng = np.random.default_rng(1)
  ours, theirs = rng.normal(size=(PAIRS, 5)), rng.normal(1, 3, (PAIRS, 5))
  true = stats.norm.cdf(1 / 10**0.5)
  estimates = [statistics.probability_of_fewer(x, y) for x, y in zip(ours, theirs, strict=True)]
  assert np.mean([estimate.low <= true <= estimate.high for estimate in estimates]) > 1 - LIMIT


@pytest.mark.parametrize("seeds", SEEDS)
def test_a_mean_of_normal_values_is_missed_in_one_case_of_twenty(seeds: int) -> None:
  (values, _) = _pairs("normal", seeds)
  assert _level(*statistics.t_interval(values.T), same=4_500) <= LIMIT
