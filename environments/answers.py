"""Checks of what a world returns, and of the actions that it gets.

Form is checked at every step: five values, two truth values, an `info` that is a dict, a reward that is one finite number.
Observations and actions are compared with the spaces as `environment.check` says. By default these are an environment's first
observation and those of its first `FIRST_STEPS` steps: a world that states its space wrongly shows it there, while one that
leaves loosely stated bounds later does no harm. (gymnasium's own lunar lander does, if it spins; the earliest that was found is
its 48th step.) NaN and infinity in an observation are refused later on as well, by the row codec.

An observation need not have the space's dtype: many worlds return float64 for float32, and lists. It must have the space's
shape, finite numbers, within the bounds but for rounding, and whole numbers where the space has whole numbers.
"""

import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from acme import specs
from gymnasium import spaces

from configs import UserError
from configs.measures import MOST_MEASURES, as_measures
from configs.run import Check
from environments.calls import USE_GYMNASIUM

FIRST_STEPS = 20
# By how much a float may leave its bounds, relative to them or to the distance between them: for rounding.
_SLACK = 1e-3
_SKIP = "or skip this check with --config.environment.check=never"

StepAnswer = tuple[Any, float, bool, bool, Mapping[str, Any]]


class AnswerCheck:
  """The checks of one environment.

  Attributes:
    active: whether the next observation and the next action are compared with the spaces.
  """

  def __init__(self, world: str, spec: specs.BoundedArray, action_space: spaces.Space[Any], check: Check):
    """Makes the checks.

    Args:
      world: its name, for messages.
      spec: of its observations.
      action_space: of the gymnasium environment.
      check: which observations and actions to compare with the spaces.
    """
    self._world = world
    self._spec = spec
    self._action_space = action_space
    self._forms = check != "never"
    self._left = {"first": float(FIRST_STEPS), "always": float("inf"), "never": 0.0}[check]
    self.active = self._left > 0
    self._low, self._high = _with_slack(spec)
    self._measured: set[str] = set()

  def of_reset(self, answer: Any) -> tuple[Any, Mapping[str, Any]]:
    """What `reset` returned: the observation, which is compared with the space, and the info.

    Raises:
      UserError: it is something else.
    """
    if not isinstance(answer, tuple) or len(answer) != 2:
      raise UserError(
        f"The environment {self._world!r} returned {_form(answer)} from reset and not two: {USE_GYMNASIUM}"
      )
    observation, info = answer
    if self._forms:
      self._check_info(info, "reset")
    if self.active:
      self._check_observation(observation, "reset")
    return observation, info

  def of_step(self, answer: Any) -> StepAnswer:
    """What `step` returned, its reward as a float, and its flags as Python's.

    Raises:
      UserError: it is something else.
    """
    if not isinstance(answer, tuple) or len(answer) != 5:
      raise UserError(
        f"The environment {self._world!r} returned {_form(answer)} from step and not five: {USE_GYMNASIUM}"
      )
    observation, reward, terminated, truncated, info = answer
    if self._forms:
      if type(terminated) is not bool:
        self._check_flag("terminated", terminated)
      if type(truncated) is not bool:
        self._check_flag("truncated", truncated)
      if type(info) is not dict:
        self._check_info(info, "step")
    if self.active:
      self._left -= 1
      self.active = self._left > 0
      self._check_observation(observation, "step")
    if type(reward) is not float or not math.isfinite(reward):
      reward = self._number(reward)
    # Environments often return numpy Booleans, which fail `is True` and are not JSON.
    return observation, reward, bool(terminated), bool(truncated), info

  def action(self, action: Any) -> None:
    """Compares an action, as the gymnasium environment gets it, with the space.

    Raises:
      UserError: it is outside.
    """
    if self.active and not self._action_space.contains(action):
      raise UserError(
        f"The action {_shown(action)} is outside the action_space of the environment {self._world!r}, "
        f"{_shown(self._action_space)}: check that the policy is of this world and has not diverged, {_SKIP}."
      )

  def measures(self, info: Any) -> dict[str, float]:
    """The measures of an episode, `info["measures"]` of its last step; empty if there are none.

    Raises:
      UserError: they are something else than at most `MOST_MEASURES` names with finite numbers, or the environment has used
        more names in all its episodes.
    """
    if not isinstance(info, Mapping) or "measures" not in info:
      return {}
    try:
      measures = as_measures(info["measures"])
    except ValueError as error:
      raise self._unusable(str(error)) from None
    self._measured.update(measures)
    if len(self._measured) > MOST_MEASURES:
      raise self._unusable(f"they have had {len(self._measured)} names by now, more than {MOST_MEASURES}")
    return measures

  def _unusable(self, fault: str) -> UserError:
    return UserError(
      f"The environment {self._world!r} ended an episode with info['measures'] that cannot be used: {fault}; give a dict of "
      "names and finite numbers, such as {'lap_seconds': 93.2}."
    )

  def _number(self, reward: Any) -> float:
    if isinstance(reward, np.ndarray) and not reward.shape:
      reward = reward.item()
    number = float(reward) if isinstance(reward, (numbers.Real, np.bool_)) else math.nan
    if not math.isfinite(number):
      raise UserError(
        f"The environment {self._world!r} returned the reward {_shown(reward)} ({type(reward).__name__}) from step: it must "
        "be one finite number."
      )
    return number

  def _check_flag(self, name: str, flag: Any) -> None:
    if not isinstance(flag, np.bool_) and not (isinstance(flag, np.ndarray) and flag.dtype == bool and not flag.shape):
      raise UserError(
        f"The environment {self._world!r} returned {name} = {_shown(flag)} ({type(flag).__name__}) from step: return True "
        f"or False, {_SKIP}."
      )

  def _check_info(self, info: Any, call: str) -> None:
    if not isinstance(info, Mapping):
      raise UserError(
        f"The environment {self._world!r} returned the info {_shown(info)} ({type(info).__name__}) from {call}: return a "
        f"dict, which may be empty, {_SKIP}."
      )

  def _check_observation(self, observation: Any, call: str) -> None:
    fault = self._fault(observation)
    if fault:
      raise UserError(
        f"The environment {self._world!r} returned an observation from {call} that is outside its observation_space: {fault}; "
        f"make the two agree, {_SKIP}."
      )

  def _fault(self, observation: Any) -> str:
    """What is wrong with an observation; empty if nothing is."""
    try:
      values = np.asarray(observation)
    except Exception:  # For example sequences of different lengths.
      return f"it ({type(observation).__name__}) is no array of numbers"
    spec = self._spec
    if values.dtype.kind not in "biuf":
      return f"{_shown(observation)} ({type(observation).__name__}) is no array of numbers"
    if values.shape != spec.shape:
      return f"it has the shape {values.shape}, and the space {spec.shape}"
    whole = spec.dtype.kind in "biu"
    # NaN compares as False.
    good = (values >= self._low) & (values <= self._high) & np.isfinite(values)
    if whole and values.dtype.kind == "f":
      good &= values == np.floor(values)
    if good.all():
      return ""
    place = tuple(int(index) for index in np.argwhere(~good)[0])
    at = f" at {list(place)}" if place else ""
    if not np.isfinite(values[place]):
      return f"it has {values[place]}{at}, which is not finite"
    kind = "a whole number " if whole else ""
    low, high = (np.broadcast_to(bound, spec.shape)[place] for bound in (spec.minimum, spec.maximum))
    return f"it has {values[place]}{at}, where the space has {kind}from {low} to {high}"


def _with_slack(spec: specs.BoundedArray) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
  """The bounds of observations: those of a space of floats, a little wider."""
  low, high = np.asarray(spec.minimum, np.float64), np.asarray(spec.maximum, np.float64)
  if spec.dtype.kind != "f":
    return low, high
  with np.errstate(invalid="ignore"):  # Both bounds may be infinite, on the same side.
    width = high - low
  size = np.maximum(np.where(np.isfinite(low), np.abs(low), 0), np.where(np.isfinite(high), np.abs(high), 0))
  slack = _SLACK * np.where(np.isfinite(width), width, size)
  return low - slack, high + slack


def _form(answer: Any) -> str:
  return f"{len(answer)} values" if isinstance(answer, tuple) else f"one value ({type(answer).__name__})"


def _shown(value: Any) -> str:
  """A value on one line, shortened."""
  text = " ".join((np.array2string(value, threshold=8) if isinstance(value, np.ndarray) else repr(value)).split())
  return text if len(text) <= 100 else f"{text[:100]} ..."
