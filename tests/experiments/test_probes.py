"""Probes against plain loops over a world's states."""

import dataclasses

import numpy as np
import pytest

from actors.evaluator import PlayedEpisode
from configs import EnvironmentConfig, RunConfig, UserError, load_config
from environments import ThreeRooms, make_environment_spec, make_event_environment
from experiments import probes
from experiments.probes import summed_q
from networks import flatten_weights, make_q_network
from tests.experiments.tiny import CONFIG


def test_summed_q_is_the_sum_over_every_state_that_the_agent_can_be_in_and_every_action():
  environment = make_event_environment(CONFIG)
  network = make_q_network(CONFIG, make_environment_spec(environment), seed=3)
  world = environment.gym_env
  assert isinstance(world, ThreeRooms)
  total, states = 0.0, 0
  for x in range(world.width):
    for y in range(world.height):
      if world.is_free((x, y)):
        for heading in range(4):
          observation = [2 * x / (world.width - 1) - 1, 2 * y / (world.height - 1) - 1, 2 * heading / 3 - 1]
          total += float(network(np.array([observation], np.float32)).numpy().sum())
          states += 1
  # Three rooms of 2 x 2 cells and two gaps, in four headings.
  assert states == (3 * 4 + 2) * 4
  assert summed_q(CONFIG)(flatten_weights(network)) == pytest.approx(total, rel=1e-4)


def test_a_world_that_does_not_list_its_states_is_refused():
  config = dataclasses.replace(CONFIG, environment=EnvironmentConfig("CartPole-v1"))
  with pytest.raises(UserError, match="'CartPole-v1' does not list its states"):
    summed_q(config)


def weights_for(config: RunConfig, seed: int) -> np.ndarray:
  return flatten_weights(make_q_network(config, make_environment_spec(make_event_environment(config)), seed))


@pytest.mark.parametrize(
  ("probe", "skill"), [("lava_return", "lava"), ("gap_return", "gap"), ("door_return", "open_door")]
)
def test_a_skills_return_is_that_of_episodes_with_that_skill_and_the_same_ones_every_time(probe, skill, monkeypatch):
  config = load_config("randomised_skills")
  world = dataclasses.replace(config.environment, arguments={"time_limit": 20, "step_reward": -0.1})
  # With random actions, so that these are the same every time too.
  evaluator = dataclasses.replace(config.evaluator, epsilon=0.2)
  config = dataclasses.replace(config, environment=world, evaluator=evaluator)
  made = []

  def make(*args, **kwargs):
    made.append(make_event_environment(*args, **kwargs))
    return made[-1]

  monkeypatch.setattr(probes, "make_event_environment", make)
  play = getattr(probes, probe)(config)
  weights = weights_for(config, seed=1)
  assert play(weights) == play(weights)
  # Ten episodes that end in lava (-1) or at the time limit, or by chance at the goal.
  assert -3 <= play(weights) <= 1
  assert {getattr(environment.gym_env.unwrapped, "skill", None) for environment in made} == {skill}


def test_the_shifted_success_starts_elsewhere_and_counts_episodes_that_reach_the_goal(monkeypatch):
  config = load_config("obstacle_course")
  starts = []

  def play_episode(environment, behaviour):
    environment.reset()
    starts.append(tuple(environment.gym_env.unwrapped.position))
    goal = 1 << [event.name for event in config.events].index("done")
    return PlayedEpisode(0.0, 1, goal if len(starts) % 5 == 0 else 1)

  monkeypatch.setattr(probes, "play_episode", play_episode)
  assert probes.shifted_success(config)(weights_for(config, seed=1)) == pytest.approx(0.2)
  assert starts == [(1, 4)] * 10
