"""The three-room world."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from configs import UserError
from environments import EventStep, ThreeRooms
from environments.three_rooms import FORWARD, TURN_LEFT, TURN_RIGHT, at_gap, done

room_sizes = st.integers(2, 7)
layouts = room_sizes.flatmap(
  lambda size: st.tuples(st.just(size), st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)))
)


def play(env, actions):
  """The steps of an episode, as a condition sees them."""
  observation, _ = env.reset()
  steps = []
  for action in actions:
    following, reward, terminated, truncated, info = env.step(action)
    steps.append(EventStep(observation, action, reward, following, info, terminated, truncated))
    observation = following
  return steps


def positions(steps):
  return [step.info["position"] for step in steps]


def test_it_passes_the_check_of_gymnasium():
  check_env(ThreeRooms(render_mode="rgb_array"), skip_render_check=True)


def test_the_shortest_path_passes_both_gaps_and_reaches_the_goal():
  env = ThreeRooms()
  steps = play(env, env.shortest_path())
  assert [step.info["position"] for step in steps if at_gap(step)] == [(5, 0), (11, 4)]
  assert [done(step) for step in steps] == [False] * 32 + [True]
  assert [step.terminated for step in steps] == [False] * 32 + [True]
  assert not any(step.truncated for step in steps)
  assert [step.reward for step in steps] == [-0.1] * 32 + [1.0]
  assert steps[-1].info["position"] == (16, 0)


def test_the_shortest_path_of_the_default_is_33_steps():
  # 16 cells to the right, 3 times 4 up or down, and 5 turns.
  assert ThreeRooms().shortest_path_length() == 33


def test_gaps_on_one_row_make_the_way_short():
  # 10 cells to the right and 2 up, with one turn left, from rooms of 3 x 3 cells.
  assert ThreeRooms(room_size=3, gaps=(2, 2)).shortest_path_length() == 13


def test_turns_are_those_of_a_clock():
  env = ThreeRooms()
  thetas = [step.next_observation[2] for step in play(env, [TURN_RIGHT] * 4 + [TURN_LEFT] * 4)]
  np.testing.assert_allclose(thetas, [-1 / 3, 1 / 3, 1, -1, 1, 1 / 3, -1 / 3, -1], atol=1e-6)


def test_the_agent_goes_where_it_faces():
  env = ThreeRooms(room_size=3)
  steps = play(env, [FORWARD, TURN_LEFT, FORWARD, TURN_LEFT, FORWARD, TURN_LEFT, FORWARD])
  assert positions(steps) == [(1, 2), (1, 2), (1, 1), (1, 1), (0, 1), (0, 1), (0, 2)]


def test_walls_hold_the_agent():
  env = ThreeRooms(room_size=2)
  # The bottom of the first wall is closed; so is the outer wall below the start.
  assert positions(play(env, [FORWARD, FORWARD, TURN_RIGHT, FORWARD])) == [(1, 1)] * 4


def test_the_gap_event_is_the_arrival_and_not_the_stay():
  env = ThreeRooms(room_size=2, gaps=(1, 1))
  # Into the gap, turn there, turn back, against the wall, leave it and come back.
  actions = [FORWARD, FORWARD, TURN_LEFT, FORWARD, TURN_RIGHT, FORWARD, TURN_LEFT, TURN_LEFT, FORWARD]
  fired = [at_gap(step) for step in play(env, actions)]
  assert fired == [False, True, False, False, False, False, False, False, True]


def test_an_observation_is_scaled_from_edge_to_edge():
  env = ThreeRooms(room_size=3)
  observation, info = env.reset()
  assert observation.dtype == np.float32
  np.testing.assert_array_equal(observation, [-1, 1, -1])
  assert info == {"position": (0, 2), "at_gap": False, "at_goal": False}
  np.testing.assert_allclose(play(env, [FORWARD])[0].next_observation, [-0.8, 1, -1], atol=1e-6)


def test_the_episode_is_truncated_at_the_time_limit():
  steps = play(ThreeRooms(time_limit=3), [TURN_LEFT] * 3)
  assert [step.truncated for step in steps] == [False, False, True]
  assert not any(step.terminated for step in steps)


def test_the_goal_at_the_time_limit_terminates():
  env = ThreeRooms()
  limited = ThreeRooms(time_limit=env.shortest_path_length())
  last = play(limited, limited.shortest_path())[-1]
  assert (last.terminated, last.truncated) == (True, False)


def test_a_step_outside_an_episode_is_refused():
  env = ThreeRooms(time_limit=1)
  with pytest.raises(gymnasium.error.ResetNeeded):
    env.step(0)
  env.reset()
  env.step(0)
  with pytest.raises(gymnasium.error.ResetNeeded):
    env.step(0)


def test_an_observation_does_not_change_when_its_reader_writes_on_it():
  env = ThreeRooms()
  observation, _ = env.reset()
  observation[:] = 7
  assert env.reset()[0] in env.observation_space


@given(layouts)
def test_every_layout_can_be_solved_and_passes_two_gaps(layout):
  size, gaps = layout
  env = ThreeRooms(room_size=size, gaps=gaps)
  steps = play(env, env.shortest_path())
  assert done(steps[-1])
  assert sum(at_gap(step) for step in steps) == 2
  # No way is shorter than the cells between the two corners.
  assert len(steps) >= 3 * size + 1 + size - 1


@given(layouts, st.lists(st.integers(0, 2), max_size=60))
def test_every_observation_lies_in_the_space_and_every_cell_is_free(layout, actions):
  size, gaps = layout
  env = ThreeRooms(room_size=size, gaps=gaps)
  possible = {tuple(row) for row in env.all_observations()}
  env.reset()
  for action in actions:
    observation, _, terminated, _, info = env.step(action)
    assert observation in env.observation_space
    assert env.is_free(info["position"])
    assert tuple(observation) in possible
    if terminated:
      break


def test_all_observations_are_four_a_free_cell():
  # Three rooms of 9 cells and two gaps.
  observations = ThreeRooms(room_size=3).all_observations()
  assert observations.shape == (29 * 4, 3)
  assert len(np.unique(observations, axis=0)) == 29 * 4


@pytest.mark.parametrize("position", [(-1, 0), (0, -1), (11, 0), (0, 3), (3, 1), (7, 0)])
def test_walls_and_the_outside_are_not_free(position):
  assert not ThreeRooms(room_size=3).is_free(position)


def test_gaps_may_come_from_json():
  assert ThreeRooms(gaps=[1, 2]).gaps == ((5, 1), (11, 2))


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    ({"room_size": 1}, r"three_rooms has the room_size 1: it must be a whole number from 2 to 400\."),
    ({"room_size": 401}, r"room_size 401"),
    ({"room_size": 2.5}, r"room_size 2\.5"),
    ({"room_size": True}, r"room_size True"),
    ({"time_limit": 0}, r"three_rooms has the time_limit 0: it must be a whole number of at least 1\."),
    ({"gaps": (5, 0)}, r"three_rooms has the gap row 5: it must be a whole number from 0 to 4\."),
    ({"gaps": (0, -1)}, r"gap row -1"),
    ({"gaps": (0,)}, r"three_rooms has the gaps \(0,\): give two rows, one for each wall\."),
    ({"gaps": 3}, r"three_rooms has the gaps 3"),
    ({"render_mode": "human"}, r"three_rooms has no render_mode 'human': use 'rgb_array' or none\."),
  ],
)
def test_an_argument_that_is_not_valid_is_refused(arguments, sentence):
  with pytest.raises(UserError, match=sentence):
    ThreeRooms(**arguments)


def test_without_a_render_mode_there_is_no_picture():
  env = ThreeRooms()
  env.reset()
  assert env.render() is None


def test_the_picture_shows_walls_gaps_goal_and_agent_where_they_are():
  env = ThreeRooms(room_size=3, render_mode="rgb_array")
  env.reset()
  picture = env.render()
  assert picture is not None
  assert picture.shape == (5 * 32, 13 * 32, 3)
  assert picture.dtype == np.uint8
  middle = picture[16::32, 16::32].astype(int)  # One pixel a cell, the outer wall included.
  red, green, blue = middle[3, 1]  # The agent on the start.
  assert red > 2 * max(green, blue)
  red, green, blue = middle[1, 11]  # The goal.
  assert green > max(red, blue)
  walls = middle.sum(axis=2) < 200
  assert walls[0].all()
  assert walls[:, 0].all()
  assert list(np.flatnonzero(~walls[:, 4])) == [1]
  assert list(np.flatnonzero(~walls[:, 8])) == [3]


def test_the_agents_triangle_points_along_its_heading():
  env = ThreeRooms(render_mode="rgb_array")
  env.reset()
  right = env.render()
  env.step(TURN_RIGHT)
  down = env.render()
  assert right is not None
  assert down is not None
  cell = (slice(5 * 32, 6 * 32), slice(32, 64))
  red = [picture[cell].astype(int)[..., 0] - picture[cell].astype(int)[..., 2] > 60 for picture in (right, down)]
  # The base of the triangle, where most of its pixels are, lies behind its middle.
  assert red[0][:, :16].sum() > red[0][:, 16:].sum()
  assert red[1][:16].sum() > red[1][16:].sum()
