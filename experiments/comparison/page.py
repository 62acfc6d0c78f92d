"""The page of a comparison: one HTML file that holds everything it shows."""

import collections
import dataclasses
import datetime as dt
import math
from collections.abc import Callable, Sequence

from experiments.comparison.drawing import DARK, LIGHT, NARROW, WIDE, Styles, Theme, curves_svg, levels_svg, shows_lines
from experiments.comparison.grouping import Difference, Group, alike, differences, version_differences
from experiments.comparison.html import Child, Element, breakable, data_uri, document, element
from experiments.comparison.listing import cells_of
from experiments.comparison.measures import ENDED, GroupCurve, Summary
from experiments.comparison.media import Media
from experiments.comparison.style import STYLE
from experiments.statistics import Estimate
from launch.stored_run import StoredRun
from launch.view.formats import format_number

_MOST_NAMES = 3  # Of worlds, in the title.
_MOST_ROWS = 24  # Of differences that are shown at once.
_NARROW_SCREEN = "(max-width: 36rem)"
_DARK_SCREEN = "screen and (prefers-color-scheme: dark)"


@dataclasses.dataclass(frozen=True)
class World:
  """The groups of one world, compared.

  Attributes:
    name: of the world.
    curves: of its groups, that of the reference first.
    summaries: of its groups, in the same order.
    left_out: the runs that do not count; see `measures.counted_runs`.
  """

  name: str
  curves: tuple[GroupCurve, ...]
  summaries: tuple[Summary, ...]
  left_out: tuple[StoredRun, ...]

  @property
  def reference(self) -> str:
    """The label of the group that the others are compared with."""
    return self.groups[0].label

  @property
  def has_lines(self) -> bool:
    """Whether any of its runs has points of the curve."""
    return any(curve.lines or curve.others for curve in self.curves)

  @property
  def has_levels(self) -> bool:
    """Whether any of its runs that count has."""
    return any(summary.levels for summary in self.summaries)

  @property
  def groups(self) -> list[Group]:
    """Its groups, in the order of the tables."""
    return [curve.group for curve in self.curves]


@dataclasses.dataclass(frozen=True)
class Comparison:
  """All that a page shows.

  Attributes:
    worlds: with their groups.
    curve: the column that is compared.
    x: the column of the horizontal axis.
    styles: key of a group -> its colour and dashes.
    media: of the runs that have any.
    command: with which the page is made again.
    made: when, in UTC.
  """

  worlds: tuple[World, ...]
  curve: str
  x: str
  styles: Styles
  media: tuple[Media, ...]
  command: str
  made: dt.datetime


def render_page(comparison: Comparison) -> str:
  """The page as text."""
  runs = [run for world in comparison.worlds for group in world.groups for run in group.runs]
  worlds = comparison.worlds
  names = " · ".join(world.name for world in worlds) if len(worlds) <= _MOST_NAMES else f"{len(worlds)} worlds"
  main = element(
    "main",
    _header(comparison, runs, names),
    *(_world_section(world, comparison) for world in comparison.worlds),
    *_gallery(comparison),
    _runs_section(comparison),
    _footer(comparison),
  )
  return document(f"{names}: {len(runs)} runs compared", STYLE, element("body", main))


def in_words(column: str) -> str:
  """A column's name for people."""
  words = {
    "eval_return": "return of evaluations",
    "train_return": "return of training episodes",
    "recent_return": "return of the last 100 training episodes",
  }
  return words.get(column, column.replace("_", " "))


def _header(comparison: Comparison, runs: Sequence[StoredRun], names: str) -> Element:
  groups = [group for world in comparison.worlds for group in world.groups]
  phases = collections.Counter(run.phase for run in runs)
  states = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
  return element(
    "header",
    element("p", "Slipstream · comparison of runs", class_="eyebrow"),
    element("h1", names),
    element(
      "p",
      f"{_count(len(runs), 'run')} in {_count(len(groups), 'group')}, compared by {in_words(comparison.curve)} over "
      f"{in_words(comparison.x)}. {states[:1].upper()}{states[1:]}.",
      class_="lead",
    ),
    element("p", "A group's runs differ in nothing but their seed. No setting is averaged over.", class_="quiet"),
  )


