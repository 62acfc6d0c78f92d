"""How cars move: compiled functions over arrays of cars.

A step of control, 0.1 s, is 20 steps of 5 ms. In each, every car gets its forces (`_derive`: CommonRoad's single-track drift
model with aerodynamics and ground), moves, and meets the walls; then cars that touch push each other.

- Axes: x, y of the ground in metres; angles in radians, counted to the left. The *slip angle* is from the car's heading to its
  velocity. `along` and `lateral` are metres along the course's centre line, and to its left.
- The wheels' rotation is integrated implicitly, as it is stiff: with the tyre's force over its slip.
- All is planar: no roll, no pitch, no slopes. The load goes from axle to axle with acceleration, not from side to side.

Kernels are plain Python too, and give the same results without the compiler. Functions and constants are in one file because of
numba's cache; see `configs.compiling`.
"""

import math
from typing import Any

from configs.compiling import helper, kernel
from environments.racing.state import Float64, Race, Records

GRAVITY = 9.81  # m/s², as in CommonRoad's models.
AIR = 1.2  # kg/m³, at 20 °C and sea level.

# The slipstream: its length and half of its width where it is e^-½ of the middle, m. The paper says that .1 is a car within 60 m
# (A.4), and `exp(-60 / 26)` is .1; then .7 is 9 m, .9 is 3 m. The form is TORCS' (simuv2, `SimCarUpdateAero`): exponential in the
# distance, in a narrow cone.
SLIPSTREAM_LENGTH = 26.0
SLIPSTREAM_WIDTH = 1.5

# Off the course, tuned: the tyres' part of their friction, and the drag on a car with all wheels out, m/s².
GRASS_GRIP = 0.6
GRASS_DRAG = 3.0

# Walls and cars, tuned: the part of the closing speed that comes back, and the friction along a wall.
RESTITUTION = 0.2
WALL_FRICTION = 0.15

# A contact counts as one from behind if the cars' middles are farther apart along the course than this part of their length.
REAR_CONTACT = 0.7

# Indices of what `_derive` returns: CommonRoad's nine derivatives, then how fast a wheel's slip decays, 1/s.
X, Y, STEERING, SPEED, YAW, YAW_RATE, SLIP_ANGLE, FRONT_WHEEL, REAR_WHEEL, FRONT_DECAY, REAR_DECAY, RATES = range(12)


@kernel
def advance(race: Race) -> None:
  """Moves all cars by one step of control."""
  settings = race.settings[0]
  for i in range(len(race.cars)):
    _begin(race.cars[i], race.actions[i, 0], race.actions[i, 1])
  for _ in range(settings.substeps):
    for i in range(len(race.cars)):
      _move(race, race.cars[i], race.parameters[i], settings)
    if settings.ghosts == 0:
      _collide(race, settings)
  for i in range(len(race.cars)):
    _end(race.cars[i], settings.substeps)
  _set_slipstreams(race, settings)


@kernel
def locate(race: Race) -> None:
  """Sets where cars are on the course, and their slipstreams, after they were put somewhere."""
  settings = race.settings[0]
  for i in range(len(race.cars)):
    car = race.cars[i]
    _project(race.course, car, settings)
    _find_ground(car, race.parameters[i])
  _set_slipstreams(race, settings)


@kernel
def derive(race: Race, inputs: Float64, rates: Float64) -> None:
  """The derivatives of all cars' states, for tests.

  Args:
    race: the cars, whose `CAR` says where they are.
    inputs: float64 [cars, 2], rate of steering (rad/s) and wanted acceleration (m/s²).
    rates: float64 [cars, RATES], is set.
  """
  for i in range(len(race.cars)):
    _derive(race, race.cars[i], race.parameters[i], inputs[i, 0], inputs[i, 1])
    for k in range(RATES):
      rates[i, k] = race.rates[k]


@helper
def _clip(value: float, least: float, most: float) -> float:
  return min(max(value, least), most)


@helper
def _wrap(angle: float) -> float:
  return angle - 2 * math.pi * math.floor((angle + math.pi) / (2 * math.pi))


