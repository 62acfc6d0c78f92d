"""`StepReader`: what a world answers, as time steps with events and shaping."""

from collections.abc import Sequence
from typing import Any

import dm_env
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from configs import EnvironmentConfig, EventSpec, UserError
from environments.answers import AnswerCheck
from environments.events import EventMonitor, EventStep
from environments.shaping import Shaping
from environments.spaces import action_converter, action_spec, observation_spec
from environments.timestep import EventTimeStep

_CONTINUES = np.float32(1.0)
_ENDS = np.float32(0.0)


class StepReader:
  """Reads the episodes of one world, or of one part of a vector world: checks them, evaluates events, shapes rewards.

  The loop is `first(answer of reset)`, then `next(action, answer of step)` until the last step, and so on.

  Attributes:
    observation_spec: see `environments.spaces`.
    action_spec: see `environments.spaces`.
  """

  def __init__(
    self,
    config: EnvironmentConfig,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    events: Sequence[EventSpec] = (),
    shaping: Shaping | None = None,
  ):
    """Prepares for the first episode.

    Args:
      config: gives the world's name, and how it is checked.
      observation_space: of the world.
      action_space: of the world.
      events: in the order of their bits.
      shaping: of the learner's rewards, for this reader alone; None for none.

    Raises:
      UserError: a space is of a kind that cannot be stored, or an event cannot be loaded.
    """
    self._world = config.name
    self._monitor = EventMonitor(events)
    self._shaping = shaping
    self.observation_spec = observation_spec(observation_space)
    self.action_spec = action_spec(action_space)
    self._to_gym_action = action_converter(action_space)
    self._check = AnswerCheck(config.name, self.observation_spec, action_space, config.check)
    self._dtype = self.observation_spec.dtype
    self._observation: npt.NDArray[Any] = np.zeros(self.observation_spec.shape, self._dtype)

  def first(self, answer: Any) -> EventTimeStep:
    """The first time step of an episode.

    Args:
      answer: of the world's `reset`.

    Raises:
      UserError: the world returned something else than it should, or an event's condition or the potential failed.
    """
    observation, info = self._check.of_reset(answer)
    self._monitor.reset()
    self._observation = self._convert(observation)
    if self._shaping is not None:
      self._shaping.reset(self._observation, info)
    return EventTimeStep(dm_env.StepType.FIRST, None, None, self._observation)

  def to_gym(self, action: Any) -> Any:
    """An action of `action_spec` as one of the world's space; a continuous one is clipped to its bounds.

    Raises:
      UserError: it has another shape than the spec, or is outside the space.
    """
    gym_action = self._to_gym_action(action)
    if self._check.active:
      self._check.action(gym_action)
    return gym_action

  def next(self, gym_action: Any, answer: Any) -> EventTimeStep:
    """The time step that an action led to.

    Args:
      gym_action: that the world got.
      answer: of its `step`.

    Raises:
      UserError: as for `first`.
    """
    raw_observation, reward, terminated, truncated, info = self._check.of_step(answer)
    last, observation = self._observation, self._convert(raw_observation)
    events = self._monitor(EventStep(last, gym_action, reward, observation, info, terminated, truncated))
    shaping = 0.0 if self._shaping is None else self._shaping(observation, info, terminated)
    self._observation = observation
    last_step = terminated or truncated
    return EventTimeStep(
      dm_env.StepType.LAST if last_step else dm_env.StepType.MID,
      np.float32(reward),
      _ENDS if terminated else _CONTINUES,
      observation,
      events,
      terminated,
      truncated,
      shaping,
      self._check.measures(info) if last_step else {},
    )

  def _convert(self, observation: Any) -> npt.NDArray[Any]:
    # Always a new array: some environments write every observation into the same one.
    try:
      return np.array(observation, dtype=self._dtype)
    except (TypeError, ValueError, OverflowError) as error:
      raise UserError(
        f"The environment {self._world!r} returned an observation ({type(observation).__name__}) that is no array of "
        f"numbers ({error}): return what its observation_space says."
      ) from error
