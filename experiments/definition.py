"""What an experiment is: a config, the methods that it compares, what it measures, and how that is drawn."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from configs import RunConfig, UserError
from configs.errors import name_hint
from configs.methods import METHODS

Change = Callable[[RunConfig], RunConfig]
Band = Literal["interval", "std", "percentiles"]
# Columns that count a run's steps.
Steps = Literal["gradient_steps", "environment_steps"]
Scale = Literal["linear", "log"]

# Columns of every run's curves, beside the experiment's own.
EVALUATION_COLUMNS = ("environment_steps", "gradient_steps", "eval_return", "eval_length", "eval_solved")


def eval_measure(name: str) -> str:
  """The column of the evaluations' means of a measure, such as "won"; for `Experiment.recorded`, panels and thresholds."""
  return f"eval/measures/{name}"


@dataclasses.dataclass(frozen=True)
class Method:
  """What an experiment compares: a method of `configs.methods`, or any other change of the experiment's config.

  Attributes:
    name: on the command line and in the CSV.
    label: in the picture's legend.
    change: makes the experiment's config into this method's.
  """

  name: str
  label: str
  change: Change


@dataclasses.dataclass(frozen=True)
class Budget:
  """How long and how often every method is run.

  Attributes:
    steps: of every run, counted as the experiment says (`Experiment.over`).
    seeds: number of runs of every method, with the seeds 0, 1, ...
    change: further changes of the config that a smaller budget needs, such as a smaller world.
    of_methods: name of a method -> what it changes in this budget alone, such as its own best settings.
  """

  steps: int
  seeds: int
  change: Change = lambda config: config
  of_methods: Mapping[str, Change] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Threshold:
  """A value that a run should reach; the table lists the steps to it.

  Attributes:
    curve: a column, such as "eval_return".
    at_least: the value of the curve at which the threshold is reached.
    text: the threshold in words, such as "the first evaluation that reaches the goal".
  """

  curve: str
  at_least: float
  text: str


@dataclasses.dataclass(frozen=True)
class Panel:
  """One panel of the picture.

  Attributes:
    curve: a column, drawn over the run's steps.
    label: of the vertical axis.
    methods: names of the methods that it shows; empty for all.
    cumulative: whether it shows the sum over the evaluations so far, which the table has too, with a thin line for each run.
    window: the evaluations up to each one whose mean it shows, if it shows no sums.
    scale: of the vertical axis; "log" for positive values of several orders of magnitude.
  """

  curve: str
  label: str
  methods: tuple[str, ...] = ()
  cumulative: bool = False
  window: int = 1
  scale: Scale = "linear"


@dataclasses.dataclass(frozen=True)
class LateMeasure:
  """What runs come to in the end: a panel with a point for each run, after the others, and a column of a table.

  Attributes:
    curve: a column, whose mean over the last evaluations is taken.
    label: of the vertical axis, with the unit.
    text: in the table, such as "margin where it won, m".
    part: the last evaluations are those in this part of a run's steps, in (0, 1].
    count: or else they are so many.
    given: a column that must be 1, such as that of "won", which leaves out the margins of lost races; empty for none.
    spread: whether the picture shows the standard deviation over a run's evaluations too; not for shares.
    scale: as in `Panel`.
  """

  curve: str
  label: str
  text: str
  part: float = 1.0
  count: int | None = None
  given: str = ""
  spread: bool = True
  scale: Scale = "linear"

  @property
  def span(self) -> str:
    """Which evaluations are meant, in words."""
    return f"last {self.part:.0%}" if self.count is None else f"last {self.count} evaluations"


@dataclasses.dataclass(frozen=True)
class Peer:
  """Another system, whose runs are shown beside an experiment's own.

  Attributes:
    name: its name where methods have theirs.
    label: in the picture's legend.
    file: name of the CSV of its runs, in the folder of the experiment's; without one it is left out.
  """

  name: str
  label: str
  file: str


