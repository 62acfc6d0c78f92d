"""What the worlds on minigrid's grid share: rules, observation, seeds, pictures, and that every episode can be solved."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX

from configs import EnvironmentConfig, UserError
from environments import (
  BUILT_IN,
  GridWorld,
  ObstacleCourse,
  RandomisedSkills,
  ThreeRooms,
  TwoRooms,
  make,
  shortest_plan,
)
from environments.grid_world import DROP, FORWARD, HEADINGS, PICKUP, TOGGLE, TURN_LEFT, TURN_RIGHT
from environments.randomised_skills import SKILLS
from launch.report import path_picture
from tests.environments.playing import Reference, happened, picture_of, play, solve, things

WORLDS = {
  "two_rooms": lambda **options: TwoRooms(**options),
  "obstacle_course": lambda **options: ObstacleCourse(**options),
  "shifted_course": lambda **options: ObstacleCourse(start=(1, 4), **options),
  "small_course": lambda **options: ObstacleCourse(room_size=3, doors=3, keys=3, **options),
  "randomised_skills": lambda **options: RandomisedSkills(**options),
  "small_skills": lambda **options: RandomisedSkills(width=5, height=2, **options),
}
with_view = [name for name in WORLDS if name != "two_rooms"]
seeds = st.integers(0, 2**31 - 1)


@pytest.mark.parametrize("name", ["ThreeRooms", "TwoRooms", "ObstacleCourse", "RandomisedSkills"])
def test_it_is_registered_and_passes_the_check_of_gymnasium(name):
  env = gymnasium.make(f"Slipstream/{name}-v0", render_mode="rgb_array", disable_env_checker=True)
  check_env(env.unwrapped)
  env.close()


@pytest.mark.parametrize("name", ["two_rooms", "obstacle_course", "randomised_skills"])
def test_it_is_made_by_its_name_and_rendered_where_pictures_are_asked_for(name):
  env = make(EnvironmentConfig(name, {"time_limit": 7}), render=True)
  assert isinstance(env, GridWorld)
  assert (env.NAME, env.time_limit, env.render_mode) == (name, 7, "rgb_array")


@pytest.mark.parametrize("world", WORLDS)
def test_every_episode_can_be_solved_without_harm(world):
  env = WORLDS[world]()
  for seed in range(100):
    env.reset(seed=seed)
    steps = play(env, solve(env))
    assert [step.terminated for step in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[-1].info["at_goal"]
    assert steps[-1].reward == 1.0
    assert not any(step.info["at_spike"] or step.info["at_lava"] for step in steps)


@pytest.mark.parametrize("world", WORLDS)
def test_the_same_seed_gives_the_same_episodes(world):
  def episodes(seed):
    env = WORLDS[world]()
    grids, observations = [], []
    for episode_seed in (seed, None, None):
      observation, _ = env.reset(seed=episode_seed)
      grids.append(env.grid.encode())
      observations += [observation, *(env.step(action)[0] for action in (FORWARD, TURN_RIGHT, FORWARD))]
    return np.stack(grids), np.stack(observations)

  (grids, observations), (again, observations_again), (others, _) = episodes(5), episodes(5), episodes(6)
  np.testing.assert_array_equal(grids, again)
  np.testing.assert_array_equal(observations, observations_again)
  if world != "two_rooms":
    assert (grids != others).any()
    assert (grids[0] != grids[1]).any()


@pytest.mark.parametrize("world", with_view)
@settings(max_examples=30, deadline=None)
@given(seed=seeds, actions=st.lists(st.sampled_from([TURN_LEFT, TURN_RIGHT, FORWARD, FORWARD, PICKUP, DROP, TOGGLE])))
def test_it_moves_and_observes_as_the_library_does(world, seed, actions):
  env = WORLDS[world](time_limit=1_000)
  env.reset(seed=seed)
  reference = Reference(env)
  # Along a solution first, so that keys are carried and doors stand open in most examples.
  plan = solve(env)
  actions = [*plan[: seed % len(plan)], *actions]
  for action in actions:
    observation, _, terminated, _, info = env.step(action)
    _, _, reference_terminated, _, _ = reference.step(action)
    assert info["position"] == tuple(reference.agent_pos)
    assert info["heading"] == reference.agent_dir
    assert terminated == reference_terminated
    assert observation in env.observation_space
    assert_the_observation_shows(reference, observation)
    if terminated:
      break
  np.testing.assert_array_equal(env.grid.encode(), reference.grid.encode())


def features(encoded):
  """The thirteen numbers for objects in the library's encoding: type, colour, state [..., 3]."""
  kinds, colours, states = np.moveaxis(encoded, -1, 0)
  doors = kinds == OBJECT_TO_IDX["door"]
  coloured = doors | (kinds == OBJECT_TO_IDX["key"])
  return np.stack(
    [
      *(kinds == OBJECT_TO_IDX[kind] for kind in ("wall", "door", "key", "goal", "lava", "floor")),
      *(coloured & (colours == COLOR_TO_IDX[colour]) for colour in ("red", "green", "blue", "purple", "yellow")),
      doors & (states == STATE_TO_IDX["locked"]),
      doors & (states == STATE_TO_IDX["open"]),
    ],
    axis=-1,
  )


