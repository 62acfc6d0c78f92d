"""The racing worlds: what they show, what they reward, how they begin and end."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from configs import EnvironmentConfig, EventSpec, UserError
from environments import EventEnvironment, make
from environments.racing.car import Car
from environments.racing.drawing import draw_telemetry, draw_track, draw_view, record_lap
from environments.racing.features import CAR_FEATURES, FeatureLayout
from environments.racing.rewards import COMPONENTS, SLINGSHOT, TIME_TRIAL, RewardWeights, assess
from environments.racing.simulation import Simulation
from environments.racing.tracks import circuit, straight_section
from environments.racing.world import Slingshot, TimeTrial, TimeTrialField
from tests.environments.racing.driving import LapDriver, NoisyDriver, SlingshotDriver

FULL = np.array([0.0, 1.0], np.float32)
BRAKE = np.array([0.0, -1.0], np.float32)


@pytest.mark.parametrize("name", ["slingshot", "time_trial"])
@pytest.mark.filterwarnings("ignore:.*A Box observation space m.*imum value is.*infinity.*:UserWarning")
def test_the_worlds_keep_to_gymnasiums_interface(name):
  env = make(EnvironmentConfig(name))
  check_env(env, skip_render_check=True)
  identity = {"slingshot": "Slipstream/Slingshot-v0", "time_trial": "Slipstream/TimeTrial-v0"}[name]
  assert type(gymnasium.make(identity).unwrapped) is type(env)


def test_who_does_not_race_does_not_load_the_compiler():
  code = "import sys, environments; environments.ThreeRooms(); print('numba' in sys.modules)"
  done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
  assert done.stdout == "False\n"


@pytest.mark.parametrize("name", ["slingshot", "time_trial"])
def test_a_seed_gives_the_same_episodes(name):
  def play():
    env = make(EnvironmentConfig(name))
    first = env.reset(seed=7)[0]
    seen = [env.step(np.array([0.1 * np.sin(step), 0.7], np.float32))[0] for step in range(30)]
    return np.stack([first, *seen, env.reset()[0]])

  np.testing.assert_array_equal(play(), play())


@pytest.mark.parametrize(
  ("name", "arguments", "sentence"),
  [
    ("slingshot", {"distance": 1}, "distance 1: it must be a number from 5 to 200"),
    ("slingshot", {"balance": 2.0}, "balance 2.0"),
    ("slingshot", {"course_points": 0}, "course_points 0"),
    ("slingshot", {"time_limit": 0}, "time_limit 0"),
    ("slingshot", {"render_mode": "human"}, "render_mode"),
    ("time_trial", {"laps": 0}, "laps 0"),
    ("time_trial", {"course_points": 1.5}, "course_points 1.5"),
  ],
)
def test_an_argument_that_is_not_valid_is_refused(name, arguments, sentence):
  with pytest.raises(UserError, match=sentence):
    make(EnvironmentConfig(name, arguments))


def by_name(layout, observation):
  assert len(layout.names) == len(set(layout.names)) == len(observation)
  return dict(zip(layout.names, observation.tolist(), strict=True))


def test_features_are_what_their_names_say():
  simulation = Simulation(straight_section(), [Car(), Car(), Car()])
  simulation.place([300.0, 330.0, 290.0], [1.3, 0.0, -2.0], [80.0, 70.0, 60.0])
  layout = FeatureLayout(course_points=6, opponents=2)
  seen = by_name(layout, layout.observe(simulation.race)[0])
  assert tuple(layout.names)[: len(CAR_FEATURES)] == CAR_FEATURES
  assert seen["forward_speed"] == pytest.approx(0.8)
  assert seen["left_speed"] == 0
  assert seen["lateral"] == pytest.approx(0.2)
  assert seen["half_width"] == pytest.approx(0.65)
  assert (seen["course_sine"], seen["course_cosine"]) == (0, 1)
  assert (seen["wall_contact"], seen["car_contact"], seen["off_course"]) == (0, 0, 0)
  assert seen["slipstream"] == pytest.approx(np.exp(-25.3 / 26 - 0.5 * (1.3 / 1.5) ** 2))
  # 80 m/s and 6 s: a point every 80 m.
  assert seen["point_0_centre_x"] == pytest.approx(0.8, abs=1e-6)
  assert seen["point_0_left_y"] == pytest.approx((6.5 - 1.3) / 100, abs=1e-6)
  assert seen["point_3_right_x"] == pytest.approx(3.2, abs=1e-3)
  assert seen["point_0_right_y"] == pytest.approx((-6.5 - 1.3) / 100, abs=1e-6)
  assert [seen[f"ahead_0_{name}"] for name in ("there", "x", "y", "speed_x")] == pytest.approx(
    [1, 0.4, -1.3 / 75, -0.2]
  )
  assert [seen[f"behind_0_{name}"] for name in ("there", "x", "y", "speed_x")] == pytest.approx(
    [1, -10 / 75, -3.3 / 75, -0.4]
  )
  assert seen["ahead_1_there"] == seen["behind_1_there"] == 0
  # 75 m ahead and 20 m behind are the limits.
  simulation.place([300.0, 376.0, 279.0], [0.0, 0.0, 0.0], [80.0, 70.0, 60.0])
  seen = by_name(layout, layout.observe(simulation.race)[0])
  assert seen["ahead_0_there"] == seen["behind_0_there"] == 0


def test_opponents_come_nearest_first_and_points_in_the_cars_frame():
  simulation = Simulation(circuit(), [Car()] * 4)
  length = circuit().length
  simulation.place([length - 10, 30.0, 5.0, 60.0], [0.0, 0.0, 1.0, 2.0], [0.0] * 4)
  layout = FeatureLayout(course_points=2, opponents=3)
  seen = by_name(layout, layout.observe(simulation.race)[0])
  assert [seen[f"ahead_{k}_x"] * 75 for k in range(3)] == pytest.approx([15, 40, 70], abs=0.05)
  # Turned by a right angle to the left, the course goes to the right.
  simulation.cars.yaw[0] += np.pi / 2
  seen = by_name(layout, layout.observe(simulation.race)[0])
  assert seen["point_0_centre_x"] == pytest.approx(0, abs=1e-3)
  assert seen["point_0_centre_y"] == pytest.approx(-0.6, abs=1e-3)  # 20 m/s at least.


def components(simulation):
  out = np.zeros((len(simulation.cars), len(COMPONENTS)))
  assess(simulation.race, out)
  return [dict(zip(COMPONENTS, row, strict=True)) for row in out.tolist()]


def test_rewards_components_by_hand():
  simulation = Simulation(straight_section(), [Car(), Car()])
  simulation.place([300.0, 330.0], [0.0, 0.0], [50.0, 40.0])
  cars = simulation.cars
  cars.progress = [5.0, 4.0]
  cars.off_time, cars.wall_time = [0.05, 0.0], [0.1, 0.0]
  cars.front_ratio, cars.front_angle = [0.1, 0.0], [0.2, 0.0]
  cars.rear_ratio, cars.rear_angle = [-3.0, 0.0], [-0.1, 0.0]
  cars.collided, cars.at_fault, cars.rear_speed = [1, 1], [1, 0], [10.0, 0.0]
  first, second = components(simulation)
  assert first == pytest.approx(
    {
      "progress": 5.0,
      "off_course": -0.05 * 180**2,
      "off_course_linear": -0.05 * 180,
      "wall": -0.1 * 180**2,
      "tyre_slip": -2 * (0.1 * 0.2 + 1 * 0.1),
      "passing": 1.0,
      "collision": -1.0,
      "rear_collision": -100.0,
      "unsportsmanlike": -1.0,
    }
  )
  assert second["passing"] == 0  # 30 m behind is too far.
  cars.tyres_out[0] = 3
  assert components(simulation)[0]["progress"] == 0
  ones = np.ones((1, len(COMPONENTS)))
  assert RewardWeights().reward(ones)[0] == SLINGSHOT.reward(ones)[0] == pytest.approx(1 + 5 + 0.1 + 0.5 + 4 + 0.1 + 5)
  assert TIME_TRIAL.reward(ones)[0] == pytest.approx(1 + 0.01 + 0.1 + 0.25)


def test_the_slingshot_begins_behind_at_random_and_ends_with_the_section():
  env = Slingshot()
  launches = []
  for seed in range(30):
    _, info = env.reset(seed=seed)
    launches.append((info["distance"], -info["lead"], info["lateral"], env.simulation.race.parameters.power[1]))
  distances, leads, laterals, powers = np.array(launches).T
  np.testing.assert_allclose(distances, leads, atol=0.1)
  assert 10 <= distances.min() < 15
  assert 35 < distances.max() <= 40
  assert np.ptp(laterals) > 5
  assert 0.75 * 650_000 <= powers.min() < powers.max() <= 1.25 * 650_000
  _, info = Slingshot(distance=35).reset(seed=1)
  assert info["lead"] == pytest.approx(-35, abs=0.1)
  for _ in range(600):
    *_, terminated, truncated, info = env.step(BRAKE)
  assert (terminated, truncated) == (False, True)
  assert info["measures"]["won"] == 0


def test_the_sections_end_is_no_terminal_state_as_its_metres_would_be_worth_the_same_at_any_speed():
  env = Slingshot(distance=35.0)
  env.reset(seed=0)
  driver = NoisyDriver(0, steering=0.0, throttle=0.0)
  truncated = False
  while not truncated:
    *_, terminated, truncated, info = env.step(driver.act(env.simulation))
    assert not terminated
  assert info["along"] >= env.simulation.track.finish
  assert env.seconds < 25


def test_a_shorter_time_limit_ends_the_slingshot_of_a_car_that_stands():
  env = Slingshot(time_limit=2.5)
  env.reset(seed=0)
  ends = [env.step(BRAKE)[2:4] for _ in range(25)]
  assert ends == [(False, False)] * 24 + [(False, True)]


def test_progress_is_rewarded_in_metres():
  env = Slingshot(distance=200.0)
  env.reset(seed=0)
  _, reward, _, _, info = env.step(FULL)
  assert reward == pytest.approx(8.0, abs=0.2)
  assert set(info) >= {"slipstream", "won", "lead", "off_course", "speed"}


def test_cars_of_a_time_trial_are_spread_and_begin_anew_one_by_one():
  field = TimeTrialField(cars=20, course_points=4)
  generator = np.random.default_rng(0)
  observations = field.reset(generator)
  assert observations.shape == (20, len(field.layout.names))
  along = np.sort(field.simulation.cars.along)
  assert np.diff(along, append=along[0] + circuit().length).max() < 2.1 * circuit().length / 20
  for _ in range(5):
    observations, rewards, terminated, truncated = field.step(np.tile(FULL, (20, 1)))
  assert observations.dtype == np.float32
  assert rewards.shape == terminated.shape == truncated.shape == (20,)
  before = field.simulation.cars.copy()
  chosen = np.arange(20) == 3
  field.reset(generator, chosen)
  assert field.laps.seconds[3] == 0
  assert field.laps.seconds[4] == pytest.approx(0.5)
  assert field.simulation.cars.travelled[3] == 0
  for name in ("x", "speed", "travelled", "front_load"):
    np.testing.assert_array_equal(field.simulation.cars[name][~chosen], before[name][~chosen])


def test_a_time_trial_is_truncated_after_150_seconds_and_says_how_it_went():
  env = TimeTrial()
  env.reset(seed=2)
  driver = LapDriver(env.field.simulation, Car())
  for step in range(1, 1501):
    _, _, terminated, truncated, info = env.step(driver.act(env.field.simulation)[0])
    assert not terminated
    assert truncated == (step == 1500)
  assert info["measures"]["clean"] == 1
  assert info["measures"]["metres"] > 6000


def test_events_read_the_slipstream_and_the_win():
  above = {"of": "info", "key": "slipstream", "above": 0.7}
  specs = (
    EventSpec("slipstream", "environments.conditions:Threshold", history=100, arguments=above),
    EventSpec("won", "environments.conditions:Info", history=150, arguments={"key": "won"}),
  )
  world = Slingshot(distance=35.0, balance=0.0)
  env, driver = EventEnvironment(world, specs, seed=0), SlingshotDriver()
  timesteps = [env.reset()]
  while not timesteps[-1].last():
    timesteps.append(env.step(driver.act(world.simulation).astype(np.float32)))
  fired = [int(timestep.events) for timestep in timesteps]
  assert sum(events & 1 for events in fired) > 5
  assert [events & 2 for events in fired] == [0] * (len(fired) - 1) + [2]


def test_pictures(tmp_path):
  env = Slingshot(render_mode="rgb_array")
  env.reset(seed=0)
  frame = np.asarray(env.render())
  assert frame.dtype == np.uint8
  assert frame.shape == (240, 480, 3)
  assert len(np.unique(frame.reshape(-1, 3), axis=0)) >= 5
  assert Slingshot().render() is None
  env.step(FULL)
  for _ in range(20):
    env.step(np.array([1.0, 1.0], np.float32))
  assert not np.array_equal(np.asarray(env.render()), frame)
  simulation, states = record_lap(seconds=5.0)
  assert draw_view(simulation, size=(300, 200)).shape == (200, 300, 3)
  draw_track(circuit(), states, tmp_path / "track.png")
  draw_telemetry(states, tmp_path / "lap.png", "five seconds")
  assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("track.png", "lap.png"))
