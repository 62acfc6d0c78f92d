"""Rewards: the components of Wurman et al. (2022, Methods, "Rewards"), with the weights of the SSET paper's Table 3."""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from configs.compiling import helper, kernel
from environments.racing.state import Float64, Race

# The components, in order. All but the first and the passing bonus are penalties, and so never above 0.
COMPONENTS = (
  "progress",  # m along the centre line; 0 in a step that ends off course.
  "off_course",  # -s off course · (km/h)².
  "off_course_linear",  # -s off course · km/h.
  "wall",  # -s in touch with a wall · (km/h)².
  "tyre_slip",  # -Σ over the four tyres of |slip ratio|, at most 1, · |slip angle| in rad.
  "passing",  # m won on the opponents that are from 20 m behind to 40 m ahead.
  "collision",  # -1 in a step with a contact.
  "rear_collision",  # -(difference of velocity in m/s)² of a contact with a car ahead.
  "unsportsmanlike",  # -1 in a step with a contact by the car's fault.
)

PASSING_BEHIND = 20.0  # m.
PASSING_AHEAD = 40.0  # m.

_COMPONENTS = len(COMPONENTS)
_BEHIND, _AHEAD = PASSING_BEHIND, PASSING_AHEAD
_KPH = 3.6  # km/h in a m/s.


@dataclasses.dataclass(frozen=True)
class RewardWeights:
  """Of each component, by the names in `COMPONENTS`. The defaults are the slingshot's in Table 3."""

  progress: float = 1.0
  off_course: float = 0.0
  off_course_linear: float = 5.0
  wall: float = 0.1
  tyre_slip: float = 0.0
  passing: float = 0.5
  collision: float = 4.0
  rear_collision: float = 0.1
  unsportsmanlike: float = 5.0

  @functools.cached_property
  def _values(self) -> npt.NDArray[np.float64]:
    return np.array(dataclasses.astuple(self))

  def reward(self, components: Float64) -> npt.NDArray[np.float64]:
    """Weighted sums, float64 [cars], of components, float64 [cars, COMPONENTS]."""
    return components @ self._values


SLINGSHOT = RewardWeights()
# The time trial's in Table 3.
TIME_TRIAL = RewardWeights(
  off_course=0.01,
  off_course_linear=0.0,
  tyre_slip=0.25,
  passing=0.0,
  collision=0.0,
  rear_collision=0.0,
  unsportsmanlike=0.0,
)


@kernel
def assess(race: Race, components: Float64) -> None:
  """Sets the rewards' components of the step of control that was made, float64 [cars, COMPONENTS]."""
  for i in range(len(race.cars)):
    _assess_alone(race.cars[i], components[i])
    components[i, 5] = 0.0 if race.settings[0].ghosts == 1 else _gain(race, i)


@helper
def _assess_alone(car: Any, out: Float64) -> None:
  kph = _KPH * car.speed
  out[0] = 0.0 if car.tyres_out > 2 else car.progress
  out[1] = -car.off_time * kph * kph
  out[2] = -car.off_time * kph
  out[3] = -car.wall_time * kph * kph
  front = min(abs(car.front_ratio), 1.0) * abs(car.front_angle)
  rear = min(abs(car.rear_ratio), 1.0) * abs(car.rear_angle)
  out[4] = -2 * (front + rear)
  out[6] = -1.0 * car.collided
  out[7] = -car.rear_speed * car.rear_speed
  out[8] = -1.0 * car.at_fault


@helper
def _gain(race: Race, me: int) -> float:
  """How much nearer the car came to opponents ahead, or farther from those behind, m."""
  settings = race.settings[0]
  car = race.cars[me]
  total = 0.0
  for j in range(len(race.cars)):
    if j != me:
      lead = race.cars[j].along - car.along
      if settings.closed == 1:
        lead -= settings.length * math.floor(lead / settings.length + 0.5)
      if -_BEHIND < lead < _AHEAD:
        total += car.progress - race.cars[j].progress
  return float(total)
