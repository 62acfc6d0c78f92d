"""The environments of a run, with its events and its shaping."""

import functools
from collections.abc import Sequence

from gymnasium.vector import VectorEnv

from configs import RunConfig
from environments.event_environment import EventEnvironment
from environments.factory import make, make_any
from environments.shaping import Shaping, make_potential
from environments.vector import check_vector
from environments.worlds import EventWorlds, OneWorld, VectorWorlds


def make_event_environment(
  config: RunConfig, seed: int | None = None, render: bool = False, shaped: bool = False
) -> EventEnvironment:
  """The run's environment with the run's events, as a dm_env environment.

  Args:
    config: of the run.
    seed: of the environment.
    render: whether it will render pictures.
    shaped: whether its steps carry the config's shaping, which a worker needs and an evaluator does not.

  Raises:
    UserError: the environment, an event or the potential cannot be made.
  """
  shaping = _make_shaping(config) if shaped else None
  return EventEnvironment(make(config.environment, render), config.events, seed, shaping, config.environment)


def make_event_worlds(config: RunConfig, seeds: Sequence[int]) -> list[EventWorlds]:
  """The environments that a worker steps, with events and shaping: as many worlds as there are seeds.

  Args:
    config: of the run.
    seeds: of the environments; a vector environment takes the first, for all its sub-environments.

  Returns:
    A vector environment with all of them, or single ones.

  Raises:
    UserError: the environment, an event or the potential cannot be made.
  """
  env = make_any(config.environment, False, len(seeds))
  if isinstance(env, VectorEnv):
    check_vector(env, config.environment.name, len(seeds), "actor.environments")
    return [VectorWorlds(env, config.environment, config.events, seeds[0], functools.partial(_make_shaping, config))]
  envs = [env, *(make(config.environment) for _ in seeds[1:])]
  return [
    OneWorld(EventEnvironment(env, config.events, seed, _make_shaping(config), config.environment))
    for env, seed in zip(envs, seeds, strict=True)
  ]


def _make_shaping(config: RunConfig) -> Shaping | None:
  """The config's shaping, for one environment; None if there is none."""
  if not config.environment.potential:
    return None
  potential = make_potential(config.environment.potential, config.environment.potential_arguments)
  return Shaping(potential, config.learner.discount)
