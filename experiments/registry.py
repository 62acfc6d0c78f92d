"""The experiments by name."""

from collections.abc import Callable, Mapping

from configs import UserError
from configs.errors import name_hint
from experiments import bad_events, continuous, obstacle_course, racing, randomised_skills, three_rooms, two_rooms
from experiments.definition import Budget, Experiment

EXPERIMENTS: Mapping[str, Callable[[], Experiment]] = {
  "three_rooms": three_rooms.get_experiment,
  "new_items": three_rooms.get_new_items,
  "three_rooms_memory": three_rooms.get_memory,
  "two_rooms": two_rooms.get_experiment,
  "shaping": two_rooms.get_shaping,
  "potentials": two_rooms.get_potentials,
  "bad_events": bad_events.get_experiment,
  "obstacle_course": obstacle_course.get_experiment,
  "randomised_skills": randomised_skills.get_experiment,
  "forgetting": obstacle_course.get_forgetting,
  "histories": obstacle_course.get_histories,
  "weights": obstacle_course.get_weights,
  "cagrad": randomised_skills.get_cagrad,
  "pendulum": continuous.get_pendulum,
  "lunar_lander": continuous.get_lunar_lander,
  "halfcheetah": continuous.get_half_cheetah,
  "hopper": continuous.get_hopper,
  "walker2d": continuous.get_walker,
  "humanoid": continuous.get_humanoid,
  "walker2d_histories": continuous.get_walker_histories,
  "humanoid_histories": continuous.get_humanoid_histories,
  "slingshot": racing.get_slingshot,
  "time_trial": racing.get_time_trial,
}


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
  if name not in experiment.budgets:
    raise UserError(f"The experiment {experiment.name!r} has no budget {name!r}: {name_hint(name, experiment.budgets)}")
  return experiment.budgets[name]
