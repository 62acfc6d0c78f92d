"""What actions come from: published policies by version, and random draws."""

import weakref
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
  can be in use at once. Environments that act by the same version share one policy, which goes with its last user.
  """

  def __init__(self, make_policy: Callable[[np.ndarray], ActingPolicy]):
    """Makes an empty bank.

    Args:
      make_policy: from weights, float32 [P].
    """
    self._make_policy = make_policy
    self._policies: weakref.WeakValueDictionary[int, ActingPolicy] = weakref.WeakValueDictionary()

  @property
  def versions(self) -> set[int]:
    """Those in use."""
    return set(self._policies)

  def policy_of(self, snapshot: PolicySnapshot) -> ActingPolicy:
    """The policy of a version; it is in use for as long as a caller holds it."""
    policy = self._policies.get(snapshot.version)
    if policy is None:
      policy = self._policies[snapshot.version] = self._make_policy(snapshot.weights)
    return policy
