"""ReaPER's stylised setting (Appendix D, Figure 4): how many tabular updates each order of selection needs on one episode.

The agent follows the optimal path of n steps, at the end of which it gets a reward of 1. Its values start at 0, except that every
second one (low reliability of the targets), every fourth (medium) or none (high) starts at 1. With a discount and a learning rate
of 1, an update sets Q(S_t) to its target, Q(S_t+1), or 1 at the end. Selection goes on until every TD error is 0.
"""

import csv
import io
import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from acme import specs

from configs import ReplayConfig, RunConfig, TableSpec
from configs.files import replace_text
from configs.methods import apply_method
from experiments.definition import Calculation
from experiments.statistics import mean_of
from replay_memory.memory import ReplayMemory
from replay_memory.plan import make_plan
from replay_memory.reliability import Reliability
from replay_server.contract.layout import make_row_codec

LENGTHS = tuple(range(10, 101, 10))
# Reliability of the targets -> which of the values start at 1.
LEVELS: Mapping[str, int] = {"high": 0, "medium": 4, "low": 2}

Errors = npt.NDArray[np.float64]  # [n], the TD errors of an episode.
# Takes the TD errors and the generator, and gives the row to learn from next.
Select = Callable[[Errors, np.random.Generator], int]


def first_errors(length: int, every: int) -> Errors:
  """The TD errors at the start.

  Args:
    length: n.
    every: of how many values one starts at 1; 0 if none does.
  """
  values = np.zeros(length)
  if every:
    values[every - 1 :: every] = 1.0
  return np.append(values[1:], 1.0) - values


def updates_needed(errors: Errors, select: Select, rng: np.random.Generator) -> int:
  """How many updates it takes until every TD error is 0.

  Args:
    errors: at the start, [n].
    select: which row is learned from next.
    rng: for random choices.
  """
  errors, updates = errors.copy(), 0
  while errors.any():
    chosen = select(errors, rng)
    # Q(S_t) rises by its error, and the row before has it as its target.
    if chosen:
      errors[chosen - 1] += errors[chosen]
    errors[chosen] = 0.0
    updates += 1
  return updates


def select_oracle(errors: Errors, rng: np.random.Generator) -> int:
  """The last row with an error."""
  del rng
  return int(np.flatnonzero(errors)[-1])


def select_uniform(errors: Errors, rng: np.random.Generator) -> int:
  """Any row."""
  return int(rng.integers(len(errors)))


def select_per(errors: Errors, rng: np.random.Generator) -> int:
  """The row with the largest error, PER's greedy choice; ties are broken at random."""
  return _largest(np.abs(errors), rng)


class SelectReaper:
  """The row with ReaPER's largest criterion, from a replay memory that holds the episode; ties are broken at random."""

  def __init__(self, length: int):
    """Stores an episode that has ended.

    Args:
      length: n.
    """
    config = apply_method(
      RunConfig(replay=ReplayConfig(capacity=length, default=TableSpec("default", 1.0, min_size=1))), "reaper"
    )
    codec = make_row_codec(_SPEC)
    packer = codec.packer()
    blank = {field.name: np.zeros(field.shape, field.dtype) for field in codec.fields}
    rows = [
      packer.pack({**blank, "steps": 1, "discount": 1.0, "step": step, "terminated": step == length - 1})
      for step in range(length)
    ]
    self._memory = ReplayMemory(make_plan(config, codec.width), codec)
    self._reliability = Reliability(
      self._memory, config.replay.priority.exponent, config.replay.priority.reliability_exponent
    )
    self._memory.add(np.array(rows, np.float32))
    self._handles = self._memory.handles_of(self._memory.contents(0))

  def __call__(self, errors: Errors, rng: np.random.Generator) -> int:
    """The row to learn from next."""
    self._reliability.update(self._handles, np.abs(errors))
    return _largest(self._memory.weights(0), rng)


def _largest(values: Errors, rng: np.random.Generator) -> int:
  # Equal criteria may differ by rounding.
  return int(rng.choice(np.flatnonzero(values >= values.max() * (1 - 1e-9))))


_SPEC = specs.EnvironmentSpec(
  observations=specs.Array((1,), np.float32, "observation"),
  actions=specs.DiscreteArray(1, np.int32, "action"),
  rewards=specs.Array((), np.float32, "reward"),
  discounts=specs.BoundedArray((), np.float32, 0.0, 1.0, "discount"),
)

