"""Scripted drivers: the slingshot pass, clean laps, a cut corner, racing among each other, and what noise alone achieves."""

import numpy as np
import pytest

from configs import EventSpec
from environments import EventEnvironment
from environments.racing.car import Car
from environments.racing.simulation import STEP, Simulation
from environments.racing.tracks import circuit
from environments.racing.world import Slingshot, TimeTrial
from tests.environments.racing.driving import CornerCutter, LapDriver, NoisyDriver, SlingshotDriver

# The paper's event of the time trial (Section 7.2): 2 s on course after having left it.
THEN = "environments.conditions:Then"
OFF = {"condition": "environments.conditions:Info", "arguments": {"key": "off_course"}}
ON = {"condition": "environments.conditions:Info", "arguments": {"key": "off_course", "equals": False}}
RE_ESTABLISHED = {
  "first": OFF,
  "second": {"condition": "environments.conditions:Held", "arguments": {"condition": ON, "steps": 20}},
}


def run(env, driver, seed):
  """Plays an episode; returns its last `info`."""
  env.reset(seed=seed)
  while True:
    *_, terminated, truncated, info = env.step(driver.act(env.simulation))
    if terminated or truncated:
      return info


@pytest.mark.parametrize("seed", range(5))
def test_on_equal_cars_the_slipstream_makes_the_pass(seed):
  info = run(Slingshot(distance=35.0, balance=0.0), SlingshotDriver(), seed)
  assert info["won"]
  assert 10 <= info["lead"] <= 25
  assert info["measures"]["off_course_steps"] == info["measures"]["contact_steps"] == 0
  assert info["measures"]["strongest_slipstream"] > 0.7
  assert info["measures"]["section_seconds"] < 25


@pytest.mark.parametrize("seed", range(3))
def test_without_a_slipstream_the_same_driver_stays_behind(seed):
  info = run(Slingshot(distance=35.0, balance=0.0, slipstream_drag=0.0), SlingshotDriver(), seed)
  assert not info["won"]
  assert info["lead"] < -30


def test_noise_alone_seldom_reaches_the_slipstream_and_hardly_ever_wins(capsys):
  episodes = 120
  env = Slingshot()
  measures = [run(env, NoisyDriver(seed), seed)["measures"] for seed in range(episodes)]
  reached = {bound: np.mean([m["strongest_slipstream"] > bound for m in measures]) for bound in (0.1, 0.7, 0.9)}
  won = np.mean([m["won"] for m in measures])
  with capsys.disabled():
    print(f"\n  straight driving with noise: slipstream above {reached}, won {won:.3f}")
  assert 0.45 < reached[0.1] < 0.85
  assert 0.01 <= reached[0.7] < 0.15
  assert reached[0.9] <= reached[0.7]
  assert won < 0.08


def test_three_laps_of_the_built_in_driver_are_clean():
  env = TimeTrial(laps=3)
  env.reset(seed=0)
  simulation = env.field.simulation
  driver = LapDriver(simulation, Car())
  times: list[float] = []
  for _ in range(4500):
    *_, terminated, _, info = env.step(driver.act(simulation)[0])
    if info["laps"] > len(times):
      times.append(float(env.field.laps.last[0]))
    if terminated:
      break
  assert len(times) == 3
  assert all(110 < seconds < 130 for seconds in times)
  assert info["measures"]["clean"] == 1
  assert info["measures"]["best_lap"] == pytest.approx(min(times))
  assert sum(times) == pytest.approx(env.field.laps.seconds[0], abs=STEP)


def test_a_driver_that_cuts_a_corner_is_off_course_and_comes_back():
  world = TimeTrial(laps=1)
  env = EventEnvironment(world, [EventSpec("re_established", THEN, history=70, arguments=RE_ESTABLISHED)], seed=0)
  env.reset()
  simulation, laps = world.field.simulation, world.field.laps
  driver = CornerCutter(simulation, Car(), pace=0.6)
  fired, off = [], []
  for _ in range(400):
    timestep = env.step(driver.act(simulation)[0].astype(np.float32))
    fired.append(timestep.events)
    off.append(simulation.cars.tyres_out[0] > 2)
  assert laps.departures[0] == 1
  assert laps.off_seconds[0] > 0.3
  assert sum(fired) == 1
  assert fired.index(1) == max(np.flatnonzero(off)) + 20  # 2 s later.
  lateral = driver.line.lateral[simulation.cars.element[0]]
  assert abs(simulation.cars.lateral[0] - lateral) < 2
  assert simulation.cars.along[0] > 1300


def test_built_in_drivers_of_unequal_cars_race_each_other():
  generator = np.random.default_rng(1)
  cars = [Car().with_balance(*generator.uniform(0.75, 1.25, 2)) for _ in range(8)]
  simulation = Simulation(circuit(), cars)
  simulation.place(200.0 - 12.0 * np.arange(8), np.where(np.arange(8) % 2, 2.5, -2.5), np.full(8, 50.0))
  driver = LapDriver(simulation, Car(), pace=0.9)
  off, contacts, passes = 0.0, 0, 0
  order = np.argsort(simulation.cars.travelled)
  for _ in range(900):
    simulation.step(driver.act(simulation))
    off += simulation.cars.off_time.sum()
    contacts += int(simulation.cars.collided.sum())
    after = np.argsort(simulation.cars.travelled - 12.0 * np.arange(8))
    passes += int((after != order).any())
    order = after
  assert simulation.cars.travelled.min() > 3000
  assert passes > 3
  assert off < 0.05 * 8 * 90
  assert contacts < 0.05 * 8 * 900
