"""`slipstream events`: rolls out a policy and reports how a config's events fire."""

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from acme import specs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.behaviour import Behaviour
from actors.engine import choose_actions
from configs import RunConfig, UserError, to_json
from configs.files import replace_text
from configs.seeding import derive_seed
from environments import EventEnvironment, make_environment_spec, make_event_environment
from environments.timestep import EventTimeStep
from experiments.event_report import EpisodeTrace, EventsReport, EventUse, TableUse, make_report
from experiments.waypoints import Journey, Waypoint, find_waypoints, goal_of, with_waypoints
from launch.stored_policy import policy_path
from launch.view.formats import format_number
from networks import make_acting_policy
from replay_server.contract.policy import PolicySnapshot, load_snapshot

# Used if the output is not a terminal, as a log or a file can be wide.
_PLAIN_WIDTH = 160
_LEGEND = (
  "steps back: what a history needs to reach an earlier event or the episode's start; drawn: times as often as without event "
  "tables."
)


@dataclasses.dataclass(frozen=True)
class RollOut:
  """What to roll out.

  Attributes:
    config: with the world and the events.
    steps: environment steps.
    seed: of the world and of the random actions.
    snapshot: of the policy, with its own config; None for random actions.
    epsilon: share of random actions beside the policy's; None takes the workers' own.
  """

  config: RunConfig
  steps: int
  seed: int
  snapshot: tuple[PolicySnapshot, RunConfig] | None = None
  epsilon: float | None = None


def load_policy(checkpoint: str) -> tuple[PolicySnapshot, RunConfig]:
  """The policy of a run directory, or of a policy file, with its config.

  Raises:
    UserError: there is none.
  """
  stored = load_snapshot(policy_path(pathlib.Path(checkpoint)))
  return stored.snapshot, stored.config


def show_events(roll_out: RollOut, as_json: bool) -> int:
  """Rolls out and prints the report; returns the exit code.

  Raises:
    UserError: the config has no events, they or the world cannot be made, or the policy does not fit the world.
  """
  report = make_report(roll_out.config, collect(roll_out))
  if as_json:
    print(to_json(report))
    return 0
  console = _make_console()
  console.print(_heading(roll_out, report))
  console.print()
  console.print(_event_table(report.events))
  console.print()
  console.print(_table_table(report.tables))
  console.print()
  console.print(Text(_LEGEND, style="dim"), soft_wrap=not console.is_terminal)
  for sentence in report.advice:
    console.print()
    console.print(Text(sentence, style="yellow"), soft_wrap=not console.is_terminal)
  if not report.advice:
    console.print()
    console.print("Nothing here is against the paper's advice.")
  return 0


def propose_events(roll_out: RollOut, count: int, out: pathlib.Path | None) -> int:
  """Rolls out, prints up to `count` waypoints and writes the config that has them for its events; returns the exit code.

  Raises:
    UserError: as `collect_journeys`; no episode reaches the goal, no place is on the way of most that do, or the file cannot be
      written.
  """
  journeys = collect_journeys(roll_out)
  waypoints = find_waypoints(journeys, count)
  if not waypoints:
    raise UserError(
      "No place in one or two dimensions of the observation is passed by nine of ten episodes that reach the goal and less often "
      "by the others: take more --steps, or write the events yourself (docs/events.md)."
    )
  config = with_waypoints(roll_out.config, waypoints)
  reached = sum(journey.goal is not None for journey in journeys)
  console = _make_console()
  console.print(
    Text(
      f"{config.name}: {roll_out.steps:,} steps, {reached:,} of {len(journeys):,} episodes reach the goal", style="bold"
    )
  )
  console.print()
  console.print(_waypoint_table(waypoints))
  if out is not None:
    try:
      replace_text(out, to_json(config) + "\n")
    except OSError as error:
      raise UserError(f"{out} cannot be written ({error.strerror}): give another file with --out.") from None
    console.print()
    console.print(f"Written: {out}. Train with it: slipstream train --config={out}", soft_wrap=True)
  return 0


def _make_console() -> Console:
  console = Console(highlight=False)
  return console if console.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)


def _waypoint_table(waypoints: Sequence[Waypoint]) -> Table:
  grid = _grid("event", "of the observation", "on the way at", "passed", "by others", "per step", "history")
  for number, waypoint in enumerate(waypoints, start=1):
    bounds = zip(waypoint.dimensions, waypoint.low, waypoint.high, strict=True)
    grid.add_row(
      f"waypoint_{number}",
      ", ".join(_interval(*bound) for bound in bounds),
      _percent(waypoint.place),
      _percent(waypoint.passed),
      _percent(waypoint.passed_by_others),
      f"{waypoint.per_step:.2g}",
      f"{waypoint.history}",
    )
  return grid


def _interval(dimension: int, low: float | None, high: float | None) -> str:
  left = "" if low is None else f"{low:.4g} < "
  right = "" if high is None else f" < {high:.4g}"
  return f"{left}[{dimension}]{right}"


def collect(roll_out: RollOut) -> list[EpisodeTrace]:
  """The episodes of exactly `roll_out.steps` steps; the last one may be cut off.

  Raises:
    UserError: the config has no events, they or the world cannot be made, or the policy does not fit the world.
  """
  return [EpisodeTrace([step.events for step in episode], whole=episode[-1].last()) for episode in _episodes(roll_out)]


def collect_journeys(roll_out: RollOut) -> list[Journey]:
  """The same episodes as observations, with the steps at which they reach the goal.

  Raises:
    UserError: as `collect`; or the config names no goal, or an observation is not made of numbers.
  """
  goal = 1 << roll_out.config.events.index(goal_of(roll_out.config))
  return [
    Journey(
      np.array([_flat(step.observation) for step in episode]),
      next((index for index, step in enumerate(episode) if step.events & goal), None),
    )
    for episode in _episodes(roll_out)
  ]


