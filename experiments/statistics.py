"""The statistics of an experiment: rliable's measures (Agarwal et al. 2021), with intervals that hold for few seeds.

rliable's intervals are percentile bootstraps, which are too narrow for few seeds: of two methods that do not differ, they tell
19 % apart at the 5 % level with three seeds, and 11 % with five. So means have the intervals of t tests here, and the probability
of improvement has that of a rank test, whatever the number of seeds. docs/experiments.md has the levels that were simulated.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from rliable import metrics
from scipy import optimize, stats

from experiments.definition import Band, LateMeasure, Steps, Threshold
from experiments.jobs import RunResult

CONFIDENCE = 0.95
# The edges of a band of percentiles, as in ReF-ER's figures.
PERCENTILES = (20.0, 80.0)
# Of the interquartile mean's bootstrap, and the seeds from which on it misses the true value in less than 10 % of all cases.
_RESAMPLES = 2_000
_LEAST_BOOTSTRAPPED = 10

Array = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Estimate:
  """A number with its 95 % interval.

  Attributes:
    value: over all runs.
    low: the lower end of the interval; NaN if the runs allow none: there are too few, or they are all equal.
    high: the upper end, likewise.
  """

  value: float
  low: float = math.nan
  high: float = math.nan

  @property
  def has_interval(self) -> bool:
    """Whether the runs allowed an interval."""
    return math.isfinite(self.low) and math.isfinite(self.high)


@dataclasses.dataclass(frozen=True)
class Curve:
  """One method's curve over all of its seeds.

  Attributes:
    steps: [points], of the evaluations of which every seed has a value.
    mean: [points], over seeds.
    low: [points], the lower edge of the band.
    high: [points], the upper edge.
    runs: number of seeds.
  """

  steps: Array
  mean: Array
  low: Array
  high: Array
  runs: int


@dataclasses.dataclass(frozen=True)
class Comparison:
  """One method's steps to a threshold, and how they compare with the reference's.

  A run that did not reach the threshold counts with its budget, the least that it can have needed. A mean with such a run is
  a lower bound, and two such runs are a tie.

  Attributes:
    method: the method's name.
    runs: number of seeds.
    reached: number of seeds that reached the threshold.
    mean: steps to it.
    std: over seeds, with n - 1; NaN for one seed.
    interquartile_mean: of the steps, without the lowest and the highest quarter of the seeds.
    difference: of the means, method less reference; None for the reference itself and if there is no reference.
    improvement: probability that a run of the method takes fewer steps than one of the reference, where a tie counts one
      half; None likewise.
  """

  method: str
  runs: int
  reached: int
  mean: float
  std: float
  interquartile_mean: Estimate
  difference: Estimate | None
  improvement: Estimate | None


def steps_to(result: RunResult, threshold: Threshold, over: Steps = "gradient_steps") -> float:
  """Steps at the first evaluation that reaches the threshold; infinity if none does."""
  pairs = zip(result.column(over), result.column(threshold.curve), strict=True)
  return next((steps for steps, value in pairs if value >= threshold.at_least), math.inf)


def late_mean(result: RunResult, column: str) -> float:
  """The mean of a curve over the evaluations in the last quarter of a run's steps that have a value; NaN without any."""
  steps = result.column("gradient_steps")
  late = [value for step, value in zip(steps, result.column(column), strict=True) if step > 0.75 * steps[-1]]
  measured = [value for value in late if math.isfinite(value)]
  return float(np.mean(measured)) if measured else math.nan


def running_sum(result: RunResult, column: str) -> Array:
  """The sums of a curve over the evaluations so far, [evaluations]; one without a value adds nothing."""
  sums: Array = np.nancumsum(result.column(column))
  return sums


def running_mean(result: RunResult, column: str, window: int) -> Array:
  """The means of a curve over the last `window` evaluations up to each, [evaluations], of those that have a value."""
  values = np.asarray(result.column(column), np.float64)
  known = np.isfinite(values)

  def sums(addends: Array) -> Array:
    total = np.cumsum(addends)
    total[window:] -= total[:-window].copy()
    return total

  counts = sums(known.astype(np.float64))
  means: Array = np.where(counts > 0, sums(np.where(known, values, 0.0)) / np.maximum(counts, 1.0), np.nan)
  return means


