"""What a car is: its parameters, and the array in which kernels read them.

The equations and the names of the tyre's coefficients are those of CommonRoad's single-track drift model (Althoff and Würsching,
"CommonRoad: Vehicle Models", 2020: `vehicle_dynamics_std` and `tire_model` of commonroad-vehicle-models 3.0.2), which takes the
tyre from Pacejka, "Tire and Vehicle Dynamics". Driving aids, aerodynamics and ground are added here. `Car`'s defaults are tuned,
and no real car was measured.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Records: TypeAlias = Any  # np.recarray: an array of structures, whose fields are attributes.


@dataclasses.dataclass(frozen=True)
class Tyre:
  """Coefficients of Pacejka's formula, by CommonRoad's names. Those that are 0 in every planar model are left out.

  `p_` is pure slip, `r_` the weight of combined slip; the second letter is the formula's letter, the third the direction. The
  defaults are a slick tyre without shifts, tuned: 1.3 times its load at most, along as across.
  """

  p_cx1: float = 1.6
  p_dx1: float = 1.3
  p_ex1: float = 0.1
  p_kx1: float = 26.0
  p_hx1: float = 0.0
  p_vx1: float = 0.0
  r_bx1: float = 9.0
  r_bx2: float = -8.0
  r_cx1: float = 1.0
  r_ex1: float = 0.0
  r_hx1: float = 0.0
  p_cy1: float = 1.35
  p_dy1: float = 1.3
  p_ey1: float = -0.2
  p_ky1: float = -26.0
  r_by1: float = 8.0
  r_by2: float = 7.0
  r_by3: float = 0.0
  r_cy1: float = 1.0
  r_ey1: float = 0.0
  r_hy1: float = 0.0
  r_vy1: float = 0.0
  r_vy4: float = 0.0
  r_vy5: float = 0.0
  r_vy6: float = 0.0


@dataclasses.dataclass(frozen=True)
class Car:
  """A car. The defaults are like the paper's Red Bull X2019 (A.3), of which power, mass and drag area are a first guess.

  Attributes:
    mass: kg.
    power: of the engine at the wheels, W.
    acceleration: the most that the engine's torque gives, m/s²; above some speed its power gives less.
    braking: the most that the brakes give, m/s².
    top_speed: where the engine stops to push, m/s.
    length: m.
    width: m.
    front: from the centre of mass to the front axle, m.
    rear: from the centre of mass to the rear axle, m.
    track: from the left wheels to the right ones, m.
    height: of the centre of mass, m.
    inertia: about the vertical axis, kg m².
    wheel_inertia: of an axle's two wheels, kg m².
    wheel_radius: m.
    brake_split: the front axle's part of the brakes' torque.
    engine_split: the front axle's part of the engine's torque.
    steering_angle: the most at rest, rad.
    steering_rate: the most, rad/s.
    steering_speed: the speed above which the steering's reach falls with the square of speed, m/s. Tuned, so that the reach is
      little more than the tyres can use, and exploring noise stays on the road.
    steering_delay: s, in which a new steering angle is reached at the same rate. Tuned.
    drag_area: drag coefficient times frontal area, m².
    lift_area: the same of the downforce, m².
    lift_split: the front axle's part of the downforce.
    friction: no tyre's force is larger than this times its load. Pacejka's weights alone allow more in combined slip.
    rear_tyre: the wider rear tyres act like front ones with so many times the load. Above 1 the car understeers, which a driver
      can hold.
    aid: traction control and anti-lock brakes ask for at most this part of the friction. Tuned.
    creep: the speed below which the car rolls where its wheels point, m/s, as the slip of a wheel at rest is not defined.
    creep_width: how gradually, m/s.
    tyre: of all wheels.
  """

  mass: float = 750.0
  power: float = 650_000.0
  acceleration: float = 18.0
  braking: float = 45.0
  top_speed: float = 150.0
  length: float = 4.7
  width: float = 2.0
  front: float = 1.65
  rear: float = 1.35
  track: float = 1.7
  height: float = 0.3
  inertia: float = 900.0
  wheel_inertia: float = 2.0
  wheel_radius: float = 0.33
  brake_split: float = 0.62
  engine_split: float = 0.0
  steering_angle: float = 0.35
  steering_rate: float = 1.2
  steering_speed: float = 16.0
  steering_delay: float = 0.1
  drag_area: float = 1.15
  lift_area: float = 1.6
  lift_split: float = 0.43
  friction: float = 1.3
  rear_tyre: float = 1.15
  aid: float = 0.8
  creep: float = 3.0
  creep_width: float = 0.8
  tyre: Tyre = Tyre()

  def with_balance(self, power: float, mass: float) -> "Car":
    """The car with so many times its power and its mass: what the game calls balance of power (A.3)."""
    return dataclasses.replace(self, power=self.power * power, mass=self.mass * mass, inertia=self.inertia * mass)


_TYRE = [(field.name, "float64") for field in dataclasses.fields(Tyre)]
_BODY = [(field.name, "float64") for field in dataclasses.fields(Car) if field.name != "tyre"]

# A car's parameters with its tyre's, by their names.
PARAMETERS = np.dtype(_BODY + _TYRE)


def make_parameters(cars: Sequence[Car]) -> Records:
  """The cars as `PARAMETERS` [cars]."""
  rows = [tuple(getattr(car, name) for name, _ in _BODY) + dataclasses.astuple(car.tyre) for car in cars]
  return np.array(rows, PARAMETERS).view(np.recarray)
