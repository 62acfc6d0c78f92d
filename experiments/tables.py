"""The tables of an experiment: gradient steps to its thresholds, and means over the last quarter of the budget."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from experiments import statistics
from experiments.curves import Results
from experiments.definition import Budget, Experiment, Method, Threshold
from experiments.jobs import RunResult
from experiments.statistics import Array, Comparison, Estimate


def compare_all(experiment: Experiment, threshold: Threshold, results: Results, budget: Budget) -> list[Comparison]:
  """Compares every method that has runs with the reference, if that has runs."""
  steps = {method: [statistics.steps_to(run, threshold) for run in runs] for method, runs in results.items() if runs}
  reference = steps.get(experiment.reference)
  return [
    statistics.compare(values, None if method == experiment.reference else reference, budget.gradient_steps, method)
    for method, values in steps.items()
  ]


def summary_markdown(
  experiment: Experiment, methods: Sequence[Method], results: Results, budget: Budget, command: str
) -> str:
  """The tables of all thresholds and of the last quarter of the budget, and what their columns mean."""
  labels = {method.name: method.label for method in methods}
  lines = [f"# {experiment.name}", "", f"{experiment.summary[0].upper()}{experiment.summary[1:]}.", ""]
  lines += [f"    {command}", ""]
  for threshold in experiment.thresholds:
    comparisons = compare_all(experiment, threshold, results, budget)
    lines += [f"## Gradient steps to {threshold.text}", "", *_table(experiment, comparisons, labels), ""]
  lines += [
    f"A run that did not get there counts with its budget of {budget.gradient_steps:,} gradient steps, so its mean is a lower "
    "bound and two such runs are a tie. The interquartile mean leaves out the lowest and the highest quarter of the seeds. The "
    f"probability of improvement is that of a run with fewer steps than one of `{experiment.reference}`.",
    "",
    "Brackets hold 95 % intervals: Welch's t for the difference of means, Newcombe's (of Mann and Whitney's test) for the "
    "probability of improvement, and from ten seeds on a percentile bootstrap for the interquartile mean. There is no bracket "
    "where the runs are too few, or where those of one method are all equal, which does not show how far they differ.",
    "",
    "## Over the last quarter of the budget",
    "",
    *_late_table(experiment, results, labels),
    "",
    "Means over seeds of each run's mean, with 95 % intervals by Student's t; none where all runs are equal.",
    "",
  ]
  if results.get(experiment.reference) and sum(map(bool, results.values())) > 1:
    lines += [
      *_late_differences(experiment, results, labels),
      "",
      "Differences of these means, with 95 % intervals by Welch's t; none where the runs of one method are all equal.",
      "",
    ]
  return "\n".join(lines)


def _table(experiment: Experiment, comparisons: Sequence[Comparison], labels: Mapping[str, str]) -> list[str]:
  reference = experiment.reference
  lines = [
    f"| method | reached | mean ± std | interquartile mean | mean less `{reference}`'s | probability of improvement |",
    "| --- | --- | --- | --- | --- | --- |",
  ]
  for row in comparisons:
    cells = (
      labels.get(row.method, row.method),
      f"{row.reached} of {row.runs}",
      f"{row.mean:,.0f} ± {row.std:,.0f}" if math.isfinite(row.std) else f"{row.mean:,.0f}",
      _cell(row.interquartile_mean, ",.0f"),
      _cell(row.difference, "+,.0f"),
      _cell(row.improvement, ".2f"),
    )
    lines.append(f"| {' | '.join(cells)} |")
  return lines


def _late_table(experiment: Experiment, results: Results, labels: Mapping[str, str]) -> list[str]:
  lines = _late_head(experiment, "method")
  for method, runs in results.items():
    if runs:
      means = [statistics.mean_of(_late_means(runs, curve)) for curve in _curves(experiment)]
      lines.append(f"| {' | '.join((labels.get(method, method), *(_cell(mean, ',.2f') for mean in means)))} |")
  return lines


def _late_differences(experiment: Experiment, results: Results, labels: Mapping[str, str]) -> list[str]:
  lines = _late_head(experiment, f"less `{experiment.reference}`'s")
  reference = results[experiment.reference]
  for method, runs in results.items():
    if runs and method != experiment.reference:
      differences = [
        statistics.difference_of_means(_late_means(runs, curve), _late_means(reference, curve))
        for curve in _curves(experiment)
      ]
      lines.append(f"| {' | '.join((labels.get(method, method), *(_cell(mean, '+,.2f') for mean in differences)))} |")
  return lines


def _late_head(experiment: Experiment, first: str) -> list[str]:
  curves = _curves(experiment)
  return [f"| {' | '.join((first, *(f'`{curve}`' for curve in curves)))} |", f"|{' --- |' * (1 + len(curves))}"]


def _late_means(runs: Sequence[RunResult], curve: str) -> Array:
  return np.array([statistics.late_mean(run, curve) for run in runs])


def _curves(experiment: Experiment) -> list[str]:
  return list(dict.fromkeys(panel.curve for panel in experiment.panels))


def _cell(estimate: Estimate | None, form: str) -> str:
  if estimate is None:
    return "-"
  value = format(estimate.value, form)
  return f"{value} [{estimate.low:{form}}, {estimate.high:{form}}]" if estimate.has_interval else value
