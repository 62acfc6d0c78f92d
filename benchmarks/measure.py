"""How the benchmarks measure: interleaved runs, medians, and ratios of neighbouring runs."""

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

Contender = Callable[[], Mapping[str, float]]


@dataclasses.dataclass(frozen=True)
class Figure:
  """One measured quantity, with a value for each run."""

  what: str
  unit: str
  values: tuple[float, ...]

  @property
  def median(self) -> float:
    """Over the runs."""
    return statistics.median(self.values)


@dataclasses.dataclass(frozen=True)
class Ratio:
  """The ratio of two figures.

  Attributes:
    what: names both.
    median: the ratio of the medians.
    pairs: the ratio of each run to the run beside it.
    required: the least value that is acceptable; None if there is no requirement.
    aim: the value to aim for.
  """

  what: str
  median: float
  pairs: tuple[float, ...]
  required: float | None = None
  aim: float | None = None

  @classmethod
  def of(
    cls, what: str, ours: Figure, theirs: Figure, required: float | None = None, aim: float | None = None
  ) -> "Ratio":
    """The ratio of two figures that were measured in turn."""
    pairs = tuple(a / b for a, b in zip(ours.values, theirs.values, strict=True))
    return cls(what, ours.median / theirs.median, pairs, required, aim)


@dataclasses.dataclass(frozen=True)
class Report:
  """What one benchmark found."""

  name: str
  notes: tuple[str, ...]
  figures: tuple[Figure, ...]
  ratios: tuple[Ratio, ...] = ()


def interleave(
  contenders: Mapping[str, Contender], runs: int, warm_up: bool = True
) -> dict[str, dict[str, tuple[float, ...]]]:
  """Runs the contenders in turn (A B A B ...), so that a disturbance of the machine affects all of them.

  Args:
    contenders: name -> a function that makes one run of it and returns quantity -> value.
    runs: number of runs of each.
    warm_up: whether a first run of each comes before them that does not count.

  Returns:
    Contender -> quantity -> a value for each run.
  """
  for run in contenders.values() if warm_up else ():
    run()
  results: dict[str, dict[str, tuple[float, ...]]] = {name: {} for name in contenders}
  for _ in range(runs):
    for name, run in contenders.items():
      for what, value in run().items():
        results[name][what] = (*results[name].get(what, ()), value)
  return results


def format_report(report: Report) -> str:
  """A report as text for a terminal."""
  lines = [f"== {report.name} ==", *report.notes]
  lines += _table(
    ("", "median", "min", "max", "unit"),
    [(f.what, _number(f.median), _number(min(f.values)), _number(max(f.values)), f.unit) for f in report.figures],
  )
  if report.ratios:
    lines += _table(
      ("ratio", "medians", "pairs", "required", "aim"),
      [
        (r.what, f"{r.median:.2f}", f"{min(r.pairs):.2f} .. {max(r.pairs):.2f}", _limit(r.required), _limit(r.aim))
        for r in report.ratios
      ],
    )
  return "\n".join(lines) + "\n"


def _limit(value: float | None) -> str:
  return "" if value is None else f"{value:.2f}"


def _number(value: float) -> str:
  return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
  cells = [head, *rows]
  widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
  lines = []
  for row in cells:
    first, *others = (
      cell.rjust(width) if column else cell.ljust(width)
      for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    lines.append("  ".join((first, *others)).rstrip())
  lines.insert(1, "-" * max(len(line) for line in lines))
  return ["", *lines]