def late_values(result: RunResult, measure: LateMeasure) -> Array:
  """A measure's values in a run's last evaluations; those without a value, and those that it leaves out, are not there."""
  steps, values = np.array(result.column("gradient_steps")), np.array(result.column(measure.curve))
  # Steps are whole numbers: half of one keeps the rounding of a part such as .2 from taking in one more evaluation.
  chosen = (steps > (1 - measure.part) * steps[-1] + 0.5) & np.isfinite(values)
  if measure.count is not None:
    chosen &= np.arange(len(steps)) >= len(steps) - measure.count
  if measure.given:
    chosen &= np.array(result.column(measure.given)) == 1
  return np.extract(chosen, values)


def mean_of(values: Sequence[float] | Array) -> Estimate:
  """The mean of values [n], with the interval of Student's t test; none if the values are all equal."""
  low, high = t_interval(np.asarray(values, np.float64))
  return Estimate(float(np.mean(values)), float(low), float(high))


def curve(
  results: Sequence[RunResult],
  column: str,
  band: Band,
  over: Steps = "gradient_steps",
  values_of: Callable[[RunResult, str], Iterable[float]] = RunResult.column,
) -> Curve:
  """One method's curve: the mean over its seeds, and a band around it.

  Args:
    results: one for each seed, at least one.
    column: name of the curve's column.
    band: "std", the standard deviation over seeds, "interval", the 95 % interval of the mean at each point, or "percentiles",
      from the 20th to the 80th percentile of the seeds.
    over: the column of the steps.
    values_of: gives a run's values of a column, [evaluations]: those themselves, or sums or means of them.
  """
  pairs = [zip(result.column(over), values_of(result, column), strict=True) for result in results]
  runs = [{step: value for step, value in points if math.isfinite(value)} for points in pairs]
  steps = sorted(set.intersection(*(set(run) for run in runs)))
  values = np.array([[run[step] for step in steps] for run in runs])
  mean = values.mean(axis=0)
  low, high = _band(values, band)
  return Curve(np.array(steps), mean, low, high, len(runs))


def compare(steps: Sequence[float], reference: Sequence[float] | None, budget: int, method: str = "") -> Comparison:
  """One method's steps to a threshold against the reference's.

  Args:
    steps: of every seed; infinity if it did not reach the threshold.
    reference: of every seed of the reference; None for the reference itself.
    budget: steps of a run.
    method: the method's name.
  """
  ours = np.minimum(np.asarray(steps, np.float64), budget)
  theirs = None if reference is None else np.minimum(np.asarray(reference, np.float64), budget)
  return Comparison(
    method=method,
    runs=len(ours),
    reached=int(np.isfinite(steps).sum()),
    mean=float(ours.mean()),
    std=float(ours.std(ddof=1)) if len(ours) > 1 else math.nan,
    interquartile_mean=interquartile_mean(ours),
    difference=None if theirs is None else difference_of_means(ours, theirs),
    improvement=None if theirs is None else probability_of_fewer(ours, theirs),
  )


def interquartile_mean(values: Array) -> Estimate:
  """The mean without the lowest and the highest quarter of values [n], with a percentile bootstrap's interval from ten values on.

  Neither that bootstrap nor a t interval from winsorised values holds with fewer values: both miss up to 15 % with five.
  """
  value = float(metrics.aggregate_iqm(values[:, None]))
  if len(values) < _LEAST_BOOTSTRAPPED:
    return Estimate(value)
  # scipy's, because rliable's draws from numpy's global generator, so that the same results would give other numbers each time.
  interval = stats.bootstrap(
    (values,),
    lambda resamples, axis: stats.trim_mean(resamples, 0.25, axis=axis),
    n_resamples=_RESAMPLES,
    vectorized=True,
    confidence_level=CONFIDENCE,
    method="percentile",
    random_state=np.random.default_rng(0),
  ).confidence_interval
  # Where most values are equal, such as budgets, every resample has the same interquartile mean.
  return Estimate(value, float(interval.low), float(interval.high)) if interval.low < interval.high else Estimate(value)


