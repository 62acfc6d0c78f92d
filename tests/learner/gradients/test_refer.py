"""ReF-ER: ratios and divergences, its rules, and beta, by hand and against finite differences."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from configs import UserError
from configs.refer import ReferConfig
from learner.algorithms.behaviour import compare
from learner.gradients import Batch, GradientRule, Loss, MeanRule, ReferRule
from learner.gradients.controls import BETA, LARGEST_RATIO
from learner.optimizer import Optimizer
from learner.sources.followers import next_beta
from networks import Trace
from tests.learner.algorithms.behaving import make_v_racer_run


def _gaussians(rng: np.random.Generator, rows: int, actions: int) -> tuple[np.ndarray, ...]:
  means, deviations = rng.normal(size=(2, rows, actions)), rng.uniform(0.2, 1.5, size=(2, rows, actions))
  return means[0], deviations[0], means[1], deviations[1]


def test_ratio_and_divergence_by_hand() -> None:
  # mu = N(0, 1), pi = N(1, 2^2), a = 1: log pi - log mu = -log 2 + 1/2; KL = log 2 + (1 + 1) / 8 - 1/2.
  log_ratio, divergence = compare(
    tf.constant([[0.0, 1.0]]), tf.constant([[1.0]]), tf.constant([[1.0]]), tf.constant([2.0])
  )
  assert log_ratio.numpy() == pytest.approx([-math.log(2) + 0.5])
  assert divergence.numpy() == pytest.approx([math.log(2) + 2 / 8 - 0.5])


def test_the_divergence_is_the_mean_log_ratio_of_samples_and_0_for_the_behaviour_itself() -> None:
  rng = np.random.default_rng(0)
  mu_mean, mu_deviation, mean, deviation = (array[0] for array in _gaussians(rng, 1, 3))
  samples = mu_mean + mu_deviation * rng.normal(size=(400_000, 3))
  behaviour = np.tile(np.concatenate([mu_mean, mu_deviation]), (len(samples), 1))

  def compared(mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    arrays = (behaviour, samples, np.broadcast_to(mean, samples.shape), deviation)
    log_ratio, divergence = compare(*(tf.constant(array, tf.float64) for array in arrays))
    return log_ratio.numpy(), divergence.numpy()

  log_ratio, divergence = compared(mean, deviation)
  standard_error = log_ratio.std() / math.sqrt(len(samples))
  assert -log_ratio.mean() == pytest.approx(divergence[0], abs=5 * standard_error)
  log_ratio, divergence = compared(mu_mean, mu_deviation)
  assert np.abs(log_ratio).max() == 0
  assert np.abs(divergence).max() == 0


def test_gradients_of_the_divergence_are_finite_differences() -> None:
  mu_mean, mu_deviation, mean, deviation = _gaussians(np.random.default_rng(1), 4, 2)
  behaviour = tf.constant(np.concatenate([mu_mean, mu_deviation], axis=1))
  actions = tf.zeros((4, 2), tf.float64)

  def total(mean: np.ndarray, deviation: np.ndarray) -> float:
    return float(tf.reduce_sum(compare(behaviour, actions, tf.constant(mean), tf.constant(deviation))[1]))

  variables = [tf.Variable(mean), tf.Variable(deviation)]
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(compare(behaviour, actions, *variables)[1])
  for which, gradient in enumerate(tape.gradient(loss, variables)):
    for index in np.ndindex(mean.shape):
      moved = [[mean.copy(), deviation.copy()] for _ in range(2)]
      moved[0][which][index] += 1e-6
      moved[1][which][index] -= 1e-6
      assert gradient.numpy()[index] == pytest.approx((total(*moved[0]) - total(*moved[1])) / 2e-6, abs=1e-6)


def test_beta_falls_while_too_many_steps_are_far_and_else_rises_by_hand() -> None:
  assert next_beta(0.5, 0.1, far_share=0.2, tolerance=0.1) == pytest.approx(0.45)
  assert next_beta(0.5, 0.1, far_share=0.1, tolerance=0.1) == pytest.approx(0.55)


@pytest.mark.parametrize(("far_share", "fixed_point"), [(0.2, 0.0), (0.05, 1.0)])
def test_betas_fixed_points_are_0_and_1(far_share: float, fixed_point: float) -> None:
  beta = 0.3
  for _ in range(2_000):
    beta = next_beta(beta, 0.01, far_share, tolerance=0.1)
    assert 0 <= beta <= 1
  assert beta == pytest.approx(fixed_point, abs=1e-6)
  assert next_beta(fixed_point, 0.01, far_share, 0.1) == fixed_point


def test_annealing_by_hand() -> None:
  config = ReferConfig(limit=4.0, annealing=5e-7)
  assert config.largest_ratio_at(0) == 5.0
  assert config.largest_ratio_at(2_000_000) == 1 + 4 / 2
  assert config.rate_scale_at(2_000_000) == 0.5


def test_an_optimizers_rate_can_be_scaled() -> None:
  variable = tf.Variable([1.0])
  optimizer = Optimizer([variable], 0.1)
  optimizer.scale_rate(tf.constant(0.5))
  optimizer.apply([tf.constant([3.0])])
  assert variable.numpy() == pytest.approx([1 - 0.05])  # Adam's first step is as long as its rate.


class _Step:
  """One step of a rule on a network with a single weight w, whose rows' losses are a_i w, and their divergences d_i w."""

  def __init__(self, rule: GradientRule, log_ratios: list[float], beta: float, is_policy: bool = True):
    self.weight = tf.Variable(0.0)
    optimizer = Optimizer([self.weight], 1e-3)
    count = len(log_ratios)
    controls = {BETA: tf.constant(beta), LARGEST_RATIO: tf.constant(5.0)}
    batch = Batch({}, tf.ones(count), tf.zeros(count, tf.int64), {}, controls)
    batch = rule.classify(batch, tf.constant(log_ratios))
    slopes, divergences = tf.constant([1.0, 10.0, 100.0]), tf.constant([2.0, 20.0, 200.0])

    def loss(trace: Trace | None) -> Loss:
      del trace
      return Loss(slopes * self.weight, (), divergences * self.weight if is_policy else None)

    rule.minimise(optimizer, loss, batch)
    (moment,) = (variable for variable in optimizer.state if variable.name.endswith("/m:0"))
    self.gradient = float(moment) * 10  # Adam's first moment is .1 times the gradient.


