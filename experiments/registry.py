"""The experiments by name."""

import functools
from collections.abc import Callable, Mapping
from typing import TypeVar

from configs import UserError
from configs.errors import name_hint
from configs.presets.nmer import TUNED
from configs.presets.refer import ALGORITHMS
from experiments import (
  bad_events,
  beyond,
  continuous,
  manifold,
  nmer,
  obstacle_course,
  racing,
  randomised_skills,
  reaper,
  refer,
  stylised,
  three_rooms,
  two_rooms,
)
from experiments.definition import Budget, Calculation, Experiment

_B = TypeVar("_B")

EXPERIMENTS: Mapping[str, Callable[[], Experiment]] = {
  "three_rooms": three_rooms.get_experiment,
  "new_items": three_rooms.get_new_items,
  "three_rooms_memory": three_rooms.get_memory,
  "importance": three_rooms.get_importance,
  "two_rooms": two_rooms.get_experiment,
  "shaping": two_rooms.get_shaping,
  "potentials": two_rooms.get_potentials,
  "bad_events": bad_events.get_experiment,
  "obstacle_course": obstacle_course.get_experiment,
  "obstacle_course_long": obstacle_course.get_long,
  "obstacle_course_short": obstacle_course.get_short,
  "randomised_skills": randomised_skills.get_experiment,
  "forgetting": obstacle_course.get_forgetting,
  "histories": obstacle_course.get_histories,
  "weights": obstacle_course.get_weights,
  "cagrad": randomised_skills.get_cagrad,
  "pendulum": continuous.get_pendulum,
  "lunar_lander": continuous.get_lunar_lander,
  "lunar_lander_batches": continuous.get_lunar_lander_batches,
  "halfcheetah": continuous.get_half_cheetah,
  "hopper": continuous.get_hopper,
  "walker2d": continuous.get_walker,
  "humanoid": continuous.get_humanoid,
  "hopper_histories": continuous.get_hopper_histories,
  "walker2d_histories": continuous.get_walker_histories,
  "humanoid_histories": continuous.get_humanoid_histories,
  "slingshot": racing.get_slingshot,
  "slingshot_thresholds": racing.get_slingshot_thresholds,
  "time_trial": racing.get_time_trial,
  "reaper_cartpole": reaper.get_cartpole,
  "reaper_acrobot": reaper.get_acrobot,
  "reaper_lunar_lander": reaper.get_lunar_lander,
  "reaper_exponents": reaper.get_exponents,
  "reaper_three_rooms": reaper.get_three_rooms,
  **{
    f"nmer_{algorithm}_{world.lower()}": functools.partial(nmer.get_buffers, algorithm, world)
    for algorithm, worlds in TUNED.items()
    for world in worlds
  },
  "nmer_ratio": nmer.get_ratio,
  "nmer_neighbors": nmer.get_neighbors,
  "nmer_sset": nmer.get_sset,
  **{
    f"refer_{algorithm}_{world.lower()}": functools.partial(refer.get_rules, algorithm, world)
    for algorithm in ALGORITHMS
    for world in refer.WORLDS
  },
  "refer_sensitivity": refer.get_sensitivity,
  "refer_sensitivity_learner": refer.get_learner_sensitivity,
  "beyond_three_rooms": beyond.get_three_rooms,
  "beyond_two_rooms": beyond.get_two_rooms,
}


CALCULATIONS: Mapping[str, Callable[[], Calculation]] = {
  "reaper_stylised": stylised.get_stylised,
  "nmer_manifold": manifold.get_manifold,
}


def find_study(name: str) -> Experiment | Calculation:
  """The experiment or the calculation `name`.

  Raises:
    UserError: there is none; the sentence names the nearest.
  """
  known: Mapping[str, Callable[[], Experiment | Calculation]] = {**EXPERIMENTS, **CALCULATIONS}
  if name not in known:
    raise UserError(f"There is no experiment {name!r}: {name_hint(name, known)}")
  return known[name]()


def find_experiment(name: str) -> Experiment:
  """The experiment `name`.

  Raises:
    UserError: there is none; the sentence names the nearest.
  """
  if name not in EXPERIMENTS:
    raise UserError(f"There is no experiment {name!r}: {name_hint(name, EXPERIMENTS)}")
  return EXPERIMENTS[name]()


def find_budget(experiment: Experiment, name: str) -> Budget:
  """The experiment's budget `name`.

  Raises:
    UserError: it has none of that name; the sentence names the nearest.
  """
  return _find_budget(experiment.name, experiment.budgets, name)


def find_seeds(calculation: Calculation, budget: str) -> int:
  """The calculation's number of seeds with this budget.

  Raises:
    UserError: as `find_budget`.
  """
  return _find_budget(calculation.name, calculation.budgets, budget)


def _find_budget(experiment: str, budgets: Mapping[str, _B], name: str) -> _B:
  if name not in budgets:
    raise UserError(f"The experiment {experiment!r} has no budget {name!r}: {name_hint(name, budgets)}")
  return budgets[name]
