"""The worlds that a rollout worker steps together: one single environment, or all parts of a vector environment."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from acme import specs
from gymnasium.vector import VectorEnv

from configs import EnvironmentConfig, EventSpec, UserError
from environments.calls import LateCall
from environments.event_environment import EventEnvironment, make_environment_spec
from environments.gym_world import GymWorld
from environments.shaping import Shaping
from environments.step_reader import StepReader
from environments.timestep import EventTimeStep
from environments.vector import split_infos


class EventWorlds(Protocol):
  """Worlds that one call steps. Each has episodes of its own, and is reset after a last time step, before its next step.

  Attributes:
    size: how many there are.
    spec: of each.
    missed_ticks: in which they went on without an action of their own, as a console does at the real pace.
  """

  size: int
  spec: specs.EnvironmentSpec

  @property
  def missed_ticks(self) -> int:
    """See above; may be read by any thread."""

  def reset(self, chosen: Sequence[int]) -> list[EventTimeStep]:
    """Begins an episode in the chosen worlds; returns their first time steps, in the order of `chosen`.

    Raises:
      UserError: the environment raised something or returned something else than it should, or an event's condition or the
        potential failed.
      EpisodesLost: the open episodes of all these worlds are lost.
    """

  def step(self, actions: Sequence[Any]) -> list[EventTimeStep]:
    """Takes an action of the spec in every world; returns their time steps.

    Raises:
      UserError: as `reset`, or an action has another shape than the spec or is outside the space.
      EpisodesLost: as `reset`.
    """

  def check_pace(self, action_seconds: float) -> None:
    """Refuses a policy that cannot keep up, if the worlds do not wait for actions.

    Args:
      action_seconds: how long it takes to choose the actions of all worlds.

    Raises:
      UserError: they go on before.
    """

  def late_call(self) -> LateCall | None:
    """The call that is under way, if it has lasted longer than `environment.timeout_seconds`; for other threads."""

  def close(self) -> None:
    """Closes the environment."""


class OneWorld:
  """A single environment as `EventWorlds`."""

  size = 1
  missed_ticks = 0

  def __init__(self, environment: EventEnvironment):
    """Takes ownership of the environment."""
    self.spec = make_environment_spec(environment)
    self._environment = environment
    self.check_pace = environment.check_pace
    self.late_call = environment.late_call
    self.close = environment.close

  def reset(self, chosen: Sequence[int]) -> list[EventTimeStep]:
    """See `EventWorlds.reset`."""
    return [self._environment.reset() for _ in chosen]

  def step(self, actions: Sequence[Any]) -> list[EventTimeStep]:
    """See `EventWorlds.step`."""
    return [self._environment.step(actions[0])]


class VectorWorlds:
  """The sub-environments of a gymnasium `VectorEnv` as `EventWorlds`: events, shaping and checks for each."""

  def __init__(
    self,
    env: VectorEnv[Any, Any, Any],
    config: EnvironmentConfig,
    events: Sequence[EventSpec] = (),
    seed: int | None = None,
    make_shaping: Callable[[], Shaping | None] = lambda: None,
  ):
    """Wraps `env`, which has passed `check_vector`, and takes ownership of it.

    Args:
      env: the environment.
      config: gives its name, how it is checked, and how long its calls may last.
      events: in the order of their bits.
      seed: for the first reset; later episodes continue the environment's own generators.
      make_shaping: makes the shaping of one sub-environment's rewards; None for none.

    Raises:
      UserError: a space is missing or of a kind that cannot be stored, `reset` takes no seed, or an event cannot be loaded.
    """
    self._world = world = GymWorld(env, config)
    observations, actions = world.space("single_observation_space"), world.space("single_action_space")
    self._actions_dtype = world.space("action_space").dtype
    world.check_takes_seed()
    self.size = env.num_envs
    self._readers = [StepReader(config, observations, actions, events, make_shaping()) for _ in range(self.size)]
    self.spec = specs.EnvironmentSpec(
      self._readers[0].observation_spec,
      self._readers[0].action_spec,
      specs.Array((), np.float32, name="reward"),
      specs.BoundedArray((), np.float32, minimum=0.0, maximum=1.0, name="discount"),
    )
    self._seed = seed
    self._has_begun = False
    self.check_pace = world.check_pace
    self.late_call = world.late_call
    self.close = world.close

  @property
  def missed_ticks(self) -> int:
    """See `EventWorlds`. Those of a vector environment that counts them."""
    return int(getattr(self._world.env.unwrapped, "missed_ticks", 0))

  def reset(self, chosen: Sequence[int]) -> list[EventTimeStep]:
    """See `EventWorlds.reset`. The first call begins an episode in all of them."""
    mask = np.zeros(self.size, bool)
    mask[list(chosen)] = True
    if self._has_begun:
      answer = self._world.reset(options={"reset_mask": mask})
    else:
      answer = self._world.reset(seed=self._seed)
      self._has_begun = True
    if not isinstance(answer, tuple) or len(answer) != 2:
      raise self._refusal("reset", "two values, the observations and the infos")
    observations, infos = self._parts("reset", answer[0]), self._split("reset", answer[1])
    return [self._readers[index].first((observations[index], infos[index])) for index in chosen]

  def step(self, actions: Sequence[Any]) -> list[EventTimeStep]:
    """See `EventWorlds.step`."""
    gym_actions = [reader.to_gym(action) for reader, action in zip(self._readers, actions, strict=True)]
    answer = self._world.step(np.array(gym_actions, self._actions_dtype))
    if not isinstance(answer, tuple) or len(answer) != 5:
      raise self._refusal("step", "five values, as gymnasium's vector environments do")
    parts = [self._parts("step", values) for values in answer[:4]]
    infos = self._split("step", answer[4])
    return [
      reader.next(action, (observation, reward, terminated, truncated, info))
      for reader, action, observation, reward, terminated, truncated, info in zip(
        self._readers, gym_actions, *parts, infos, strict=True
      )
    ]

  def _parts(self, call: str, values: Any) -> Sequence[Any]:
    """The values of the sub-environments, numbers as Python's."""
    try:
      array = np.asarray(values)
    except ValueError:  # Rows of different lengths.
      array = np.empty(0)
    if array.shape[:1] != (self.size,):
      raise self._refusal(call, f"arrays of {self.size} values, one for each sub-environment")
    return array.tolist() if array.ndim == 1 else list(array)

  def _split(self, call: str, infos: Any) -> Sequence[dict[str, Any]]:
    if not isinstance(infos, dict):
      raise self._refusal(call, "the infos as a dict of arrays")
    return split_infos(infos, self.size)

  def _refusal(self, call: str, wanted: str) -> UserError:
    return UserError(
      f"The vector environment {self._world.name!r} returned something else than {wanted} from {call}: make it do so."
    )
