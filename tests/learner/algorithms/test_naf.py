"""NAF: its values, its update against plain numpy with gradients by differences, and what it learns."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from configs import CagradConfig
from learner.algorithms.losses import quadratic_values
from learner.gradients.cagrad import conflict_averse
from networks import flatten_weights
from tests.learner.algorithms.test_actor_critics import (
  CODEC,
  SPEC,
  Adam,
  Weights,
  arrays,
  make,
  make_run,
  mlp,
  random_rows,
  shift,
  slopes,
)
from tests.learner.batches import optimizer_of, pack, part, update


def _parts(outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """V [B], m [B, 2] and L [B, 2, 2] from the outputs of a network for two action dimensions."""
  lowers = np.zeros((len(outputs), 2, 2))
  lowers[:, 0, 0] = np.log1p(np.exp(outputs[:, 3]))
  lowers[:, 1, 0] = outputs[:, 4]
  lowers[:, 1, 1] = np.log1p(np.exp(outputs[:, 5]))
  return outputs[:, 0], outputs[:, 1:3], lowers


def _values(weights: Weights, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
  """Q by its equation, with the product L L' written out."""
  values, means, lowers = _parts(mlp(weights, observations))
  away = actions - means
  return np.array([v - d @ lower @ lower.T @ d for v, d, lower in zip(values, away, lowers, strict=True)])


class Oracle:
  """NAF in plain numpy, float64."""

  def __init__(self, policy: Weights, target: Weights, learner: Any):
    self.policy, self.target, self._learner = policy, target, learner
    self._adam = Adam(policy, learner.learning_rate, learner.max_gradient_norm)
    self._steps = 0

  def update(self, batch: dict[str, np.ndarray], weights: np.ndarray) -> tuple[float, np.ndarray]:
    next_values = mlp(self.target, batch["next_observation"])[:, 0]
    targets = batch["reward"] + self._learner.discount * batch["discount"] * next_values

    def errors(of: Weights) -> np.ndarray:
      difference: np.ndarray = targets - _values(of, batch["observation"], batch["action"])
      return difference

    def loss(of: Weights) -> float:
      return float((weights * 0.5 * errors(of) ** 2).mean())

    before, td_error = loss(self.policy), errors(self.policy)
    self._adam.apply(self.policy, slopes(loss, self.policy))
    self._steps += 1
    if self._steps % self._learner.target_update_period == 0:
      rate = self._learner.target_update_rate
      for index, array in enumerate(self.policy):
        self.target[index] = (1 - rate) * self.target[index] + rate * array
    return before, td_error


def test_the_quadratic_values_are_those_worked_out_by_hand() -> None:
  # L' (1, 2) = (1 * 1 + 3 * 2, 2 * 2) = (7, 4), and 10 - 49 - 16; at the mean Q is V.
  lower = tf.constant([[[1.0, 0.0], [3.0, 2.0]]] * 2)
  q = quadratic_values(tf.constant([10.0, 5.0]), tf.zeros((2, 2)), lower, tf.constant([[1.0, 2.0], [0.0, 0.0]]))
  np.testing.assert_allclose(q, [-55, 5])


@given(st.integers(1, 4), st.integers(0, 1_000))
def test_the_quadratic_values_are_those_of_plain_loops_and_at_most_the_states(dimensions: int, seed: int) -> None:
  rng = np.random.default_rng(seed)
  values, means, actions = rng.normal(size=3), *rng.normal(size=(2, 3, dimensions))
  lowers = np.tril(rng.normal(size=(3, dimensions, dimensions)))
  q = quadratic_values(*(tf.constant(array, tf.float32) for array in (values, means, lowers, actions))).numpy()
  expected = [
    values[row] - (actions[row] - means[row]) @ lowers[row] @ lowers[row].T @ (actions[row] - means[row])
    for row in range(3)
  ]
  np.testing.assert_allclose(q, expected, rtol=1e-3, atol=1e-3)
  assert (q <= values + 1e-5).all()


@pytest.mark.parametrize(
  "learner", [{}, {"max_gradient_norm": 0.2}, {"target_update_period": 2}, {"target_update_rate": 1.0}]
)
def test_updates_are_those_of_plain_numpy(learner: dict[str, Any]) -> None:
  run = make_run("naf", **learner)
  updates = make(run)
  shift(updates, "target", "policy")
  oracle = Oracle(arrays(part(updates, "policy")), arrays(part(updates, "target")), run.learner)
  rng = np.random.default_rng(0)
  for _ in range(4):
    rows = random_rows(rng)
    weights = rng.uniform(0.1, 2.0, len(rows)).astype(np.float32)
    metrics, td_errors = update(updates, rows[None], weights[None])
    loss, td_error = oracle.update(CODEC.unpack(rows), weights)
    np.testing.assert_allclose(metrics["loss"], [loss], rtol=2e-3)
    np.testing.assert_allclose(td_errors, [td_error], rtol=2e-3, atol=2e-4)
    for name in ("policy", "target"):
      for ours, theirs in zip(arrays(part(updates, name)), getattr(oracle, name), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=3e-4)


