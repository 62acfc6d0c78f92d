"""Random actions, and policies by version."""

import weakref

import numpy as np
import pytest
from acme import specs

from actors.policies import PolicyBank, random_action
from configs import UserError
from networks import NO_EXTRAS, Extras
from replay_server.contract.policy import PolicySnapshot


class _Policy:
  def __init__(self, weights: np.ndarray):
    self.weights = weights

  def best(self, observations: np.ndarray) -> np.ndarray:
    return np.asarray(observations * self.weights)

  def explore(self, observations: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, Extras]:
    return self.best(observations) + rng.random(), NO_EXTRAS


def _snapshot(version: int) -> PolicySnapshot:
  return PolicySnapshot(version, 0, np.full(1, version, np.float32))


def test_users_of_one_version_share_its_policy_and_versions_do_not_mix() -> None:
  made: list[float] = []

  def make(weights: np.ndarray) -> _Policy:
    made.append(weights[0])
    return _Policy(weights)

  bank = PolicyBank(make)
  first, second, other = (bank.policy_of(_snapshot(version)) for version in (1, 1, 2))
  assert first is second
  assert made == [1, 2]
  ones = np.ones((3, 1), np.float32)
  assert first.best(ones).tolist() == [[1], [1], [1]]
  assert other.best(ones).tolist() == [[2], [2], [2]]
  del first
  assert bank.versions == {1, 2}
  assert second.best(ones).tolist() == [[1], [1], [1]]
  del second
  assert bank.versions == {2}
  assert other.best(ones).tolist() == [[2], [2], [2]]


def test_a_policy_without_users_is_freed_however_many_versions_come_and_go() -> None:
  alive: weakref.WeakSet[_Policy] = weakref.WeakSet()

  def make(weights: np.ndarray) -> _Policy:
    network = _Policy(weights)
    alive.add(network)
    return network

  bank = PolicyBank(make)
  policy = bank.policy_of(_snapshot(1))
  for version in range(2, 50):
    policy = bank.policy_of(_snapshot(version))
    assert bank.versions == {version}
    assert len(alive) == 1
  del policy
  assert not alive
  assert bank.policy_of(_snapshot(7)).best(np.ones(1)) == 7


def test_random_actions_are_drawn_uniformly_from_either_kind_of_spec() -> None:
  rng = np.random.default_rng(0)
  discrete = specs.DiscreteArray(3, np.int32)
  counts = np.bincount([random_action(discrete, rng) for _ in range(3_000)], minlength=3)
  assert counts.min() > 900
  box = specs.BoundedArray((2,), np.float32, [-1.0, 0.0], [1.0, 4.0])
  drawn = np.stack([random_action(box, rng) for _ in range(3_000)])
  assert drawn.dtype == np.float32
  np.testing.assert_allclose(drawn.mean(axis=0), [0.0, 2.0], atol=0.1)
  np.testing.assert_allclose(drawn.std(axis=0), [2 / np.sqrt(12), 4 / np.sqrt(12)], rtol=0.05)


def test_random_actions_without_bounds_are_refused() -> None:
  with pytest.raises(UserError, match="no finite bounds"):
    random_action(specs.BoundedArray((1,), np.float32, -np.inf, np.inf), np.random.default_rng(0))