# Name -> label, and what makes it for an episode's length.
METHODS: Mapping[str, tuple[str, Callable[[int], Select]]] = {
  "oracle": ("Oracle", lambda length: select_oracle),
  "uniform": ("Uniform", lambda length: select_uniform),
  "per": ("PER, greedy", lambda length: select_per),
  "reaper": ("ReaPER, greedy", SelectReaper),
}


def get_stylised() -> Calculation:
  """Figure 4."""
  return Calculation(
    name="reaper_stylised",
    summary="updates that uniform, greedy PER and greedy ReaPER need on one episode (ReaPER, Appendix D, Figure 4)",
    budgets={"paper": 20, "quick": 3},
    write=write,
  )


def write(seeds: int, folder: pathlib.Path, command: str) -> str:
  """Computes the figure, and writes its CSV, picture and table; see `Calculation.write`."""
  updates = count_updates(seeds)
  base = folder / "reaper_stylised"
  replace_text(base.with_suffix(".csv"), _csv(updates))
  _draw(updates, seeds, base.with_suffix(".png"))
  table = _markdown(updates, seeds, command)
  replace_text(base.with_suffix(".md"), table)
  return f"{table}\nWritten: {base}.csv, .png and .md"


# (method, level, length) -> updates of each seed.
Updates = Mapping[tuple[str, str, int], Sequence[int]]


def count_updates(seeds: int) -> Updates:
  """The updates of every method at every level and length."""
  updates: dict[tuple[str, str, int], Sequence[int]] = {}
  for (name, (_, make)), (level, every), length in itertools.product(METHODS.items(), LEVELS.items(), LENGTHS):
    select, errors = make(length), first_errors(length, every)
    updates[name, level, length] = [
      updates_needed(errors, select, np.random.default_rng((seed, length))) for seed in range(seeds)
    ]
  return updates


def _csv(updates: Updates) -> str:
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(("method", "reliability", "length", "seed", "updates"))
  for (name, level, length), counts in updates.items():
    writer.writerows((name, level, length, seed, count) for seed, count in enumerate(counts))
  return text.getvalue()


def _markdown(updates: Updates, seeds: int, command: str) -> str:
  lines = ["# reaper_stylised", "", f"{_sentence(get_stylised().summary)}.", "", f"    {command}", ""]
  for level in LEVELS:
    lines += [
      f"## Reliability of the targets: {level}",
      "",
      f"| method |{''.join(f' n = {length} |' for length in LENGTHS)}",
      f"|{' --- |' * (1 + len(LENGTHS))}",
    ]
    for name, (label, _) in METHODS.items():
      cells = "".join(f" {mean_of(updates[name, level, length]).value:,.0f} |" for length in LENGTHS)
      lines.append(f"| {label} |{cells}")
    lines.append("")
  lines += [f"Updates until every TD error is 0, means over {seeds} seeds, which break ties and draw uniformly.", ""]
  return "\n".join(lines)


def _sentence(text: str) -> str:
  return text[0].upper() + text[1:]


def _draw(updates: Updates, seeds: int, path: pathlib.Path) -> None:
  # Imported here, as that takes seconds.
  from matplotlib.figure import Figure

  from experiments.pictures import styles_of
  from launch.drawing import tidy

  compared = [name for name in METHODS if name != "oracle"]
  styles = styles_of(compared)
  figure = Figure(figsize=(11, 4), dpi=150, layout="constrained")
  for axes, level in zip(figure.subplots(1, len(LEVELS), sharey=True), LEVELS, strict=True):
    for name in compared:
      excess = [
        mean_of(updates[name, level, length]).value - mean_of(updates["oracle", level, length]).value
        for length in LENGTHS
      ]
      colour, dashes = styles[name]
      axes.plot(LENGTHS, excess, dashes, color=colour, marker="o", label=METHODS[name][0])
    axes.set_title(f"{level} reliability", fontsize="medium")
    axes.set_xlabel("length of the episode, n")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=-0.2)
    tidy(axes)
  figure.axes[0].set_ylabel("updates more than the oracle's")
  figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
  figure.suptitle(f"reaper_stylised: means over {seeds} seeds", fontsize="medium")
  figure.savefig(path)
