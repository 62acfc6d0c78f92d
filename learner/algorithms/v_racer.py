"""V-RACER: an off-policy policy gradient with returns that follow the memory (Novati & Koumoutsakos, 2019, Section 2)."""

from collections.abc import Mapping

import tensorflow as tf
from acme import specs

from configs import RunConfig
from configs.algorithms import VRacerConfig
from learner.algorithms.advantages import ADVANTAGES
from learner.algorithms.algorithm import Algorithm, Metrics, Outputs
from learner.algorithms.behaviour import BEHAVIOUR, compare
from learner.gradients import Batch, GradientRule, Loss
from learner.gradients.controls import ACTION_VALUE, DIVERGENCE, IS_END, LOG_RATIO, NEXT_VALUE, Q_RET, VALUE
from learner.optimizer import Optimizer
from networks import Trace, ValueGaussianPolicy, make_value_gaussian_policy

# Importance weights are cut here, as for the paper's plain replay and Rule 2 alone. Rule 1 leaves out all that come near.
LARGEST_RATIO = 1_000.0


class VRacer(Algorithm):
  """One network for the value, the mean and the deviation of a Gaussian policy, learned from single steps.

  With `learner.algorithm.advantage` it has coefficients of an advantage too: Q(s, a) = V(s) + A(s, a). Without one Q is V.

  The memory keeps Q_ret of each step (`replay_memory.returns.Returns`), from the values and importance weights that this class
  returns for the rows of each batch.
  """

  METRICS: tuple[str, ...] = ("loss", "mean_q", "policy_loss")
  ROW_FIELDS = (BEHAVIOUR,)
  INPUTS = (Q_RET, IS_END)
  OUTPUTS = ("td_error", VALUE, ACTION_VALUE, NEXT_VALUE, LOG_RATIO, DIVERGENCE)

  policy: ValueGaussianPolicy

  def __init__(self, config: RunConfig, spec: specs.EnvironmentSpec, seed: int):
    """Makes the network.

    Args:
      config: of the run.
      spec: of the environment; actions lie in [-1, 1]^A.
      seed: of the initial weights.

    Raises:
      UserError: the algorithm cannot act in such an environment.
    """
    super().__init__(config, make_value_gaussian_policy(config, spec, seed))
    learner = config.learner
    assert isinstance(learner.algorithm, VRacerConfig)
    self._advantage = ADVANTAGES.get(learner.algorithm.advantage)
    self._optimizer = Optimizer(
      self.policy.trainable_variables, learner.learning_rate, learner.max_gradient_norm, learner.mixed_precision
    )

  def update(self, batch: Batch, rule: GradientRule) -> tuple[Metrics, Outputs]:
    """Updates the network once; see `Algorithm.update`."""
    features = self.policy.features(batch["observation"])
    outputs = self._outputs(batch.fields, features)
    classified = rule.classify(batch, outputs[LOG_RATIO])

    def network_loss(trace: Trace | None) -> Loss:
      value, mean, deviation, coefficients = self.policy(features, trace)
      log_ratio, divergence = compare(batch[BEHAVIOUR], batch["action"], mean, deviation)
      advantage = self._advantage_of(coefficients, batch["action"], mean, deviation)
      values, policies = row_losses(value, advantage, log_ratio, batch.columns[Q_RET])
      return Loss(batch.weights * values + policies, (values, policies), divergence)

    rows, (_, policies), _ = rule.minimise(self._optimizer, network_loss, classified)
    metrics = {
      "loss": tf.reduce_mean(rows),
      "mean_q": tf.reduce_mean(outputs[VALUE]),
      "policy_loss": tf.reduce_mean(policies),
    }
    ends = tf.reduce_any(batch.columns[IS_END] > 0)
    next_value = tf.cond(ends, lambda: self._value(batch["next_observation"]), lambda: tf.zeros_like(outputs[VALUE]))
    errors = batch.columns[Q_RET] - outputs[ACTION_VALUE]
    return metrics, {"td_error": errors, **outputs, NEXT_VALUE: next_value}

  def evaluate(self, fields: Mapping[str, tf.Tensor]) -> Outputs:
    """Values, log importance weight and divergence of rows; see `Algorithm.evaluate`."""
    outputs = self._outputs(fields, self.policy.features(fields["observation"]))
    return {**outputs, NEXT_VALUE: self._value(fields["next_observation"])}

  def _outputs(self, fields: Mapping[str, tf.Tensor], features: tf.Tensor) -> dict[str, tf.Tensor]:
    value, mean, deviation, coefficients = self.policy(features)
    log_ratio, divergence = compare(fields[BEHAVIOUR], fields["action"], mean, deviation)
    advantage = self._advantage_of(coefficients, fields["action"], mean, deviation)
    action_value = value if advantage is None else value + advantage
    return {VALUE: value, ACTION_VALUE: action_value, LOG_RATIO: log_ratio, DIVERGENCE: divergence}

  def _advantage_of(
    self, coefficients: tf.Tensor, actions: tf.Tensor, mean: tf.Tensor, deviation: tf.Tensor
  ) -> tf.Tensor | None:
    """A of rows, float32 [B], if one is learned. Its loss trains the coefficients alone, so the policy gets no gradient."""
    if self._advantage is None:
      return None
    shape, expected = self._advantage(coefficients, actions, tf.stop_gradient(mean), tf.stop_gradient(deviation))
    return shape - expected

  def _value(self, observations: tf.Tensor) -> tf.Tensor:
    return self.policy(self.policy.features(observations))[0]


def row_losses(
  value: tf.Tensor, advantage: tf.Tensor | None, log_ratio: tf.Tensor, q_ret: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """The losses of the values (Eqs. 9 and 23) and of the policy (Eq. 5) for each row.

  The value's target is V_tbc = V + min(1, rho) (Q_ret - Q) (Eq. 7), through which no gradient passes. The advantage's loss is
  (rho (A + V - Q_ret))^2 / 2, whose gradient passes through A alone. The policy's loss is -rho (Q_ret - V), and its gradient
  -rho (Q_ret - V) grad log pi. rho is cut at `LARGEST_RATIO`.

  Args:
    value: float32 [B], V.
    advantage: float32 [B], A = Q - V; None if none is learned, and Q is V.
    log_ratio: float32 [B], log rho.
    q_ret: float32 [B].

  Returns:
    (values' losses, policy's losses), float32 [B] each.
  """
  ratio = tf.exp(tf.stop_gradient(tf.minimum(log_ratio, tf.math.log(LARGEST_RATIO))))
  better = tf.stop_gradient(q_ret - value)
  error = better if advantage is None else better - tf.stop_gradient(advantage)
  target = tf.stop_gradient(value) + tf.minimum(ratio, 1.0) * error
  values = 0.5 * tf.square(value - target)
  if advantage is not None:
    values += 0.5 * tf.square(ratio * (advantage - better))
  # 1 in value, grad log pi in its gradient.
  unit = 1.0 + log_ratio - tf.stop_gradient(log_ratio)
  return values, -ratio * better * unit