def assert_the_observation_shows(reference, observation):
  seen = reference.gen_obs_grid()[0].encode().transpose(1, 0, 2)  # [row, column, 3]
  # In the agent's cell the library shows the object in hand, but our worlds show what the agent stands on.
  x, y = reference.agent_pos
  below = reference.grid.get(x, y)
  seen[4, 2] = (1, 0, 0) if below is None else below.encode()
  np.testing.assert_array_equal(observation[:325].reshape(5, 5, 13), features(seen))
  in_hand = reference.carrying
  expected = [0, *[-1] * 13] if in_hand is None else [1, *features(np.array(in_hand.encode()))]
  np.testing.assert_array_equal(observation[325:339], expected)
  pose = [(x - 1) / (reference.width - 3), (y - 1) / (reference.height - 3), reference.agent_dir / 3]
  np.testing.assert_allclose(observation[339:], 2 * np.array(pose) - 1, atol=1e-6)


@pytest.mark.parametrize("world", WORLDS)
@settings(max_examples=50, deadline=None)
@given(seed=seeds, actions=st.lists(st.integers(0, 5), max_size=80))
def test_a_step_brings_about_one_thing_at_most_and_its_reward(world, seed, actions):
  env = WORLDS[world](time_limit=1_000)
  env.reset(seed=seed)
  rewards = {"at_spike": -1.0, "at_lava": -1.0, "at_goal": 1.0}
  for action in actions:
    before = env.position
    (step,) = play(env, [action % env.action_space.n])
    assert len(happened(step)) <= 1
    name = "".join(happened(step))
    assert step.reward == rewards.get(name, -0.1 if world == "two_rooms" else -0.01)
    assert step.terminated == (name in ("at_lava", "at_goal"))
    assert step.info["moved"] == (env.position != before)
    if step.terminated:
      break


def test_an_observation_by_hand():
  env = RandomisedSkills(skill="gap", width=5, height=3)
  observation, info = env.reset(seed=0)
  (wall,), rows = {x for x, _ in things(env, "wall")}, {y for _, y in things(env, "wall")}
  (gap,) = env.gaps
  assert (wall, gap[0], rows | {gap[1]}) == (3, 3, {1, 2, 3})
  assert info["position"] == (1, 1)
  assert info["heading"] == 0
  # Facing right from the top-left corner: left of the agent is the outer wall and what lies beyond, on its right the
  # floor; the wall that parts the room is two cells ahead.
  walls, goals = observation[:325].reshape(5, 5, 13)[..., [0, 3]].transpose(2, 0, 1)
  divider = [0 if (3, row) == gap else 1 for row in (1, 2, 3)]
  floor = [0, 0, 0]
  np.testing.assert_array_equal(walls, [[1, 1, *row] for row in (floor, floor, divider, floor, floor)])
  assert np.argwhere(goals).tolist() == [[0, 4]]
  assert observation[:325].sum() == walls.sum() + goals.sum()
  np.testing.assert_array_equal(observation[325:], [0, *[-1] * 13, -1, -1, -1])


def test_writing_on_an_observation_or_stepping_on_changes_no_other_observation():
  env = ObstacleCourse()
  observation, _ = env.reset(seed=1)
  kept = observation.copy()
  env.step(TURN_RIGHT)
  np.testing.assert_array_equal(observation, kept)
  observation[:] = 7
  again, _ = env.reset(seed=1)
  np.testing.assert_array_equal(again, kept)


@pytest.mark.parametrize("world", WORLDS)
def test_the_episode_is_truncated_at_the_time_limit_and_then_needs_a_reset(world):
  env = WORLDS[world](time_limit=3)
  with pytest.raises(gymnasium.error.ResetNeeded, match=env.NAME):
    env.step(TURN_LEFT)
  env.reset(seed=1)
  steps = play(env, [TURN_LEFT] * 3)
  assert [(step.terminated, step.truncated) for step in steps] == [(False, False), (False, False), (False, True)]
  with pytest.raises(gymnasium.error.ResetNeeded):
    env.step(TURN_LEFT)


