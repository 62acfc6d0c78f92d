"""`EventEnvironment`: a gymnasium environment as a dm_env environment that evaluates events."""

from collections.abc import Sequence
from typing import Any

import dm_env
import gymnasium
import numpy as np
from acme import specs

from configs import EnvironmentConfig, EventSpec
from environments.calls import LateCall
from environments.gym_world import GymWorld
from environments.shaping import Shaping
from environments.step_reader import StepReader
from environments.timestep import EventTimeStep

make_environment_spec = specs.make_environment_spec


class EventEnvironment(dm_env.Environment):
  """Steps a gymnasium environment by dm_env's rules, evaluates events at each step, and shapes rewards if asked to.

  As in dm_env, `step` after the end of an episode (or before the first `reset`) starts an episode and ignores its action.
  What the environment does wrong becomes a sentence that names it and the call: `environments.calls` says what happens if it
  raises or hangs, and `environments.answers` how its answers are checked.

  Continuous actions with finite bounds are canonical: in [-1, 1], whatever the environment's own bounds are, so that policies
  and replay know one range. Only this class maps them onto the environment's bounds.
  """

  def __init__(
    self,
    gym_env: gymnasium.Env[Any, Any],
    events: Sequence[EventSpec] = (),
    seed: int | None = None,
    shaping: Shaping | None = None,
    config: EnvironmentConfig | None = None,
  ):
    """Wraps `gym_env`, and takes ownership of it.

    Args:
      gym_env: the environment.
      events: in the order of their bits.
      seed: for the first reset and for the action space; later episodes continue the environment's own generator.
      shaping: of the learner's rewards; None for none.
      config: gives the environment's name, how it is checked, and how long its calls may last; None takes the name of its class,
        and the defaults.

    Raises:
      UserError: a space is missing or of a kind that cannot be stored, `reset` takes no seed, or an event cannot be loaded.
    """
    config = config or EnvironmentConfig(type(gym_env.unwrapped).__name__)
    self.gym_env = gym_env
    self._world = GymWorld(gym_env, config)
    action_space = self._world.space("action_space")
    self._reader = StepReader(config, self._world.space("observation_space"), action_space, events, shaping)
    self._world.check_takes_seed()
    self._seed = seed
    self._needs_reset = True
    action_space.seed(seed)

  def reset(self) -> EventTimeStep:
    """Starts an episode.

    Raises:
      UserError: the environment raised something or returned something else than it should, or an event's condition or the
        potential failed.
      EpisodesLost: as the environment.
    """
    answer = self._world.reset(seed=self._seed)
    self._seed = None
    self._needs_reset = False
    return self._reader.first(answer)

  def step(self, action: Any) -> EventTimeStep:
    """Takes an action of `action_spec()`; a continuous action is clipped to its bounds.

    Raises:
      UserError: an action has another shape than the spec or is outside the space, the environment raised something or returned
        something else than it should, or an event's condition or the potential failed.
      EpisodesLost: as the environment.
    """
    if self._needs_reset:
      return self.reset()
    gym_action = self._reader.to_gym(action)
    timestep = self._reader.next(gym_action, self._world.step(gym_action))
    self._needs_reset = timestep.last()
    return timestep

  def observation_spec(self) -> specs.Array:
    """The observations' shape and dtype; float64 spaces become float32."""
    return self._reader.observation_spec

  def action_spec(self) -> specs.BoundedArray:
    """A `DiscreteArray` of int32 that counts from 0, or a `BoundedArray` of float32.

    A Box whose bounds are all finite, with low below high, becomes [-1, 1]; any other Box keeps its own bounds.
    """
    return self._reader.action_spec

  def reward_spec(self) -> specs.Array:
    """A float32 scalar."""
    return specs.Array((), np.float32, name="reward")

  def discount_spec(self) -> specs.BoundedArray:
    """A float32 scalar in [0, 1]."""
    return specs.BoundedArray((), np.float32, minimum=0.0, maximum=1.0, name="discount")

  def check_pace(self, action_seconds: float) -> None:
    """See `GymWorld.check_pace`."""
    self._world.check_pace(action_seconds)

  def late_call(self) -> LateCall | None:
    """The call into the environment that is under way, if it has lasted longer than `environment.timeout_seconds`; for other
    threads.
    """
    return self._world.late_call()

  def render(self) -> Any:
    """The gymnasium environment's picture, in its render mode.

    Raises:
      UserError: the environment raised something.
    """
    return self._world.render()

  def close(self) -> None:
    """Closes the gymnasium environment. If that fails, says so on standard error: a finished run must not fail for it."""
    self._world.close()
