"""The randomised skills and their events."""

import collections

import pytest

from environments import RandomisedSkills
from environments.grid_world import DROP, FORWARD, PICKUP, TOGGLE, TURN_LEFT, TURN_RIGHT
from environments.randomised_skills import SKILLS, at_door, at_gap, at_lava, done, pickup_key
from tests.environments.playing import happened, play, solve, things


def begin(seed, **arguments):
  env = RandomisedSkills(**arguments)
  _, info = env.reset(seed=seed)
  return env, info


def test_each_episode_asks_for_one_skill_and_says_which():
  env = RandomisedSkills()
  env.reset(seed=1)
  counts: collections.Counter[str] = collections.Counter()
  for _ in range(600):
    _, info = env.reset()
    kinds = {thing.type for thing in things(env).values()} - {"goal"}
    assert kinds == {"lava": {"lava"}, "gap": {"wall"}, "open_door": {"wall", "door", "key"}}[info["skill"]]
    assert env.step(TURN_LEFT)[-1]["skill"] == info["skill"] == env.skill
    counts[info["skill"]] += 1
  # 200 each; five standard deviations are 58.
  assert set(counts) == set(SKILLS)
  assert all(abs(count - 200) < 58 for count in counts.values())


@pytest.mark.parametrize("skill", SKILLS)
def test_an_episode_can_be_held_to_one_skill(skill):
  env, _ = begin(0, skill=skill)
  assert {env.reset()[1]["skill"] for _ in range(20)} == {skill}


def test_the_dividing_column_moves_so_that_a_cell_can_hold_anything():
  env = RandomisedSkills()
  env.reset(seed=0)
  held = collections.defaultdict(set)
  columns = set()
  for _ in range(400):
    env.reset()
    (column,) = {x for (x, _), thing in things(env).items() if thing.type not in ("key", "goal")}
    columns.add(column)
    for cell in ((x, y) for x in range(3, 8) for y in range(1, 6)):
      thing = env.grid.get(*cell)
      held[cell].add("floor" if thing is None else thing.type)
  assert columns == {3, 4, 5, 6, 7}
  assert all({"floor", "wall", "lava", "door"} <= kinds for kinds in held.values())


@pytest.mark.parametrize(
  ("skill", "events"),
  [("lava", ["at_goal"]), ("gap", ["at_gap", "at_goal"]), ("open_door", ["pickup_key", "at_door", "at_goal"])],
)
def test_a_solution_fires_the_events_of_its_skill(skill, events):
  for seed in range(30):
    env, _ = begin(seed, skill=skill)
    steps = play(env, solve(env))
    assert [name for step in steps for name in happened(step)] == events
    assert [[c(step) for c in (at_lava, at_gap, pickup_key, at_door, done)].count(True) for step in steps] == [
      len(happened(step)) for step in steps
    ]
    assert done(steps[-1])
    assert sum(step.reward for step in steps) == pytest.approx(1 - 0.01 * (len(steps) - 1))


def test_lava_ends_the_episode():
  for seed in range(20):
    env, _ = begin(seed, skill="lava")
    column, row = next(iter(things(env, "lava")))
    steps = play(env, [TURN_RIGHT, *[FORWARD] * (row - 1), TURN_LEFT, *[FORWARD] * (column - 1)])
    assert [at_lava(step) for step in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[-1].terminated
    assert steps[-1].reward == -1.0


def door_in_front(matches):
  """A world of 5 x 2 cells in which the key lies ahead of the agent and, behind it, a door of its colour or of another."""
  env = RandomisedSkills(width=5, height=2, skill="open_door")
  for seed in range(200):
    env.reset(seed=seed)
    (cell, key), doors = next(iter(things(env, "key").items())), things(env, "door")
    if cell == (2, 1) and (doors[3, 1].color == key.color) == matches:
      return env
  raise AssertionError("One in six episodes is like that.")


def test_the_correct_door_opens_once_the_key_is_in_hand():
  env = door_in_front(matches=True)
  # A key blocks the way; a toggle does nothing to it.
  steps = play(env, [FORWARD, TOGGLE, PICKUP, FORWARD, FORWARD, TOGGLE, FORWARD, FORWARD])
  assert [happened(step) for step in steps] == [[], [], ["pickup_key"], [], [], ["at_door"], [], []]
  assert [step.info["position"][0] for step in steps] == [1, 1, 1, 2, 2, 2, 3, 4]
  assert [at_door(step) for step in steps] == [name == ["at_door"] for name in map(happened, steps)]


def test_another_door_does_not_open():
  env = door_in_front(matches=False)
  steps = play(env, [PICKUP, FORWARD, TOGGLE, FORWARD])
  assert [happened(step) for step in steps] == [["pickup_key"], [], [], []]
  assert env.position == (2, 1)
  # The one below does.
  steps = play(env, [TURN_RIGHT, FORWARD, TURN_LEFT, TOGGLE, FORWARD, FORWARD, FORWARD])
  assert [happened(step) for step in steps] == [[], [], [], ["at_door"], [], [], ["at_goal"]]


def test_the_door_does_not_open_without_its_key():
  env = door_in_front(matches=True)
  # Pick the key up, drop it behind, and go to the door.
  steps = play(env, [PICKUP, FORWARD, TURN_LEFT, TURN_LEFT, DROP, TURN_RIGHT, TURN_RIGHT, TOGGLE, FORWARD])
  assert [happened(step) for step in steps] == [["pickup_key"]] + [[]] * 8
  assert env.position == (2, 1)


def test_to_close_a_door_and_to_open_it_again_is_no_event():
  env = door_in_front(matches=True)
  steps = play(env, [PICKUP, FORWARD, TOGGLE, TOGGLE, FORWARD, TOGGLE, FORWARD])
  assert [at_door(step) for step in steps] == [False, False, True, False, False, False, False]
  # Closed, it held the agent.
  assert [step.info["position"][0] for step in steps] == [1, 2, 2, 2, 2, 2, 3]
