"""V-RACER's update against plain numpy, and what Rule 2 does to it."""

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from configs import VRacerConfig
from configs.algorithms import Advantage
from configs.refer import ReferConfig
from learner.algorithms.v_racer import LARGEST_RATIO, row_losses
from learner.gradients.controls import (
  ACTION_VALUE,
  BETA,
  DIVERGENCE,
  IS_END,
  LOG_RATIO,
  NEXT_VALUE,
  Q_RET,
  RATE_SCALE,
  VALUE,
)
from learner.gradients.controls import (
  LARGEST_RATIO as LARGEST_RATIO_CONTROL,
)
from learner.updates import Updates, make_updates
from replay_server.contract.layout import run_codec
from tests.learner.algorithms.behaving import SPEC, make_v_racer_run, random_rows
from tests.learner.batches import optimizer_of


def _make(algorithm: VRacerConfig | None = None, **learner: Any) -> tuple[Updates, np.ndarray]:
  config = make_v_racer_run(algorithm, **learner)
  updates = make_updates(config, run_codec(config, SPEC), SPEC, 3)
  return updates, random_rows(config, np.random.default_rng(0), batch=6, spread=0.3)


def _update(
  updates: Updates, rows: np.ndarray, q_ret: np.ndarray, is_end: float = 0.0, beta: float = 1.0, largest: float = 1e9
) -> dict[str, np.ndarray]:
  columns = {Q_RET: q_ret[None].astype(np.float32), IS_END: np.full((1, len(rows)), is_end, np.float32)}
  controls = updates.controls(0, {BETA: beta, LARGEST_RATIO_CONTROL: largest, RATE_SCALE: 1.0})
  weights, tables = np.ones((1, len(rows)), np.float32), np.zeros((1, len(rows)), np.int64)
  _, outputs = updates.update_block(rows[None], weights, tables, columns, controls)
  return {name: output[0] for name, output in outputs.items()}


def _forward(weights: list[np.ndarray], observations: np.ndarray) -> tuple[np.ndarray, ...]:
  """V, mean, deviation and coefficients in float64; weights are the deviation's parameter, then b0, w0, b1, w1."""
  spread, b0, w0, b1, w1 = weights
  hidden = observations @ w0 + b0
  outputs = hidden / (1 + np.abs(hidden)) @ w1 + b1
  return outputs[:, 0], outputs[:, 1:3], np.log1p(np.exp(spread)), outputs[:, 3:]


def _advantages(
  form: Advantage, coefficients: np.ndarray, actions: np.ndarray, mean: np.ndarray, deviation: np.ndarray
) -> np.ndarray:
  """A of Eqs. 18 to 22 for two dimensions, row by row."""
  found = []
  for row, away in zip(coefficients, actions - mean, strict=True):
    positive = np.log1p(np.exp(row))
    if form == "quadratic":
      lower = np.array([[positive[0], 0.0], [row[1], positive[2]]])
      matrix = lower @ lower.T
      found.append(-0.5 * away @ matrix @ away + 0.5 * np.trace(matrix @ np.diag(deviation**2)))
    elif form == "gaussian":
      above, below = positive[1:3], positive[3:]
      shape = np.exp(-0.5 * np.sum(np.maximum(away, 0) ** 2 / above + np.minimum(away, 0) ** 2 / below))
      halves = [np.sqrt(width / (width + deviation**2)) for width in (above, below)]
      found.append(positive[0] * (shape - np.prod(0.5 * (halves[0] + halves[1]))))
    else:
      found.append(0.0)
  return np.array(found)