@helper
def _magic(stiffness: float, shape: float, bend: float, slip: float) -> float:
  """The angle of Pacejka's "magic formula", of which the force is the sine and a weight the cosine."""
  x = stiffness * slip
  return shape * math.atan(x - bend * (x - math.atan(x)))


@helper
def _weigh(stiffness: float, shape: float, bend: float, shift: float, slip: float) -> float:
  """How much slip in one direction leaves of the force in the other; 1 without slip."""
  return math.cos(_magic(stiffness, shape, bend, slip + shift)) / math.cos(_magic(stiffness, shape, bend, shift))


@helper
def _push(p: Any, ratio: float, angle: float, load: float, grip: float, forces: Float64) -> None:
  """Sets `forces` to an axle's, along its wheels and to their left, N.

  CommonRoad's `tire_model` without camber, which has the shift `p_vx1` inside the sine. The last lines are not its: they hold the
  force in the circle of friction.
  """
  along = p.p_dx1 * grip * load
  across = p.p_dy1 * grip * load
  stiff_x, stiff_y = p.p_kx1 * load / (p.p_cx1 * along), p.p_ky1 * load / (p.p_cy1 * across)
  pure_x = along * math.sin(_magic(stiff_x, p.p_cx1, p.p_ex1, p.p_hx1 - ratio) + load * p.p_vx1)
  pure_y = across * math.sin(_magic(stiff_y, p.p_cy1, p.p_ey1, angle))
  weight_x = p.r_bx1 * math.cos(math.atan(p.r_bx2 * ratio))
  weight_y = p.r_by1 * math.cos(math.atan(p.r_by2 * (angle - p.r_by3)))
  x = pure_x * _weigh(weight_x, p.r_cx1, p.r_ex1, p.r_hx1, angle)
  y = pure_y * _weigh(weight_y, p.r_cy1, p.r_ey1, p.r_hy1, ratio)
  y += across * p.r_vy1 * math.cos(math.atan(p.r_vy4 * angle)) * math.sin(p.r_vy5 * math.atan(p.r_vy6 * ratio))
  scale = min(1.0, p.friction * grip * load / max(math.hypot(x, y), 1e-9))
  forces[0] = x * scale
  forces[1] = y * scale


@helper
def _derive(race: Race, car: Any, p: Any, steering_rate: float, acceleration: float) -> None:
  """Sets `race.rates` to the derivatives of a car's state, as CommonRoad's `vehicle_dynamics_std` does.

  Added are drag, downforce and the ground's grip and drag. Slip is also defined backwards, where CommonRoad's car has none.
  """
  pressure = 0.5 * AIR * car.speed * car.speed
  _load(car, p, acceleration, pressure * p.lift_area)
  _slip(car, p)
  _push(p, car.front_ratio, car.front_angle, car.front_load, car.front_grip, race.pair)
  car.front_x, car.front_y = race.pair[0], race.pair[1]
  _push(p, car.rear_ratio, car.rear_angle, p.rear_tyre * car.rear_load, car.rear_grip, race.pair)
  car.rear_x, car.rear_y = race.pair[0], race.pair[1]

  rates = race.rates
  rates[X] = car.speed * math.cos(car.slip_angle + car.yaw)
  rates[Y] = car.speed * math.sin(car.slip_angle + car.yaw)
  rates[STEERING] = steering_rate
  slowing = _resist(race.settings[0], car, p, pressure)
  # CommonRoad mixes this car, whose tyres slip, with one that rolls where its wheels point.
  mix = 0.5 * (math.tanh((car.speed - p.creep) / p.creep_width) + 1)
  _derive_slipping(car, p, slowing, mix, rates)
  _add_rolling(car, p, acceleration - slowing, 1 - mix, rates)
  _derive_wheels(car, p, acceleration, mix, rates)


@helper
def _load(car: Any, p: Any, acceleration: float, lift: float) -> None:
  """Sets the axles' loads, which acceleration moves to the rear; each has at least 1 N."""
  base = p.front + p.rear
  front = p.mass * (GRAVITY * p.rear - acceleration * p.height) / base
  rear = p.mass * (GRAVITY * p.front + acceleration * p.height) / base
  car.front_load = max(front + lift * p.lift_split, 1.0)
  car.rear_load = max(rear + lift * (1 - p.lift_split), 1.0)