def _count(number: int, noun: str) -> str:
  return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _world_section(world: World, comparison: Comparison) -> Element:
  children: list[Child] = [element("h2", world.name)] if len(comparison.worlds) > 1 else []
  if world.has_lines:
    children.append(_curves_card(world, comparison))
  else:
    children.append(element("p", f"No run in this world has any {in_words(comparison.curve)} yet.", class_="quiet"))
  if world.has_levels:
    children += [_levels_card(world, comparison), _levels_table(world, comparison)]
  children += [*_solved_table(world, comparison), *_config_cards(world, comparison)]
  return element("section", *children)


def _curves_card(world: World, comparison: Comparison) -> Element:
  x, y = in_words(comparison.x), in_words(comparison.curve)
  curves = _picture(
    lambda theme, width: curves_svg(world.curves, (x, y), comparison.styles, theme, width),
    f"{y} over {x}: {', '.join(group.label for group in world.groups)}",
  )
  return element(
    "figure",
    element("figcaption", element("strong", f"{y[0].upper()}{y[1:]}"), _what_is_drawn(world)),
    curves,
    *(element("p", sentence, class_="quiet") for sentence in _remarks(world)),
    class_="card plot",
  )


def _levels_card(world: World, comparison: Comparison) -> Element:
  y = in_words(comparison.curve)
  levels = _picture(
    lambda theme, width: levels_svg(
      world.summaries, f"{y}, mean over the last quarter", comparison.styles, theme, width
    ),
    f"{y} over the last quarter of each run",
  )
  caption = (
    "Dots are runs: the mean of each over the last quarter of its steps. Diamonds are means over runs, bars their 95 % "
    "intervals."
  )
  return element(
    "figure", element("figcaption", element("strong", "Where they end"), caption), levels, class_="card plot"
  )


def _what_is_drawn(world: World) -> str:
  if all(len(curve.lines) < 2 for curve in world.curves):
    return "One run in each group."
  fine = "; fine lines are single runs" if any(map(shows_lines, world.curves)) else ""
  return (
    f"Bold lines are means over seeds, with their 95 % intervals{fine}. A mean begins where all of its runs have begun, and ends "
    "where the first of them ends."
  )


def _remarks(world: World) -> list[str]:
  """What a reader has to know of the runs behind the numbers."""
  sentences = []
  if world.left_out:
    phases = collections.Counter(run.phase for run in world.left_out)
    states = " and ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
    sentences.append(
      f"Dotted lines are runs that have not ended by themselves ({states}): they count in no mean and no table."
    )
  elif not any(run.phase in ENDED for group in world.groups for run in group.runs):
    sentences.append("No run has ended by itself: the numbers are those of unfinished runs.")
  for curve in world.curves:
    run = curve.cut_off_by
    if run is not None:
      seed = "" if run.seed is None else f", seed {run.seed}"
      sentences.append(
        f"The mean of {curve.group.label} ends early, with the run {run.run_id} ({run.phase}{seed})."
        + (
          " Runs with --config.evaluator.solved_evaluations=0 go on when they are solved."
          if run.phase == "solved"
          else ""
        )
      )
  return sentences


def _picture(draw: Callable[[Theme, float], str], text: str) -> Element:
  """A picture in the colours of the reader's screen, drawn anew for narrow ones."""

  def address(theme: Theme, width: float) -> str:
    return data_uri(draw(theme, width).encode(), "svg")

  return element(
    "picture",
    element("source", media=f"{_DARK_SCREEN} and {_NARROW_SCREEN}", srcset=address(DARK, NARROW)),
    element("source", media=_DARK_SCREEN, srcset=address(DARK, WIDE)),
    element("source", media=_NARROW_SCREEN, srcset=address(LIGHT, NARROW)),
    element("img", src=address(LIGHT, WIDE), alt=text),
  )


def _label(group: Group, comparison: Comparison) -> Element:
  colour = comparison.styles[group.key][0]
  style = f"--light:{LIGHT.colour(colour)};--dark:{DARK.colour(colour)}"
  return element("span", element("span", class_="swatch", style=style), *breakable(group.label), class_="label")


def _estimate(estimate: Estimate | None, form: str = "") -> tuple[Child, ...]:
  if estimate is None:
    return ("–",)
  value, low, high = (format(item, form) if form else format_number(item) for item in _parts(estimate))
  interval = (element("span", f"[{low}, {high}]", class_="interval"),) if estimate.has_interval else ()
  return (value, *interval)


