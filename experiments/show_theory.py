"""`slipstream theory`: what the SSET paper proves for a set-up of event tables, in words, as JSON or as a picture."""

import dataclasses
import json
import pathlib
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from rich.text import Text

from configs import UserError
from experiments.theory import Guarantee, Setting, exponent, guarantee, monolithic_samples
from launch.drawing import tidy
from launch.view.formats import format_number

# Of Okabe and Ito's palette, as in launch/report.py.
_OVER_SAMPLING_COLOUR = "#0072B2"
_SPEED_UP_COLOUR = "#E69F00"
_POINTS = 300
# Over-sampling below this is hardly worth a table.
_LITTLE = 1.5


@dataclasses.dataclass(frozen=True)
class QLearning:
  """The parameters of Prop. 1; see `experiments.theory.monolithic_samples`."""

  gamma: float
  accuracy: float
  rarest: float
  commonest: float

  def samples(self) -> float:
    """The bound without event tables."""
    return monolithic_samples(self.gamma, self.accuracy, self.rarest, self.commonest)


def show_theory(setting: Setting, q_learning: QLearning | None, plot: str, as_json: bool) -> int:
  """Prints what is proven for a set-up; returns the exit code.

  Args:
    setting: of the event tables.
    q_learning: for the bound on samples; None leaves it out.
    plot: a file for the picture; empty for none.
    as_json: print the numbers alone.

  Raises:
    UserError: a value of `q_learning` is out of its range, or the picture cannot be written.
  """
  result = guarantee(setting)
  samples = None if q_learning is None else q_learning.samples()
  if plot:
    plot_theory(setting, pathlib.Path(plot))
  if as_json:
    print(json.dumps(as_dict(setting, result, samples), indent=2))
    return 0
  console = Console(highlight=False)
  console.print(_table(setting, result, samples))
  console.print(Text(explain(setting, result)))
  if plot:
    console.print(f"Picture: {plot}", markup=False, soft_wrap=True)
  return 0


def as_dict(setting: Setting, result: Guarantee, samples: float | None) -> dict[str, float | int | None]:
  """All numbers, by name; null for what is not proven."""
  speed_up = None if result.sample_share is None else 1 / result.sample_share
  values = {**dataclasses.asdict(setting), **dataclasses.asdict(result), "speed_up": speed_up}
  if samples is not None:
    share = result.sample_share
    values |= {"samples": samples, "samples_with_events": None if share is None else samples * share}
  return values


def _table(setting: Setting, result: Guarantee, samples: float | None) -> Table:
  table = Table.grid(padding=(0, 2))
  table.add_column(no_wrap=True)
  table.add_column(justify="right", no_wrap=True)
  table.add_column(style="dim")

  def row(name: str, value: str, meaning: str) -> None:
    table.add_row(name, Text(value, style="bold"), meaning)

  row("eta", f"{setting.eta:g}", "share of a batch from event tables")
  row("tau", f"{setting.tau:g}", "steps in a history")
  row("n", f"{setting.events}", "event tables")
  row("mu", f"{setting.mu:g}", "share of all steps at which an event occurs, at most")
  table.add_row()
  row("m", format_number(result.m), "Eq. 8")
  over, share = result.over_sampling, result.sample_share
  row("over-sampling", "none" if over is None else f"{format_number(over)} x", "Lemma 1, at least")
  row("speed-up", "none" if share is None else f"{format_number(1 / share)} x", "Theorem 1, of the bound on samples")
  row("longest history", format_number(result.longest_history), "steps, for which anything is proven: 1 / (n mu)")
  if samples is not None:
    row("samples", format_number(samples), "Prop. 1, without event tables")
    if share is not None:
      row("", format_number(samples * share), "with them")
  return table


def explain(setting: Setting, result: Guarantee) -> str:
  """What the numbers mean for somebody who chooses events."""
  n_events = "1 event table" if setting.events == 1 else f"{setting.events} event tables"
  longest = format_number(result.longest_history)
  load = setting.events * setting.tau * setting.mu
  if result.over_sampling is None or result.sample_share is None:
    return (
      f"\nm is below 0: nothing is proven for this set-up. {n_events} with {setting.tau:g} steps for each event can take up "
      f"{load:.3g} times as many transitions as there are (n tau mu; at most 1 is needed), so a transition in them need not "
      f"be drawn more often than without them. Shorten the histories to {longest} steps or less, or "
      "choose events that occur less often. It may still help: the bound is the worst case."
    )
  times, percent = format_number(result.over_sampling), 100 * result.sample_share
  return (
    f"\nEvery transition in the event tables is drawn at least {times} times as often as from one table of "
    f"everything, and the bound on what target Q-learning has to sample falls to {percent:.3g} %, where the ways of the best "
    "policy lie in the event tables. "
    + (
      "That is little: shorter histories or rarer events give more."
      if result.over_sampling < _LITTLE
      else "Shorter histories, rarer events and a larger eta give more, as long as the histories still reach back."
    )
  )


def plot_theory(setting: Setting, path: pathlib.Path) -> None:
  """Draws over-sampling and speed-up against tau, with the set-up marked.

  Raises:
    UserError: the picture cannot be written.
  """
  if path.suffix != ".png":  # Otherwise the picture would get another name, or another format.
    raise UserError(f"The picture cannot be written to {path}: name a .png file in a folder that exists.")
  longest = 1 / (setting.events * setting.mu)
  most = max(longest, setting.tau) * 1.5
  taus = np.geomspace(1, max(most, 2.0), _POINTS)
  proven = [tau for tau in taus if tau <= longest]
  figure = Figure(figsize=(7, 4), dpi=150, layout="constrained")
  axes = figure.add_subplot()
  if proven:
    exponents = np.array([exponent(dataclasses.replace(setting, tau=tau)) for tau in proven])
    log_a = -np.log1p(-setting.eta)
    label = "over-sampling (Lemma 1)"
    axes.plot(proven, np.exp(exponents * log_a), color=_OVER_SAMPLING_COLOUR, linewidth=1.8, label=label)
    label = "speed-up (Theorem 1)"
    axes.plot(proven, np.exp(2 * exponents * log_a), color=_SPEED_UP_COLOUR, linewidth=1.8, label=label)
    _mark(setting, axes)
  axes.axvline(setting.tau, color="0.5", linewidth=1, linestyle="--")
  if most > longest:
    axes.axvspan(max(longest, 1), taus[-1], color="0.92", label="nothing is proven")
  axes.set(xscale="log", yscale="log", xlim=(1, taus[-1]))
  axes.set_title(f"eta = {setting.eta:g}, n = {setting.events}, mu = {setting.mu:g}", loc="left", fontweight="bold")
  axes.set_xlabel("tau, steps in a history")
  axes.set_ylabel("times, at least")
  tidy(axes)
  axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)
  try:
    figure.savefig(path)
  except (OSError, ValueError) as error:
    raise UserError(
      f"The picture cannot be written to {path} ({getattr(error, 'strerror', error)}): name a .png file in a folder that exists."
    ) from None


def _mark(setting: Setting, axes: Axes) -> None:
  result = guarantee(setting)
  if result.over_sampling is None or result.sample_share is None:
    return
  points: Sequence[tuple[float, str]] = (
    (result.over_sampling, _OVER_SAMPLING_COLOUR),
    (1 / result.sample_share, _SPEED_UP_COLOUR),
  )
  for value, colour in points:
    axes.plot(setting.tau, value, "o", color=colour)
    axes.annotate(format_number(value), (setting.tau, value), xytext=(6, 4), textcoords="offset points", color=colour)