@helper
def _front_speed(car: Any, p: Any) -> float:
  """Of the ground below the front wheels, along them, m/s."""
  ahead, aside = car.speed * math.cos(car.slip_angle), car.speed * math.sin(car.slip_angle)
  return float(ahead * math.cos(car.steering) + (aside + p.front * car.yaw_rate) * math.sin(car.steering))


@helper
def _slip(car: Any, p: Any) -> None:
  """Sets the tyres' slip ratios and angles."""
  slow = 0.5 * p.creep
  ahead, aside = car.speed * math.cos(car.slip_angle), car.speed * math.sin(car.slip_angle)
  front_speed = _front_speed(car, p)
  car.front_ratio = (front_speed - p.wheel_radius * car.front_wheel) / max(abs(front_speed), slow)
  car.rear_ratio = (ahead - p.wheel_radius * car.rear_wheel) / max(abs(ahead), slow)
  car.front_angle, car.rear_angle = 0.0, 0.0
  if car.speed > slow:
    car.front_angle = math.atan2(aside + car.yaw_rate * p.front, abs(ahead)) - car.steering
    car.rear_angle = math.atan2(aside - car.yaw_rate * p.rear, abs(ahead))


@helper
def _derive_slipping(car: Any, p: Any, slowing: float, mix: float, rates: Float64) -> None:
  """Sets the rates of a car on tyres that slip, times `mix`."""
  sin_slip, cos_slip = math.sin(car.slip_angle), math.cos(car.slip_angle)
  sin_both, cos_both = math.sin(car.steering - car.slip_angle), math.cos(car.steering - car.slip_angle)
  along = car.front_x * cos_both - car.front_y * sin_both + car.rear_x * cos_slip + car.rear_y * sin_slip
  across = car.front_y * cos_both + car.front_x * sin_both + car.rear_y * cos_slip - car.rear_x * sin_slip
  front_across = car.front_y * math.cos(car.steering) + car.front_x * math.sin(car.steering)
  rates[SPEED] = mix * (along / p.mass - slowing)
  rates[YAW] = mix * car.yaw_rate
  rates[YAW_RATE] = mix * (front_across * p.front - car.rear_y * p.rear) / p.inertia
  rates[SLIP_ANGLE] = mix * (across / (p.mass * car.speed) - car.yaw_rate) if car.speed > 0.5 * p.creep else 0.0


@helper
def _add_rolling(car: Any, p: Any, acceleration: float, mix: float, rates: Float64) -> None:
  """Adds the rates of a car that rolls where its wheels point, times `mix`: CommonRoad's `vehicle_dynamics_ks_cog`."""
  base = p.front + p.rear
  tangent, cosine = math.tan(car.steering), math.cos(car.steering)
  ahead, aside = car.speed * math.cos(car.slip_angle), car.speed * math.sin(car.slip_angle)
  steering_rate = rates[STEERING]
  sliding = p.rear * steering_rate / (base * cosine * cosine * (1 + (tangent * tangent * p.rear / base) ** 2))
  turning = acceleration * math.cos(car.slip_angle) * tangent - aside * sliding * tangent
  rates[SPEED] += mix * acceleration
  rates[YAW] += mix * car.speed * math.cos(math.atan(tangent * p.rear / base)) * tangent / base
  rates[YAW_RATE] += mix * (turning + ahead * steering_rate / (cosine * cosine)) / base
  rates[SLIP_ANGLE] += mix * sliding