def difference_of_means(ours: Array, theirs: Array) -> Estimate:
  """mean(ours [n]) - mean(theirs [m]), with the interval of Welch's t test.

  There is no interval if all values of one side are equal, such as the budgets of runs that did not get there. Welch's
  test would take that side's mean for exactly known.
  """
  low, high = welch_interval(ours, theirs)
  return Estimate(float(ours.mean() - theirs.mean()), float(low), float(high))


def t_interval(values: Array) -> tuple[Array, Array]:
  """The edges [...] of the interval of the mean of values [runs, ...]; NaN for one run and where all runs are equal."""
  mean = values.mean(axis=0)
  if len(values) < 2:
    return np.full_like(mean, np.nan), np.full_like(mean, np.nan)
  error = np.where(_all_equal(values), np.nan, stats.sem(values, axis=0))
  low, high = stats.t.interval(CONFIDENCE, len(values) - 1, loc=mean, scale=error)
  return low, high


def welch_interval(ours: Array, theirs: Array) -> tuple[Array, Array]:
  """The edges [...] of `difference_of_means` of ours [n, ...] and theirs [m, ...]; NaN where there is no interval."""
  equal = _all_equal(ours) | _all_equal(theirs)  # A NaN among the values makes their interval NaN.
  interval = stats.ttest_ind(np.where(equal, np.nan, ours), theirs, equal_var=False).confidence_interval(CONFIDENCE)
  return interval.low, interval.high


def probability_of_fewer(ours: Array, theirs: Array) -> Estimate:
  """P(X < Y) + P(X = Y) / 2 for X of ours [n] and Y of theirs [m]: rliable's probability of improvement.

  The interval is Newcombe's fifth (Statistics in Medicine 25, 2006, pages 559 to 573) with a correction for continuity. It is to
  Mann and Whitney's test what Wilson's interval is to that of a share. So it has an extent also where the methods do not overlap.
  """
  # For rliable more is better, for us fewer steps are.
  value = float(metrics.probability_of_improvement(-ours[:, None], -theirs[:, None]))
  sizes = len(ours), len(theirs)
  if min(sizes) < 2:
    return Estimate(value)
  return Estimate(value, _least_probability(value, *sizes), 1 - _least_probability(1 - value, *sizes))


def _least_probability(observed: float, n: int, m: int) -> float:
  """The least P(X < Y) from which the observed one of n and m values does not differ significantly."""
  # Half of a pair, as the share of n * m pairs is a multiple of it: without it three seeds differ in 10 % of all cases.
  corrected = observed - 0.5 / (n * m)
  if corrected <= 0:
    return 0.0
  quantile = stats.norm.ppf((1 + CONFIDENCE) / 2)

  def excess(p: float) -> float:
    # At p = 1/2 this is the variance of Mann and Whitney's test, (n + m + 1) / (12 n m).
    variance = p * (1 - p) * (1 + ((n + m) / 2 - 1) * ((1 - p) / (2 - p) + p / (1 + p))) / (n * m)
    return float((corrected - p) ** 2 - quantile**2 * variance)

  return float(optimize.brentq(excess, 0, corrected))


def _all_equal(values: Array) -> npt.NDArray[np.bool_]:
  """Whether values [runs, ...] are equal over runs, [...], but for rounding: results have six digits."""
  return np.asarray(np.ptp(values, axis=0) <= 1e-9 * np.abs(values).max(axis=0))


def _band(values: Array, band: Band) -> tuple[Array, Array]:
  """The edges [points] of the band around the mean of values [runs, points]; NaN for one run."""
  if band == "interval" or len(values) < 2:
    return t_interval(values)
  if band == "percentiles":
    low, high = np.percentile(values, PERCENTILES, axis=0)
    return low, high
  mean, std = values.mean(axis=0), values.std(axis=0, ddof=1)
  return mean - std, mean + std
