"""`EventTimeStep`: dm_env's time step, with what the replay needs in addition."""

import types
from collections.abc import Mapping
from typing import Any, NamedTuple

import dm_env


class EventTimeStep(NamedTuple):
  """A `dm_env.TimeStep` with events.

  Attributes:
    step_type: FIRST, MID or LAST.
    reward: float32 scalar, the environment's own; None at the first step of an episode.
    discount: float32 scalar, 0 where the episode terminated and 1 elsewhere, also where it was truncated; None at the
      first step.
    observation: as `observation_spec()` says.
    events: bit mask of the events that the transition to this step fired; bit i is event i of the config.
    terminated: the episode ended here by the rules of the world.
    truncated: the episode was cut off here, for example by a time limit.
    shaping: what potential-based shaping adds to `reward`, for the learner only: reported returns and event conditions use
      the reward without it. See `environments.shaping`.
    measures: name -> value of what the environment measured in the episode; only at its last step, and empty without any.
  """

  step_type: dm_env.StepType
  reward: Any
  discount: Any
  observation: Any
  events: int = 0
  terminated: bool = False
  truncated: bool = False
  shaping: float = 0.0
  measures: Mapping[str, float] = types.MappingProxyType({})

  def first(self) -> bool:
    """Whether an episode starts here."""
    return self.step_type is dm_env.StepType.FIRST

  def mid(self) -> bool:
    """Whether an episode neither starts nor ends here."""
    return self.step_type is dm_env.StepType.MID

  def last(self) -> bool:
    """Whether an episode ends here."""
    return self.step_type is dm_env.StepType.LAST