@helper
def _derive_wheels(car: Any, p: Any, acceleration: float, mix: float, rates: Float64) -> None:
  """Sets the rates of the wheels' rotation: by torques times `mix`, for the rest towards rolling within 20 ms."""
  slow = 0.5 * p.creep
  torque = p.mass * p.wheel_radius * acceleration
  split = p.engine_split if acceleration > 0 else p.brake_split
  front_speed, rear_speed = _front_speed(car, p), car.speed * math.cos(car.slip_angle)
  rolling = 50 * (1 - mix)
  rates[FRONT_WHEEL] = mix * (split * torque - p.wheel_radius * car.front_x) / p.wheel_inertia
  rates[FRONT_WHEEL] += rolling * (max(0.0, front_speed) / p.wheel_radius - car.front_wheel)
  rates[REAR_WHEEL] = mix * ((1 - split) * torque - p.wheel_radius * car.rear_x) / p.wheel_inertia
  rates[REAR_WHEEL] += rolling * (max(0.0, rear_speed) / p.wheel_radius - car.rear_wheel)
  front_decay = _decay(p, car.front_x, car.front_ratio, car.front_load) / max(abs(front_speed), slow)
  rear_decay = _decay(p, car.rear_x, car.rear_ratio, p.rear_tyre * car.rear_load) / max(abs(rear_speed), slow)
  rates[FRONT_DECAY] = mix * front_decay + rolling
  rates[REAR_DECAY] = mix * rear_decay + rolling


@helper
def _decay(p: Any, force: float, ratio: float, load: float) -> float:
  """How fast a wheel's slip decays at a speed of 1 m/s, 1/s."""
  slope = abs(force / ratio) if abs(ratio) > 1e-3 else p.p_kx1 * load
  return float(p.wheel_radius * p.wheel_radius * slope / p.wheel_inertia)


@helper
def _resist(settings: Any, car: Any, p: Any, pressure: float) -> float:
  """Deceleration by air and grass, m/s²."""
  air = pressure * p.drag_area * (1 - settings.slipstream_drag * car.slipstream) / p.mass
  return float(air + GRASS_DRAG * car.tyres_out / 4 * min(1.0, car.speed))


@helper
def _begin(car: Any, steer: float, pedal: float) -> None:
  car.steer = _clip(steer, -1.0, 1.0)
  car.pedal = _clip(pedal, -1.0, 1.0)
  car.progress = 0.0
  car.off_time = 0.0
  car.wall_time = 0.0
  car.collided = 0
  car.at_fault = 0
  car.rear_speed = 0.0
  car.forward_acceleration = 0.0
  car.left_acceleration = 0.0


@helper
def _end(car: Any, substeps: int) -> None:
  """Makes means of what the substeps added up."""
  car.forward_acceleration /= substeps
  car.left_acceleration /= substeps


@helper
def _command(car: Any, p: Any) -> float:
  """The acceleration that pedal, engine, brakes and driving aids ask for, m/s².

  The aids hold engine and brakes to the friction that the bend leaves, on the axle that has less of it.
  """
  lift = 0.5 * AIR * car.speed * car.speed * p.lift_area / p.mass
  most = p.friction * min(car.front_grip, car.rear_grip) * (GRAVITY + lift)
  used = min(abs(car.speed * car.yaw_rate) / most, 0.95)
  left = p.aid * most * math.sqrt(1 - used * used)
  if car.pedal > 0:
    # The power is that of the wheels, so that spinning ones do not give more.
    engine = min(p.acceleration, p.power / (p.mass * max(car.speed, p.wheel_radius * car.rear_wheel, 1.0)))
    driven = (GRAVITY * p.front / (p.front + p.rear) + lift * (1 - p.lift_split)) / (GRAVITY + lift)
    return float(car.pedal * min(engine, left * driven)) if car.speed < p.top_speed else 0.0
  return float(car.pedal * min(p.braking, left) * min(1.0, car.speed))


