"""Probes: curves beside the evaluator's, computed from a policy's weights.

Each function here takes a run's config and returns a probe, a function from weights, float32 [P], to a number. A probe that plays
episodes plays the same ones after every evaluation of a run; runs with another seed play others.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.evaluator import PlayedEpisode, is_solved, make_evaluated_behaviour, play_episode, split_seed
from configs import RunConfig, UserError
from configs.seeding import derive_seed
from environments import ThreeRooms, make, make_environment_spec, make_event_environment
from networks import make_acting_q_network
from replay_server.contract.policy import PolicySnapshot

# For each number of a probe that plays.
_EPISODES = 10

Weights = npt.NDArray[np.float32]  # [P]
Probe = Callable[[Weights], float]


def summed_q(config: RunConfig) -> Probe:
  """The learned Q values, summed over all states and actions (SSET, Section 5.1 and Figure 2(b)).

  Raises:
    UserError: the run's world does not list its states.
  """
  world = make(config.environment)
  if not isinstance(world, ThreeRooms):
    raise UserError(f"The world {config.environment.name!r} does not list its states: leave the probe 'summed_q' out.")
  observations = world.all_observations()
  environment = make_event_environment(config)
  spec = make_environment_spec(environment)
  environment.close()
  return lambda weights: float(make_acting_q_network(config, spec, weights).values(observations).sum(dtype=np.float64))


def lava_return(config: RunConfig) -> Probe:
  """The mean return where the skill is to go round lava (randomised_skills)."""
  return _mean_return(config, skill="lava")


def gap_return(config: RunConfig) -> Probe:
  """The mean return where the skill is to go through a gap (randomised_skills)."""
  return _mean_return(config, skill="gap")


def door_return(config: RunConfig) -> Probe:
  """The mean return where the skill is to open the right door (randomised_skills)."""
  return _mean_return(config, skill="open_door")


def shifted_success(config: RunConfig) -> Probe:
  """The share of episodes from the shifted start (1, 4) that reach the goal (obstacle_course; SSET, Appendix A.2)."""
  goal = [event.name for event in config.events].index(config.evaluator.solved_event)
  played = _played(config, start=[1, 4])
  return lambda weights: float(np.mean([episode.events >> goal & 1 for episode in played(weights)]))


def noisy_success(config: RunConfig) -> Probe:
  """The share of episodes that solve the world while a twentieth of the actions is random.

  A greedy policy that turns on the spot in one state never leaves it; with a few random actions it does, so this tells an almost
  right policy from a useless one.
  """
  noisy = dataclasses.replace(config, evaluator=dataclasses.replace(config.evaluator, epsilon=0.05))
  names = [event.name for event in config.events]
  played = _played(noisy)
  return lambda weights: float(np.mean([is_solved([episode], config.evaluator, names) for episode in played(weights)]))


def _mean_return(config: RunConfig, **arguments: Any) -> Probe:
  played = _played(config, **arguments)
  return lambda weights: float(np.mean([episode.episode_return for episode in played(weights)]))


def _played(config: RunConfig, **arguments: Any) -> Callable[[Weights], list[PlayedEpisode]]:
  """A function that plays as the evaluator does, in the run's world with some arguments changed."""
  changed = config.with_arguments("evaluator", arguments).of_evaluator

  def play(weights: Weights) -> list[PlayedEpisode]:
    seed, rng = split_seed(derive_seed(config.seed, "probe"))
    environment = make_event_environment(changed, seed=seed)
    snapshot = PolicySnapshot(version=0, learner_steps=0, weights=weights)
    behaviour = make_evaluated_behaviour(config, environment, snapshot, rng)
    try:
      return [play_episode(environment, behaviour) for _ in range(_EPISODES)]
    finally:
      environment.close()

  return play
