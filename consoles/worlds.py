"""The worlds of a console: some cars in lockstep, made of a gymnasium VectorEnv, or of a gymnasium Env for each car."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from configs.errors import UserError
from configs.run import EnvironmentConfig
from consoles.codec import MEASURES, Array, Columns, Mask, encode_space, gather, merge, take_columns
from environments.factory import make, make_any

DEFAULT_RATE = 10.0  # Hz, as of the paper's consoles.
MOST_CARS = 1_000


class Tick(NamedTuple):
  """What happened since the last reply.

  Attributes:
    features: [cars, shape of a car's features].
    rewards: float64 [cars], summed.
    terminated: bool [cars].
    truncated: bool [cars].
    info: named numbers of each car.
    measures: those of the cars whose episode has ended.
  """

  features: Array
  rewards: npt.NDArray[np.float64]
  terminated: Mask
  truncated: Mask
  info: Columns
  measures: Columns

  def after(self, earlier: "Tick") -> "Tick":
    """Both ticks as one: a car that ended in the earlier one has rested since."""
    return Tick(
      self.features,
      self.rewards + earlier.rewards,
      self.terminated | earlier.terminated,
      self.truncated | earlier.truncated,
      merge(earlier.info, self.info),
      merge(earlier.measures, self.measures),
    )


class World(Protocol):
  """Some cars in lockstep.

  Attributes:
    cars: how many.
    features: the space of one car.
    actions: the space of one car.
    rate: control steps a second.
    rests: whether cars may rest while others drive on.
  """

  cars: int
  features: spaces.Space[Any]
  actions: spaces.Space[Any]
  rate: float
  rests: bool

  def launch(self, chosen: Mask, seeds: Sequence[int]) -> tuple[Array, Columns]:
    """Begins episodes of the chosen cars, with no seed, one for the world, or one for each car.

    Returns:
      The features of all cars, and the info of the chosen ones.
    """
    ...

  def step(self, actions: Array, resting: Mask) -> Tick:
    """A tick. Resting cars get no reward and no info; see `rests`."""
    ...

  def close(self) -> None:
    """Gives back what the world holds."""
    ...


class SingleCars:
  """A gymnasium Env for each car. Those at rest are not stepped."""

  rests = True

  def __init__(self, envs: Sequence[gymnasium.Env[Any, Any]]):
    """Takes environments of one kind."""
    self._envs = list(envs)
    self.cars = len(envs)
    self.features, self.actions = envs[0].observation_space, envs[0].action_space
    self.rate = _rate_of(envs[0].metadata)
    self._last = np.zeros((self.cars, *(self.features.shape or ())), self.features.dtype)

  def launch(self, chosen: Mask, seeds: Sequence[int]) -> tuple[Array, Columns]:
    """See `World`; one seed s for the world is s + i for car i, as in gymnasium's vector environments."""
    of_cars: Sequence[int | None] = [None] * self.cars
    if len(seeds) == 1:
      of_cars = [seeds[0] + car for car in range(self.cars)]
    elif seeds:
      of_cars = seeds
    infos = {}
    for car in np.flatnonzero(chosen).tolist():
      self._last[car], infos[car] = self._envs[car].reset(seed=of_cars[car])
    return self._last.copy(), gather(infos, self.cars)

  def step(self, actions: Array, resting: Mask) -> Tick:
    """See `World`."""
    rewards = np.zeros(self.cars)
    terminated, truncated = np.zeros(self.cars, bool), np.zeros(self.cars, bool)
    infos, measures = {}, {}
    whole = isinstance(self.actions, spaces.Discrete)
    for car in np.flatnonzero(~resting).tolist():
      action = actions[car].item() if whole else actions[car]
      self._last[car], rewards[car], terminated[car], truncated[car], info = self._envs[car].step(action)
      infos[car] = info
      if isinstance(info.get(MEASURES), Mapping):
        measures[car] = info[MEASURES]
    return Tick(
      self._last.copy(), rewards, terminated, truncated, gather(infos, self.cars), gather(measures, self.cars)
    )

  def close(self) -> None:
    """Closes the environments."""
    for env in self._envs:
      env.close()


class VectorCars:
  """A gymnasium VectorEnv, which steps all its cars or none."""

  rests = False

  def __init__(self, env: VectorEnv[Any, Any, Any], name: str):
    """Takes the environment and its name, for messages.

    Raises:
      UserError: it begins new episodes by itself.
    """
    mode = env.metadata.get("autoreset_mode")
    if mode != AutoresetMode.DISABLED:
      said = mode.name if isinstance(mode, AutoresetMode) else repr(mode)
      raise UserError(
        f"The world {name!r} begins new episodes by itself (autoreset_mode {said}), which a console cannot tell its worker: "
        "make it with AutoresetMode.DISABLED."
      )
    self._env = env
    self.cars = env.num_envs
    self.features, self.actions = env.single_observation_space, env.single_action_space
    self.rate = _rate_of(env.metadata)

  def launch(self, chosen: Mask, seeds: Sequence[int]) -> tuple[Array, Columns]:
    """See `World`."""
    seed: Any = None if not seeds else seeds[0] if len(seeds) == 1 else list(seeds)
    # Without the mask for all cars: a world that lacks it may play whole episodes in step.
    options = None if chosen.all() else {"reset_mask": chosen.copy()}
    features, info = self._env.reset(seed=seed, options=options)
    columns = take_columns(info, self.cars)
    return np.array(features), {
      name: column._replace(present=column.present & chosen) for name, column in columns.items()
    }

  def step(self, actions: Array, resting: Mask) -> Tick:
    """See `World`; no car may rest."""
    features, rewards, terminated, truncated, info = self._env.step(actions)
    nested = info.get(MEASURES)
    measures = take_columns(nested, self.cars) if isinstance(nested, Mapping) else {}
    return Tick(
      np.array(features),
      np.array(rewards, np.float64),
      np.array(terminated, bool),
      np.array(truncated, bool),
      take_columns(info, self.cars),
      measures,
    )

  def close(self) -> None:
    """Closes the environment."""
    self._env.close()


def make_world(name: str, arguments: Mapping[str, Any], cars: int = 0) -> World:
  """The world of a console.

  Args:
    name: as `environment.name` has it.
    arguments: of the world.
    cars: how many; 0 for the world's own number, which is 1 if it is no VectorEnv.

  Raises:
    UserError: there is no such world, it refuses its arguments, has another number of cars, or spaces that are no arrays.
  """
  if cars > MOST_CARS:
    raise UserError(f"A worker wants {cars} cars: a console has at most {MOST_CARS}.")
  world = _make(name, arguments, cars)
  if cars and world.cars != cars:
    raise UserError(
      f"The world {name!r} has {world.cars} cars, and the worker wants {cars}: ask for as many as it has."
    )
  for space in (world.features, world.actions):
    encode_space(space)
  return world


def _make(name: str, arguments: Mapping[str, Any], cars: int) -> World:
  config = EnvironmentConfig(name, arguments)
  made = make_any(config, False, cars or None)
  if isinstance(made, VectorEnv):
    return VectorCars(made, name)
  return SingleCars([made, *(make(config) for _ in range(cars - 1))])


def _rate_of(metadata: Mapping[str, Any]) -> float:
  rate = metadata.get("render_fps")
  return float(rate) if isinstance(rate, (int, float)) and rate > 0 else DEFAULT_RATE