def test_the_goal_at_the_time_limit_terminates():
  env = RandomisedSkills(skill="gap")
  env.reset(seed=4)
  plan = solve(env)
  limited = RandomisedSkills(skill="gap", time_limit=len(plan))
  limited.reset(seed=4)
  last = play(limited, plan)[-1]
  assert (last.terminated, last.truncated) == (True, False)


def test_a_dropped_key_lies_there_and_can_be_picked_up_again():
  env = RandomisedSkills(skill="open_door")
  env.reset(seed=3)
  plan = solve(env)
  play(env, plan[: plan.index(PICKUP) + 1])
  key = env.carrying
  assert key.type == "key"
  assert things(env, "key") == {}
  (dropped,) = play(env, [DROP])
  assert happened(dropped) == []
  assert env.carrying is None
  assert list(things(env, "key").values()) == [key]
  np.testing.assert_array_equal(dropped.next_observation[325:339], [0, *[-1] * 13])
  assert happened(play(env, [PICKUP])[0]) == ["pickup_key"]


def test_a_key_is_dropped_only_on_free_floor_and_only_one_can_be_carried():
  env = ObstacleCourse(room_size=5)
  for seed in range(20):
    env.reset(seed=seed)
    plan = solve(env)
    play(env, plan[: plan.index(PICKUP) + 1])
    key = env.carrying
    while env.grid.get(*np.add(env.position, HEADINGS[env.heading])) is None:
      env.step(FORWARD)
    ahead = env.grid.get(*np.add(env.position, HEADINGS[env.heading]))
    play(env, [DROP, PICKUP])
    assert env.carrying is key
    assert env.grid.get(*np.add(env.position, HEADINGS[env.heading])) is ahead


def test_a_plan_starts_from_the_middle_of_an_episode():
  env = ObstacleCourse()
  env.reset(seed=8)
  plan = solve(env)
  for action in plan:
    assert len(solve(env)) == len(plan)
    env.step(action)
    plan = plan[1:]
  assert solve(env) == ()


def test_a_plan_drops_a_key_where_another_lies_behind_it():
  env = ObstacleCourse(room_size=5)
  env.reset(seed=119446)
  # One key blocks the gap into the third room, and the other one lies before the door of the first.
  plan = solve(env)
  assert plan.count(DROP) == 1
  assert plan.count(PICKUP) == 2
  assert play(env, plan)[-1].info["at_goal"]


def test_there_is_no_plan_if_the_goal_cannot_be_reached():
  env = RandomisedSkills(skill="gap")
  env.reset(seed=1)
  (gap,) = env.gaps
  env.grid.set(*gap, env.objects.Wall())
  assert shortest_plan(env) is None
  env.grid.set(*gap, env.objects.Door("red", is_locked=True))
  assert shortest_plan(env) is None
  env.grid.set(*gap, env.objects.Door("red"))
  assert TOGGLE in solve(env)


@pytest.mark.parametrize("world", WORLDS)
def test_pictures_show_the_agent_where_it_is_and_an_episodes_frames_make_one_picture(world):
  env = WORLDS[world](render_mode="rgb_array")
  env.reset(seed=2)
  frames = [picture_of(env)]
  for action in solve(env):
    env.step(action)
    frames.append(picture_of(env))
    (x, y), red = env.position, np.array([255, 0, 0])
    middle = frames[-1][y * 32 + 12 : y * 32 + 20, x * 32 + 12 : x * 32 + 20]
    assert (middle == red).all(axis=-1).mean() > 0.5
  assert {(frame.shape, frame.dtype) for frame in frames} == {((env.height * 32, env.width * 32, 3), np.dtype("uint8"))}
  picture = path_picture(frames)
  # The way is redder than the empty world.
  assert picture[..., 0].mean() > frames[0][..., 0].mean()


def test_a_picture_shows_what_is_seen_and_what_is_carried():
  plain, lit = (RandomisedSkills(skill="open_door", render_mode="rgb_array", highlight=lit) for lit in (False, True))
  for env in (plain, lit):
    env.reset(seed=3)
  brighter = picture_of(lit).astype(int).sum(axis=-1) > picture_of(plain).astype(int).sum(axis=-1)
  cells = {(x, y) for y in range(lit.height) for x in range(lit.width) if brighter[y * 32 + 16, x * 32 + 6]}
  # Facing right from (1, 1): five columns and two rows below, with the wall above.
  assert cells == {(x, y) for x in range(1, 6) for y in range(4)}
  empty_handed = picture_of(plain)
  plan = solve(plain)
  play(plain, plan[: plan.index(PICKUP) + 1])
  assert (picture_of(plain)[:32, :32] != empty_handed[:32, :32]).any()


