"""Policies of the workers: epsilon-greedy on a published value network."""

from collections.abc import Callable

import numpy as np
import sonnet as snt
import tensorflow as tf

from configs import ActorConfig
from networks import assign_weights
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
  if config.final_epsilon is None:
    return config.epsilon
  progress = min(1.0, learner_steps / config.epsilon_decay_updates)
  return config.epsilon + progress * (config.final_epsilon - config.epsilon)


class NetworkBank:
  """Value networks by policy version.

  Environments of one worker start episodes at different times and keep their weights through them, so several versions can
  be in use at once. Those that use the same one share a network, and one call serves them all.
  """

  def __init__(self, make_network: Callable[[], snt.Module], observation_spec: tf.TensorSpec):
    """Makes an empty bank.

    Args:
      make_network: builds a network whose weights will be replaced.
      observation_spec: of one observation.
    """
    self._make_network = make_network
    self._signature = [tf.TensorSpec([None, *observation_spec.shape], observation_spec.dtype)]
    self._in_use: dict[int, tuple[snt.Module, Callable[[tf.Tensor], tf.Tensor]]] = {}
    self._users: dict[int, int] = {}
    self._free: list[tuple[snt.Module, Callable[[tf.Tensor], tf.Tensor]]] = []

  def acquire(self, snapshot: PolicySnapshot) -> int:
    """Makes a version usable; to be released once for every time it was acquired. Returns the version."""
    version = snapshot.version
    if version not in self._in_use:
      network, forward = self._free.pop() if self._free else self._build()
      assign_weights(network, snapshot.weights)
      self._in_use[version] = (network, forward)
    self._users[version] = self._users.get(version, 0) + 1
    return version

  def release(self, version: int) -> None:
    """Gives a version back; the last user frees its network for another."""
    self._users[version] -= 1
    if not self._users[version]:
      del self._users[version]
      self._free.append(self._in_use.pop(version))

  def values(self, version: int, observations: np.ndarray) -> np.ndarray:
    """Action values, float32 [batch, actions], of observations [batch, ...] under an acquired version."""
    values: np.ndarray = self._in_use[version][1](observations).numpy()
    return values

  def _build(self) -> tuple[snt.Module, Callable[[tf.Tensor], tf.Tensor]]:
    network = self._make_network()
    return network, tf.function(network, input_signature=self._signature)
