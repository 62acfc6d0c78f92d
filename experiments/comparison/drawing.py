"""The pictures of a comparison, as SVG for light and dark pages, and as a PNG."""

import contextlib
import dataclasses
import io
import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from experiments.comparison.measures import Array, GroupCurve, Summary

# A group's key -> its colour and dashes, as `experiments.pictures.styles_of` gives them.
Styles = Mapping[tuple[str, str], tuple[str, str]]

# More lines than this in a group hide its mean.
_MOST_LINES = 10
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_FONT = re.compile(r"font: ([^;\"]*?px) [^;\"]*")
# Labels come from files, and "$" stands for itself in them.
_PLAIN = {"text.parse_math": False}
# The size is in inches; a page that is narrower than the first gets the second.
WIDE, NARROW = 8.4, 4.2
_CHARACTERS_PER_INCH = 12


@dataclasses.dataclass(frozen=True)
class Theme:
  """Colours of a picture.

  Attributes:
    ink: of text.
    muted: of axes.
    grid: of the lines behind the curves.
    replaced: colours of methods that would not be seen, and what stands for them.
  """

  ink: str
  muted: str
  grid: str
  replaced: Mapping[str, str]

  def colour(self, colour: str) -> str:
    """A method's colour on this background."""
    return self.replaced.get(colour, colour)


LIGHT = Theme("#1c2126", "#5b6670", "#e6e9ec", {})
DARK = Theme("#e8ebee", "#9aa5af", "#2c343b", {"#000000": "#f2f4f5", "#0072B2": "#3f9fdd", "#009E73": "#22c197"})


def curves_svg(
  curves: Sequence[GroupCurve], labels: tuple[str, str], styles: Styles, theme: Theme, width: float
) -> str:
  """The curves of one world's groups, with the names of both axes."""
  columns = _legend_columns([curve.group.label for curve in curves], width)
  rows = math.ceil(len(curves) / columns)
  with _fonts():
    figure = _figure(width, (0.46 if width == WIDE else 0.72) * width + 0.22 * rows)
    axes = figure.add_subplot()
    draw_curves(axes, curves, labels, styles, theme)
    handles, names = axes.get_legend_handles_labels()
    names = [_shortened(name, width) for name in names]
    legend = figure.legend(
      handles, names, loc="outside lower center", ncols=columns, frameon=False, labelcolor=theme.ink
    )
    for line in legend.get_lines():
      line.set_linewidth(2.6)
    return _svg(figure)


def levels_svg(summaries: Sequence[Summary], label: str, styles: Styles, theme: Theme, width: float) -> str:
  """Every run's level as a dot, and each group's mean with its interval."""
  with _fonts():
    figure = _figure(width, 0.5 * len(summaries) + 0.8)
    axes = figure.add_subplot()
    for row, summary in enumerate(reversed(summaries)):
      # Above the bar and not beside it, as a long name would leave no room for that.
      name = _shortened(summary.group.label, width)
      axes.text(0, row + 0.27, name, color=theme.ink, transform=axes.get_yaxis_transform()).set_in_layout(False)
      _draw_level(axes, row, summary, theme.colour(styles[summary.group.key][0]), theme)
    axes.set_yticks([])
    axes.set_ylim(-0.5, len(summaries) - 0.3)
    axes.set_xlabel(label)
    _dress(axes, theme, "x")
    axes.spines["left"].set_visible(False)
    return _svg(figure)


def _draw_level(axes: Axes, row: int, summary: Summary, colour: str, theme: Theme) -> None:
  axes.plot(summary.levels, [row] * len(summary.levels), "o", color=colour, alpha=0.35, markersize=6, markeredgewidth=0)
  mean = summary.mean
  if mean is None:
    return
  if mean.has_interval:
    axes.plot([mean.low, mean.high], [row, row], "-", color=colour, linewidth=3, solid_capstyle="round")
  axes.plot([mean.value], [row], "D", color=colour, markersize=7.5, markeredgecolor=theme.ink, markeredgewidth=0.8)


def save_png(
  worlds: Mapping[str, Sequence[GroupCurve]], labels: tuple[str, str], styles: Styles, path: pathlib.Path
) -> None:
  """Writes the curves of all worlds, a panel each."""
  with mpl.rc_context(_PLAIN):
    _panels(worlds, labels, styles).savefig(path, format="png")