@dataclasses.dataclass(frozen=True)
class Experiment:
  """One experiment of a paper.

  Attributes:
    name: on the command line.
    summary: what it shows and where it is in the paper, on one line.
    config: what the methods change; each run sets its budget and its seed.
    methods: what is compared.
    budgets: by name.
    panels: of the picture, in order, two in a row.
    thresholds: for the table.
    late: measures of the last evaluations, drawn after the panels.
    probes: column -> `module:function` of further curves. The function takes the run's config and returns a function from
      weights, float32 [P], to a number, which is called after every evaluation.
    recorded: columns of metrics.csv that become curves too, with their value at or after each evaluation; such as
      "train_return", the mean over the training episodes that ended since the evaluation before, or `eval_measure("won")`.
    peers: other systems, which are drawn after the methods.
    reference: the method that the others are compared with.
    over: the steps that budgets and thresholds count and that curves are drawn over: environment steps where methods learn at
      different ratios.
    band: around the means in the picture: the 95 % interval of the mean, the standard deviation over seeds, or their 20th to 80th
      percentile.
    ends_when_solved: whether a run ends with its first solved evaluation. Then there are no curves to compare, and the picture
      shows each run's steps to the thresholds instead of panels.
  """

  name: str
  summary: str
  config: RunConfig
  methods: tuple[Method, ...]
  budgets: Mapping[str, Budget]
  panels: tuple[Panel, ...] = ()
  thresholds: tuple[Threshold, ...] = ()
  late: tuple[LateMeasure, ...] = ()
  probes: Mapping[str, str] = dataclasses.field(default_factory=dict)
  recorded: tuple[str, ...] = ()
  peers: tuple[Peer, ...] = ()
  reference: str = "uniform"
  over: Steps = "gradient_steps"
  band: Band = "interval"
  ends_when_solved: bool = False

  def __post_init__(self) -> None:
    if self.ends_when_solved and self.panels:
      raise ValueError(
        f"the runs of experiment {self.name!r} end at different steps, so its panels would compare nothing"
      )
    known = self.columns
    used = [part.curve for parts in (self.panels, self.thresholds, self.late) for part in parts]
    for curve in (*used, *(measure.given for measure in self.late if measure.given)):
      if curve not in known:
        raise ValueError(f"experiment {self.name!r} has no curve {curve!r}, only {', '.join(known)}")
    names = [part.name for parts in (self.methods, self.peers) for part in parts]
    if len(set(names)) != len(names):
      raise ValueError(f"experiment {self.name!r} has two methods of one name among {names}")

  @property
  def steps_in_words(self) -> str:
    """What `over` counts, for tables and pictures."""
    return self.over.replace("_", " ")

  @property
  def columns(self) -> tuple[str, ...]:
    """The columns of a run's curves."""
    return (*EVALUATION_COLUMNS, *self.recorded, *self.probes)

  def select(self, names: Sequence[str]) -> tuple[Method, ...]:
    """The methods of these names, the experiment's own or others of `configs.methods`.

    Args:
      names: in any order; empty for all of the experiment's own.

    Raises:
      UserError: a name is unknown; the sentence names the nearest.
    """
    if not names:
      return self.methods
    known = {name: known_method(name) for name in METHODS} | {method.name: method for method in self.methods}
    for name in names:
      if name not in known:
        raise UserError(f"The experiment {self.name!r} has no method {name!r}: {name_hint(name, known)}")
    return tuple(known[name] for name in dict.fromkeys(names))

  def config_of(self, method: Method, budget: Budget, seed: int) -> RunConfig:
    """The config of one run, which uses its whole budget whether it is solved or not, unless `ends_when_solved`.

    It does not hold the experiment's name, so that experiments can have runs in common.
    """
    config = method.change(budget.change(self.config))
    if method.name in budget.of_methods:
      config = budget.of_methods[method.name](config)
    return dataclasses.replace(
      config,
      seed=seed,
      environment_steps=budget.steps if self.over == "environment_steps" else environment_steps(config, budget.steps),
      evaluator=dataclasses.replace(config.evaluator, solved_evaluations=int(self.ends_when_solved)),
      learner=dataclasses.replace(config.learner, device="CPU:0"),
    )


@dataclasses.dataclass(frozen=True)
class Calculation:
  """A figure of a paper that needs no run: it is computed in seconds.

  Attributes:
    name: on the command line.
    summary: what it shows and where it is in the paper, on one line.
    budgets: name -> number of seeds.
    write: computes it for a number of seeds and writes it to a folder, with the command that made it; returns the table that it
      wrote, for the terminal.
  """

  name: str
  summary: str
  budgets: Mapping[str, int]
  write: Callable[[int, pathlib.Path, str], str]


def known_method(name: str, label: str = "") -> Method:
  """The method `name` of `configs.methods`."""
  return Method(name, label or name.replace("_", " "), METHODS[name])


def from_memory(method: Method) -> Method:
  """`method`, with replay in the learner's own memory."""
  return Method(
    f"{method.name}_memory", f"{method.label}, memory", lambda config: replaying_from_memory(method.change(config))
  )


def with_events_of(other: RunConfig) -> Change:
  """Takes the events and the tables, with their shares, of another config."""

  def change(config: RunConfig) -> RunConfig:
    replay = dataclasses.replace(config.replay, default=other.replay.default, tables=other.replay.tables)
    return dataclasses.replace(config, events=other.events, replay=replay)

  return change


def replaying_from_memory(config: RunConfig) -> RunConfig:
  """`config` with replay in the learner's own memory."""
  return dataclasses.replace(config, replay=dataclasses.replace(config.replay, sampling="memory"))


def with_history(method: Callable[[RunConfig], RunConfig], history: int) -> Change:
  """`method`, with histories of so many steps of all its events."""

  def change(config: RunConfig) -> RunConfig:
    config = method(config)
    return dataclasses.replace(
      config, events=tuple(dataclasses.replace(event, history=history) for event in config.events)
    )

  return change


def with_learner(method: Callable[[RunConfig], RunConfig], **changes: Any) -> Change:
  """`method`, with changes of `learner`."""

  def change(config: RunConfig) -> RunConfig:
    config = method(config)
    return dataclasses.replace(config, learner=dataclasses.replace(config.learner, **changes))

  return change


def with_priority(method: Callable[[RunConfig], RunConfig], **changes: Any) -> Change:
  """`method`, with changes of `replay.priority`."""

  def change(config: RunConfig) -> RunConfig:
    config = method(config)
    priority = dataclasses.replace(config.replay.priority, **changes)
    return dataclasses.replace(config, replay=dataclasses.replace(config.replay, priority=priority))

  return change


def papers_methods() -> tuple[Method, ...]:
  """The methods that the paper's Figures 2 and 4 compare."""
  return (
    known_method("uniform", "Uniform ER"),
    known_method("sset", "SSET"),
    known_method("reverse_sweep", "Reverse-sweep*"),
    known_method("per", "PER"),
    known_method("sset_per", "PER + SSET"),
  )


def evaluated_every(config: RunConfig, gradient_steps: int) -> RunConfig:
  """`config` with an evaluation every `gradient_steps`, which are a multiple of a block's updates."""
  return dataclasses.replace(config, evaluator=dataclasses.replace(config.evaluator, period_updates=gradient_steps))


def environment_steps(config: RunConfig, gradient_steps: int) -> int:
  """The environment steps that an inline run takes for so many gradient steps."""
  steps_per_update = config.replay.environment_steps_per_update or 1.0
  return config.replay.default.min_size + round(gradient_steps * steps_per_update)
