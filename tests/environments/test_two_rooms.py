"""The two-room world and its events, good and bad."""

import numpy as np
import pytest

from environments import TwoRooms
from environments.grid_world import FORWARD, TURN_LEFT, TURN_RIGHT
from environments.two_rooms import at_gap, done, near_goal, near_initial
from tests.environments.playing import play, solve, things


def begin(**arguments):
  env = TwoRooms(**arguments)
  observation, info = env.reset()
  return env, observation, info


def test_the_agent_starts_bottom_left_and_the_goal_and_the_gap_are_where_the_arguments_put_them():
  env, observation, info = begin(room_size=4, gap_row=2, goal_row=3)
  assert info["position"] == (1, 4)
  assert (info["start_distance"], info["goal_distance"]) == (0, 9)
  np.testing.assert_array_equal(observation, [-1, 1, -1])
  assert list(things(env, "goal")) == [(9, 3)]
  assert set(things(env, "wall")) == {(5, 1), (5, 3), (5, 4)}
  assert env.gaps == {(5, 2)}


def test_an_observation_is_scaled_from_edge_to_edge():
  env, _, _ = begin(room_size=5)
  steps = play(env, [FORWARD, TURN_LEFT, FORWARD])
  np.testing.assert_allclose(
    [step.next_observation for step in steps], [[-0.8, 1, -1], [-0.8, 1, 1], [-0.8, 0.5, 1]], atol=1e-6
  )
  assert steps[0].next_observation.dtype == np.float32


def test_the_shortest_path_of_the_default_is_21_steps_through_the_gap_to_the_goal():
  # 4 cells up, 10 to the right, 4 down, and 3 turns.
  env, _, _ = begin()
  path = env.shortest_path()
  steps = play(env, path)
  assert len(path) == 21
  assert [step.info["position"] for step in steps if at_gap(step)] == [(6, 1)]
  assert [done(step) for step in steps] == [False] * 20 + [True]
  assert [step.reward for step in steps] == [-0.1] * 20 + [1.0]


def test_the_shortest_path_is_from_the_start_wherever_the_agent_is():
  env, _, _ = begin()
  play(env, [TURN_LEFT, FORWARD])
  assert len(env.shortest_path()) == 21
  assert len(solve(env)) == 19
  assert env.position == (1, 4)


def test_the_gap_event_is_the_arrival_and_not_the_stay():
  env, _, _ = begin(room_size=2, gap_row=2)
  steps = play(env, [FORWARD, FORWARD, TURN_LEFT, FORWARD, TURN_RIGHT, FORWARD, TURN_LEFT, TURN_LEFT, FORWARD])
  assert [at_gap(step) for step in steps] == [False, True, False, False, False, False, False, False, True]


def test_near_goal_fires_on_arrivals_close_to_the_goal_but_not_on_it():
  env, _, _ = begin()
  path = env.shortest_path()
  near = [step for step in play(env, path) if near_goal(step)]
  # The way comes down the last column to (11, 5).
  assert [step.info["position"] for step in near] == [(11, 3), (11, 4)]
  env.reset()
  assert [step.info["position"] for step in play(env, path) if near_goal(step, distance=1)] == [(11, 4)]


def test_near_goal_does_not_fire_on_a_turn():
  env, _, _ = begin()
  play(env, env.shortest_path()[:-1])
  assert not any(near_goal(step) for step in play(env, [TURN_LEFT, TURN_RIGHT]))


def test_near_initial_fires_on_arrivals_close_to_the_start():
  env, _, _ = begin()
  steps = play(env, [TURN_RIGHT, FORWARD, TURN_LEFT, FORWARD, FORWARD, FORWARD, TURN_LEFT, TURN_LEFT, FORWARD])
  # Against the wall nothing moves; (4, 5) is three cells away; the last step comes back to (3, 5).
  assert [near_initial(step) for step in steps] == [False, False, False, True, True, False, False, False, True]
  assert [near_initial(step, distance=3) for step in steps][5] is True


def test_all_observations_are_four_a_free_cell():
  env, _, _ = begin(room_size=3)
  # Two rooms of 9 cells and the gap.
  observations = env.all_observations()
  assert observations.shape == (19 * 4, 3)
  assert len(np.unique(observations, axis=0)) == 19 * 4
  rng = np.random.default_rng(0)
  possible = {tuple(row) for row in observations}
  seen = {tuple(step.next_observation) for step in play(TwoRoomsForever(3), rng.integers(0, 3, 5_000).tolist())}
  goal = {tuple(row) for row in observations if tuple(row[:2]) == (1, 1)}
  # An episode ends on the goal, so the agent is never seen there.
  assert seen | goal == possible


class TwoRoomsForever(TwoRooms):
  """Resets itself when an episode ends."""

  def __init__(self, room_size):
    super().__init__(room_size)
    self.reset()

  def step(self, action):
    result = super().step(action)
    if result[2] or result[3]:
      self.reset()
    return result


@pytest.mark.parametrize(
  ("position", "free"),
  [((0, 1), False), ((1, 0), False), ((7, 1), True), ((8, 1), False), ((4, 1), True), ((4, 2), False), ((1, 3), True)],
)
def test_walls_and_the_outside_are_not_free(position, free):
  assert TwoRooms(room_size=3).is_free(position) is free
