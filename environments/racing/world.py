"""The racing worlds: the slingshot pass and the time trial, for one learning car; and all cars of a time trial at once."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from configs import UserError
from environments.arguments import check_render_mode, check_whole
from environments.racing.car import Car
from environments.racing.driver import centre_line, drive, find_line, make_drivers
from environments.racing.features import FeatureLayout
from environments.racing.rewards import COMPONENTS, SLINGSHOT, TIME_TRIAL, RewardWeights, assess
from environments.racing.scenarios import FASTEST, Laps, SlingshotLaunch, TimeTrialLaunch
from environments.racing.simulation import MAX_CARS, SLIPSTREAM_DRAG, STEP, Simulation
from environments.racing.tracks import circuit, straight_section

Observations = npt.NDArray[np.float32]
Info = dict[str, Any]

MAX_COURSE_POINTS = 200


def make_spaces(layout: FeatureLayout) -> tuple[spaces.Space[Observations], spaces.Space[Any]]:
  """Observations, float32 [features], and actions, float32 [2]: steering (1 to the left) and throttle (above 0) or brake."""
  observation: Any = spaces.Box(-np.inf, np.inf, (len(layout.names),), np.float32)
  return observation, spaces.Box(-1.0, 1.0, (2,), np.float32)


class Slingshot(gymnasium.Env[Observations, Any]):
  """The slingshot pass: 1,700 m behind the built-in driver, whom only its slipstream lets an equal car pass.

  An episode is truncated where the section ends, or after `time_limit`. The section's end is no terminal state: the road goes on,
  and if nothing came after it, its metres would be worth the same at any speed. `info` has `slipstream`, `won` (the section was
  ended in first place), `lead` (m, of the learner), `off_course`, `collided`, `at_fault`, `wall`, `speed` (m/s), `along` (m) and
  `lateral` (m); after `reset` also `distance` (m), and after the last step `measures`.
  """

  NAME: ClassVar[str] = "slingshot"
  metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}

  def __init__(
    self,
    distance: float | None = None,
    balance: float = 0.25,
    course_points: int = 30,
    slipstream_drag: float = SLIPSTREAM_DRAG,
    time_limit: float = 60.0,
    render_mode: str | None = None,
  ):
    """Prepares the section.

    Args:
      distance: m to the opponent at the start; None for a random one from 10 to 40 m.
      balance: the opponent's power and mass vary by up to this part.
      course_points: how many points of the course ahead an observation has.
      slipstream_drag: the part of the drag that a full slipstream takes away.
      time_limit: s, after which an episode is truncated; 60 in A.3.
      render_mode: "rgb_array" or None.

    Raises:
      UserError: an argument is not valid.
    """
    _check_number(self.NAME, "distance", 10.0 if distance is None else distance, 5.0, 200.0)
    _check_number(self.NAME, "balance", balance, 0.0, 0.5)
    _check_number(self.NAME, "slipstream_drag", slipstream_drag, 0.0, 0.9)
    _check_number(self.NAME, "time_limit", time_limit, 1.0, 600.0)
    check_whole(self.NAME, "number of course_points", course_points, 1, MAX_COURSE_POINTS)
    self.render_mode = check_render_mode(self.NAME, render_mode)
    self.layout = FeatureLayout(course_points, opponents=1)
    self.observation_space, self.action_space = make_spaces(self.layout)
    self.launch = SlingshotLaunch(distance, balance=balance)
    self.simulation = Simulation(straight_section(), [Car(), Car()], slipstream_drag=slipstream_drag)
    self.line = centre_line(straight_section(), FASTEST)
    self.drivers = make_drivers(2)
    self.time_limit = float(time_limit)
    self.seconds = 0.0
    self._actions = np.zeros((2, 2))
    self._components = np.zeros((2, len(COMPONENTS)))
    self._totals = np.zeros(4)  # Steps off course, with a contact, at fault; the strongest slipstream.

  def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Info]:
    """Launches both cars."""
    super().reset(seed=seed)
    distance = self.launch.begin(self.simulation, self.drivers, self.np_random)
    self.seconds = 0.0
    self._totals[:] = 0
    return self.layout.observe(self.simulation.race)[0], {**self._info(), "distance": distance}

  def step(self, action: npt.NDArray[np.float32]) -> tuple[Observations, float, bool, bool, Info]:
    """Drives for 0.1 s."""
    simulation = self.simulation
    drive(simulation.race, self.line, self.drivers, self._actions)
    self._actions[0] = action
    simulation.step(self._actions)
    assess(simulation.race, self._components)
    self.seconds += STEP
    info = self._info()
    self._add(info)
    finished: bool = info["along"] >= simulation.track.finish
    truncated = finished or self.seconds >= self.time_limit - STEP / 2
    info["won"] = finished and info["lead"] > 0
    if truncated:
      info["measures"] = self._measure(info)
    reward = float(SLINGSHOT.reward(self._components)[0])
    return self.layout.observe(simulation.race)[0], reward, False, truncated, info

  def render(self) -> npt.NDArray[np.uint8] | None:
    """A view of the learner's car from above, uint8 [height, width, 3]."""
    return draw(self.simulation) if self.render_mode else None

  def _info(self) -> Info:
    return {**_describe(self.simulation, 0), "won": False, "lead": self.simulation.lead(1, 0)}

  def _add(self, info: Info) -> None:
    self._totals[:3] += (info["off_course"], info["collided"], info["at_fault"])
    self._totals[3] = max(self._totals[3], info["slipstream"])

  def _measure(self, info: Info) -> dict[str, float]:
    names = ("off_course_steps", "contact_steps", "at_fault_steps", "strongest_slipstream")
    measures = dict(zip(names, self._totals.tolist(), strict=True))
    return {"won": float(info["won"]), "margin": info["lead"], "section_seconds": self.seconds, **measures}