def _panels(worlds: Mapping[str, Sequence[GroupCurve]], labels: tuple[str, str], styles: Styles) -> Figure:
  columns = min(2, len(worlds))
  rows = math.ceil(len(worlds) / columns)
  figure = Figure(figsize=(6.4 * columns, 4.2 * rows), dpi=150, layout="constrained")
  grid = figure.subplots(rows, columns, squeeze=False).ravel()
  for axes, (world, curves) in zip(grid, worlds.items(), strict=False):
    draw_curves(axes, curves, labels, styles, LIGHT)
    axes.set_title(world, loc="left", fontweight="bold", fontsize="medium")
    axes.legend(frameon=False, fontsize="small")
  for axes in grid[len(worlds) :]:
    axes.set_visible(False)
  return figure


def draw_curves(
  axes: Axes, curves: Sequence[GroupCurve], labels: tuple[str, str], styles: Styles, theme: Theme
) -> None:
  """Each group's mean with its band, fainter the runs that it is made of, and dotted those that do not count."""
  for curve in curves:
    colour, dashes = styles[curve.group.key]
    colour = theme.colour(colour)
    alone = len(curve.lines) == 1
    for line in curve.others:
      axes.plot(line.x, line.y, ":", color=colour, linewidth=1.2, alpha=0.7, marker="o" if len(line.x) == 1 else "")
    if shows_lines(curve):
      for line in curve.lines:
        axes.plot(line.x, line.y, dashes, color=colour, linewidth=0.8, alpha=0.35)
    x, y = (curve.lines[0].x, curve.lines[0].y) if alone else (curve.x, curve.mean)
    axes.plot(x, y, dashes, color=colour, linewidth=2, label=curve.group.label, marker="o" if len(x) == 1 else "")
    if np.isfinite(curve.low).any():
      axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.16, linewidth=0)
  # The interval of few runs may extend beyond all that was measured, and would leave little room for the curves.
  axes.set_ylim(*_extent([line.y for curve in curves for line in (*curve.lines, *curve.others)]))
  axes.set_xlim(left=0)
  axes.set_xlabel(labels[0])
  axes.set_ylabel(labels[1])
  axes.xaxis.set_major_formatter(EngFormatter(sep=""))
  _dress(axes, theme, "both")


def shows_lines(curve: GroupCurve) -> bool:
  """Whether the lines of a group's runs are drawn beside its mean."""
  return 1 < len(curve.lines) <= _MOST_LINES


def _extent(values: Sequence[Array]) -> tuple[float, float]:
  """The lowest and the highest value, with a margin."""
  low, high = float(min(map(np.min, values))), float(max(map(np.max, values)))
  margin = 0.05 * (high - low) or max(abs(high), 1.0)
  return low - margin, high + margin


def _legend_columns(names: Sequence[str], width: float) -> int:
  longest = max(map(len, names)) + 6  # With the line in front of it.
  return max(1, min(4, int(_CHARACTERS_PER_INCH * width) // longest))


def _shortened(name: str, width: float) -> str:
  most = int(_CHARACTERS_PER_INCH * width) - 6
  return name if len(name) <= most else f"{name[: most - 1]}…"


def _fonts() -> contextlib.AbstractContextManager[None]:
  # Text stays text: it is drawn in the reader's own font, and can be found and copied.
  settings: contextlib.AbstractContextManager[None] = mpl.rc_context(
    {"svg.fonttype": "none", "svg.hashsalt": "slipstream", **_PLAIN}
  )
  return settings


def _figure(width: float, height: float) -> Figure:
  return Figure(figsize=(width, height), layout="constrained")


def _dress(axes: Axes, theme: Theme, grid: Literal["both", "x"]) -> None:
  axes.set_facecolor("none")
  axes.grid(axis=grid, color=theme.grid, linewidth=0.8)
  axes.set_axisbelow(True)
  axes.spines[["top", "right"]].set_visible(False)
  axes.spines[["left", "bottom"]].set_color(theme.muted)
  axes.tick_params(colors=theme.muted, labelcolor=theme.muted)
  axes.xaxis.label.set_color(theme.ink)
  axes.yaxis.label.set_color(theme.ink)


def _svg(figure: Figure) -> str:
  figure.patch.set_alpha(0)
  text = io.StringIO()
  figure.savefig(text, format="svg", metadata={"Date": None})
  return _FONT.sub(lambda match: f"font: {match[1]} {_FONTS}", text.getvalue())