def _rule(rules: str) -> ReferRule:
  config = make_v_racer_run(refer=ReferConfig(rules=rules))  # type: ignore[arg-type]
  return ReferRule(config, MeanRule(config))


_FAR_ONE = [0.0, math.log(0.19), 1.0]


@pytest.mark.parametrize(
  ("rules", "is_policy", "expected"),
  [
    ("first", True, (1 + 100) / 3),
    ("first", False, (1 + 100) / 3),
    ("second", True, (0.25 * 111 + 0.75 * 222) / 3),
    ("second", False, 111 / 3),
    ("both", True, (0.25 * 101 + 0.75 * 222) / 3),
    ("both", False, 101 / 3),  # A critic's loss has no beta (Algorithm 4).
  ],
)
def test_the_rules_by_hand(rules: str, is_policy: bool, expected: float) -> None:
  assert _Step(_rule(rules), _FAR_ONE, 0.25, is_policy).gradient == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("log_ratio", [math.log(5.1), -math.log(5.1), math.inf, -1e30])
def test_rule_1_leaves_a_network_untouched_that_meets_far_steps_only(log_ratio: float) -> None:
  step = _Step(_rule("first"), [log_ratio] * 3, 1.0)
  assert step.gradient == 0
  assert step.weight.numpy() == 0


@pytest.mark.parametrize(
  ("changes", "sentence"),
  [
    ({"rules": "third"}, "learner.refer.rules is 'third': use one of off, watched, first, second, both."),
    ({"limit": 0.0}, "learner.refer.limit is 0.0: it must be a finite number above 0."),
    ({"tolerance": 1.0}, "learner.refer.tolerance is 1.0: it must lie in (0, 1)."),
    ({"annealing": -1.0}, "learner.refer.annealing is -1.0: it must be a finite number, 0 or more."),
    ({"beta_rate": "fast"}, "learner.refer.beta_rate is 'fast': use one of learning_rate, batch_share."),
  ],
)
def test_what_makes_no_sense_is_refused(changes: dict, sentence: str) -> None:
  with pytest.raises(UserError) as error:
    dataclasses.replace(ReferConfig(), **changes)
  assert str(error.value) == sentence