def test_the_target_starts_as_the_online_network() -> None:
  updates = make(make_run("naf"))
  np.testing.assert_array_equal(flatten_weights(part(updates, "policy")), flatten_weights(part(updates, "target")))


def test_a_terminated_row_does_not_bootstrap_and_a_truncated_one_does() -> None:
  updates = make(make_run("naf"))
  # The target network's V is 1000 everywhere.
  _, _, last_bias, last_weights = part(updates, "target").variables
  last_bias.assign([1000.0, 0, 0, 0, 0, 0])
  last_weights.assign(tf.zeros_like(last_weights))
  same = np.array([[0.1, -0.2, 0.3]] * 2, np.float32)
  rows = pack(
    SPEC,
    observation=same,
    next_observation=same,
    action=np.zeros((2, 2), np.float32),
    reward=[0.5, 0.5],
    discount=[0.0, 1.0],
    terminated=[True, False],
    truncated=[False, True],
  )
  _, td_errors = update(updates, rows[None])
  terminated, truncated = td_errors[0]
  assert truncated - terminated == pytest.approx(900, rel=1e-4)
  assert abs(terminated) < 10


@pytest.mark.parametrize("coefficient", [0.0, 0.6])
def test_a_step_is_along_the_direction_that_the_tables_gradients_make(coefficient: float) -> None:
  combining = make_run("naf", (5, 4), cagrad=CagradConfig(coefficient=0.6))
  updates, before = make(combining), make(make_run("naf", (5, 4)))  # With the same seed.
  rows = random_rows(np.random.default_rng(8), batch=6)
  tables = np.array([0, 0, 0, 0, 1, 1])
  update(updates, rows[None], None, tables[None], coefficient)
  network, batch = part(before, "policy"), CODEC.unpack(rows)
  next_values = part(before, "target")(tf.constant(batch["next_observation"]))[0]
  with tf.GradientTape(persistent=True) as tape:
    value, mean, lower = network(tf.constant(batch["observation"]))
    q = quadratic_values(value, mean, lower, tf.constant(batch["action"]))
    losses = 0.5 * tf.square(batch["reward"] + 0.9 * batch["discount"] * next_values - q)
    means = [tf.reduce_mean(losses[:4]), tf.reduce_mean(losses[4:])]
  variables = network.trainable_variables
  each = np.stack([np.concatenate([slope.numpy().ravel() for slope in tape.gradient(m, variables)]) for m in means])
  shares, c = tf.constant([4 / 6, 2 / 6], tf.float64), tf.constant(coefficient, tf.float64)
  mixture = conflict_averse(tf.constant(each @ each.T, tf.float64), shares, c).numpy()
  # After one step, Adam's first moment is .1 times the gradient.
  moments = optimizer_of(updates, part(updates, "policy")).state
  first = np.concatenate([moment.numpy().ravel() for moment in moments if moment.name.endswith("/m:0")])
  np.testing.assert_allclose(first, 0.1 * mixture @ each, rtol=2e-3, atol=1e-5)


@pytest.mark.compiled
def test_it_finds_the_best_action_of_a_bandit_and_its_value() -> None:
  rng = np.random.default_rng(0)
  best = np.array([0.3, -0.6])
  zeros = np.zeros((64, 3), np.float32)
  batches = rng.uniform(-1, 1, size=(300, 64, 2)).astype(np.float32)
  rows = np.stack(
    [
      pack(
        SPEC,
        observation=zeros,
        next_observation=zeros,
        action=actions,
        # Quadratic with unequal, coupled curvatures, so that Q can be exact.
        reward=2 - ((actions - best) @ [[1.0, 0.5], [0.5, 2.0]] * (actions - best)).sum(axis=1),
        discount=np.zeros(64),
      )
      for actions in batches
    ]
  )
  updates = make(make_run("naf", (32,), learning_rate=0.01))
  for _ in range(4):
    metrics, _ = update(updates, rows)
  assert metrics["loss"][-50:].mean() < 0.01
  value, mean, lower = (array.numpy()[0] for array in part(updates, "policy")(tf.zeros((1, 3))))
  assert value == pytest.approx(2, abs=0.05)
  np.testing.assert_allclose(mean, best, atol=0.03)
  np.testing.assert_allclose(lower @ lower.T, [[1.0, 0.5], [0.5, 2.0]], atol=0.1)
