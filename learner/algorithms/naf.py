"""Q-learning with normalised advantage functions."""

import tensorflow as tf
from acme import specs

from configs import RunConfig
from learner.algorithms.algorithm import Algorithm, Metrics, Outputs, follow, in_every
from learner.algorithms.behaviour import NoisyPolicy
from learner.algorithms.losses import half_square, quadratic_values, td_errors
from learner.gradients import Batch, GradientRule, Loss
from learner.gradients.controls import DIVERGENCE, LOG_RATIO
from learner.optimizer import Optimizer
from networks import NafNetwork, Trace, make_naf_network


class Naf(Algorithm):
  """NAF: Q-learning whose Q is quadratic in the action, so that its largest value is V (Gu et al., 2016; ReF-ER, Eqs. 2 and 4).

  Attributes:
    target: the target network.
  """

  policy: NafNetwork

  def __init__(self, config: RunConfig, spec: specs.EnvironmentSpec, seed: int):
    """Makes the networks.

    Args:
      config: of the run.
      spec: of the environment; actions lie in [-1, 1]^A.
      seed: of the initial weights.

    Raises:
      UserError: the algorithm cannot act in such an environment.
    """
    super().__init__(config, make_naf_network(config, spec, seed))
    self.target = make_naf_network(config, spec, seed)
    self._noisy = NoisyPolicy(config)
    self.OUTPUTS = (*self.OUTPUTS, *self._noisy.outputs)
    learner = config.learner
    self._optimizer = Optimizer(
      self.policy.trainable_variables, learner.learning_rate, learner.max_gradient_norm, learner.mixed_precision
    )

  def update(self, batch: Batch, rule: GradientRule) -> tuple[Metrics, Outputs]:
    """Updates both networks once; see `Algorithm.update`."""
    features = self.policy.features(batch["observation"])
    next_value, _, _ = self.target(self.policy.features(batch["next_observation"]))
    discounts = self._learner.discount * batch["discount"]

    compared = self._noisy.compare(batch.fields, self.policy(features)[1])
    if compared:
      batch = rule.classify(batch, compared[LOG_RATIO])

    def loss(trace: Trace | None) -> Loss:
      state_values, means, lowers = self.policy(features, trace)
      values = quadratic_values(state_values, means, lowers, batch["action"])
      errors = td_errors(values, batch["reward"], discounts, next_value)
      # The network holds the policy too, whose mean is m.
      divergence = self._noisy.compare(batch.fields, means).get(DIVERGENCE)
      return Loss(batch.weights * half_square(errors), (values, errors), divergence)

    row_losses, (values, errors), _ = rule.minimise(self._optimizer, loss, batch)
    in_every(self._learner.target_update_period, self._optimizer.steps, self._follow)
    metrics = {"loss": tf.reduce_mean(row_losses), "mean_q": tf.reduce_mean(values)}
    return metrics, {"td_error": errors, **compared}

  def _follow(self) -> None:
    """Takes a step of the target network."""
    follow(self.target.trainable_variables, self.policy.trainable_variables, self._learner.target_update_rate)