def _log_density(actions: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
  density: np.ndarray = np.sum(-0.5 * ((actions - mean) / deviation) ** 2 - np.log(deviation), axis=1)
  return density


def _variables(updates: Updates) -> list[tf.Variable]:
  """In the order of `_forward`, whichever the module's is."""
  (spread,) = (variable for variable in updates.algorithm.policy.trainable_variables if variable.shape == (2,))
  others = [variable for variable in updates.algorithm.policy.trainable_variables if variable is not spread]
  return [spread, *others]


@pytest.mark.parametrize(("advantage", "beta"), [("none", 1.0), ("none", 0.3), ("quadratic", 0.3), ("gaussian", 0.3)])
def test_a_step_is_down_the_gradient_of_equations_5_9_10_and_23(advantage: Advantage, beta: float) -> None:
  updates, rows = _make(VRacerConfig(advantage=advantage), refer=ReferConfig(rules="both"))
  fields = run_codec(make_v_racer_run(), SPEC).unpack(rows)
  q_ret = np.random.default_rng(1).normal(size=len(rows))
  weights = [variable.numpy().astype(np.float64) for variable in _variables(updates)]
  mu_mean, mu_deviation = np.split(fields["behaviour"].astype(np.float64), 2, axis=1)
  of_mu = _log_density(fields["action"], mu_mean, mu_deviation)
  value_0, mean_0, deviation_0, coefficients_0 = _forward(weights, fields["observation"])
  advantage_0 = _advantages(advantage, coefficients_0, fields["action"], mean_0, deviation_0)
  ratio_0 = np.exp(_log_density(fields["action"], mean_0, deviation_0) - of_mu)
  largest = float(np.sort(np.exp(np.abs(np.log(ratio_0))))[-2])  # One row is far-policy, and the next one just so.
  near = np.exp(np.abs(np.log(ratio_0))) < 0.999 * largest

  def loss(weights: list[np.ndarray]) -> float:
    value, mean, deviation, coefficients = _forward(weights, fields["observation"])
    ratio = np.exp(_log_density(fields["action"], mean, deviation) - of_mu)
    target = value_0 + np.minimum(ratio_0, 1.0) * (q_ret - value_0 - advantage_0)
    rows_loss = 0.5 * (value - target) ** 2 - ratio * (q_ret - value_0)
    if advantage != "none":
      # Neither the policy nor V is moved by Eq. 23.
      found = _advantages(advantage, coefficients, fields["action"], mean_0, deviation_0)
      rows_loss += 0.5 * (ratio_0 * (found + value_0 - q_ret)) ** 2
    divergence = np.sum(
      np.log(deviation / mu_deviation) + (mu_deviation**2 + (mean - mu_mean) ** 2) / (2 * deviation**2) - 0.5, axis=1
    )
    return float(np.mean(beta * near * rows_loss + (1 - beta) * divergence))

  outputs = _update(updates, rows, q_ret, beta=beta, largest=0.999 * largest)
  np.testing.assert_allclose(outputs[VALUE], value_0, rtol=1e-4, atol=1e-6)
  np.testing.assert_allclose(outputs[LOG_RATIO], np.log(ratio_0), rtol=1e-3, atol=1e-5)
  np.testing.assert_allclose(outputs[ACTION_VALUE], value_0 + advantage_0, rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(outputs["td_error"], q_ret - value_0 - advantage_0, rtol=1e-4, atol=1e-5)
  optimizer = optimizer_of(updates, updates.algorithm.policy)
  moments = {variable.name: variable.numpy() for variable in optimizer.state if variable.name.endswith("/m:0")}
  slopes = list(moments.values())
  for which, parameter in enumerate(_variables(updates)):
    place = next(index for index, each in enumerate(optimizer.parameters) if each is parameter)
    for index in np.ndindex(weights[which].shape):
      kept = weights[which][index]
      weights[which][index] = kept + 1e-5
      above = loss(weights)
      weights[which][index] = kept - 1e-5
      slope = (above - loss(weights)) / 2e-5
      weights[which][index] = kept
      assert 10 * slopes[place][index] == pytest.approx(slope, rel=5e-3, abs=2e-4)


def test_losses_by_hand() -> None:
  value, log_ratio, q_ret = (
    tf.constant([1.0, 1.0]),
    tf.constant([math.log(0.5), math.log(2.0)]),
    tf.constant([3.0, 3.0]),
  )
  values, policies = row_losses(value, None, log_ratio, q_ret)
  # V_tbc = 1 + min(1, rho) 2; -rho 2.
  assert values.numpy() == pytest.approx([0.5 * 1, 0.5 * 4])
  assert policies.numpy() == pytest.approx([-1.0, -4.0])
  values, policies = row_losses(value, tf.constant([1.0, 1.0]), log_ratio, q_ret)
  # V_tbc = 1 + min(1, rho) (3 - 2); the advantage's error is rho (1 + 1 - 3).
  assert values.numpy() == pytest.approx([0.5 * (0.25 + 0.25), 0.5 * (1 + 4)])
  assert policies.numpy() == pytest.approx([-1.0, -4.0])


def test_a_huge_ratio_is_cut_and_gives_a_finite_gradient() -> None:
  log_ratio = tf.Variable([200.0, -1e30])
  with tf.GradientTape() as tape:
    _, policies = row_losses(tf.constant([0.0, 0.0]), None, log_ratio, tf.constant([1.0, 1.0]))
  assert policies.numpy() == pytest.approx([-LARGEST_RATIO, 0.0])
  assert tape.gradient(policies, log_ratio).numpy() == pytest.approx([-LARGEST_RATIO, 0.0])


def test_the_value_of_the_next_observation_is_given_where_a_return_contains_it() -> None:
  updates, rows = _make()
  expected = updates.evaluate(rows)
  assert set(expected) == {VALUE, ACTION_VALUE, NEXT_VALUE, LOG_RATIO, DIVERGENCE}
  fields = run_codec(make_v_racer_run(), SPEC).unpack(rows)
  weights = [variable.numpy().astype(np.float64) for variable in _variables(updates)]
  np.testing.assert_allclose(
    expected[NEXT_VALUE], _forward(weights, fields["next_observation"])[0], rtol=1e-4, atol=1e-6
  )
  outputs = _update(updates, rows, np.zeros(len(rows)))
  assert not outputs[NEXT_VALUE].any()
  after = updates.evaluate(rows)
  outputs = _update(updates, rows, np.zeros(len(rows)), is_end=1.0)
  # Of the network after this update; the others are from before it.
  assert np.abs(outputs[NEXT_VALUE] - updates.evaluate(rows)[NEXT_VALUE]).max() < 1e-6
  np.testing.assert_allclose(outputs[VALUE], after[VALUE], rtol=1e-5, atol=1e-6)


@pytest.mark.compiled
def test_rule_2_alone_brings_the_divergence_to_0() -> None:
  updates, rows = _make(refer=ReferConfig(rules="second"), learning_rate=0.02)
  fields = run_codec(make_v_racer_run(), SPEC)
  # One behaviour for all rows, as a network has one deviation for all states.
  place = next(field for field in fields.fields if field.name == "behaviour").offset
  rows[:, place : place + 4] = [0.2, -0.3, 0.5, 0.4]
  before = updates.evaluate(rows)[DIVERGENCE].mean()
  for _ in range(400):
    _update(updates, rows, np.zeros(len(rows)), beta=0.0)
  assert updates.evaluate(rows)[DIVERGENCE].mean() < min(1e-3, 0.01 * before)


@pytest.mark.compiled
def test_a_block_of_three_updates_is_three_updates_of_one_block_each() -> None:
  rng = np.random.default_rng(4)
  (together, rows), (apart, _) = _make(), _make()
  rows = np.stack([rows, rows[::-1], rows[rng.permutation(len(rows))]])
  weights = rng.uniform(0.5, 1.5, rows.shape[:2]).astype(np.float32)
  tables = np.zeros(rows.shape[:2], np.int64)
  columns = {name: rng.normal(size=rows.shape[:2]).astype(np.float32) for name in (Q_RET, IS_END)}
  controls = together.controls(0, {BETA: 0.7, LARGEST_RATIO_CONTROL: 5.0, RATE_SCALE: 0.5})
  metrics, outputs = together.update_block(rows, weights, tables, columns, controls)
  for index in range(3):
    one = slice(index, index + 1)
    own = {name: column[one] for name, column in columns.items()}
    found, their_outputs = apart.update_block(rows[one], weights[one], tables[one], own, controls)
    np.testing.assert_allclose(found, metrics[one], rtol=1e-5, atol=1e-6)
    for name, output in their_outputs.items():
      np.testing.assert_allclose(output, outputs[name][one], rtol=1e-5, atol=1e-6, err_msg=name)
  for variable, other in zip(together.trainable_variables, apart.trainable_variables, strict=True):
    np.testing.assert_allclose(variable, other, rtol=1e-5, atol=1e-6)
