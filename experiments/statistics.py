"""The statistics of an experiment: scipy's bootstrap, and rliable's measures (Agarwal et al. 2021).

rliable's own bootstrap uses numpy's global generator whatever seed it is given. The intervals are scipy's instead, with the same
percentile method, so that the same results always give the same numbers.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from rliable import metrics
from scipy import stats

from experiments.definition import Band, Threshold
from experiments.jobs import RunResult

CONFIDENCE = 0.95
_RESAMPLES = 10_000
# For statistics that scipy cannot vectorise over resamples, and for curves, which have a hundred points.
_FEWER_RESAMPLES = 2_000

Array = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Estimate:
  """A number with its 95 % bootstrap interval.

  Attributes:
    value: over all runs.
    low: the lower end of the interval; NaN if there are too few runs for one.
    high: the upper end, likewise.
  """

  value: float
  low: float = math.nan
  high: float = math.nan

  @property
  def has_interval(self) -> bool:
    """Whether there were enough runs for an interval."""
    return math.isfinite(self.low) and math.isfinite(self.high)


@dataclasses.dataclass(frozen=True)
class Curve:
  """One method's curve over all of its seeds.

  Attributes:
    gradient_steps: [points], of the evaluations that every seed has.
    mean: [points], over seeds.
    low: [points], the lower edge of the band.
    high: [points], the upper edge.
    runs: number of seeds.
  """

  gradient_steps: Array
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
    mean: gradient steps to it.
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


def steps_to(result: RunResult, threshold: Threshold) -> float:
  """Gradient steps at the first evaluation that reaches the threshold; infinity if none does."""
  pairs = zip(result.column("gradient_steps"), result.column(threshold.curve), strict=True)
  return next((steps for steps, value in pairs if value >= threshold.at_least), math.inf)


def late_mean(result: RunResult, column: str) -> float:
  """The mean of a curve over the evaluations in the last quarter of a run's gradient steps."""
  steps = result.column("gradient_steps")
  return float(np.mean([v for s, v in zip(steps, result.column(column), strict=True) if s > 0.75 * steps[-1]]))


def mean_of(values: Sequence[float]) -> Estimate:
  """The mean of values [n]."""
  return _estimate((np.asarray(values, np.float64),), np.mean, _RESAMPLES, vectorized=True)


def curve(results: Sequence[RunResult], column: str, band: Band) -> Curve:
  """One method's curve: the mean over its seeds, and a band around it.

  Args:
    results: one for each seed, at least one.
    column: name of the curve's column.
    band: "std", the standard deviation over seeds, or "bootstrap", a 95 % interval of the mean at each point.
  """
  runs = [dict(zip(result.column("gradient_steps"), result.column(column), strict=True)) for result in results]
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
    budget: gradient steps of a run.
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
  """The mean without the lowest and the highest quarter of values [n]."""
  return _estimate((values,), lambda x: float(metrics.aggregate_iqm(x[:, None])), _FEWER_RESAMPLES)


def difference_of_means(ours: Array, theirs: Array) -> Estimate:
  """mean(ours [n]) - mean(theirs [m])."""

  def difference(x: Array, y: Array, axis: int = -1) -> Any:
    return np.mean(x, axis=axis) - np.mean(y, axis=axis)

  return _estimate((ours, theirs), difference, _RESAMPLES, vectorized=True)


def probability_of_fewer(ours: Array, theirs: Array) -> Estimate:
  """P(X < Y) + P(X = Y) / 2 for X of ours [n] and Y of theirs [m]: rliable's probability of improvement."""

  def probability(x: Array, y: Array) -> float:
    # For rliable more is better, for us fewer steps are.
    return float(metrics.probability_of_improvement(-x[:, None], -y[:, None]))

  return _estimate((ours, theirs), probability, _FEWER_RESAMPLES)


def _estimate(
  samples: tuple[Array, ...], statistic: Callable[..., Any], resamples: int, vectorized: bool = False
) -> Estimate:
  value = float(statistic(*samples))
  if min(map(len, samples)) < 2:
    return Estimate(value)
  interval = stats.bootstrap(
    samples,
    statistic,
    n_resamples=resamples,
    vectorized=vectorized,
    confidence_level=CONFIDENCE,
    method="percentile",
    random_state=np.random.default_rng(0),
  ).confidence_interval
  return Estimate(value, float(interval.low), float(interval.high))


def _band(values: Array, band: Band) -> tuple[Array, Array]:
  """The edges [points] of the band around the mean of values [runs, points]; NaN for one run."""
  if len(values) < 2:
    nothing = np.full(values.shape[1], np.nan)
    return nothing, nothing
  if band == "std":
    mean, std = values.mean(axis=0), values.std(axis=0, ddof=1)
    return mean - std, mean + std
  interval = stats.bootstrap(
    (values,),
    np.mean,
    n_resamples=_FEWER_RESAMPLES,
    batch=100,
    vectorized=True,
    axis=0,
    confidence_level=CONFIDENCE,
    method="percentile",
    random_state=np.random.default_rng(0),
  ).confidence_interval
  return interval.low, interval.high
