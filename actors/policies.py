"""Policies of the workers: what was published, and random actions."""

from collections.abc import Callable

import numpy as np
from acme import specs

from configs import UserError
from networks import ActingPolicy
from replay_server.contract.policy import PolicySnapshot


def random_action(spec: specs.BoundedArray, rng: np.random.Generator) -> np.ndarray:
  """An action drawn uniformly: one of a discrete spec's, or a vector between the bounds of a continuous one.

  Raises:
    UserError: there are no bounds to draw between.
  """
  if isinstance(spec, specs.DiscreteArray):
    return np.asarray(rng.integers(spec.num_values), spec.dtype)
  if not (np.isfinite(spec.minimum).all() and np.isfinite(spec.maximum).all()):
    raise UserError(
      "Random actions cannot be drawn where the environment's actions have no finite bounds: wrap it so that they have, or set "
      "actor.random_steps and evaluator.epsilon to 0."
    )
  return rng.uniform(spec.minimum, spec.maximum, spec.shape).astype(spec.dtype)


class PolicyBank:
  """Policies by version.

  Environments of one worker start episodes at different times and keep their weights through them, so several versions
  can be in use at once. Those that use the same one share a network, and one call serves them all.
  """

  def __init__(self, make_policy: Callable[[np.ndarray], ActingPolicy]):
    """Makes an empty bank.

    Args:
      make_policy: from weights, float32 [P].
    """
    self._make_policy = make_policy
    self._policies: dict[int, ActingPolicy] = {}
    self._users: dict[int, int] = {}

  def acquire(self, snapshot: PolicySnapshot) -> int:
    """Makes a version usable; to be released once for every time it was acquired. Returns the version."""
    version = snapshot.version
    if version not in self._policies:
      self._policies[version] = self._make_policy(snapshot.weights)
    self._users[version] = self._users.get(version, 0) + 1
    return version

  def release(self, version: int) -> None:
    """Gives a version back; its network goes with its last user."""
    self._users[version] -= 1
    if not self._users[version]:
      del self._users[version], self._policies[version]

  def __getitem__(self, version: int) -> ActingPolicy:
    """The policy of an acquired version."""
    return self._policies[version]
