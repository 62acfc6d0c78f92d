"""The tables of an experiment: gradient steps to its thresholds, and means over the last quarter of the budget."""

import math
from collections.abc import Mapping, Sequence

from experiments import statistics
from experiments.curves import Results
from experiments.definition import Budget, Experiment, Method, Threshold
from experiments.statistics import Comparison, Estimate


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
    f"Brackets hold 95 % bootstrap intervals. A run that did not get there counts with its budget of {budget.gradient_steps:,} "
    "gradient steps, so its mean is a lower bound and two such runs are a tie. The interquartile mean leaves out the "
    "lowest and the highest quarter of the seeds. The probability of improvement is that of a run with fewer steps than one of "
    f"`{experiment.reference}`.",
    "",
    "## Over the last quarter of the budget",
    "",
    *_late_table(experiment, results, labels),
    "",
    "Means over seeds of each run's mean.",
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
  curves = list(dict.fromkeys(panel.curve for panel in experiment.panels))
  lines = [f"| {' | '.join(('method', *(f'`{curve}`' for curve in curves)))} |", f"|{' --- |' * (1 + len(curves))}"]
  for method, runs in results.items():
    if runs:
      means = [statistics.mean_of([statistics.late_mean(run, curve) for run in runs]) for curve in curves]
      lines.append(f"| {' | '.join((labels.get(method, method), *(_cell(mean, ',.2f') for mean in means)))} |")
  return lines


def _cell(estimate: Estimate | None, form: str) -> str:
  if estimate is None:
    return "-"
  value = format(estimate.value, form)
  return f"{value} [{estimate.low:{form}}, {estimate.high:{form}}]" if estimate.has_interval else value
