"""Double DQN's updates, against plain numpy."""

import dataclasses
import pathlib
import tempfile
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from configs import (
  CagradConfig,
  DdqnConfig,
  EventSpec,
  LearnerConfig,
  NetworkConfig,
  ReplayConfig,
  RunConfig,
  TableSpec,
)
from learner.algorithms.losses import double_q_learning
from learner.gradients.cagrad import conflict_averse
from learner.updates import Updates, make_updates
from networks import flatten_weights
from replay_server.contract.layout import make_row_codec
from tests.learner.batches import optimizer_of, pack, part, update

CONFIG = LearnerConfig(learning_rate=0.01, discount=0.9, target_update_rate=0.2)


class Oracle:
  """One hidden layer of ReLUs, the loss's gradient by hand, Adam (Kingma & Ba, Algorithm 1), Polyak; in float64."""

  def __init__(self, online: list[np.ndarray], target: list[np.ndarray], config: LearnerConfig):
    """Takes b0, w0, b1, w1 of each network."""
    self.online = [array.astype(np.float64) for array in online]
    self.target = [array.astype(np.float64) for array in target]
    self.config = config
    self.first = [np.zeros_like(array) for array in self.online]
    self.second = [np.zeros_like(array) for array in self.online]
    self.steps = 0

  @staticmethod
  def values(weights: list[np.ndarray], observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    b0, w0, b1, w1 = weights
    hidden = np.maximum(observations @ w0 + b0, 0)
    return hidden, hidden @ w1 + b1

  def update(self, batch: dict[str, np.ndarray], weights: np.ndarray) -> tuple[float, float, np.ndarray]:
    rows = np.arange(len(batch["action"]))
    chosen = self.values(self.online, batch["next_observation"])[1].argmax(axis=1)
    bootstrap = self.values(self.target, batch["next_observation"])[1][rows, chosen]
    hidden, q = self.values(self.online, batch["observation"])
    taken = q[rows, batch["action"]]
    td_error = batch["reward"] + self.config.discount * batch["discount"] * bootstrap - taken
    d_q = np.zeros_like(q)
    d_q[rows, batch["action"]] = -weights * td_error / len(rows)
    d_hidden = (d_q @ self.online[3].T) * (hidden > 0)
    gradients = [d_hidden.sum(axis=0), batch["observation"].T @ d_hidden, d_q.sum(axis=0), hidden.T @ d_q]
    self.steps += 1
    for index, gradient in enumerate(gradients):
      self.first[index] = 0.9 * self.first[index] + 0.1 * gradient
      self.second[index] = 0.999 * self.second[index] + 0.001 * gradient**2
      first, second = self.first[index] / (1 - 0.9**self.steps), self.second[index] / (1 - 0.999**self.steps)
      self.online[index] = self.online[index] - self.config.learning_rate * first / (np.sqrt(second) + 1e-8)
      rate = self.config.target_update_rate
      self.target[index] = (1 - rate) * self.target[index] + rate * self.online[index]
    return float((0.5 * weights * td_error**2).mean()), float(taken.mean()), td_error


def _make(
  spec: Any, config: LearnerConfig = CONFIG, hidden: tuple[int, ...] = (5,), seed: int = 3, **algorithm: Any
) -> Updates:
  run = RunConfig(
    events=(EventSpec("event", "module:function", 1),),
    replay=ReplayConfig(default=TableSpec("default", 0.5), tables=(TableSpec("event", 0.5),)),
    network=NetworkConfig(hidden_sizes=hidden),
    learner=dataclasses.replace(config, algorithm=DdqnConfig(**algorithm)),
  )
  return make_updates(run, make_row_codec(spec), spec, seed)


def _update(updates: Updates, rows: np.ndarray, *of_rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Loss and mean value of each update, and its TD errors."""
  metrics, td_errors = update(updates, rows, *of_rows)
  return metrics["loss"], metrics["mean_q"], td_errors


def _random_batch(spec: Any, rng: np.random.Generator, batch: int = 6) -> np.ndarray:
  return pack(
    spec,
    observation=rng.normal(size=(batch, 2)).astype(np.float32),
    next_observation=rng.normal(size=(batch, 2)).astype(np.float32),
    action=rng.integers(3, size=batch),
    reward=rng.normal(size=batch),
    discount=rng.choice([0.0, 0.81, 1.0], size=batch),
  )


def _shift_target(updates: Updates) -> None:
  """Makes the target network differ from the online one, as it does in the middle of a run."""
  for index, variable in enumerate(part(updates, "target").variables):
    variable.assign_add(
      0.3 * tf.cos(tf.range(tf.size(variable), dtype=tf.float32) + index).numpy().reshape(variable.shape)
    )


def _arrays(module: Any) -> list[np.ndarray]:
  return [variable.numpy() for variable in module.variables]


def test_updates_are_those_of_plain_numpy(spec) -> None:
  updates = _make(spec)
  _shift_target(updates)
  target = part(updates, "target")
  oracle = Oracle(_arrays(part(updates, "policy")), _arrays(target), CONFIG)
  rng = np.random.default_rng(0)
  codec = make_row_codec(spec)
  for _ in range(5):
    rows = _random_batch(spec, rng)
    weights = rng.uniform(0.1, 2.0, len(rows)).astype(np.float32)
    loss, mean_q, td_errors = _update(updates, rows[None], weights[None])
    expected_loss, expected_mean_q, expected_td_error = oracle.update(codec.unpack(rows), weights)
    np.testing.assert_allclose(td_errors, [expected_td_error], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(loss, [expected_loss], rtol=1e-3)
    np.testing.assert_allclose(mean_q, [expected_mean_q], rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(_arrays(part(updates, "policy")), oracle.online, strict=True):
      np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(_arrays(target), oracle.target, strict=True):
      np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.compiled
def test_compiling_leaves_no_file_behind(spec, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  # AutoGraph removes its source files when the interpreter exits, but a role ends without that.
  monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
  updates = _make(spec)
  rows = _random_batch(spec, np.random.default_rng(0))
  _update(updates, rows[None])
  _update(updates, np.stack([rows, rows]))
  updates.policy_weights()
  assert not list(tmp_path.iterdir())


def test_the_target_is_copied_after_every_so_many_updates_and_stays_between_them(spec) -> None:
  updates = _make(spec, dataclasses.replace(CONFIG, target_update_rate=1.0, target_update_period=3))
  _shift_target(updates)
  target, rng = part(updates, "target"), np.random.default_rng(0)
  for step in range(1, 8):
    before = flatten_weights(target)
    _update(updates, _random_batch(spec, rng)[None])
    expected = flatten_weights(part(updates, "policy")) if step % 3 == 0 else before
    np.testing.assert_array_equal(flatten_weights(target), expected)


def test_with_the_huber_loss_an_error_beyond_1_has_the_gradient_of_1(spec) -> None:
  rng = np.random.default_rng(0)
  rows = _random_batch(spec, rng)
  weights = np.ones((1, len(rows)), np.float32)
  huber = _make(spec, td_loss="huber")
  loss, _, td_errors = _update(huber, rows[None], weights)
  sizes = np.abs(td_errors[0])
  assert (sizes > 1).any()
  np.testing.assert_allclose(loss[0], np.where(sizes < 1, sizes**2 / 2, sizes - 0.5).mean(), rtol=1e-4)
  # Each row's gradient is that of the squared error, with the weight 1 / |error| where the error is beyond 1.
  squared = _make(spec)
  _update(squared, rows[None], np.minimum(1, 1 / sizes)[None].astype(np.float32))
  np.testing.assert_allclose(
    flatten_weights(part(huber, "policy")), flatten_weights(part(squared, "policy")), rtol=1e-3, atol=1e-4
  )


@pytest.mark.compiled
def test_several_updates_in_one_call_are_as_many_calls_of_one(spec) -> None:
  together, alone = _make(spec), _make(spec)
  rng = np.random.default_rng(1)
  rows = np.stack([_random_batch(spec, rng) for _ in range(7)])
  results = _update(together, rows)
  singles = [_update(alone, batch[None]) for batch in rows]
  for result, parts in zip(results, zip(*singles, strict=True), strict=True):
    np.testing.assert_allclose(result, np.concatenate(parts), rtol=1e-5, atol=1e-6)
  for name in ("policy", "target"):
    np.testing.assert_allclose(
      flatten_weights(part(together, name)), flatten_weights(part(alone, name)), rtol=1e-5, atol=1e-6
    )
  assert int(optimizer_of(together, part(together, "policy")).steps) == 7


def test_a_terminated_row_does_not_bootstrap_a_truncated_one_does_and_n_steps_discount_by_their_power(spec) -> None:
  updates = _make(spec)
  _shift_target(updates)
  same = np.array([[1, -2]] * 3, np.float32)
  rows = pack(
    spec,
    observation=same,
    next_observation=same[:, ::-1],
    action=[1, 1, 1],
    reward=[0.5, 0.5, 0.5],
    # As the adder writes them: gamma^(n-1) times the environment's discounts, the last of which is 0 where it terminated.
    discount=[0.0, 1.0, 0.81],
    terminated=[True, False, False],
    truncated=[False, True, False],
  )
  q = part(updates, "policy")(tf.constant(same[:1])).numpy()[0]
  chosen = part(updates, "policy")(tf.constant(same[:1, ::-1])).numpy()[0].argmax()
  bootstrap = part(updates, "target")(tf.constant(same[:1, ::-1])).numpy()[0, chosen]
  assert abs(bootstrap) > 0.1
  _, _, td_errors = _update(updates, rows[None])
  expected = [0.5 - q[1], 0.5 + 0.9 * bootstrap - q[1], 0.5 + 0.729 * bootstrap - q[1]]
  np.testing.assert_allclose(td_errors[0], expected, rtol=1e-5)


@pytest.mark.parametrize("seed", [0, 5])
def test_the_same_seed_makes_the_same_networks_and_the_target_starts_as_the_online_one(spec, seed: int) -> None:
  def weights(name: str) -> np.ndarray:
    return flatten_weights(part(_make(spec, seed=seed), name))

  np.testing.assert_array_equal(weights("policy"), weights("policy"))
  np.testing.assert_array_equal(weights("policy"), weights("target"))


@pytest.mark.compiled
def test_it_learns_the_values_of_a_chain_of_two_states(spec) -> None:
  # (state, action) -> (reward, next state, discount); action 2 in state 1 is truncated by a time limit, so it bootstraps.
  chain = {
    (0, 0): (0.0, 1, 1.0),
    (0, 1): (0.1, 0, 1.0),
    (0, 2): (0.4, 0, 0.0),
    (1, 0): (1.0, 1, 0.0),
    (1, 1): (0.0, 0, 1.0),
    (1, 2): (0.2, 1, 1.0),
  }
  values = np.zeros((2, 3))
  for _ in range(500):
    values = np.array(
      [[chain[s, a][0] + 0.9 * chain[s, a][2] * values[chain[s, a][1]].max() for a in range(3)] for s in range(2)]
    )
  config = dataclasses.replace(CONFIG, learning_rate=0.02, target_update_rate=0.1)
  updates = _make(spec, config, hidden=())
  one_hot = np.eye(2, dtype=np.float32)
  rows = pack(
    spec,
    observation=[one_hot[state] for state, _ in chain],
    next_observation=[one_hot[next_state] for _, next_state, _ in chain.values()],
    action=[action for _, action in chain],
    reward=[reward for reward, _, _ in chain.values()],
    discount=[discount for _, _, discount in chain.values()],
  )
  block = np.stack([rows] * 500)
  for _ in range(5):
    _update(updates, block)
  np.testing.assert_allclose(part(updates, "policy")(tf.constant(one_hot)).numpy(), values, atol=0.01)


def test_conflict_averse_updates_without_a_coefficient_are_plain_ones_and_with_one_they_are_not(spec) -> None:
  combining = dataclasses.replace(CONFIG, cagrad=CagradConfig(coefficient=0.5))
  plain, average, averse = _make(spec), _make(spec, combining), _make(spec, combining)
  rng = np.random.default_rng(5)
  rows = np.stack([_random_batch(spec, rng) for _ in range(3)])
  tables = np.sort(rng.integers(0, 2, rows.shape[:2]), axis=1)
  weights = rng.uniform(0.5, 1.5, rows.shape[:2])
  expected = _update(plain, rows, weights, tables)
  for result, wanted in zip(_update(average, rows, weights, tables, 0.0), expected, strict=True):
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
  for ours, theirs in zip(_arrays(part(average, "policy")), _arrays(part(plain, "policy")), strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)
  _update(averse, rows, weights, tables, 0.5)
  assert (
    max(
      np.abs(a - b).max() for a, b in zip(_arrays(part(averse, "policy")), _arrays(part(plain, "policy")), strict=True)
    )
    > 1e-4
  )


@pytest.mark.parametrize("dueling", [False, True])
def test_a_conflict_averse_step_is_along_the_direction_that_the_tables_gradients_make(spec, dueling: bool) -> None:
  # After one step, Adam's first moment shows the gradient: m = .1 g.
  combining = dataclasses.replace(CONFIG, cagrad=CagradConfig(coefficient=0.6))
  updates = _make(spec, combining, hidden=(5, 4), dueling=dueling)
  rng = np.random.default_rng(7)
  rows, weights = _random_batch(spec, rng), rng.uniform(0.5, 1.5, 6)
  tables = np.array([0, 0, 0, 0, 1, 1])
  batch = {name: tf.constant(values) for name, values in make_row_codec(spec).unpack(rows).items()}
  network, target = part(updates, "policy"), part(updates, "target")
  with tf.GradientTape(persistent=True) as tape:
    td_error = double_q_learning(
      network.values(batch["observation"]),
      batch["action"],
      batch["reward"],
      0.9 * batch["discount"],
      target.values(batch["next_observation"]),
      network.values(batch["next_observation"]),
    )
    losses = 0.5 * weights.astype(np.float32) * tf.square(td_error)
    means = [tf.reduce_mean(losses[:4]), tf.reduce_mean(losses[4:])]
  variables = network.trainable_variables
  each = np.stack([np.concatenate([part.numpy().ravel() for part in tape.gradient(m, variables)]) for m in means])
  shares = tf.constant([4 / 6, 2 / 6], tf.float64)
  mixture = conflict_averse(tf.constant(each @ each.T, tf.float64), shares, tf.constant(0.6, tf.float64)).numpy()
  _update(updates, rows[None], weights[None], tables[None], 0.6)
  first_moments = [variable for variable in optimizer_of(updates, network).state if variable.name.endswith("/m:0")]
  moments = np.concatenate([moment.numpy().ravel() for moment in first_moments])
  np.testing.assert_allclose(moments, 0.1 * mixture @ each, rtol=1e-3, atol=1e-5)


def test_a_table_without_rows_in_the_batch_takes_no_part(spec) -> None:
  combining = dataclasses.replace(CONFIG, cagrad=CagradConfig(coefficient=0.9))
  plain, averse = _make(spec), _make(spec, combining)
  rows = _random_batch(spec, np.random.default_rng(6))[None]
  _update(plain, rows)
  # With one table the direction is d = (1 + c) g, and Adam's first step does not depend on its length.
  _update(averse, rows, None, np.ones(rows.shape[:2]), 0.9)
  for ours, theirs in zip(_arrays(part(averse, "policy")), _arrays(part(plain, "policy")), strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
