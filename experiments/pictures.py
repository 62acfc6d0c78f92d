"""The picture of an experiment: its panels, with a curve and a band for every method."""

import functools
import itertools
import math
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from experiments import statistics
from experiments.definition import Band, Experiment, LateMeasure, Method, Panel, Threshold
from experiments.jobs import RunResult
from launch.drawing import tidy

# Okabe and Ito's palette, which people with any kind of colour vision can tell apart; its yellow is too light for a line.
_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_DASHES = ("-", "--", ":", "-.")
# Each of the paper's methods has the same colour in every picture.
_METHODS = dict(zip(("uniform", "sset", "per", "reverse_sweep", "sset_per", "pbs", "sset_pbs"), _COLOURS, strict=True))
_METHODS |= {"reaper": _METHODS["reverse_sweep"], "sset_reaper": _METHODS["pbs"]}
_PANEL_INCHES = 4.8
# Of a legend: the line before a label, and a letter of it.
_HANDLE_INCHES = 0.6
_LETTER_INCHES = 0.075
_COLUMNS = 2

_BANDS: Mapping[Band, str] = {
  "interval": "95 % interval (Student's t)",
  "std": "standard deviation",
  "percentiles": "20th to 80th percentile",
}


def draw(
  experiment: Experiment,
  methods: Sequence[Method],
  results: Mapping[str, Sequence[RunResult]],
  path: pathlib.Path,
) -> None:
  """Writes a PNG.

  Args:
    experiment: gives the panels; one without a method that was run is left out.
    methods: in the order of the legend.
    results: method -> its runs; a method without runs is left out.
    path: of the picture.
  """
  shown = [method for method in methods if results.get(method.name)]
  panels = [(panel, drawn) for panel in experiment.panels if (drawn := _methods_of(panel, shown))]
  raced = experiment.thresholds if experiment.ends_when_solved else ()
  count = len(panels) + len(experiment.late) + len(raced)
  columns = max(1, min(_COLUMNS, count))
  rows = max(1, math.ceil(count / columns))
  figure = Figure(figsize=(_PANEL_INCHES * columns, 3.4 * rows + 0.9), dpi=150, layout="constrained")
  grid = figure.subplots(rows, columns, squeeze=False).ravel()
  styles = styles_of([method.name for method in shown])
  for axes, (panel, drawn) in zip(grid, panels, strict=False):
    _draw_panel(axes, experiment, panel, drawn, results, styles)
  for axes, measure in zip(grid[len(panels) :], experiment.late, strict=False):
    _draw_late(axes, measure, shown, results, styles)
  for axes, threshold in zip(grid[len(panels) + len(experiment.late) :], raced, strict=False):
    _draw_steps(axes, experiment, threshold, shown, results, styles)
  for axes in grid[count:]:
    axes.set_visible(False)
  handles = {label: line for axes in grid for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
  beside = max(1, int(_PANEL_INCHES * columns / (_HANDLE_INCHES + _LETTER_INCHES * max(map(len, handles), default=0))))
  figure.legend(
    list(handles.values()), list(handles), loc="outside lower center", ncols=min(2 * columns, beside), frameon=False
  )
  figure.suptitle(f"{experiment.name}: {_what_is_drawn(experiment, results)}", fontsize="medium")
  figure.savefig(path)


def _methods_of(panel: Panel, shown: Sequence[Method]) -> list[Method]:
  return [method for method in shown if not panel.methods or method.name in panel.methods]


def styles_of(names: Sequence[str]) -> dict[str, tuple[str, str]]:
  """Colour and dashes of every method: the paper's methods have their own, and the others take what is free."""
  free = [colour for colour in _COLOURS if colour not in {_METHODS.get(name) for name in names}]
  others = itertools.cycle(
    (colour, dashes) for dashes in _DASHES for colour in (free if dashes == _DASHES[0] else _COLOURS)
  )
  return {name: (_METHODS[name], _DASHES[0]) if name in _METHODS else next(others) for name in names}


def _what_is_drawn(experiment: Experiment, results: Mapping[str, Sequence[RunResult]]) -> str:
  counts = sorted({len(runs) for runs in results.values() if runs})
  seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
  if counts[-1] == 1:
    return "1 seed"
  band = "runs" if _is_too_wide(experiment.band, counts[-1]) else _BANDS[experiment.band]
  return f"{seeds} seeds" if experiment.ends_when_solved else f"mean and {band} over {seeds} seeds"


def _draw_panel(
  axes: Axes,
  experiment: Experiment,
  panel: Panel,
  methods: Sequence[Method],
  results: Mapping[str, Sequence[RunResult]],
  styles: Mapping[str, tuple[str, str]],
) -> None:
  values_of = _values_of(panel)
  for method in methods:
    drawn = statistics.curve(results[method.name], panel.curve, experiment.band, experiment.over, values_of)
    colour, dashes = styles[method.name]
    marker = "o" if len(drawn.mean) == 1 else ""
    axes.plot(drawn.steps, drawn.mean, dashes, color=colour, label=method.label, linewidth=1.6, marker=marker)
    if panel.cumulative or _is_too_wide(experiment.band, drawn.runs):
      for run in results[method.name]:
        shown = list(values_of(run, panel.curve))
        axes.plot(run.column(experiment.over), shown, dashes, color=colour, alpha=0.5, linewidth=0.7)
    else:
      axes.fill_between(drawn.steps, drawn.low, drawn.high, color=colour, alpha=0.2, linewidth=0)
  axes.set_yscale(panel.scale)
  if not panel.cumulative and panel.scale == "linear":
    runs = [run for method in methods for run in results[method.name]]
    _keep_to_runs(axes, np.concatenate([list(values_of(run, panel.curve)) for run in runs]))
  _label_over_steps(axes, experiment, panel.label)


def _values_of(panel: Panel) -> Callable[[RunResult, str], Iterable[float]]:
  """What a panel shows of a run's column."""
  if panel.cumulative:
    return statistics.running_sum
  return functools.partial(statistics.running_mean, window=panel.window) if panel.window > 1 else RunResult.column


def _is_too_wide(band: Band, runs: int) -> bool:
  """Whether a band would hide all curves: that of two runs reaches six times their distance to each side."""
  return band == "interval" and runs == 2


def _keep_to_runs(axes: Axes, values: statistics.Array) -> None:
  """Lets no band make the axis longer than the runs' values, [n], need."""
  found = values[np.isfinite(values)]
  if not found.size or found.min() == found.max():
    return
  margin = 0.05 * (found.max() - found.min())
  low, high = axes.get_ylim()
  axes.set_ylim(max(low, found.min() - margin), min(high, found.max() + margin))


def _draw_late(
  axes: Axes,
  measure: LateMeasure,
  methods: Sequence[Method],
  results: Mapping[str, Sequence[RunResult]],
  styles: Mapping[str, tuple[str, str]],
) -> None:
  """A point for each run, maybe with the standard deviation over its evaluations, and a dashed line for each method's mean.

  Points have no dashes that tell them apart, so where methods share a colour their names stand below.
  """
  place, middles = 0, []
  for method in methods:
    colour, dashes = styles[method.name]
    values = [statistics.late_values(run, measure) for run in results[method.name]]
    places = [place + index for index, found in enumerate(values) if len(found)]
    means = [found.mean() for found in values if len(found)]
    spreads = [found.std() for found in values if len(found)] if measure.spread else None
    filling = colour if dashes == _DASHES[0] else "white"
    axes.errorbar(places, means, spreads, fmt="o", color=colour, markerfacecolor=filling, capsize=3)
    if means:
      axes.hlines(np.mean(means), place - 0.4, place + len(values) - 0.6, colors=colour, linestyles="--", linewidth=1)
    middles.append(place + (len(values) - 1) / 2)
    place += len(values) + 1
  axes.set_yscale(measure.scale)
  if len(methods) > len(_COLOURS):
    axes.set_xticks(middles, [method.label for method in methods], rotation=90, fontsize="small")
  else:
    axes.set_xticks([])
    axes.set_xlabel("runs")
  axes.set_ylabel(measure.label)
  tidy(axes)


def _draw_steps(
  axes: Axes,
  experiment: Experiment,
  threshold: Threshold,
  methods: Sequence[Method],
  results: Mapping[str, Sequence[RunResult]],
  styles: Mapping[str, tuple[str, str]],
) -> None:
  """For each method the share of its runs that have reached the threshold, over their steps."""
  for method in methods:
    colour, dashes = styles[method.name]
    runs = results[method.name]
    steps = sorted(statistics.steps_to(run, threshold, experiment.over) for run in runs)
    reached = [step for step in steps if math.isfinite(step)]
    end = max(run.column(experiment.over)[-1] for run in runs)
    shares = np.arange(len(reached) + 1) / len(steps)
    axes.step([0, *reached, end], [*shares, shares[-1]], dashes, where="post", color=colour, label=method.label)
  axes.set_ylim(0, 1.02)
  _label_over_steps(axes, experiment, f"share of runs after\n{threshold.text}")


def _label_over_steps(axes: Axes, experiment: Experiment, label: str) -> None:
  axes.set_xlabel(experiment.steps_in_words)
  axes.set_ylabel(label)
  axes.set_xlim(left=0)
  axes.xaxis.set_major_formatter(EngFormatter(sep=""))
  tidy(axes)
