"""The built-in driver: it follows a line at the speeds that its car allows there, and keeps its distance to the side.

The line is the one with the least sum of squared curvature inside the course (as in Heilmeier et al., "Minimum curvature
trajectory planning and control for an autonomous race car", 2020), found by accelerated projected gradient descent. Its speeds
come from the circle of friction with downforce, forwards for the engine and backwards for the brakes (as in the same paper). The
steering is pure pursuit (Coulter, "Implementation of the pure pursuit path tracking algorithm", 1992). The numbers in upper case
are tuned.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from configs.compiling import helper, kernel
from environments.racing.car import Car
from environments.racing.state import Float64, Race
from environments.racing.tracks import Track

MARGIN = 1.6  # m, between the line and the course's edge.
SWEEPS = 600  # Of the search for the line.
GRIP = 0.8  # The part of the tyres' friction that the speeds use in a bend.
BRAKING = 0.58  # The part that they use along the course.

_AHEAD_SECONDS = 0.45  # To the point that the driver steers to.
_AHEAD_METRES = 6.0
_SPACE = 2.8  # m, that the driver keeps to cars beside and passes them by.
_BESIDE = 8.0  # m along the course, within which a car is beside.
_REACTION = 1.5  # s before it would reach a slower car, a driver moves aside.
_REACH_SECONDS = 0.1  # To the point whose speed the driver wants.
_GAIN = 3.0  # m/s² for each m/s that the speed is wrong.
_TURNING_SPEED = 8.0  # m/s, of a driver who faces the wrong way.
_DAMPING = 0.25  # s, by which the driver turns the steering against a yaw rate that is too high.

# As in `physics`; a compiled function's constants are its own file's.
_AIR, _GRAVITY = 1.2, 9.81


class Line(NamedTuple):
  """What a driver knows of a course; its arrays have one entry for each of the course's points.

  Attributes:
    lateral: float64 [points], m.
    curvature: float64 [points], 1/m.
    speed: float64 [points], m/s.
  """

  lateral: Float64
  curvature: Float64
  speed: Float64


class Drivers(NamedTuple):
  """How each car's driver drives.

  Attributes:
    shift: float64 [cars], m to the left of the line.
    pace: float64 [cars], the part of the line's speeds.
    clear: float64 [cars], 1 to keep clear of other cars, 0 to heed none.
  """

  shift: Float64
  pace: Float64
  clear: Float64


def find_line(track: Track, car: Car) -> Line:
  """The line of a track, and the speeds of a car on it."""
  return _make_line(track, car, _flatten(track))


def centre_line(track: Track, car: Car) -> Line:
  """The middle of a track as a line, for drivers that keep a place across it."""
  return _make_line(track, car, np.zeros(len(track.points)))


def _make_line(track: Track, car: Car, lateral: Float64) -> Line:
  curvature, step = _bend(*_positions(track, lateral), track.closed)
  return Line(lateral, curvature, _find_speeds(curvature, step, track.closed, car))


def _positions(track: Track, lateral: Float64) -> tuple[Float64, Float64]:
  points = track.points
  return points.x - lateral * points.tangent_y, points.y + lateral * points.tangent_x


def _flatten(track: Track) -> Float64:
  """Minimises Σ|second difference of the position|² over the lateral places: FISTA (Beck and Teboulle, 2009)."""
  points = track.points
  stride = 3 if track.closed else 10
  chosen = np.arange(0, len(points), stride)
  normal = np.stack([-points.tangent_y, points.tangent_x])[:, chosen]
  centre = np.stack([points.x, points.y])[:, chosen]
  limit = points.half_width[chosen] - MARGIN
  best = moving = np.zeros(len(chosen))
  weight = 1.0
  for _ in range(SWEEPS):
    second = _second_difference(centre + normal * moving, track.closed)
    gradient = (normal * _second_difference(second, track.closed)).sum(axis=0)
    after = np.clip(moving - gradient / 16, -limit, limit)  # 16 is the largest eigenvalue.
    heavier = 0.5 * (1 + math.sqrt(1 + 4 * weight * weight))
    moving = after + (weight - 1) / heavier * (after - best)
    best, weight = after, heavier
  period = len(points) if track.closed else None
  return np.interp(np.arange(len(points)), chosen, best, period=period)


def _second_difference(values: npt.NDArray[np.float64], closed: bool) -> npt.NDArray[np.float64]:
  before, after = np.roll(values, 1, axis=1), np.roll(values, -1, axis=1)
  second: npt.NDArray[np.float64] = np.asarray(before - 2 * values + after, np.float64)
  if not closed:
    second[:, [0, -1]] = 0
  return second


def _bend(x: Float64, y: Float64, closed: bool) -> tuple[Float64, Float64]:
  """Curvature at the points of a line, smoothed over seven, and the distance to the next."""
  dx, dy = np.roll(x, -1) - x, np.roll(y, -1) - y
  step = np.hypot(dx, dy)
  yaw = np.arctan2(dy, dx)
  turn = (yaw - np.roll(yaw, 1) + np.pi) % (2 * np.pi) - np.pi
  curvature = turn / (0.5 * (step + np.roll(step, 1)))
  if not closed:
    curvature[[0, -1]], step[-1] = 0, step[-2]
  padded = np.pad(curvature, 3, mode="wrap" if closed else "edge")
  return np.convolve(padded, np.full(7, 1 / 7), "valid"), step


def _find_speeds(curvature: Float64, step: Float64, closed: bool, car: Car) -> Float64:
  """Speeds that neither ask for more than `GRIP` of the friction nor for more than the engine gives, m/s."""
  friction, lift = GRIP * car.friction, 0.5 * _AIR * car.lift_area / car.mass
  bend = np.abs(curvature)
  # v² κ = μ (g + lift v²).
  speed = np.sqrt(friction * _GRAVITY / np.maximum(bend - friction * lift, friction * _GRAVITY / car.top_speed**2))
  count = len(speed)
  laps = 2 if closed else 1
  for k in range(laps * count - 1):  # The engine.
    i, after = k % count, (k + 1) % count
    left = _left_over(speed[i], bend[i], friction, lift)
    drag = 0.5 * _AIR * car.drag_area * speed[i] ** 2 / car.mass
    push = min(left, car.acceleration, car.power / (car.mass * speed[i])) - drag
    speed[after] = min(speed[after], math.sqrt(max(speed[i] ** 2 + 2 * push * step[i], 1.0)))
  for k in range(laps * count - 1, 0, -1):  # The brakes.
    i, before = k % count, (k - 1) % count
    drag = 0.5 * _AIR * car.drag_area * speed[i] ** 2 / car.mass
    push = min(_left_over(speed[i], bend[i], friction, lift), car.braking) + drag
    speed[before] = min(speed[before], math.sqrt(speed[i] ** 2 + 2 * push * step[before]))
  return np.asarray(speed)


def _left_over(speed: float, bend: float, friction: float, lift: float) -> float:
  """The friction that a bend leaves for engine and brakes, m/s²."""
  most = friction * (_GRAVITY + lift * speed * speed)
  return BRAKING / GRIP * math.sqrt(max(most * most - (speed * speed * bend) ** 2, 0.0))


def make_drivers(cars: int) -> Drivers:
  """Drivers on the line, at its speeds, who keep clear of other cars."""
  return Drivers(np.zeros(cars), np.ones(cars), np.ones(cars))


@kernel
def drive(race: Race, line: Line, drivers: Drivers, actions: Float64) -> None:
  """Sets what the built-in driver does in all cars.

  Args:
    race: all cars.
    line: of the track.
    drivers: of all cars.
    actions: float64 [cars, 2], is set: steering and pedal, in [-1, 1].
  """
  for i in range(len(race.cars)):
    _drive(race, line, drivers, i, actions[i])


@helper
def _index(race: Race, along: float) -> int:
  """Of the course's point before a place."""
  settings = race.settings[0]
  index = math.floor(along / settings.spacing)
  count = len(race.course)
  return index % count if settings.closed == 1 else int(min(max(index, 0), count - 1))