def _parts(estimate: Estimate) -> tuple[float, float, float]:
  return estimate.value, estimate.low, estimate.high


def _levels_table(world: World, comparison: Comparison) -> Element:
  compared = len(world.summaries) > 1
  heads = ["group", "runs", "mean", "interquartile mean"]
  heads += [f"mean less {world.reference}'s", "probability of improvement"] if compared else []
  rows = []
  for summary in world.summaries:
    estimates = [_estimate(summary.mean), _estimate(summary.interquartile_mean)]
    estimates += [_estimate(summary.difference), _estimate(summary.improvement, ".2f")] if compared else []
    cells = (_number(*estimate) for estimate in estimates)
    rows.append(_row(_label(summary.group, comparison), _number(str(len(summary.levels))), *cells))
  return _table_card(
    "Where they end, in numbers",
    f"The {in_words(comparison.curve)} over the last quarter of each run's steps. Brackets hold 95 % intervals over seeds.",
    heads,
    rows,
    numbers_from=1,
  )


def _solved_table(world: World, comparison: Comparison) -> list[Element]:
  if all(summary.solved is None for summary in world.summaries):
    return []
  heads = ["group", "solved", "steps, mean ± std", "interquartile mean"]
  heads += [f"mean less {world.reference}'s", "probability of fewer"] if len(world.summaries) > 1 else []
  rows = [
    _row(_label(summary.group, comparison), *_solved_cells(summary, len(heads) - 1)) for summary in world.summaries
  ]
  caption = (
    "Environment steps to the evaluation that completes the streak of evaluator.solved_evaluations (to the first solved "
    "one, if that is 0). A run that was not solved counts with all its steps, so its group's mean is a lower bound (≥)."
  )
  return [_table_card("When they are solved", caption, heads, rows, numbers_from=1)]


def _solved_cells(summary: Summary, columns: int) -> list[Element]:
  steps = summary.steps_to_solve
  if summary.solved is None or steps is None:
    return [_number("–")] * columns
  least = "≥ " if summary.solved < steps.runs else ""
  spread = f" ± {steps.std:,.0f}" if math.isfinite(steps.std) else ""
  cells = [
    _number(f"{summary.solved} of {steps.runs}"),
    _number(f"{least}{steps.mean:,.0f}{spread}"),
    _number(*_estimate(steps.interquartile_mean, ",.0f")),
    _number(*_estimate(steps.difference, "+,.0f")),
    _number(*_estimate(steps.improvement, ".2f")),
  ]
  return cells[:columns]


def _row(label: Element, *cells: Element) -> Element:
  return element("tr", element("th", label, scope="row"), *cells)


def _number(*children: Child) -> Element:
  return element("td", *children, class_="number")


def _table_card(
  title: str, caption: str, heads: Sequence[Child], rows: Sequence[Element], numbers_from: int = 99
) -> Element:
  head = [
    element("th", cell, scope="col", **({"class_": "number"} if index >= numbers_from else {}))
    for index, cell in enumerate(heads)
  ]
  table = element("table", element("thead", element("tr", *head)), element("tbody", *rows))
  return element(
    "figure",
    element("figcaption", element("strong", title), caption),
    element("div", table, class_="scroll"),
    class_="card table",
  )


def _config_cards(world: World, comparison: Comparison) -> list[Element]:
  groups = world.groups
  unknown = [group.label for group in groups if not group.fields]
  shared = alike(groups)
  if not shared:
    return [element("p", "No run in this world has a config that can be read.", class_="quiet")]
  differing = differences(groups)
  versions = version_differences(groups)
  note = f" Not known: {', '.join(unknown)}." if unknown else ""
  cards = []
  if differing or versions:
    rows = [_difference_row(item) for item in differing]
    rows += [_difference_row(dataclasses.replace(item, path=f"version of {item.path}")) for item in versions]
    heads: list[Child] = ["field", *(_label(group, comparison) for group in groups)]
    caption = f"The fields in which the groups differ.{note}"
    table = _table_card("What differs", caption, heads, rows)
    cards.append(
      table if len(rows) <= _MOST_ROWS else _folded(f"What differs: {_count(len(rows), 'field')}", *table[1:])
    )
  else:
    cards.append(element("p", f"The configs that are known are alike.{note}", class_="quiet"))
  rows = [_difference_row(Difference(path, (value,))) for path, value in shared.items()]
  table = element("div", element("table", element("tbody", *rows)), class_="scroll")
  return [*cards, _folded(f"What is alike: {_count(len(rows), 'field')}", table)]