@helper
def _move(race: Race, car: Any, p: Any, settings: Any) -> None:
  dt = settings.substep
  reach = p.steering_angle / (1 + (car.speed / p.steering_speed) ** 2)
  wanted = (reach * car.steer - car.steering) / p.steering_delay
  _derive(race, car, p, _clip(wanted, -p.steering_rate, p.steering_rate), _command(car, p))
  rates = race.rates
  across = car.speed * (rates[SLIP_ANGLE] + rates[YAW])
  car.forward_acceleration += rates[SPEED] * math.cos(car.slip_angle) - across * math.sin(car.slip_angle)
  car.left_acceleration += rates[SPEED] * math.sin(car.slip_angle) + across * math.cos(car.slip_angle)
  car.x += dt * rates[X]
  car.y += dt * rates[Y]
  car.steering += dt * rates[STEERING]
  car.speed = max(0.0, car.speed + dt * rates[SPEED])
  car.yaw += dt * rates[YAW]
  car.yaw_rate += dt * rates[YAW_RATE]
  car.slip_angle = _wrap(car.slip_angle + dt * rates[SLIP_ANGLE])
  car.front_wheel = max(0.0, car.front_wheel + dt * rates[FRONT_WHEEL] / (1 + dt * rates[FRONT_DECAY]))
  car.rear_wheel = max(0.0, car.rear_wheel + dt * rates[REAR_WHEEL] / (1 + dt * rates[REAR_DECAY]))
  _settle(car, p, dt)
  before = car.along
  _project(race.course, car, settings)
  step = car.along - before
  if settings.closed == 1:
    step -= settings.length * math.floor(step / settings.length + 0.5)
  car.progress += step
  car.travelled += step
  _find_ground(car, p)
  if car.tyres_out > 2:
    car.off_time += dt
  _meet_wall(car, p, settings)


@helper
def _settle(car: Any, p: Any, dt: float) -> None:
  """Turns the velocity of a car that hardly moves to where its wheels point; CommonRoad's model leaves it as it was."""
  if car.speed < p.creep:
    part = min(1.0, 10 * dt) * (1 - car.speed / p.creep)
    rolling = math.atan(math.tan(car.steering) * p.rear / (p.front + p.rear))
    car.slip_angle += part * _wrap(rolling - car.slip_angle)
    car.yaw_rate += part * (car.speed * math.tan(car.steering) / (p.front + p.rear) - car.yaw_rate)


@helper
def _beyond(point: Any, car: Any) -> float:
  """How far a car is beyond a point of the course, m."""
  return float((car.x - point.x) * point.tangent_x + (car.y - point.y) * point.tangent_y)


@helper
def _aside(point: Any, car: Any) -> float:
  return float((car.y - point.y) * point.tangent_x - (car.x - point.x) * point.tangent_y)


@helper
def _project(course: Records, car: Any, settings: Any) -> None:
  """Sets a car's place on the course, from the element where it was.

  Between two points the tangent turns evenly, so that places change without jumps also beside the centre line. Before and after
  an open course they go on straight.
  """
  points = len(course)
  last = points - 1 if settings.closed == 1 else points - 2
  i = car.element
  for _ in range(points):
    after = i + 1 if i + 1 < points else 0
    if _beyond(course[after], car) >= 0 and (i < last or settings.closed == 1):
      i = after
    elif _beyond(course[i], car) < 0 and (i > 0 or settings.closed == 1):
      i = i - 1 if i > 0 else last
    else:
      break
  after = i + 1 if i + 1 < points else 0
  start, end = course[i], course[after]
  gone = _beyond(start, car)
  part = gone / max(gone - _beyond(end, car), 1e-9)
  inside = _clip(part, 0.0, 1.0)
  car.element = i
  car.along = (i + part) * settings.spacing
  car.lateral = (1 - inside) * _aside(start, car) + inside * _aside(end, car)
  car.course_yaw = start.yaw + inside * _wrap(end.yaw - start.yaw)
  car.half_width = (1 - inside) * start.half_width + inside * end.half_width


@helper
def _find_ground(car: Any, p: Any) -> None:
  """Counts the wheels off the course, and sets the grip of each axle."""
  if abs(car.lateral) + p.front + p.rear + p.track < car.half_width:
    car.tyres_out = 0
    car.front_grip = car.rear_grip = 1.0
    return
  sine, cosine = math.sin(car.yaw - car.course_yaw), math.cos(car.yaw - car.course_yaw)
  side = 0.5 * p.track * cosine
  front, rear = car.lateral + p.front * sine, car.lateral - p.rear * sine
  front_out = int(abs(front + side) > car.half_width) + int(abs(front - side) > car.half_width)
  rear_out = int(abs(rear + side) > car.half_width) + int(abs(rear - side) > car.half_width)
  car.tyres_out = front_out + rear_out
  car.front_grip = 1 - 0.5 * (1 - GRASS_GRIP) * front_out
  car.rear_grip = 1 - 0.5 * (1 - GRASS_GRIP) * rear_out


