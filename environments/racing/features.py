"""What an agent sees of a race: the state features of the paper (A.3), which are those of Wurman et al. (2022).

The paper names the quantities and not their scales; each is divided here by what makes it about one. As the world is a plane,
velocities and accelerations have two numbers. `FeatureLayout.names` gives all features in order.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from configs.compiling import helper, kernel
from environments.racing.state import Float64, Race, Records

# Axes: forward and to the left, as the car points.
CAR_FEATURES = (
  "forward_speed",  # / 100 m/s.
  "left_speed",  # / 100 m/s.
  "forward_acceleration",  # / 50 m/s²; mean of the last step.
  "left_acceleration",  # / 50 m/s².
  "yaw_rate",  # rad/s.
  "steering_angle",  # / 0.1 rad.
  "front_slip_ratio",  # Within [-1, 1].
  "rear_slip_ratio",
  "front_slip_angle",  # / 0.2 rad, within [-5, 5].
  "rear_slip_angle",
  "front_load",  # / 10 kN.
  "rear_load",
  "last_steering",  # The last action, in [-1, 1].
  "last_pedal",
  "course_sine",  # Of the car's heading against the course.
  "course_cosine",
  "lateral",  # From the centre line to the left / half of the course's width, within [-5, 5].
  "half_width",  # / 10 m.
  "wall_contact",  # 0 or 1, in the last step.
  "car_contact",
  "off_course",  # More than two tyres are out, now.
  "slipstream",  # In [0, 1].
)
# At even distances ahead: the course's left edge, centre and right edge, as seen from the car, / 100 m.
POINT_FEATURES = ("left_x", "left_y", "centre_x", "centre_y", "right_x", "right_y")
# Of the nearest opponents, nearest first; all 0 where there are fewer. Position / 75 m, relative velocity / 50 m/s, relative
# acceleration / 50 m/s².
OPPONENT_FEATURES = ("there", "x", "y", "speed_x", "speed_y", "acceleration_x", "acceleration_y")

AHEAD = 75.0  # m, in which an opponent is seen (A.3).
BEHIND = 20.0  # m (A.3).
HORIZON = 6.0  # s at the present speed, in which course points are seen (Wurman et al., 2022, Methods).
LEAST_SPEED = 20.0  # m/s, for the horizon of a slow car.

_CAR, _POINT, _OPPONENT = len(CAR_FEATURES), len(POINT_FEATURES), len(OPPONENT_FEATURES)
_AHEAD, _BEHIND, _HORIZON, _LEAST = AHEAD, BEHIND, HORIZON, LEAST_SPEED


@dataclasses.dataclass(frozen=True)
class FeatureLayout:
  """How many features of each kind there are.

  Attributes:
    course_points: ahead, at even distances up to `HORIZON`.
    opponents: slots for those ahead, and as many for those behind.
  """

  course_points: int = 30
  opponents: int = 1

  @functools.cached_property
  def names(self) -> tuple[str, ...]:
    """Of all features, in order: the car's, the course points', the opponents' ahead, the opponents' behind."""
    points = [f"point_{k}_{name}" for k in range(self.course_points) for name in POINT_FEATURES]
    opponents = [
      f"{where}_{k}_{name}"
      for where in ("ahead", "behind")
      for k in range(self.opponents)
      for name in OPPONENT_FEATURES
    ]
    return (*CAR_FEATURES, *points, *opponents)

  def observe(self, race: Race) -> npt.NDArray[np.float32]:
    """The features of all cars, float32 [cars, features]."""
    features = np.zeros((len(race.cars), len(self.names)))
    observe(race, self.course_points, self.opponents, features)
    return features.astype(np.float32)


@kernel
def observe(race: Race, points: int, opponents: int, features: Float64) -> None:
  """Sets the features of all cars.

  Args:
    race: all cars.
    points: course points.
    opponents: slots on either side.
    features: float64 [cars, features], zeros.
  """
  for i in range(len(race.cars)):
    _see_car(race.cars[i], features[i])
    _see_course(race.course, race.settings[0], race.cars[i], points, features[i])
    if race.settings[0].ghosts == 0:
      _see_opponents(race, i, opponents, _CAR + points * _POINT, features[i])


@helper
def _see_car(car: Any, out: Float64) -> None:
  heading = car.yaw - car.course_yaw
  out[0] = car.speed * math.cos(car.slip_angle) / 100
  out[1] = car.speed * math.sin(car.slip_angle) / 100
  out[2] = car.forward_acceleration / 50
  out[3] = car.left_acceleration / 50
  out[4] = car.yaw_rate
  out[5] = car.steering / 0.1
  out[6] = min(max(car.front_ratio, -1.0), 1.0)
  out[7] = min(max(car.rear_ratio, -1.0), 1.0)
  out[8] = min(max(car.front_angle / 0.2, -5.0), 5.0)
  out[9] = min(max(car.rear_angle / 0.2, -5.0), 5.0)
  out[10] = car.front_load / 10_000
  out[11] = car.rear_load / 10_000
  out[12] = car.steer
  out[13] = car.pedal
  out[14] = math.sin(heading)
  out[15] = math.cos(heading)
  out[16] = min(max(car.lateral / car.half_width, -5.0), 5.0)
  out[17] = car.half_width / 10
  out[18] = 1.0 if car.wall_time > 0 else 0.0
  out[19] = car.collided
  out[20] = 1.0 if car.tyres_out > 2 else 0.0
  out[21] = car.slipstream


@helper
def _see_course(course: Records, settings: Any, car: Any, points: int, out: Float64) -> None:
  sine, cosine = math.sin(car.yaw), math.cos(car.yaw)
  horizon = _HORIZON * max(car.speed, _LEAST)
  last = len(course) - 1
  for k in range(points):
    place = (car.along + horizon * (k + 1) / points) / settings.spacing
    index = math.floor(place)
    index = index % len(course) if settings.closed == 1 else min(max(index, 0), last)
    point = course[index]
    # From the point straight on: at most a point's distance, but for those beyond an open course.
    beyond = (place - math.floor(place) if settings.closed == 1 else place - index) * settings.spacing
    x = point.x + beyond * point.tangent_x - car.x
    y = point.y + beyond * point.tangent_y - car.y
    for side in range(3):
      offset = (1 - side) * point.half_width
      side_x, side_y = x - offset * point.tangent_y, y + offset * point.tangent_x
      at = _CAR + k * _POINT + 2 * side
      out[at] = (side_x * cosine + side_y * sine) / 100
      out[at + 1] = (side_y * cosine - side_x * sine) / 100


@helper
def _lead(settings: Any, behind: Any, ahead: Any) -> float:
  lead = ahead.along - behind.along
  if settings.closed == 1:
    lead -= settings.length * math.floor(lead / settings.length + 0.5)
  return float(lead)


@helper
def _see_opponents(race: Race, me: int, slots: int, start: int, out: Float64) -> None:
  """Fills the slots, nearest first: each takes the nearest opponent that is farther than the one before."""
  settings = race.settings[0]
  for sign in range(2):
    reach = _AHEAD if sign == 0 else _BEHIND
    done, done_index = -1.0, -1
    for slot in range(slots):
      best, best_index = reach, -1
      for j in range(len(race.cars)):
        lead = _lead(settings, race.cars[me], race.cars[j])
        distance = lead if sign == 0 else -lead
        right_side = distance > 0 or (distance == 0 and sign == 0)
        further = distance > done or (distance == done and j > done_index)
        if j != me and right_side and further and distance < best:
          best, best_index = distance, j
      if best_index >= 0:
        _see_opponent(race.cars[me], race.cars[best_index], start + (sign * slots + slot) * _OPPONENT, out)
      done, done_index = best, best_index
      if best_index < 0:
        break


@helper
def _see_opponent(car: Any, other: Any, at: int, out: Float64) -> None:
  sine, cosine = math.sin(car.yaw), math.cos(car.yaw)
  x, y = other.x - car.x, other.y - car.y
  mine, others = car.yaw + car.slip_angle, other.yaw + other.slip_angle
  speed_x = other.speed * math.cos(others) - car.speed * math.cos(mine)
  speed_y = other.speed * math.sin(others) - car.speed * math.sin(mine)
  # Accelerations are kept as each car points.
  turn = other.yaw - car.yaw
  other_x = other.forward_acceleration * math.cos(turn) - other.left_acceleration * math.sin(turn)
  other_y = other.forward_acceleration * math.sin(turn) + other.left_acceleration * math.cos(turn)
  out[at] = 1.0
  out[at + 1] = (x * cosine + y * sine) / 75
  out[at + 2] = (y * cosine - x * sine) / 75
  out[at + 3] = (speed_x * cosine + speed_y * sine) / 50
  out[at + 4] = (speed_y * cosine - speed_x * sine) / 50
  out[at + 5] = (other_x - car.forward_acceleration) / 50
  out[at + 6] = (other_y - car.left_acceleration) / 50
