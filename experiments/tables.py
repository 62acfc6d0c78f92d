"""The tables of an experiment: steps to its thresholds, and means over the last quarter of the budget."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from experiments import statistics
from experiments.curves import Results
from experiments.definition import Budget, Experiment, LateMeasure, Method, Threshold
from experiments.jobs import RunResult
from experiments.statistics import Array, Comparison, Estimate


def compare_all(experiment: Experiment, threshold: Threshold, results: Results, budget: Budget) -> list[Comparison]:
  """Compares every method that has runs with the reference, if that has runs."""
  steps = {
    method: [statistics.steps_to(run, threshold, experiment.over) for run in runs]
    for method, runs in results.items()
    if runs
  }
  reference = steps.get(experiment.reference)
  return [
    statistics.compare(values, None if method == experiment.reference else reference, budget.steps, method)
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
    lines += [
      f"## {experiment.steps_in_words.capitalize()} to {threshold.text}",
      "",
      *_table(experiment, comparisons, labels),
      "",
    ]
  if experiment.thresholds:
    lines += [
      f"A run that did not get there counts with its budget of {budget.steps:,} {experiment.steps_in_words}, so its mean is a "
      "lower bound and two such runs are a tie. The interquartile mean leaves out the lowest and the highest quarter of the "
      f"seeds. The probability of improvement is that of a run with fewer steps than one of `{experiment.reference}`.",
      "",
      "Brackets hold 95 % intervals: Welch's t for the difference of means, Newcombe's (of Mann and Whitney's test) for the "
      "probability of improvement, and from ten seeds on a percentile bootstrap for the interquartile mean. There is no bracket "
      "where the runs are too few, or where those of one method are all equal, which does not show how far they differ.",
      "",
    ]
  if _curves(experiment):
    lines += [
      "## Over the last quarter of the budget",
      "",
      *_late_table(experiment, results, labels),
      "",
      "Means over seeds of each run's mean, with 95 % intervals by Student's t; none where all runs are equal.",
      "",
    ]
  if _curves(experiment) and results.get(experiment.reference) and sum(map(bool, results.values())) > 1:
    lines += [
      *_late_differences(experiment, results, labels),
      "",
      "Differences of these means, with 95 % intervals by Welch's t; none where the runs of one method are all equal.",
      "",
    ]
  if _run_columns(experiment):
    lines += [
      "## Run by run",
      "",
      *_run_table(experiment, results, labels),
      "",
      "Each cell has the mean over seeds with its 95 % interval by Student's t, and then every seed's own value: a sum over all "
      "evaluations, or a mean over the last ones that count. A dash is a run where none counts.",
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
      values = [_late_means(runs, curve) for curve in _curves(experiment)]
      means = [statistics.mean_of(late) if len(late) else None for late in values]
      lines.append(f"| {' | '.join((labels.get(method, method), *(_cell(mean, ',.2f') for mean in means)))} |")
  return lines


def _late_differences(experiment: Experiment, results: Results, labels: Mapping[str, str]) -> list[str]:
  lines = _late_head(experiment, f"less `{experiment.reference}`'s")
  reference = results[experiment.reference]
  for method, runs in results.items():
    if runs and method != experiment.reference:
      pairs = [(_late_means(runs, curve), _late_means(reference, curve)) for curve in _curves(experiment)]
      differences = [
        statistics.difference_of_means(ours, theirs) if len(ours) and len(theirs) else None for ours, theirs in pairs
      ]
      lines.append(f"| {' | '.join((labels.get(method, method), *(_cell(mean, '+,.2f') for mean in differences)))} |")
  return lines


def _late_head(experiment: Experiment, first: str) -> list[str]:
  curves = _curves(experiment)
  return [f"| {' | '.join((first, *(f'`{curve}`' for curve in curves)))} |", f"|{' --- |' * (1 + len(curves))}"]


def _late_means(runs: Sequence[RunResult], curve: str) -> Array:
  """Of those runs that have a value in the last quarter."""
  means: Array = np.array([statistics.late_mean(run, curve) for run in runs])
  return np.extract(np.isfinite(means), means)


def _curves(experiment: Experiment) -> list[str]:
  return list(dict.fromkeys(panel.curve for panel in experiment.panels))


def _run_columns(experiment: Experiment) -> dict[str, Callable[[RunResult], float]]:
  """Head -> a run's value: the sums that panels show, and the late measures."""
  columns: dict[str, Callable[[RunResult], float]] = {}
  for panel in experiment.panels:
    if panel.cumulative:
      columns[f"sum of `{panel.curve}`"] = functools.partial(_total, column=panel.curve)
  for measure in experiment.late:
    columns[f"{measure.text}, {measure.span}"] = functools.partial(_late_value, measure=measure)
  return columns


def _total(run: RunResult, column: str) -> float:
  return float(statistics.running_sum(run, column)[-1])


def _late_value(run: RunResult, measure: LateMeasure) -> float:
  values = statistics.late_values(run, measure)
  return float(values.mean()) if len(values) else math.nan


def _run_table(experiment: Experiment, results: Results, labels: Mapping[str, str]) -> list[str]:
  columns = _run_columns(experiment)
  lines = [f"| {' | '.join(('method', *columns))} |", f"|{' --- |' * (1 + len(columns))}"]
  for method, runs in results.items():
    if runs:
      cells = [_run_cell([value_of(run) for run in runs]) for value_of in columns.values()]
      lines.append(f"| {' | '.join((labels.get(method, method), *cells))} |")
  return lines


def _run_cell(values: Sequence[float]) -> str:
  measured = [value for value in values if math.isfinite(value)]
  own = ", ".join(f"{value:,.2f}" if math.isfinite(value) else "-" for value in values)
  return f"{_cell(statistics.mean_of(measured) if measured else None, ',.2f')}: {own}"


def _cell(estimate: Estimate | None, form: str) -> str:
  if estimate is None:
    return "-"
  value = format(estimate.value, form)
  return f"{value} [{estimate.low:{form}}, {estimate.high:{form}}]" if estimate.has_interval else value
