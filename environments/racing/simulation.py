"""`Simulation`: the cars of a race, where they are, and a step of it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from configs import UserError
from environments.racing.car import Car, make_parameters
from environments.racing.physics import GRAVITY, RATES, advance, locate
from environments.racing.state import CAR, SETTINGS, Race, Records
from environments.racing.tracks import Track

STEP = 0.1  # s, of control (A.3: 10 Hz).
SUBSTEPS = 20  # Of 5 ms.
# The part of the drag that a full slipstream takes away. Tuned: with it a pass in the slingshot wins by the paper's margin.
SLIPSTREAM_DRAG = 0.4
MAX_CARS = 20


class Simulation:
  """Up to 20 cars on a track. It draws no random numbers: the same placing and actions give the same race.

  Attributes:
    track: where the cars drive.
    race: the arrays.
    fields: `race.cars` with fields by name, `fields["speed"]`, which is faster than by attribute.
  """

  def __init__(self, track: Track, cars: Sequence[Car], ghosts: bool = False, slipstream_drag: float = SLIPSTREAM_DRAG):
    """Prepares the arrays; `place` must come before the first step.

    Args:
      track: where the cars drive.
      cars: from 1 to `MAX_CARS`.
      ghosts: whether cars neither touch nor see each other.
      slipstream_drag: the part of the drag that a full slipstream takes away; 0 for none.
    """
    if not 1 <= len(cars) <= MAX_CARS:
      raise UserError(f"A race has {len(cars)} cars: it must have from 1 to {MAX_CARS}.")
    self.track = track
    course = (track.spacing, track.length, track.run_off, track.closed)
    settings = np.array([(*course, ghosts, slipstream_drag, SUBSTEPS, STEP / SUBSTEPS)], SETTINGS).view(np.recarray)
    self.race = Race(
      cars=np.zeros(len(cars), CAR).view(np.recarray),
      parameters=make_parameters(cars),
      course=track.points,
      settings=settings,
      actions=np.zeros((len(cars), 2)),
      rates=np.zeros(RATES),
      pair=np.zeros(2),
    )
    self.fields: npt.NDArray[Any] = self.race.cars.view(np.dtype(CAR), np.ndarray)

  @property
  def cars(self) -> Records:
    """The cars' states, `state.CAR` [cars]; the simulation's own array."""
    return self.race.cars

  def state(self, car: int) -> Any:
    """A car's `state.CAR`, whose fields are read by name: faster than the attributes of `cars[car]`."""
    return self.fields[car]

  def set_cars(self, cars: Sequence[Car]) -> None:
    """Gives the race other cars, as many as before."""
    self.race.parameters[:] = make_parameters(cars)

  def place(
    self, along: npt.ArrayLike, lateral: npt.ArrayLike, speed: npt.ArrayLike, chosen: npt.ArrayLike | None = None
  ) -> None:
    """Puts cars on the course, rolling along it.

    Args:
      along: float [chosen cars], m from the course's beginning.
      lateral: float [chosen cars], m to the left of the centre line.
      speed: float [chosen cars], m/s.
      chosen: bool [cars], or indices; None for all.
    """
    index = np.arange(len(self.cars))[slice(None) if chosen is None else np.asarray(chosen)]
    placed = np.zeros(len(index), CAR).view(np.recarray)
    parameters = self.race.parameters[index]
    placed.x, placed.y, placed.yaw = self.track.at(along, lateral).T
    placed.speed = speed
    placed.front_wheel = placed.rear_wheel = placed.speed / parameters.wheel_radius
    placed.element = np.clip(np.asarray(along) // self.track.spacing, 0, len(self.track.points) - 2)
    weight = GRAVITY * parameters.mass / (parameters.front + parameters.rear)
    placed.front_load, placed.rear_load = weight * parameters.rear, weight * parameters.front
    self.race.cars[index] = placed
    locate(self.race)

  def step(self, actions: npt.NDArray[Any]) -> None:
    """Moves all cars by `STEP`.

    Args:
      actions: float [cars, 2]: steering, 1 to the left, and pedal, 1 for full throttle, -1 for full brakes.

    Raises:
      UserError: an action is not a number.
    """
    self.race.actions[...] = actions
    if not np.isfinite(self.race.actions).all():
      raise UserError("An action of the race is not a number: steering and pedal must be finite.")
    advance(self.race)

  def lead(self, behind: int, ahead: int) -> float:
    """How far car `ahead` is in front of car `behind`, m; on an open course."""
    return float(self.fields[ahead]["along"] - self.fields[behind]["along"])
