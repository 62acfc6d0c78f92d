"""The arrays of a race: where cars are and how they move, the course, settings.

Compiled functions take them as they are; `physics` has the functions that change them.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]
Records: TypeAlias = Any  # np.recarray: an array of structures, whose fields are attributes.

CAR = np.dtype(
  [
    ("x", "float64"),  # m, of the centre of mass.
    ("y", "float64"),  # m.
    ("steering", "float64"),  # Angle of the front wheels, rad.
    ("speed", "float64"),  # Of the centre of mass, m/s; never negative.
    ("yaw", "float64"),  # Heading, rad.
    ("yaw_rate", "float64"),  # rad/s.
    ("slip_angle", "float64"),  # Of the centre of mass, rad.
    ("front_wheel", "float64"),  # Rotation of the front wheels, rad/s.
    ("rear_wheel", "float64"),  # rad/s.
    ("element", "int64"),  # Of the course.
    ("along", "float64"),  # m, from 0 to the length of a closed course.
    ("lateral", "float64"),  # m.
    ("course_yaw", "float64"),  # Heading of the course there, rad.
    ("half_width", "float64"),  # Of the course there, m.
    ("travelled", "float64"),  # Sum of all progress, m.
    ("progress", "float64"),  # In this step of control, m.
    ("slipstream", "float64"),  # In [0, 1].
    ("forward_acceleration", "float64"),  # Mean of the step of control, m/s².
    ("left_acceleration", "float64"),  # m/s².
    ("front_ratio", "float64"),  # Slip ratio of the front tyres: negative with too much throttle.
    ("rear_ratio", "float64"),
    ("front_angle", "float64"),  # Slip angle of the front tyres, rad.
    ("rear_angle", "float64"),
    ("front_load", "float64"),  # On both front tyres, N.
    ("rear_load", "float64"),
    ("front_x", "float64"),  # Force of both front tyres along their wheels, N.
    ("front_y", "float64"),  # To the left of their wheels.
    ("rear_x", "float64"),
    ("rear_y", "float64"),
    ("front_grip", "float64"),  # The ground's part of the tyres' friction.
    ("rear_grip", "float64"),
    ("tyres_out", "int64"),  # Number of wheels off the course.
    ("steer", "float64"),  # The latest action, in [-1, 1].
    ("pedal", "float64"),  # The latest action, in [-1, 1]: throttle above 0, brake below.
    ("off_time", "float64"),  # Off course in this step of control, s.
    ("wall_time", "float64"),  # In touch with a wall in this step of control, s.
    ("collided", "int64"),  # Whether it touched a car in this step of control.
    ("at_fault", "int64"),  # Whether it was to blame.
    ("rear_speed", "float64"),  # The largest difference of velocity at which it hit a car from behind, m/s.
  ],
  align=True,
)

# A point of the centre line.
POINT = np.dtype(
  [
    ("x", "float64"),  # m.
    ("y", "float64"),
    ("tangent_x", "float64"),  # Unit vector along the course.
    ("tangent_y", "float64"),
    ("yaw", "float64"),  # Of the tangent, rad, without jumps.
    ("half_width", "float64"),  # m.
  ]
)

SETTINGS = np.dtype(
  [
    ("spacing", "float64"),  # Of the course's points, m.
    ("length", "float64"),  # Of the course, m.
    ("run_off", "float64"),  # From the course's edge to the wall, m.
    ("closed", "int64"),  # Whether the course is.
    ("ghosts", "int64"),  # Whether cars pass through each other.
    ("slipstream_drag", "float64"),  # The part of the drag that a full slipstream takes away.
    ("substeps", "int64"),  # In a step of control.
    ("substep", "float64"),  # s.
  ]
)


class Race(NamedTuple):
  """All arrays of a race.

  Attributes:
    cars: `CAR` [cars].
    parameters: `PARAMETERS` [cars].
    course: `POINT` [points].
    settings: `SETTINGS` [1].
    actions: float64 [cars, 2], steering to the left and pedal, both in [-1, 1].
    rates: float64 [`physics.RATES`], room for a car's derivatives.
    pair: float64 [2], room for two numbers.
  """

  cars: Records
  parameters: Records
  course: Records
  settings: Records
  actions: Float64
  rates: Float64
  pair: Float64
