"""Potential-based reward shaping (Ng, Harada and Russell 1999; SSET, Section 5.2)."""

import math
import numbers
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from configs import UserError
from environments.calls import FAILURES, describe, trace_of
from environments.events import make_callable


class Potential(Protocol):
  """phi: how promising a state is.

  It must depend on the state alone: one that counts steps, say, changes which policy is best.
  """

  def __call__(self, observation: Any, info: Mapping[str, Any]) -> float:
    """phi(s), from the observation of s and the `info` that came with it (from `reset` or `step`)."""


def shaping_reward(discount: float, potential: float, next_potential: float) -> float:
  """F(s, s') = gamma phi(s') - phi(s), which is added to the reward of the step from s to s'."""
  return discount * next_potential - potential


class Shaping:
  """Computes the shaping rewards of an environment's steps.

      shaping.reset(observation, info)
      shaping(observation, info, terminated)  # at each step, until the episode ends

  phi is 0 in the state in which an episode terminates, whatever the potential returns there, and only there. Only then do the
  shaped and the unshaped problem have the same best policies (Grzes 2017): Q' = Q - phi, with gamma the learner's discount. A
  truncated episode would have continued, and the learner bootstraps from its last state, so phi counts there.
  """

  def __init__(self, potential: Potential, discount: float):
    """Takes phi, and gamma in [0, 1]."""
    self._potential = potential
    self._discount = discount
    self._last = 0.0

  def reset(self, observation: Any, info: Mapping[str, Any]) -> None:
    """Takes the first state of an episode.

    Raises:
      UserError: the potential raised, or did not return a finite number.
    """
    self._last = self._evaluate(observation, info)

  def __call__(self, observation: Any, info: Mapping[str, Any], terminated: bool) -> float:
    """The shaping reward of the step to this state.

    Raises:
      UserError: the potential raised, or did not return a finite number.
    """
    potential = 0.0 if terminated else self._evaluate(observation, info)
    last, self._last = self._last, potential
    return shaping_reward(self._discount, last, potential)

  def _evaluate(self, observation: Any, info: Mapping[str, Any]) -> float:
    try:
      value: Any = self._potential(observation, info)
    except UserError as error:
      raise UserError(f"The potential failed: {error}") from error
    except FAILURES as error:  # The potential is the user's.
      raise UserError(f"The potential raised {describe(error)}: fix it.", trace_of(error)) from error
    if isinstance(value, np.ndarray) and value.ndim == 0:
      value = value.item()
    if not isinstance(value, (numbers.Real, np.bool_)) or not math.isfinite(value):
      raise UserError(f"The potential returned {value!r}: it must be one finite number.")
    return float(value)


def make_potential(reference: str, arguments: Mapping[str, Any]) -> Potential:
  """The potential that a reference and its arguments make.

  Args:
    reference: `module:name` of a function `f(observation, info)`, or of a class whose instances are called like that.
    arguments: keyword arguments of the class, or of the function beside these two.

  Raises:
    UserError: it cannot be loaded, does not accept its arguments, or cannot be called like that.
  """
  return make_callable(reference, arguments, "environment.potential", ("an observation", "an info"))