def test_without_a_render_mode_there_is_no_picture():
  env = TwoRooms()
  env.reset()
  assert env.render() is None


@pytest.mark.parametrize(
  ("make_world", "arguments", "sentence"),
  [
    (TwoRooms, {"room_size": 1}, r"two_rooms has the room_size 1: it must be a whole number from 2 to 400\."),
    (TwoRooms, {"gap_row": 6}, r"two_rooms has the gap_row 6: it must be a whole number from 1 to 5\."),
    (TwoRooms, {"goal_row": 0}, r"two_rooms has the goal_row 0"),
    (TwoRooms, {"time_limit": 0}, r"two_rooms has the time_limit 0: it must be a whole number of at least 1\."),
    (TwoRooms, {"render_mode": "human"}, r"two_rooms has no render_mode 'human': use 'rgb_array' or none\."),
    (ObstacleCourse, {"room_size": 2}, r"obstacle_course has the room_size 2: it must be a whole number from 3 to 40"),
    (ObstacleCourse, {"start": (2, 2)}, r"obstacle_course has the start \(2, 2\): give \(x, y\), .*without spikes\."),
    (ObstacleCourse, {"start": (5, 1)}, r"the start \(5, 1\): .* from 1 to 4"),
    (ObstacleCourse, {"start": (0, 1)}, r"the start \(0, 1\)"),
    (ObstacleCourse, {"start": (1,)}, r"the start \(1,\)"),
    (ObstacleCourse, {"start": (1.0, 1)}, r"the start \(1\.0, 1\)"),
    (ObstacleCourse, {"start": 1}, r"the start 1"),
    (ObstacleCourse, {"doors": 5}, r"the number of doors 5: it must be a whole number from 1 to 4\."),
    (ObstacleCourse, {"room_size": 9, "doors": 6}, r"the number of doors 6: it must be a whole number from 1 to 5\."),
    (ObstacleCourse, {"doors": 1, "keys": 2}, r"the number of keys 2: it must be a whole number from 1 to 1\."),
    (ObstacleCourse, {"step_reward": float("nan")}, r"has the step_reward nan: it must be a finite number\."),
    (RandomisedSkills, {"width": 4}, r"randomised_skills has the width 4: it must be a whole number from 5 to 100\."),
    (RandomisedSkills, {"height": 1}, r"randomised_skills has the height 1"),
    (RandomisedSkills, {"height": 2, "doors": 3}, r"the number of doors 3: it must be a whole number from 1 to 2\."),
    (RandomisedSkills, {"skill": "door"}, r"has the skill 'door': use one of lava, gap, open_door, or none for all\."),
    (RandomisedSkills, {"step_reward": "0"}, r"the step_reward '0'"),
  ],
)
def test_an_argument_that_is_not_valid_is_refused(make_world, arguments, sentence):
  with pytest.raises(UserError, match=sentence):
    make_world(**arguments)


def run_without_minigrid(code):
  code = f"import sys\nsys.modules['minigrid'] = None\n{code}"
  result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
  return result.stdout


def test_without_minigrid_a_grid_world_is_refused_and_other_worlds_and_all_events_load():
  said = run_without_minigrid(
    "import environments, environments.events\n"
    "environments.ThreeRooms()\n"
    "environments.load_reference('environments.obstacle_course:at_spike', 'The condition')\n"
    "try: environments.make(environments.factory.EnvironmentConfig('obstacle_course'))\n"
    "except environments.factory.UserError as error: print(error)\n"
  )
  assert said == (
    "obstacle_course needs the package 'minigrid', which is not installed: install the extra 'worlds', for example with "
    "pip install -e '.[worlds]'.\n"
  )


def test_the_three_rooms_do_not_wait_for_minigrid():
  code = "import sys, environments; environments.ThreeRooms(); print({'minigrid', 'pygame'} & set(sys.modules))"
  result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
  assert result.stdout == "set()\n"


def test_every_built_in_world_has_a_class_here():
  grid = {ThreeRooms, TwoRooms, ObstacleCourse, RandomisedSkills}
  racing = {"slingshot", "time_trial", "time_trials"}
  assert grid == {type(make(EnvironmentConfig(name))) for name in set(BUILT_IN) - racing}


def test_the_skills_are_what_the_world_can_ask_for():
  assert {RandomisedSkills(skill=skill).skills for skill in SKILLS} == {(skill,) for skill in SKILLS}