def _folded(title: str, *children: Element) -> Element:
  """A card that a click opens."""
  return element("details", element("summary", title), *children, class_="card")


def _difference_row(item: Difference) -> Element:
  cells = (element("td", "–" if value is None else element("code", *breakable(value))) for value in item.values)
  return element("tr", element("th", element("code", *breakable(item.path)), scope="row"), *cells)


def _runs_section(comparison: Comparison) -> Element:
  heads = ["group", "seed", "run", "began (UTC)", "environment steps", "gradient steps", "best return", "last return"]
  heads += ["solved", "phase"]
  several = len(comparison.worlds) > 1
  rows = []
  for world in comparison.worlds:
    for group in world.groups:
      for run in group.runs:
        _, run_id, when, _, seed, *numbers, solved, phase = cells_of(run)
        notes = [element("span", "; ".join(run.notes), class_="notes")] if run.notes else []
        rows.append(
          element(
            "tr",
            element("td", _label(group, comparison)),
            _number(seed),
            element("td", element("code", run_id, title=str(run.path)), class_="nowrap"),
            element("td", when, class_="nowrap"),
            *(_number(cell) for cell in numbers),
            element("td", solved),
            element("td", element("span", phase, class_=phase), *notes),
            *([element("td", world.name)] if several else []),
          )
        )
  heads += ["world"] if several else []
  return element("section", _table_card("All runs", "The return is that of evaluations.", heads, rows))


def _gallery(comparison: Comparison) -> list[Element]:
  if not comparison.media:
    return []
  groups = {run.path: group for world in comparison.worlds for group in world.groups for run in group.runs}
  cards = [_card(media, groups[media.run.path], comparison) for media in comparison.media]
  return [
    element(
      "section",
      element("h2", "Greedy episodes"),
      element(
        "p",
        "The best policy of each run, and its latest videos. Animations stand still on paper, and where the system asks for less "
        "motion.",
        class_="quiet",
      ),
      element("div", *cards, class_="gallery"),
    )
  ]


def _card(media: Media, group: Group, comparison: Comparison) -> Element:
  run = media.run
  shown: list[Element] = []
  name = f"{group.label}, seed {run.seed}"
  if media.still is not None:
    still = {"class_": "still"} if media.moving else {}
    uri = data_uri(media.still.read_bytes(), media.still.suffix[1:])
    shown.append(element("img", src=uri, alt=f"greedy path of {name}", **still))
  moving = {"class_": "moving"} if media.still is not None else {}
  for path in media.moving:
    uri = data_uri(path.read_bytes(), path.suffix[1:])
    if path.suffix in (".mp4", ".webm"):
      shown.append(element("video", src=uri, controls="", muted="", loop="", **moving))
    else:
      shown.append(element("img", src=uri, alt=f"{path.stem} of {name}", title=path.name, **moving))
  words = f"seed {'-' if run.seed is None else run.seed} · best return {format_number(run.best_return)}"
  left_out = [element("span", f"Too large for this page: {path}", class_="notes") for path in media.left_out]
  caption = element("figcaption", _label(group, comparison), element("br"), words, *left_out)
  return element("figure", *shown, caption, class_="card")


def _footer(comparison: Comparison) -> Element:
  return element(
    "footer",
    element(
      "p",
      "The interquartile mean leaves out the lowest and the highest quarter of the runs. The probability of improvement is that "
      "of a run with a higher value than one of the reference, as that of fewer is with fewer steps; a tie counts one half. "
      "Brackets hold 95 % intervals: Student's t for means, Welch's t for differences, Newcombe's for probabilities, and from "
      "ten runs on a bootstrap for interquartile means. Where runs are all equal there is none, as they do not show how far runs "
      "differ.",
    ),
    element("p", f"Made {comparison.made:%Y-%m-%d %H:%M} UTC. Make it again: ", element("code", comparison.command)),
  )
