"""Two ends that SSET's authors leave open (Section 8): shares that follow TD errors, and events that nobody wrote."""

import dataclasses
import functools

from configs import RunConfig, from_json, to_json
from configs.methods import METHODS
from configs.presets import three_rooms, two_rooms
from experiments.definition import (
  Budget,
  Change,
  Experiment,
  Method,
  Panel,
  Threshold,
  evaluated_every,
  known_method,
  replaying_from_memory,
)
from experiments.waypoints import Waypoint, find_waypoints, with_waypoints

# Random steps in which events are looked for.
_STEPS = 50_000
_SEED = 0
# Gradient steps between evaluations.
_PERIOD = 320


def get_three_rooms() -> Experiment:
  """Fixed shares and such that follow TD errors, events made by hand and found ones, in the three rooms."""
  return _experiment("beyond_three_rooms", "three rooms", three_rooms.get_config(), steps=19_200, gaps=2)


def get_two_rooms() -> Experiment:
  """The same in the two rooms."""
  config = two_rooms.get_config()
  evaluator = dataclasses.replace(config.evaluator, solved_event="done", solved_return=None)
  config = dataclasses.replace(config, evaluator=evaluator)
  return _experiment("beyond_two_rooms", "two rooms", config, steps=9_600, gaps=1)


def _experiment(name: str, where: str, config: RunConfig, steps: int, gaps: int) -> Experiment:
  return Experiment(
    name=name,
    summary=f"{where}: event tables' shares by TD error, and events that are found in episodes (SSET, Section 8)",
    config=replaying_from_memory(evaluated_every(config, _PERIOD)),
    methods=(
      known_method("uniform", "Uniform ER"),
      known_method("sset", "SSET"),
      Method("by_error", "SSET, shares by TD error", _with_shares_by_error),
      Method("found", "SSET, found events", _with_found_events(gaps)),
      Method("found_by_error", "SSET, found events, shares by TD error", _with_both(gaps)),
    ),
    budgets={
      "paper": Budget(steps=steps, seeds=30),
      "quick": Budget(steps=round(steps / 4 / _PERIOD) * _PERIOD, seeds=4, change=_in_small_rooms),
    },
    panels=(Panel("eval_return", "return of the greedy policy"), Panel("train_return", "return of training episodes")),
    thresholds=(Threshold("eval_solved", 1.0, "the first evaluation that reaches the goal"),),
    recorded=("train_return",),
  )


def _with_shares_by_error(config: RunConfig) -> RunConfig:
  config = METHODS["sset"](config)
  return dataclasses.replace(config, replay=dataclasses.replace(config.replay, shares="td_error"))


def _with_found_events(count: int) -> Change:
  """The goal and `count` events that random episodes in the config's world show."""

  def change(config: RunConfig) -> RunConfig:
    config = METHODS["sset"](config)
    return with_waypoints(config, _find(to_json(config), count))

  return change


def _with_both(count: int) -> Change:
  return lambda config: _with_shares_by_error(_with_found_events(count)(config))


@functools.cache
def _find(config: str, count: int) -> tuple[Waypoint, ...]:
  """For a config as JSON, so that it is found once for all seeds."""
  # Imported here, as that takes seconds.
  from experiments.show_events import RollOut, collect_journeys

  return find_waypoints(collect_journeys(RollOut(from_json(config), _STEPS, _SEED)), count)


def _in_small_rooms(config: RunConfig) -> RunConfig:
  arguments = {**config.environment.arguments, "room_size": 3}
  return dataclasses.replace(config, environment=dataclasses.replace(config.environment, arguments=arguments))
