"""The time trial for up to 20 learning cars at once."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector.utils import batch_space

from configs.errors import UserError
from environments.arguments import check_render_mode
from environments.racing.simulation import MAX_CARS, STEP
from environments.racing.world import TimeTrialField, draw, make_spaces

Observations = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Info = dict[str, Any]


class TimeTrials(gymnasium.vector.VectorEnv[Observations, Any, npt.NDArray[Any]]):
  """The time trials of several cars, which are ghosts to each other: each has its own episodes, as in `TimeTrial`.

  A car whose episode has ended begins anew when `reset` names it in `options["reset_mask"]`, bool [cars]; until then it drives
  on, and what is said of it means nothing. `info` has what a `TimeTrial` says, as arrays [cars] with masks.
  """

  NAME: ClassVar[str] = "time_trials"
  metadata: dict[str, Any] = {
    "autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED,
    "render_modes": ["rgb_array"],
    "render_fps": round(1 / STEP),
  }

  def __init__(
    self, num_envs: int = MAX_CARS, laps: int | None = None, course_points: int = 30, render_mode: str | None = None
  ):
    """Prepares the circuit.

    Args:
      num_envs: cars, from 1 to 20.
      laps: None for episodes of 150 s that begin anywhere; a number for episodes of so many laps from the start line.
      course_points: how many points of the course ahead an observation has.
      render_mode: "rgb_array" or None.

    Raises:
      UserError: an argument is not valid.
    """
    self.render_mode = check_render_mode(self.NAME, render_mode)
    self.field = TimeTrialField(num_envs, course_points, laps)
    self.num_envs = num_envs
    self.single_observation_space, self.single_action_space = make_spaces(self.field.layout)
    self.observation_space = batch_space(self.single_observation_space, num_envs)
    self.action_space = batch_space(self.single_action_space, num_envs)

  def reset(
    self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
  ) -> tuple[Observations, Info]:
    """Puts cars on the circuit, rolling.

    Args:
      seed: of all cars' random numbers, which come from one generator.
      options: "reset_mask", which cars begin anew; without it all do.

    Returns:
      Observations of all cars, float32 [cars, features], and the info of those that begin anew.

    Raises:
      UserError: there is a seed for each car, or the mask is not one.
    """
    if isinstance(seed, list):
      raise UserError("time_trials got a seed for each car: give one number, as all cars share one generator.")
    super().reset(seed=seed)
    mask = self._mask(options)
    observations = self.field.reset(self.np_random, mask)
    return observations, self._describe(mask)

  def step(self, actions: npt.NDArray[Any]) -> tuple[Observations, npt.NDArray[np.float64], Flags, Flags, Info]:
    """Drives all cars for 0.1 s; actions are float [cars, 2]."""
    observations, rewards, terminated, truncated = self.field.step(actions)
    info = self._describe(np.ones(self.num_envs, bool))
    ended = terminated | truncated
    if ended.any():
      for car in np.flatnonzero(ended):
        info = self._add_info(info, {"measures": self.field.measure(int(car))}, int(car))
    return observations, rewards, terminated, truncated, info

  def render(self) -> tuple[npt.NDArray[np.uint8], ...] | None:
    """A view of each car from above, uint8 [height, width, 3]."""
    return tuple(draw(self.field.simulation, car) for car in range(self.num_envs)) if self.render_mode else None

  def _mask(self, options: dict[str, Any] | None) -> Flags:
    if not options or options.get("reset_mask") is None:
      return np.ones(self.num_envs, bool)
    mask = np.asarray(options["reset_mask"])
    if mask.dtype != bool or mask.shape != (self.num_envs,) or not mask.any():
      raise UserError(
        f"The reset_mask of time_trials is {mask!r}: it must be bool [{self.num_envs}], with at least one True."
      )
    return mask

  def _describe(self, mask: Flags) -> Info:
    """What `TimeTrialField.describe` says of the cars in the mask, of all at once."""
    cars = self.field.simulation.fields
    numbers = {
      "slipstream": cars["slipstream"],
      "off_course": cars["tyres_out"] > 2,
      "collided": cars["collided"] != 0,
      "at_fault": cars["at_fault"] != 0,
      "wall": cars["wall_time"] > 0,
      "speed": cars["speed"],
      "along": cars["along"],
      "lateral": cars["lateral"],
      "laps": self.field.laps.count,
    }
    info: Info = {}
    for name, values in numbers.items():
      info[name], info[f"_{name}"] = np.where(mask, values, np.zeros_like(values)), mask.copy()
    return info