@helper
def _meet_wall(car: Any, p: Any, settings: Any) -> None:
  """Pushes a car back from the wall that its outermost corner is in, with an impulse on that corner."""
  if abs(car.lateral) + p.length < car.half_width + settings.run_off:
    return
  sine, cosine = math.sin(car.yaw - car.course_yaw), math.cos(car.yaw - car.course_yaw)
  reach = 0.5 * (p.length * abs(sine) + p.width * abs(cosine))
  depth = abs(car.lateral) + reach - (car.half_width + settings.run_off)
  if depth <= 0:
    return
  side = 1.0 if car.lateral > 0 else -1.0  # 1 for the wall on the left.
  car.wall_time += settings.substep
  car.x += side * depth * math.sin(car.course_yaw)
  car.y -= side * depth * math.cos(car.course_yaw)
  car.lateral -= side * depth
  # Along the course, from the middle to the corner. It is shorter for a car that is nearly parallel, so that this one stays so.
  lever = side * 0.5 * (p.length * _sign(sine) * cosine - p.width * _sign(cosine) * sine)
  lever *= min(1.0, 4 * abs(sine))
  direction = car.yaw + car.slip_angle - car.course_yaw
  closing = side * (car.speed * math.sin(direction)) + side * car.yaw_rate * lever
  if closing <= 0:
    return
  impulse = (1 + RESTITUTION) * closing / (1 / p.mass + lever * lever / p.inertia)
  along = car.speed * math.cos(direction)
  along -= _sign(along) * min(abs(along), WALL_FRICTION * impulse / p.mass)
  across = car.speed * math.sin(direction) - side * impulse / p.mass
  car.yaw_rate -= side * impulse * lever / p.inertia
  car.speed = math.hypot(along, across)
  car.slip_angle = _wrap(math.atan2(across, along) + car.course_yaw - car.yaw)


@helper
def _sign(value: float) -> float:
  return 1.0 if value > 0 else (-1.0 if value < 0 else 0.0)


@helper
def _lead(settings: Any, behind: Any, ahead: Any) -> float:
  """How far `ahead` is in front along the course, m; on a closed course by the shorter way."""
  lead = ahead.along - behind.along
  if settings.closed == 1:
    lead -= settings.length * math.floor(lead / settings.length + 0.5)
  return float(lead)


@helper
def _set_slipstreams(race: Race, settings: Any) -> None:
  """Sets each car's slipstream: the strongest of the cars ahead, in [0, 1].

  exp(-gap / 26 m) times a bell over the cars' distance across the course. The gap is from nose to tail; alongside the car ahead
  the slipstream fades to nothing over its length.
  """
  for i in range(len(race.cars)):
    car = race.cars[i]
    car.slipstream = 0.0
    for j in range(len(race.cars)):
      if j != i and settings.ghosts == 0:
        other = race.cars[j]
        length = 0.5 * (race.parameters[i].length + race.parameters[j].length)
        gap = _lead(settings, car, other) - length
        if -length < gap < 6 * SLIPSTREAM_LENGTH:
          across = (car.lateral - other.lateral) / SLIPSTREAM_WIDTH
          strength = math.exp(-max(gap, 0.0) / SLIPSTREAM_LENGTH - 0.5 * across * across)
          car.slipstream = max(car.slipstream, strength * (1 + min(gap, 0.0) / length))


@helper
def _collide(race: Race, settings: Any) -> None:
  for i in range(len(race.cars)):
    for j in range(i + 1, len(race.cars)):
      one, other = race.cars[i], race.cars[j]
      reach = race.parameters[i].length + race.parameters[j].length
      if abs(one.x - other.x) < reach and abs(one.y - other.y) < reach:
        depth = _overlap(race, i, j)
        if depth > 0:
          _blame(settings, one, other, 0.5 * reach)
          _separate(race, i, j, depth)


