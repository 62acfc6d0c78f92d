"""The paper's two scenarios (A.3): who starts where, and what is counted until the episode ends."""

import dataclasses

import numpy as np
import numpy.typing as npt

from environments.racing.car import Car
from environments.racing.driver import Drivers, Line
from environments.racing.simulation import STEP, Simulation

# The opponent's car with the highest speeds: a line for it holds no other one up.
FASTEST = Car().with_balance(power=1.25, mass=0.75)


@dataclasses.dataclass(frozen=True)
class SlingshotLaunch:
  """How a slingshot begins: the learner, car 0, behind the built-in driver, car 1, in equal cars but for the balance of power.

  Attributes:
    distance: m between the cars along the course; None draws it from `distances` (A.3: training; 35 m in evaluation).
    distances: m.
    balance: the opponent's power and mass are each multiplied by up to this much more or less than 1 (A.3: 25 %).
    lateral: both start, and the opponent drives, up to so many metres from the middle. The paper says that it is random.
    speed: m/s, of both. Tuned.
  """

  distance: float | None = None
  distances: tuple[float, float] = (10.0, 40.0)
  balance: float = 0.25
  lateral: float = 4.5
  speed: float = 80.0

  def begin(self, simulation: Simulation, drivers: Drivers, generator: np.random.Generator) -> float:
    """Places the cars and sets up the opponent's driver; returns the distance, m."""
    drawn = float(generator.uniform(*self.distances))
    distance = drawn if self.distance is None else self.distance
    power, mass = 1 + self.balance * generator.uniform(-1, 1, size=2)
    lateral = self.lateral * generator.uniform(-1, 1, size=2)
    simulation.set_cars([Car(), Car().with_balance(float(power), float(mass))])
    start = simulation.track.start
    simulation.place([start, start + distance], lateral, [self.speed, self.speed])
    drivers.shift[1] = lateral[1]
    return distance


@dataclasses.dataclass(frozen=True)
class TimeTrialLaunch:
  """How cars of a time trial begin: spread evenly around the course (A.3), with some randomness.

  Attributes:
    spread: the random part of each car's place, as a part of the distance to the next one.
    lateral: up to so many metres from the line.
    pace: the cars' speeds, as a part of what the built-in driver's would be there.
  """

  spread: float = 0.5
  lateral: float = 1.0
  pace: float = 0.8

  def begin(
    self, simulation: Simulation, line: Line, chosen: npt.NDArray[np.bool_], generator: np.random.Generator
  ) -> None:
    """Places the chosen cars, bool [cars]."""
    cars = len(simulation.cars)
    part = (np.arange(cars) + self.spread * generator.uniform(-1, 1, size=cars)) / cars
    if cars == 1:
      part = generator.uniform(size=1)
    lateral = self.lateral * generator.uniform(-1, 1, size=cars)
    along = (part[chosen] % 1.0) * simulation.track.length
    index = (along / simulation.track.spacing).astype(int) % len(line.speed)
    simulation.place(along, line.lateral[index] + lateral[chosen], self.pace * line.speed[index], chosen)


class Laps:
  """Counts laps, and how often cars leave the course.

  Attributes:
    seconds: float64 [cars], since the episode began.
    count: int64 [cars], whole laps.
    best: float64 [cars], the shortest whole lap, s; infinite without one.
    last: float64 [cars], the latest whole lap, s; 0 without one.
    departures: int64 [cars], times that a car left the course.
    off_seconds: float64 [cars], off course.
  """

  def __init__(self, cars: int):
    """Begins all cars' episodes."""
    self.seconds = np.zeros(cars)
    self.count = np.zeros(cars, np.int64)
    self.best = np.full(cars, np.inf)
    self.last = np.zeros(cars)
    self.departures = np.zeros(cars, np.int64)
    self.off_seconds = np.zeros(cars)
    self._off = np.zeros(cars, bool)
    self._along = np.zeros(cars)
    self._crossed = np.full(cars, np.nan)

  def begin(self, simulation: Simulation, chosen: npt.NDArray[np.bool_]) -> None:
    """Begins the episodes of the chosen cars, bool [cars]. One that starts on the line begins a lap there."""
    self.seconds[chosen] = 0
    self.count[chosen] = self.departures[chosen] = 0
    self.best[chosen], self.last[chosen], self.off_seconds[chosen] = np.inf, 0, 0
    self._off[chosen] = False
    self._along[chosen] = simulation.cars.along[chosen]
    self._crossed[chosen] = np.where(self._along[chosen] < 1e-6, 0.0, np.nan)

  def update(self, simulation: Simulation) -> None:
    """Takes a step into account."""
    fields, length = simulation.fields, simulation.track.length
    self.seconds += STEP
    off = fields["tyres_out"] > 2
    self.departures += off & ~self._off
    self.off_seconds += fields["off_time"]
    self._off = off
    before, self._along = self._along, fields["along"].copy()
    jumped = np.abs(self._along - before) > 0.5 * length
    for car in np.flatnonzero(jumped) if jumped.any() else ():
      if before[car] > self._along[car]:
        self._cross(int(car), self.seconds[car] - self._along[car] / max(float(fields["speed"][car]), 1.0))
      else:  # Whoever goes back over the line must cross it again.
        self._crossed[car] = np.nan

  def _cross(self, car: int, seconds: float) -> None:
    if np.isfinite(self._crossed[car]):
      self.last[car] = seconds - self._crossed[car]
      self.best[car] = min(self.best[car], self.last[car])
      self.count[car] += 1
    self._crossed[car] = seconds
