"""The obstacle course and its events."""

import numpy as np
import pytest

from environments import ObstacleCourse, shortest_plan
from environments.grid_world import FORWARD, PICKUP, TOGGLE, TURN_LEFT, TURN_RIGHT
from environments.obstacle_course import at_door, at_gap, at_lava, at_spike, done, pickup_key
from tests.environments.playing import happened, play, solve, things

EVENTS = {
  "at_spike": at_spike,
  "at_lava": at_lava,
  "at_gap": at_gap,
  "pickup_key": pickup_key,
  "at_door": at_door,
  "done": done,
}


def fired(steps):
  """(index of the step, name) of every event that fires."""
  return [(number, name) for number, step in enumerate(steps) for name, condition in EVENTS.items() if condition(step)]


def begin(seed=0, **arguments):
  env = ObstacleCourse(**{"room_size": 5, **arguments})
  env.reset(seed=seed)
  return env


def go_to(env, column, row):
  """Walks down and then right to a cell of the first room; it must lie below and to the right of the start."""
  x, y = env.position
  return play(env, [TURN_RIGHT, *[FORWARD] * (row - y), TURN_LEFT, *[FORWARD] * (column - x)])


def test_the_rooms_are_in_order_and_random_objects_stay_in_their_room():
  env = ObstacleCourse(room_size=5, doors=3, keys=2)
  places: dict[str, set[object]] = {kind: set() for kind in ("gap", "crossing", "lava", "door", "key", "colour")}
  for seed in range(100):
    env.reset(seed=seed)
    assert env.position == (1, 1)
    assert set(things(env, "floor")) == {(3, row) for row in (2, 3, 4, 5)}
    assert list(things(env, "goal")) == [(23, 5)]
    (column,) = {x for x, _ in things(env, "lava")}
    rows = {y for _, y in things(env, "lava")}
    assert column in (8, 9, 10)
    assert len(rows) == 4
    assert {x for x, _ in env.gaps} == {6, 12}
    assert {x for x, _ in things(env, "wall")} == {6, 12, 18}
    doors, keys = things(env, "door"), things(env, "key")
    assert {x for x, _ in doors} == {18}
    assert all(door.is_locked for door in doors.values())
    colours = [door.color for door in doors.values()]
    assert len(set(colours)) == len(colours) == 3
    assert len(keys) == 2
    assert {key.color for key in keys.values()} < set(colours)
    assert {x for x, _ in keys} <= set(range(13, 18))
    places["gap"] |= env.gaps
    places["crossing"] |= {1, 2, 3, 4, 5} - rows
    places["lava"].add(column)
    places["door"] |= set(doors)
    places["key"] |= set(keys)
    places["colour"] |= set(colours)
  # Each episode draws them anew, and everything possible comes up.
  assert {kind: len(found) for kind, found in places.items()} == {
    "gap": 10,
    "crossing": 5,
    "lava": 3,
    "door": 5,
    "key": 25,
    "colour": 5,
  }


def test_a_solution_fires_the_events_of_the_way_in_their_order():
  for seed in range(30):
    env = begin(seed)
    plan = solve(env)
    steps = play(env, plan)
    events = fired(steps)
    assert [name for _, name in events] == ["at_gap", "at_gap", "pickup_key", "at_door", "done"]
    assert [number for number, _ in events][2:] == [plan.index(PICKUP), plan.index(TOGGLE), len(plan) - 1]
    assert sum(step.reward for step in steps) == pytest.approx(1 - 0.01 * (len(plan) - 1))


def test_the_spikes_cost_a_point_on_arrival_and_end_nothing():
  env = begin()
  steps = go_to(env, 3, 2)
  assert fired(steps) == [(len(steps) - 1, "at_spike")]
  assert [step.reward for step in steps] == [-0.01] * (len(steps) - 1) + [-1.0]
  # Turning on the spikes costs no more than elsewhere; the next row has spikes too.
  steps = play(env, [TURN_RIGHT, FORWARD, TURN_LEFT, FORWARD])
  assert fired(steps) == [(1, "at_spike")]
  assert [step.reward for step in steps] == [-0.01, -1.0, -0.01, -0.01]
  assert not any(step.terminated for step in steps)