class TimeTrialField:
  """All cars of a time trial, each alone: they are ghosts to each other. Every car has its own episodes.

  A vector environment wraps it: `step` steps all cars, and `reset` begins new episodes of those in a mask.
  """

  TIME_LIMIT: ClassVar[float] = 150.0  # s (A.3).

  def __init__(
    self,
    cars: int = 20,
    course_points: int = 30,
    laps: int | None = None,
    weights: RewardWeights = TIME_TRIAL,
    launch: TimeTrialLaunch | None = None,
  ):
    """Prepares the circuit.

    Args:
      cars: from 1 to 20.
      course_points: how many points of the course ahead an observation has.
      laps: None for episodes of `TIME_LIMIT` that begin anywhere; a number for episodes of so many laps from the start line, in
        at most `TIME_LIMIT` a lap.
      weights: of the rewards.
      launch: how cars begin.

    Raises:
      UserError: an argument is not valid.
    """
    check_whole("time_trial", "number of cars", cars, 1, MAX_CARS)
    check_whole("time_trial", "number of course_points", course_points, 1, MAX_COURSE_POINTS)
    check_whole("time_trial", "number of laps", 1 if laps is None else laps, 1)
    self.layout = FeatureLayout(course_points, opponents=0)
    self.simulation = Simulation(circuit(), [Car()] * cars, ghosts=True)
    self.line = find_line(circuit(), Car())
    self.laps = Laps(cars)
    self.weights = weights
    self._launch = TimeTrialLaunch() if launch is None else launch
    self._wanted = laps
    self._components = np.zeros((cars, len(COMPONENTS)))

  def reset(self, generator: np.random.Generator, chosen: npt.NDArray[np.bool_] | None = None) -> Observations:
    """Begins new episodes.

    Args:
      generator: draws where the cars start.
      chosen: bool [cars], those that begin anew; None for all.

    Returns:
      float32 [cars, features], of all cars.
    """
    everyone = np.ones(len(self.simulation.cars), bool)
    mask = everyone if chosen is None else np.asarray(chosen, bool)
    self._launch.begin(self.simulation, self.line, mask, generator)
    if self._wanted is not None:
      speed = np.full(int(mask.sum()), self._launch.pace * self.line.speed[0])
      self.simulation.place(np.zeros(len(speed)), np.full(len(speed), self.line.lateral[0]), speed, mask)
    self.laps.begin(self.simulation, mask)
    return self.layout.observe(self.simulation.race)

  def step(
    self, actions: npt.NDArray[Any]
  ) -> tuple[Observations, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Drives all cars for 0.1 s.

    Args:
      actions: float [cars, 2].

    Returns:
      Observations, float32 [cars, features]; rewards, float64 [cars]; terminated and truncated, bool [cars]. No car is reset by
      itself.
    """
    self.simulation.step(actions)
    assess(self.simulation.race, self._components)
    self.laps.update(self.simulation)
    terminated = np.zeros(len(actions), bool) if self._wanted is None else self.laps.count >= self._wanted
    limit = self.TIME_LIMIT * (self._wanted or 1)
    truncated = ~terminated & (self.laps.seconds >= limit - STEP / 2)
    return self.layout.observe(self.simulation.race), self.weights.reward(self._components), terminated, truncated

  def describe(self, car: int) -> Info:
    """A car's `info`: `off_course`, `speed` (m/s), `along` (m), `lateral` (m), `laps`, and others."""
    return {**_describe(self.simulation, car), "laps": int(self.laps.count[car])}

  def measure(self, car: int) -> dict[str, float]:
    """What is to be known of a car's episode at its end. `best_lap` is there only after a whole lap."""
    laps = self.laps
    measures = {
      "off_course_count": float(laps.departures[car]),
      "off_course_seconds": float(laps.off_seconds[car]),
      "clean": float(laps.departures[car] == 0),
      "laps": float(laps.count[car]),
      "metres": float(self.simulation.cars.travelled[car]),
    }
    return {**measures, "best_lap": float(laps.best[car])} if laps.count[car] else measures


class TimeTrial(gymnasium.Env[Observations, Any]):
  """The time trial for one car: as fast as possible, without leaving the course.

  `info` is `TimeTrialField.describe`'s; after the last step it has `measures`, which are `TimeTrialField.measure`'s.
  """

  NAME: ClassVar[str] = "time_trial"
  metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}

  def __init__(self, laps: int | None = None, course_points: int = 30, render_mode: str | None = None):
    """Prepares the circuit.

    Args:
      laps: None for episodes of 150 s that begin anywhere; a number for episodes of so many laps from the start line.
      course_points: how many points of the course ahead an observation has.
      render_mode: "rgb_array" or None.

    Raises:
      UserError: an argument is not valid.
    """
    self.render_mode = check_render_mode(self.NAME, render_mode)
    self.field = TimeTrialField(1, course_points, laps)
    self.observation_space, self.action_space = make_spaces(self.field.layout)

  def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Info]:
    """Puts the car on the circuit, rolling."""
    super().reset(seed=seed)
    return self.field.reset(self.np_random)[0], self.field.describe(0)

  def step(self, action: npt.NDArray[np.float32]) -> tuple[Observations, float, bool, bool, Info]:
    """Drives for 0.1 s."""
    observations, rewards, terminated, truncated = self.field.step(np.asarray(action)[np.newaxis])
    info = self.field.describe(0)
    if terminated[0] or truncated[0]:
      info["measures"] = self.field.measure(0)
    return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

  def render(self) -> npt.NDArray[np.uint8] | None:
    """A view of the car from above, uint8 [height, width, 3]."""
    return draw(self.field.simulation) if self.render_mode else None


def draw(simulation: Simulation, car: int = 0) -> npt.NDArray[np.uint8]:
  """A view of a car from above, uint8 [height, width, 3]."""
  from environments.racing.drawing import draw_view  # Here, because a console has no PIL.

  return draw_view(simulation, car)


def _describe(simulation: Simulation, index: int) -> Info:
  car = simulation.state(index)
  return {
    "slipstream": float(car["slipstream"]),
    "off_course": bool(car["tyres_out"] > 2),
    "collided": bool(car["collided"]),
    "at_fault": bool(car["at_fault"]),
    "wall": bool(car["wall_time"] > 0),
    "speed": float(car["speed"]),
    "along": float(car["along"]),
    "lateral": float(car["lateral"]),
  }


def _check_number(world: str, name: str, value: float, least: float, most: float) -> None:
  if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
    raise UserError(f"{world} has the {name} {value!r}: it must be a number from {least:g} to {most:g}.")
