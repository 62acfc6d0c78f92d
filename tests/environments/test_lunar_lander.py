"""The lunar lander's events, on observations by hand and on the real environment."""

import numpy as np
import pytest
from gymnasium.envs.box2d import lunar_lander

from configs import EnvironmentConfig, EventSpec, ReplayConfig, RunConfig, TableSpec, UserError
from environments import EventStep, make_event_environment
from environments.lunar_lander import FLAG_DISTANCE, land_between_flags, land_near_middle

BETWEEN, NEAR, TINY = 0b001, 0b010, 0b100


def at(x=0.0, y=0.0, left=False, right=False):
  """A step to the state with these values."""
  observation = np.array([x, y, 0, 0, 0, 0, left, right], np.float32)
  return EventStep(np.zeros(8, np.float32), 0, 0.0, observation, {}, False, False)


@pytest.mark.parametrize(
  ("step", "fires"),
  [
    (at(left=True, right=True), True),
    (at(0.19, left=True, right=True), True),
    (at(-0.19, left=True, right=True), True),
    (at(0.21, left=True, right=True), False),
    (at(-0.21, left=True, right=True), False),
    (at(left=True), False),
    (at(right=True), False),
    (at(), False),
    (at(np.nan, left=True, right=True), False),
  ],
)
def test_land_between_flags_asks_for_both_legs_and_a_place_between_the_flags(step, fires):
  assert land_between_flags(step) is fires


@pytest.mark.parametrize(
  ("step", "radius", "fires"),
  [
    (at(), 0.1, True),
    (at(0.06, 0.07), 0.1, True),
    (at(-0.06, -0.07), 0.1, True),
    (at(0.08, 0.07), 0.1, False),
    (at(0.0, 0.11), 0.1, False),
    (at(0.08, 0.07), 0.2, True),
    (at(0.15, left=True, right=True), 0.1, False),
    (at(np.nan), 0.1, False),
  ],
)
def test_land_near_middle_asks_for_the_distance_alone(step, radius, fires):
  assert land_near_middle(step, radius) is fires


def test_near_the_middle_is_within_half_the_way_to_a_flag():
  assert [land_near_middle(at(x)) for x in (0.099, 0.101)] == [True, False]


@pytest.mark.parametrize("radius", [0, -1, float("nan")])
def test_a_radius_that_no_distance_is_within_is_refused(radius):
  with pytest.raises(UserError, match=r"land_near_middle has the radius .*: it must be a positive number\."):
    land_near_middle(at(), radius)


@pytest.mark.parametrize("condition", [land_between_flags, land_near_middle])
def test_another_world_is_refused(condition):
  step = at()._replace(next_observation=np.zeros(4, np.float32))
  with pytest.raises(UserError, match=r"looks at a lunar lander's 8 numbers, .* the shape \(4,\): use it with LunarL"):
    condition(step)


def test_the_flags_are_where_the_environment_puts_them():
  env = lunar_lander.LunarLander()
  env.reset(seed=0)
  half_width = lunar_lander.VIEWPORT_W / lunar_lander.SCALE / 2
  flags = [(x - half_width) / half_width for x in (env.helipad_x1, env.helipad_x2)]
  np.testing.assert_allclose(flags, [-FLAG_DISTANCE, FLAG_DISTANCE])
  # As the environment observes the height of a lander that stands on the pad on straight legs.
  assert env.helipad_y == lunar_lander.VIEWPORT_H / lunar_lander.SCALE / 4


def land(name, seed, target=0.0, arguments=None):
  """An episode of gymnasium's own heuristic, aiming at x = `target`; the time steps after the first one."""
  tables = tuple(TableSpec(event, 0.1) for event in ("between", "near", "tiny"))
  module = "environments.lunar_lander"
  config = RunConfig(
    environment=EnvironmentConfig(name, arguments or {}),
    events=(
      EventSpec("between", f"{module}:land_between_flags", 200),
      EventSpec("near", f"{module}:land_near_middle", 200),
      EventSpec("tiny", f"{module}:land_near_middle", 200, arguments={"radius": 0.01}),
    ),
    replay=ReplayConfig(default=TableSpec("default", 0.7), tables=tables),
  )
  env = make_event_environment(config, seed=seed)
  steps = [env.reset()]
  while not steps[-1].last():
    observation = steps[-1].observation.astype(np.float64)
    observation[0] -= target
    steps.append(env.step(lunar_lander.heuristic(env.gym_env, observation)))
  env.close()
  return steps[1:]


LANDERS = pytest.mark.parametrize(
  ("name", "arguments"),
  [("LunarLander-v3", {}), ("LunarLanderContinuous-v3", {}), ("LunarLander-v3", {"continuous": True})],
  ids=["discrete", "continuous", "continuous by argument"],
)


@LANDERS
def test_a_landing_between_the_flags_fires_both(name, arguments):
  steps = land(name, seed=2, arguments=arguments)
  assert steps[-1].terminated
  assert steps[-1].reward == 100  # It has come to rest.
  assert steps[-1].events == BETWEEN | NEAR | TINY
  # In flight it comes near the middle, and only then stands; at the top there is neither.
  first_near, first_landed = (next(t for t, s in enumerate(steps) if s.events & bit) for bit in (NEAR, BETWEEN))
  assert 0 < first_near < first_landed
  standing = [s.events for s in steps if s.observation[6] and s.observation[7]]
  assert len(standing) > 20
  assert all(events & BETWEEN for events in standing)
  for s in steps:
    distance = np.hypot(s.observation[0], s.observation[1])
    assert bool(s.events & NEAR) is bool(distance <= 0.1)
    assert bool(s.events & TINY) is bool(distance <= 0.01)


@LANDERS
@pytest.mark.parametrize("target", [-0.5, 0.5])
def test_a_landing_beside_the_flags_fires_neither(name, arguments, target):
  steps = land(name, seed=2, target=target, arguments=arguments)
  assert steps[-1].terminated
  assert abs(steps[-1].observation[0]) > FLAG_DISTANCE
  assert any(s.observation[6] or s.observation[7] for s in steps)
  assert not any(s.events for s in steps)