def test_the_top_row_has_no_spikes():
  steps = play(begin(), [FORWARD] * 4)
  assert fired(steps) == []
  assert steps[-1].info["position"] == (5, 1)


def test_lava_costs_a_point_and_ends_the_episode():
  lavas = 0
  for seed in range(20):
    env = begin(seed)
    plan = solve(env)
    # To the first gap, and on, straight ahead into the lava unless its crossing is in this row.
    first_gap = next(number for number, step in enumerate(play(env, plan)) if at_gap(step))
    env.reset(seed=seed)
    play(env, plan[: first_gap + 1])
    (column,) = {x for x, _ in things(env, "lava")}
    steps = play(env, [FORWARD] * (column - 6))
    if (column, env.position[1]) in things(env, "lava"):
      lavas += 1
      assert fired(steps) == [(len(steps) - 1, "at_lava")]
      assert steps[-1].reward == -1.0
      assert steps[-1].terminated
    else:
      assert fired(steps) == []
  assert 10 <= lavas < 20


def test_the_start_of_the_experiment_on_forgetting():
  env = begin(room_size=4, start=[1, 4])
  assert env.position == (1, 4)
  steps = play(env, [FORWARD, FORWARD])
  assert fired(steps) == [(0, "at_spike")]


def steps_to_lava(env):
  """The fewest steps in which the agent can walk into lava."""
  lava = list(things(env, "lava"))
  lengths = []
  for cell in lava:
    for other in lava:
      env.grid.set(*other, env.objects.Goal() if other == cell else env.objects.Wall())
    env.goal = cell
    plan = shortest_plan(env)
    lengths += [] if plan is None else [len(plan)]
  return min(lengths)


def test_a_cost_of_a_tenth_a_step_would_often_make_lava_worth_more_than_the_goal():
  """Why the default is -0.01 and not the other worlds' -0.1: see the module."""

  def value(step_reward, steps, last_reward):
    """The return of an episode of `steps` steps, with a discount of 0.99."""
    return step_reward * (1 - 0.99 ** (steps - 1)) / 0.01 + last_reward * 0.99 ** (steps - 1)

  better = {-0.1: 0, -0.01: 0}
  for seed in range(40):
    env = ObstacleCourse()
    env.reset(seed=seed)
    to_goal, to_lava = len(solve(env)), steps_to_lava(env)
    for reward in better:
      better[reward] += value(reward, to_lava, -1) > value(reward, to_goal, 1)
  assert better[-0.1] > 30
  assert better[-0.01] == 0
  # Waiting for ever is worth as much as stepping into lava at once.
  assert value(-0.01, 10_000, 0) == pytest.approx(-1)


def test_what_a_step_costs_is_an_argument():
  for arguments, cost in (({}, -0.01), ({"step_reward": -0.1}, -0.1)):
    env = begin(**arguments)
    rewards = [step.reward for step in play(env, solve(env))]
    assert rewards == [cost] * (len(rewards) - 1) + [1.0]


def test_the_observation_has_342_numbers_and_there_are_6_actions():
  env = ObstacleCourse()
  assert env.observation_space.shape == (342,)
  assert env.action_space.n == 6


def test_the_observation_tells_spikes_from_everything_else():
  env = begin()
  observation, _ = env.reset(seed=0)
  found = np.argwhere(observation[:325].reshape(5, 5, 13)[..., 5])
  # Facing right from (1, 1): two cells ahead, the rows below are to the right.
  assert found.tolist() == [[2, 3], [2, 4]]


@pytest.mark.parametrize("room_size", [3, 4, 8])
def test_other_sizes_have_the_same_order(room_size):
  env = begin(room_size=room_size)
  assert env.width == 4 * room_size + 5
  names = [name for _, name in fired(play(env, solve(env)))]
  assert names == ["at_gap", "at_gap", "pickup_key", "at_door", "done"]


def test_walking_back_through_a_gap_is_a_crossing_too():
  env = begin()
  plan = solve(env)
  first_gap = next(number for number, step in enumerate(play(env, plan)) if at_gap(step))
  env.reset(seed=0)
  play(env, [*plan[: first_gap + 1], FORWARD, TURN_LEFT, TURN_LEFT])
  assert [happened(step) for step in play(env, [FORWARD, FORWARD])] == [["at_gap"], []]