def _flat(observation: Any) -> npt.NDArray[np.float64]:
  return np.asarray(observation, np.float64).reshape(-1)


def _episodes(roll_out: RollOut) -> Iterator[list[EventTimeStep]]:
  """The time steps of each episode but the first one's; none is empty."""
  config = roll_out.config
  if not config.events:
    raise UserError(f"The config {config.name!r} has no events: add some, see docs/events.md.")
  environment = make_event_environment(config.of_workers, seed=derive_seed(roll_out.seed, "events"))
  try:
    behaviour = _make_behaviour(roll_out, environment)
    episode: list[EventTimeStep] = []
    timestep = environment.reset()
    for _ in range(roll_out.steps):
      if timestep.last():
        timestep = environment.reset()
      (choice,) = choose_actions([behaviour], [timestep.observation])
      timestep = environment.step(choice.action)
      episode.append(timestep)
      if timestep.last():
        yield episode
        episode = []
    if episode:
      yield episode
  finally:
    environment.close()


def _make_behaviour(roll_out: RollOut, environment: EventEnvironment) -> Behaviour:
  rng = np.random.default_rng(derive_seed(roll_out.seed, "actions"))
  spec = environment.action_spec()
  if roll_out.snapshot is None:
    bounded = np.isfinite(spec.minimum).all() and np.isfinite(spec.maximum).all()
    return Behaviour(spec, rng) if bounded else _SpaceSamples(spec, rng, environment=environment)
  snapshot, learned = roll_out.snapshot
  _check_fits(environment, learned)
  policy = make_acting_policy(learned, make_environment_spec(environment), snapshot.weights)
  return Behaviour(spec, rng, policy, snapshot.version, _epsilon(roll_out))


@dataclasses.dataclass(eq=False, kw_only=True)
class _SpaceSamples(Behaviour):
  """Random actions for a spec without finite bounds, which gymnasium samples from unbounded spaces."""

  environment: EventEnvironment

  def random_action(self) -> npt.NDArray[Any]:
    # These are the environment's own actions: only bounded ones are mapped from [-1, 1].
    return np.asarray(self.environment.gym_env.action_space.sample(), self.actions.dtype)


def _epsilon(roll_out: RollOut) -> float:
  if roll_out.snapshot is None:
    return 1.0
  if roll_out.epsilon is not None:
    return roll_out.epsilon
  snapshot, learned = roll_out.snapshot
  # The config's exploration if its algorithm is the one that learned the policy, else that of the policy's own config.
  algorithm = roll_out.config.learner.algorithm
  if not isinstance(algorithm, type(learned.learner.algorithm)):
    algorithm = learned.learner.algorithm
  return algorithm.epsilon_at(0, snapshot.learner_steps)


def _check_fits(environment: EventEnvironment, learned: RunConfig) -> None:
  other = make_event_environment(learned)
  theirs, ours = _describe(other), _describe(environment)
  other.close()
  if theirs != ours:
    raise UserError(
      f"The policy was learned in {learned.environment.name!r}, which has {theirs}, but the config's world has {ours}: name a "
      "policy of this world."
    )


def _describe(environment: EventEnvironment) -> str:
  spec = make_environment_spec(environment)
  discrete = isinstance(spec.actions, specs.DiscreteArray)
  actions = f"{spec.actions.num_values} actions" if discrete else f"actions of the shape {spec.actions.shape}"
  return f"observations of the shape {spec.observations.shape} and {actions}"


def _heading(roll_out: RollOut, report: EventsReport) -> Text:
  ended = f"{report.episodes:,} {'episode' if report.episodes == 1 else 'episodes'}"
  how = "random actions"
  if roll_out.snapshot is not None:
    version = roll_out.snapshot[0].version
    how = f"policy {version}, {_epsilon(roll_out):.0%} random actions"
  return Text(f"{roll_out.config.name}: {report.steps:,} steps, {ended} ended, {how}", style="bold")


def _percent(share: float | None) -> str:
  if share is None:
    return "-"
  if 0 < share < 0.1:
    return f"{100 * share:.2g}%"
  return f"{share:.1%}" if 0.99 < share < 1 else f"{share:.0%}"


def _grid(*columns: str) -> Table:
  grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
  for index, column in enumerate(columns):
    grid.add_column(column, justify="right" if index else "left", overflow="fold" if not index else "ellipsis")
  return grid


def _event_table(events: tuple[EventUse, ...]) -> Table:
  grid = _grid(
    "event", "table", "fired", "per step", "episodes", "steps back: half", "90 %", "most", "history", "reaches"
  )
  for event in events:
    grid.add_row(
      event.name,
      event.table or "-",
      f"{event.firings:,}",
      format_number(event.per_step),
      _percent(event.episode_share),
      *(f"{count:,}" if count is not None else "-" for count in (event.back_median, event.back_90, event.back_most)),
      f"{event.history:,}",
      _percent(event.reaching),
      style="" if event.firings else "yellow",
    )
  return grid


def _table_table(tables: tuple[TableUse, ...]) -> Table:
  grid = _grid("table", "share of a batch", "sent", "of all steps", "capacity", "filled", "drawn")
  for table in tables:
    grid.add_row(
      table.name,
      _percent(table.probability),
      f"{table.sent:,}",
      _percent(table.step_share),
      f"{table.capacity:,}",
      _percent(table.filled),
      "-" if table.drawn is None else f"{format_number(table.drawn)} x",
      style="" if table.sent else "yellow",
    )
  return grid
