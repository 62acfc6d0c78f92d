"""gymnasium's vector environments: their answers, taken apart, and one of them as a single environment."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from configs import UserError


def check_vector(env: VectorEnv[Any, Any, Any], name: str, worlds: int, setting: str) -> None:
  """Refuses a vector environment whose episodes cannot be told apart, or that has another number of sub-environments.

  Args:
    env: the environment.
    name: of the environment, for messages.
    worlds: how many sub-environments it should have.
    setting: what asks for so many, such as "actor.environments".

  Raises:
    UserError: it resets its sub-environments by itself, or their number is another.
  """
  mode = env.metadata.get("autoreset_mode")
  if mode is not AutoresetMode.DISABLED:
    raise UserError(
      f"The vector environment {name!r} has the autoreset mode {getattr(mode, 'name', mode)}: only with AutoresetMode.DISABLED "
      "are the last steps of its episodes known, so set that in its metadata and begin episodes by options['reset_mask']."
    )
  if env.num_envs != worlds:
    raise UserError(
      f"The vector environment {name!r} has {env.num_envs} sub-environments, where {setting} asks for {worlds}: make the two "
      "agree."
    )


def split_infos(infos: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
  """The `info` of each sub-environment.

  Args:
    infos: of the vector environment: for each key an array over the sub-environments (or again such a mapping), with a mask
      `_key` of those that have it. What has no mask belongs to all.
    count: of sub-environments.
  """
  split: list[dict[str, Any]] = [{} for _ in range(count)]
  for key, value in infos.items():
    if key.startswith("_") and key[1:] in infos:
      continue
    mask = infos.get(f"_{key}")
    present = range(count) if mask is None else np.flatnonzero(mask).tolist()
    values = _values(value, count)
    for index in present:
      split[index][key] = values[index]
  return split


def _values(value: Any, count: int) -> list[Any]:
  """One value for each sub-environment."""
  if isinstance(value, Mapping):
    return list(split_infos(value, count))
  if isinstance(value, np.ndarray) and value.shape[:1] == (count,):
    # Python's numbers and truth values, as a single environment would give them.
    return value.tolist() if value.ndim == 1 else list(value)
  if isinstance(value, (list, tuple)) and len(value) == count:
    return list(value)
  return [value] * count


class SingleOfVector(gymnasium.Env[Any, Any]):
  """A vector environment of one sub-environment as a single environment, for evaluations and pictures."""

  def __init__(self, env: VectorEnv[Any, Any, Any]):
    """Wraps `env`, and takes ownership of it."""
    self.env = env
    self.observation_space = env.single_observation_space
    self.action_space = env.single_action_space
    self.metadata = env.metadata
    self.render_mode = env.render_mode
    self._began = False

  @property
  def unwrapped(self) -> Any:
    """The vector environment, which knows more than this."""
    return self.env.unwrapped

  def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
    """Begins an episode."""
    if self._began and seed is None:
      options = {**(options or {}), "reset_mask": np.ones(1, bool)}
    observations, infos = self.env.reset(seed=seed, options=options)
    self._began = True
    return observations[0], split_infos(infos, 1)[0]

  def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
    """Steps the sub-environment."""
    actions = np.asarray(action, self.env.action_space.dtype)[np.newaxis]
    observations, rewards, terminated, truncated, infos = self.env.step(actions)
    return observations[0], rewards[0], terminated[0], truncated[0], split_infos(infos, 1)[0]

  def render(self) -> Any:
    """The first picture."""
    pictures = self.env.render()
    return pictures[0] if isinstance(pictures, (tuple, list)) else pictures

  def close(self) -> None:
    """Closes the vector environment."""
    self.env.close()