@helper
def _overlap(race: Race, i: int, j: int) -> float:
  """How deep two cars are in each other, m, as three discs each; sets `pair` to where their discs are, along each car."""
  one, other = race.cars[i], race.cars[j]
  p, q = race.parameters[i], race.parameters[j]
  deepest = 0.0
  for k in range(-1, 2):
    here = k * 0.5 * (p.length - p.width)
    for m in range(-1, 2):
      there = m * 0.5 * (q.length - q.width)
      x = other.x + there * math.cos(other.yaw) - one.x - here * math.cos(one.yaw)
      y = other.y + there * math.sin(other.yaw) - one.y - here * math.sin(one.yaw)
      depth = 0.5 * (p.width + q.width) - math.hypot(x, y)
      if depth > deepest:
        deepest = depth
        race.pair[0], race.pair[1] = here, there
  return deepest


@helper
def _separate(race: Race, i: int, j: int, depth: float) -> None:
  """Pushes two cars apart, with an impulse between the two discs that overlap most."""
  one, other = race.cars[i], race.cars[j]
  p, q = race.parameters[i], race.parameters[j]
  here, there = race.pair[0], race.pair[1]
  x = other.x + there * math.cos(other.yaw) - one.x - here * math.cos(one.yaw)
  y = other.y + there * math.sin(other.yaw) - one.y - here * math.sin(one.yaw)
  size = max(math.hypot(x, y), 1e-9)
  x, y = x / size, y / size
  one.x, one.y = one.x - 0.5 * depth * x, one.y - 0.5 * depth * y
  other.x, other.y = other.x + 0.5 * depth * x, other.y + 0.5 * depth * y
  # The discs are round, so the impulse goes through their middles: its lever is theirs along the car.
  lever = here * (math.cos(one.yaw) * y - math.sin(one.yaw) * x)
  other_lever = there * (math.cos(other.yaw) * y - math.sin(other.yaw) * x)
  closing = _speed_along(one, x, y) - _speed_along(other, x, y)
  closing += one.yaw_rate * lever - other.yaw_rate * other_lever
  if closing > 0:
    mobility = 1 / p.mass + 1 / q.mass + lever * lever / p.inertia + other_lever * other_lever / q.inertia
    impulse = (1 + RESTITUTION) * closing / mobility
    _kick(one, -impulse * x / p.mass, -impulse * y / p.mass, -impulse * lever / p.inertia)
    _kick(other, impulse * x / q.mass, impulse * y / q.mass, impulse * other_lever / q.inertia)


@helper
def _blame(settings: Any, one: Any, other: Any, length: float) -> None:
  """Notes a contact, and who is at fault: our rule, as the game's is not known.

  From nose to tail it is the car behind; side by side the one that moves faster across the course towards the other.
  """
  first = one.collided == 0 or other.collided == 0
  one.collided, other.collided = 1, 1
  lead = _lead(settings, one, other)
  if abs(lead) > REAR_CONTACT * length:
    behind, ahead = (one, other) if lead > 0 else (other, one)
    behind.rear_speed = max(behind.rear_speed, _difference(behind, ahead))
    behind.at_fault = 1
  elif first:
    side = 1.0 if other.lateral > one.lateral else -1.0
    closing = side * (_speed_across(one) + _speed_across(other))
    guilty = one if closing > 0 else other
    guilty.at_fault = 1


@helper
def _difference(one: Any, other: Any) -> float:
  """Of two cars' velocities, m/s."""
  heading, other_heading = one.yaw + one.slip_angle, other.yaw + other.slip_angle
  x = one.speed * math.cos(heading) - other.speed * math.cos(other_heading)
  return math.hypot(x, one.speed * math.sin(heading) - other.speed * math.sin(other_heading))


@helper
def _speed_across(car: Any) -> float:
  """Of a car, to the left of the course, m/s."""
  return float(car.speed * math.sin(car.yaw + car.slip_angle - car.course_yaw))


@helper
def _speed_along(car: Any, x: float, y: float) -> float:
  direction = car.yaw + car.slip_angle
  return float(car.speed * (math.cos(direction) * x + math.sin(direction) * y))


@helper
def _kick(car: Any, x: float, y: float, turn: float) -> None:
  """Changes a car's velocity and yaw rate."""
  direction = car.yaw + car.slip_angle
  x += car.speed * math.cos(direction)
  y += car.speed * math.sin(direction)
  car.speed = math.hypot(x, y)
  car.slip_angle = _wrap(math.atan2(y, x) - car.yaw)
  car.yaw_rate += turn
