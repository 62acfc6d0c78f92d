"""Sources of actions: published policies by version, and random draws."""

import weakref
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from acme import specs

from configs import UserError
from networks import ActingPolicy, Array
from replay_server.contract.policy import PolicySnapshot


def random_action(spec: specs.BoundedArray, rng: np.random.Generator) -> Array:
  """A uniformly random action: one of a discrete spec's, or a vector between the bounds of a continuous one.

  Raises:
    UserError: a continuous spec has no finite bounds.
  """
  if isinstance(spec, specs.DiscreteArray):
    return np.asarray(rng.integers(spec.num_values), spec.dtype)
  if not (np.isfinite(spec.minimum).all() and np.isfinite(spec.maximum).all()):
    raise UserError(
      "The environment's actions have no finite bounds, so random ones cannot be drawn: wrap the environment to bound them, or "
      "set actor.random_steps and evaluator.epsilon to 0."
    )
  return np.asarray(rng.uniform(spec.minimum, spec.maximum, spec.shape), spec.dtype)


class PolicyBank:
  """Policies by version.

  Environments of one worker begin episodes at different times and keep their weights to the end, so several versions can be in
  use at once. Environments that use the same version share one policy, which is freed with its last user.
  """

  def __init__(self, make_policy: Callable[[npt.NDArray[np.float32]], ActingPolicy]):
    """Makes an empty bank.

    Args:
      make_policy: makes a policy from weights, float32 [P].
    """
    self._make_policy = make_policy
    self._policies: weakref.WeakValueDictionary[int, ActingPolicy] = weakref.WeakValueDictionary()

  @property
  def versions(self) -> set[int]:
    """The versions in use."""
    return set(self._policies)

  def policy_of(self, snapshot: PolicySnapshot) -> ActingPolicy:
    """The policy of a version; it is in use as long as a caller holds it."""
    policy = self._policies.get(snapshot.version)
    if policy is None:
      policy = self._policies[snapshot.version] = self._make_policy(snapshot.weights)
    return policy
