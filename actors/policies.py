"""Policies of the workers: epsilon-greedy on a published value network."""

from collections.abc import Callable

import numpy as np

from configs import ActorConfig
from configs.schedules import linear
from replay_server.policy import PolicySnapshot


def epsilon_at(config: ActorConfig, worker_index: int, learner_steps: int) -> float:
  """The exploration rate of a worker.

  Args:
    config: of the workers.
    worker_index: of this one, from 0.
    learner_steps: gradient steps of the policy that acts.
  """
  if config.worker_epsilons:
    return config.worker_epsilons[worker_index % len(config.worker_epsilons)]
  return linear(config.epsilon, config.final_epsilon, learner_steps / config.epsilon_decay_updates)


class NetworkBank:
  """Value networks by policy version.

  Environments of one worker start episodes at different times and keep their weights through them, so several versions
  can be in use at once. Those that use the same one share a network, and one call serves them all.
  """

  def __init__(self, make_network: Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]]):
    """Makes an empty bank.

    Args:
      make_network: weights, float32 [P] -> a function from observations [B, ...] to values, float32 [B, actions].
    """
    self._make_network = make_network
    self._networks: dict[int, Callable[[np.ndarray], np.ndarray]] = {}
    self._users: dict[int, int] = {}

  def acquire(self, snapshot: PolicySnapshot) -> int:
    """Makes a version usable; to be released once for every time it was acquired. Returns the version."""
    version = snapshot.version
    if version not in self._networks:
      self._networks[version] = self._make_network(snapshot.weights)
    self._users[version] = self._users.get(version, 0) + 1
    return version

  def release(self, version: int) -> None:
    """Gives a version back; its network goes with its last user."""
    self._users[version] -= 1
    if not self._users[version]:
      del self._users[version], self._networks[version]

  def values(self, version: int, observations: np.ndarray) -> np.ndarray:
    """Action values, float32 [B, actions], of observations [B, ...] under an acquired version."""
    return self._networks[version](observations)
