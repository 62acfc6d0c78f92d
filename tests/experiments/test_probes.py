"""Probes against plain loops over a world's states."""

import dataclasses

import numpy as np
import pytest

from configs import EnvironmentConfig, UserError
from environments import ThreeRooms, make_environment_spec, make_event_environment
from experiments.probes import summed_q
from networks import flatten_weights, make_q_network
from tests.experiments.tiny import CONFIG


def test_summed_q_is_the_sum_over_every_state_that_the_agent_can_be_in_and_every_action():
  environment = make_event_environment(CONFIG)
  network = make_q_network(make_environment_spec(environment), CONFIG.network, seed=3)
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