@helper
def _drive(race: Race, line: Line, drivers: Drivers, me: int, action: Float64) -> None:
  car, p = race.cars[me], race.parameters[me]
  here = _index(race, car.along)
  shift, most = 0.0, 1e3
  if drivers.clear[me] > 0:
    shift, most = _keep_clear(race, me, line.lateral[here] + drivers.shift[me])
  distance = _AHEAD_METRES + _AHEAD_SECONDS * car.speed
  goal = _index(race, car.along + distance)
  point = race.course[goal]
  edge = point.half_width - 0.5 * p.width
  lateral = min(max(line.lateral[goal] + drivers.shift[me] + shift, -edge), edge)
  x = point.x - lateral * point.tangent_y - car.x
  y = point.y + lateral * point.tangent_x - car.y
  across = y * math.cos(car.yaw) - x * math.sin(car.yaw)
  wanted = 2 * across / max(x * x + y * y, 1.0)
  if x * math.cos(car.yaw) + y * math.sin(car.yaw) < 0:  # After a spin.
    wanted = 1.0 if across > 0 else -1.0
    most = min(most, _TURNING_SPEED)
  # Against a yaw rate that is higher than the bend needs.
  wanted -= _DAMPING * (car.yaw_rate - car.speed * wanted) / max(car.speed, 10.0)
  reach = p.steering_angle / (1 + (car.speed / p.steering_speed) ** 2)
  action[0] = min(max((p.front + p.rear) * wanted / reach, -1.0), 1.0)
  action[1] = _press(race, line, drivers.pace[me], me, most)


