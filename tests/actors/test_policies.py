"""Exploration rates, and networks by version."""

import weakref

import numpy as np
import pytest

from actors.policies import NetworkBank, epsilon_at
from configs import ActorConfig
from replay_server.policy import PolicySnapshot


@pytest.mark.parametrize(("steps", "epsilon"), [(0, 1.0), (250, 0.775), (500, 0.55), (1_000, 0.1), (9_999, 0.1)])
def test_epsilon_falls_linearly_with_the_learners_steps_and_stays_at_its_end(steps: int, epsilon: float) -> None:
  config = ActorConfig(epsilon=1.0, final_epsilon=0.1, epsilon_decay_updates=1_000)
  assert epsilon_at(config, 0, steps) == pytest.approx(epsilon)


def test_epsilon_without_a_final_value_stays() -> None:
  assert epsilon_at(ActorConfig(epsilon=0.3), 5, 10**9) == 0.3


def test_workers_take_their_own_epsilons_in_turn() -> None:
  config = ActorConfig(epsilon=0.3, final_epsilon=0.0, worker_epsilons=(0.5, 0.25, 0.125))
  assert [epsilon_at(config, worker, 10_000) for worker in range(4)] == [0.5, 0.25, 0.125, 0.5]


class _Network:
  def __init__(self, weights: np.ndarray):
    self.weights = weights

  def __call__(self, observations: np.ndarray) -> np.ndarray:
    return observations * self.weights


def _snapshot(version: int) -> PolicySnapshot:
  return PolicySnapshot(version, 0, np.full(1, version, np.float32))


def test_users_of_one_version_share_its_network_and_versions_do_not_mix() -> None:
  made: list[float] = []

  def make(weights: np.ndarray) -> _Network:
    made.append(weights[0])
    return _Network(weights)

  bank = NetworkBank(make)
  assert [bank.acquire(_snapshot(version)) for version in (1, 1, 2)] == [1, 1, 2]
  assert made == [1, 2]
  ones = np.ones((3, 1), np.float32)
  assert bank.values(1, ones).tolist() == [[1], [1], [1]]
  assert bank.values(2, ones).tolist() == [[2], [2], [2]]
  bank.release(1)
  assert bank.values(1, ones).tolist() == [[1], [1], [1]]
  bank.release(1)
  with pytest.raises(KeyError):
    bank.values(1, ones)
  assert bank.values(2, ones).tolist() == [[2], [2], [2]]


def test_a_released_network_is_freed_however_many_versions_come_and_go() -> None:
  alive: weakref.WeakSet[_Network] = weakref.WeakSet()

  def make(weights: np.ndarray) -> _Network:
    network = _Network(weights)
    alive.add(network)
    return network

  bank = NetworkBank(make)
  version = bank.acquire(_snapshot(1))
  for following in range(2, 50):
    acquired = bank.acquire(_snapshot(following))
    bank.release(version)
    version = acquired
    assert len(alive) == 1
  bank.release(version)
  assert not alive
  assert bank.acquire(_snapshot(7)) == 7
