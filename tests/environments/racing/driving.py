"""Scripted drivers for the tests. They see the simulation's states, and give float [2] actions."""

import numpy as np

from environments.racing.driver import centre_line, drive, find_line, make_drivers
from environments.racing.scenarios import FASTEST
from environments.racing.tracks import straight_section

LENGTH = 4.7


def hold(car, lateral, stiffness=0.1, damping=9.0):
  """Steering towards a place across the course."""
  return stiffness * (lateral - car.lateral) - damping * np.sin(car.yaw + car.slip_angle - car.course_yaw)


class SlingshotDriver:
  """Follows the opponent in its slipstream, leaves it at `gap` metres, passes, and keeps it out of its own slipstream."""

  def __init__(self, gap=8.0, aside=2.6):
    self.gap, self.aside, self.side, self.place = gap, aside, 0.0, None
    self.line, self.drivers = centre_line(straight_section(), FASTEST), make_drivers(2)
    self.drivers.clear[0] = 0
    self.actions = np.zeros((2, 2))

  def act(self, simulation):
    car, opponent = simulation.cars
    gap = opponent.along - car.along - LENGTH
    if gap < self.gap and self.side == 0.0:
      self.side = -1.0 if opponent.lateral > 0 else 1.0
    aside = 4.0 if gap < -6 else self.aside
    place = np.clip(opponent.lateral + self.side * aside, -4.6, 4.6)
    if self.place is None:
      self.place = car.lateral
    self.place += np.clip(place - self.place, -0.4, 0.4)  # 4 m/s.
    self.drivers.shift[0] = self.place
    drive(simulation.race, self.line, self.drivers, self.actions)
    return self.actions[0]


class NoisyDriver:
  """Drives straight on where it started, with noise on steering and throttle."""

  def __init__(self, seed, steering=0.4, throttle=0.3):
    self.generator, self.steering, self.throttle = np.random.default_rng(seed), steering, throttle
    self.place = None

  def act(self, simulation):
    car = simulation.cars[0]
    self.place = car.lateral if self.place is None else self.place
    noise = self.generator.standard_normal(2) * (self.steering, self.throttle)
    return np.clip([hold(car, self.place, 0.05, 5.0) + noise[0], 1 - abs(noise[1])], -1, 1)


class LapDriver:
  """The built-in driver in all cars, on a line moved by `shift` metres, at `pace` times its speeds."""

  def __init__(self, simulation, car, shift=0.0, pace=1.0):
    self.line = find_line(simulation.track, car)
    self.drivers = make_drivers(len(simulation.cars))
    self.drivers.shift[:], self.drivers.pace[:] = shift, pace
    self.actions = np.zeros((len(simulation.cars), 2))

  def act(self, simulation):
    drive(simulation.race, self.line, self.drivers, self.actions)
    return self.actions


class CornerCutter(LapDriver):
  """The same, but for the first corner of the circuit, which it cuts."""

  def act(self, simulation):
    cuts = 1040 < simulation.cars.along[0] < 1110
    self.drivers.shift[0] = 14.0 if cuts else 0.0
    actions = super().act(simulation)
    if cuts:
      actions[0, 0] = 0.6
    return actions