@helper
def _press(race: Race, line: Line, pace: float, me: int, most: float) -> float:
  """The pedal for the acceleration that the line's speeds have, and for the difference from them."""
  car, p = race.cars[me], race.parameters[me]
  here = _index(race, car.along + _REACH_SECONDS * car.speed)
  after = _index(race, race.settings[0].spacing * (here + 1.5))
  speed = pace * line.speed[here]
  wanted = speed * pace * (line.speed[after] - line.speed[here]) / race.settings[0].spacing
  if most < speed:
    speed, wanted = most, 0.0
  pressure = 0.5 * _AIR * car.speed * car.speed / p.mass
  wanted += _GAIN * (speed - car.speed) + pressure * p.drag_area
  if wanted > 0:
    engine = min(p.acceleration, p.power / (p.mass * max(car.speed, 1.0)))
    return float(min(wanted / engine, 1.0))
  brakes = min(p.braking, p.aid * p.friction * (_GRAVITY + pressure * p.lift_area))
  return float(max(wanted / brakes, -1.0))


@helper
def _lead(settings: Any, behind: Any, ahead: Any) -> float:
  lead = ahead.along - behind.along
  if settings.closed == 1:
    lead -= settings.length * math.floor(lead / settings.length + 0.5)
  return float(lead)


@helper
def _keep_clear(race: Race, me: int, place: float) -> tuple[float, float]:
  """How far to move from a lateral place for the sake of other cars, m, and the highest speed that does not run into one, m/s."""
  settings, car = race.settings[0], race.cars[me]
  shift, most = 0.0, 1e3
  for j in range(len(race.cars)):
    other = race.cars[j]
    lead = _lead(settings, car, other)
    reach = max(_BESIDE, _REACTION * (car.speed - other.speed) + _BESIDE)
    if j != me and settings.ghosts == 0 and -_BESIDE < lead < reach:
      aside = place - other.lateral
      if abs(aside) < _SPACE:
        # To the side where it is already, or to the wider one if it is right behind.
        side = 1.0 if car.lateral > other.lateral else -1.0
        if abs(car.lateral - other.lateral) < 0.5:
          side = -1.0 if other.lateral > 0 else 1.0
        shift = side * _SPACE - aside
      if 0 < lead < _BESIDE and abs(car.lateral - other.lateral) < 0.5 * _SPACE:
        most = min(most, other.speed)
  return shift, most
