"""The cars' physics: against CommonRoad's model, energy, friction, walls, contacts, and the same without the compiler."""

import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import UserError
from environments.racing.car import Car, Tyre, make_parameters
from environments.racing.driver import drive, find_line, make_drivers
from environments.racing.features import FeatureLayout
from environments.racing.physics import RATES, derive
from environments.racing.rewards import COMPONENTS, assess
from environments.racing.simulation import STEP, Simulation
from environments.racing.tracks import Segment, circuit, make_track, straight_section

HERE = pathlib.Path(__file__)
ROOT = HERE.parents[3]
VEHICLES = json.loads(HERE.with_name("commonroad.json").read_text())


def commonroad_car(vehicle):
  """CommonRoad's vehicle as ours: without aerodynamics, aids and a circle of friction."""
  body = vehicle["body"]
  tyre = Tyre(**{field.name: vehicle["tyre"][field.name] for field in dataclasses.fields(Tyre)})
  return Car(
    mass=body["m"],
    front=body["a"],
    rear=body["b"],
    height=body["h_s"],
    inertia=body["I_z"],
    wheel_inertia=body["I_y_w"],
    wheel_radius=body["R_w"],
    brake_split=body["T_sb"],
    engine_split=body["T_se"],
    drag_area=0.0,
    lift_area=0.0,
    friction=math.inf,
    rear_tyre=1.0,
    creep=0.2,
    creep_width=0.05,
    tyre=tyre,
  )


@pytest.mark.parametrize("vehicle", VEHICLES, ids=lambda vehicle: f"vehicle {vehicle['vehicle']}")
def test_derivatives_are_those_of_commonroads_drift_model(vehicle):
  rows = vehicle["rows"]
  simulation = Simulation(straight_section(), [Car()])
  cars = np.zeros(len(rows), simulation.cars.dtype).view(np.recarray)
  race = simulation.race._replace(cars=cars, parameters=make_parameters([commonroad_car(vehicle)] * len(rows)))
  names = ("x", "y", "steering", "speed", "yaw", "yaw_rate", "slip_angle", "front_wheel", "rear_wheel")
  for name, values in zip(names, np.array([row["state"] for row in rows]).T, strict=True):
    cars[name] = values
  cars.front_grip = cars.rear_grip = 1.0
  rates = np.zeros((len(rows), RATES))
  derive(race, np.array([row["inputs"] for row in rows]), rates)
  theirs = np.array([row["derivative"] for row in rows])
  np.testing.assert_allclose(rates[:, : len(names)], theirs, rtol=1e-9, atol=1e-6)


def kinetic_energy(simulation):
  cars, p = simulation.cars, simulation.race.parameters
  wheels = p.wheel_inertia * (cars.front_wheel**2 + cars.rear_wheel**2)
  return 0.5 * (p.mass * cars.speed**2 + p.inertia * cars.yaw_rate**2 + wheels)


def random_race(seed, cars):
  """Cars close to each other, moving and turning in any way; and a generator."""
  generator = np.random.default_rng(seed)
  simulation = Simulation(circuit(), [Car()] * cars)
  along = generator.uniform(0, circuit().length) + 5.5 * np.arange(cars)
  simulation.place(along, generator.uniform(-9, 9, cars), generator.uniform(0, 95, cars))
  simulation.cars.yaw += generator.choice([0.1, 3.0]) * generator.uniform(-1, 1, cars)
  simulation.cars.slip_angle = generator.choice([0.1, 3.0]) * generator.uniform(-1, 1, cars)
  simulation.cars.yaw_rate = generator.uniform(-2, 2, cars)
  return simulation, generator


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans())
def test_no_energy_but_the_engines_comes_in_and_no_tyre_exceeds_its_friction(seed, cars, engines):
  simulation, generator = random_race(seed, cars)
  p = simulation.race.parameters
  for _ in range(15):
    before = kinetic_energy(simulation).sum()
    actions = generator.uniform(-1, 1, (cars, 2))
    if not engines:
      actions[:, 1] = np.minimum(actions[:, 1], 0)
    simulation.step(actions)
    work = STEP * (p.power * np.maximum(actions[:, 1], 0)).sum()
    # Integration in steps of 5 ms is not exact: 10 J are a car that rolls at .6 km/h.
    assert kinetic_energy(simulation).sum() <= before + work + 10
    state = simulation.cars
    assert (np.hypot(state.front_x, state.front_y) <= p.friction * state.front_load * (1 + 1e-9)).all()
    assert (np.hypot(state.rear_x, state.rear_y) <= p.friction * p.rear_tyre * state.rear_load * (1 + 1e-9)).all()
    assert all(np.isfinite(state[name]).all() for name in state.dtype.names)
    assert (abs(state.lateral) < state.half_width + simulation.track.run_off).all()


def play(seed, steps=30):
  """A short race of three cars: everything that was computed, as one array."""
  simulation, generator = random_race(seed, 3)
  line, drivers, actions = find_line(circuit(), Car()), make_drivers(3), np.zeros((3, 2))
  layout, components = FeatureLayout(5, opponents=2), np.zeros((3, len(COMPONENTS)))
  seen = []
  for _ in range(steps):
    drive(simulation.race, line, drivers, actions)
    actions[0] = generator.uniform(-1, 1, 2)
    simulation.step(actions)
    assess(simulation.race, components)
    seen.append(np.concatenate([layout.observe(simulation.race).ravel(), components.ravel(), simulation.cars.x]))
  return np.stack(seen)


def test_the_same_seed_gives_the_same_race():
  np.testing.assert_array_equal(play(3), play(3))
  assert not np.array_equal(play(3), play(4))


def test_compiled_and_plain_functions_agree():
  code = "import sys, numpy; from tests.environments.racing.test_physics import play; numpy.save(sys.stdout.buffer, play(5, 6))"
  env = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
  done = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, check=True, timeout=120)
  plain = np.frombuffer(done.stdout[-play(5, 6).nbytes :]).reshape(play(5, 6).shape)
  np.testing.assert_allclose(play(5, 6), plain, rtol=1e-6, atol=1e-6)


def alone(along=800.0, lateral=0.0, speed=60.0, cars=1, **arguments):
  simulation = Simulation(straight_section(), [Car()] * cars, **arguments)
  simulation.place(np.full(cars, along), np.full(cars, lateral), np.full(cars, speed))
  return simulation


def test_a_car_reaches_the_speed_where_its_power_is_that_of_its_drag():
  simulation = Simulation(make_track("straight", [Segment(100)], closed=False), [Car()])
  simulation.place([50.0], [0.0], [90.0])
  for _ in range(1000):
    simulation.step(np.array([[0.0, 1.0]]))
  # ½ · 1.2 kg/m³ · 1.15 m² · v³ = 650 kW; a part of the power goes into the tyres' slip.
  assert simulation.cars.speed[0] == pytest.approx((650_000 / (0.6 * 1.15)) ** (1 / 3), rel=0.015)


def test_brakes_stop_a_car_within_the_limits_of_its_tyres_and_it_stays():
  simulation = alone(speed=50.0)
  while simulation.cars.speed[0] > 0.05:
    simulation.step(np.array([[0.0, -1.0]]))
    assert simulation.cars.travelled[0] < 180
  # With downforce of 9 m/s² at most, never more than 1.3 (1.15 at the rear) times the load.
  assert simulation.cars.travelled[0] > 50**2 / (2 * 1.3 * 1.15 * (9.81 + 4))
  for _ in range(20):
    simulation.step(np.array([[1.0, 0.0]]))
  assert simulation.cars.speed[0] < 0.5


def test_wheels_are_counted_off_course_one_by_one():
  half_width = 6.5
  places = (0.0, half_width - 0.8, half_width + 0.8, half_width + 0.9)
  assert [alone(lateral=lateral).cars.tyres_out[0] for lateral in places] == [0, 2, 2, 4]
  simulation = alone(lateral=half_width - 0.8)
  simulation.cars.yaw += 0.3
  simulation.step(np.array([[0.0, 0.0]]))
  assert simulation.cars.tyres_out[0] == 3
  assert 0 < simulation.cars.off_time[0] <= STEP + 1e-9


def test_a_wall_holds_a_car_and_is_felt():
  simulation = alone(speed=40.0)
  simulation.cars.yaw -= 0.5
  walls = 0.0
  for _ in range(60):
    before = simulation.cars.speed[0]
    simulation.step(np.array([[0.0, 0.0]]))
    walls += simulation.cars.wall_time[0]
    assert simulation.cars.speed[0] <= before + 1e-9
    assert -16.5 < simulation.cars.lateral[0] < 16.5
  assert walls > 0
  assert abs(simulation.cars.yaw[0] - simulation.cars.course_yaw[0]) < 0.5


def contact(along, lateral, speed, yaw=(0.0, 0.0)):
  """Runs until two cars touch; their states after that step."""
  simulation = alone(cars=2)
  simulation.place(along, lateral, speed)
  simulation.cars.yaw += yaw
  for _ in range(40):
    simulation.step(np.zeros((2, 2)))
    if simulation.cars.collided.any():
      break
  return simulation.cars


def test_who_hits_a_car_from_behind_is_at_fault():
  cars = contact([800.0, 815.0], [0.0, 0.3], [70.0, 60.0])
  assert cars.collided.tolist() == [1, 1]
  assert cars.at_fault.tolist() == [1, 0]
  assert cars.rear_speed[0] == pytest.approx(10.0, abs=0.5)
  assert cars.rear_speed[1] == 0
  assert abs(cars.speed[1] - cars.speed[0]) < 4  # Most of the difference is gone.


def test_who_moves_over_into_a_car_beside_is_at_fault():
  cars = contact([800.0, 801.0], [-2.5, 0.0], [60.0, 60.0], (0.05, 0.0))
  assert cars.collided.tolist() == [1, 1]
  assert cars.at_fault.tolist() == [1, 0]
  assert cars.rear_speed.tolist() == [0, 0]


def test_ghosts_pass_through_each_other():
  simulation = alone(cars=2, ghosts=True)
  simulation.place([800.0, 810.0], [0.0, 0.0], [70.0, 50.0])
  for _ in range(20):
    simulation.step(np.zeros((2, 2)))
  assert simulation.cars.collided.tolist() == [0, 0]
  assert simulation.cars.slipstream.tolist() == [0, 0]
  assert simulation.lead(1, 0) > 10


@pytest.mark.parametrize(("gap", "strength"), [(60.0, 0.1), (9.27, 0.7), (2.74, 0.9)])
def test_the_slipstream_falls_with_the_gap_and_to_the_sides(gap, strength):
  simulation = alone(cars=2)
  simulation.place([800.0, 800.0 + 4.7 + gap], [0.0, 0.0], [60.0, 60.0])
  assert simulation.cars.slipstream.tolist() == pytest.approx([strength, 0.0], abs=0.002)
  simulation.place([800.0, 800.0 + 4.7 + gap], [1.5, 0.0], [60.0, 60.0])
  assert simulation.cars.slipstream[0] == pytest.approx(strength * math.exp(-0.5), abs=0.005)


def test_a_slipstream_takes_two_fifths_of_the_drag():
  slowed = []
  for drag in (0.0, 0.4):
    simulation = alone(cars=2, slipstream_drag=drag)
    simulation.place([800.0, 804.8], [0.0, 0.0], [80.0, 80.0])
    simulation.step(np.zeros((2, 2)))
    slowed.append(80 - simulation.cars.speed)
  assert slowed[1] / slowed[0] == pytest.approx([0.6, 1.0], abs=0.01)


def test_an_action_that_is_not_a_number_is_refused():
  with pytest.raises(UserError, match="not a number"):
    alone().step(np.array([[np.nan, 0.0]]))
  with pytest.raises(UserError, match="from 1 to 20"):
    Simulation(circuit(), [Car()] * 21)
