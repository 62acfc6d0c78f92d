"""Double DQN."""

import tensorflow as tf
from acme import specs

from configs import RunConfig
from configs.algorithms import DdqnConfig
from learner.algorithms.algorithm import Algorithm, Metrics, Outputs, follow, in_every
from learner.algorithms.losses import double_q_learning, half_square, huber
from learner.gradients import Batch, GradientRule, Loss
from learner.optimizer import Optimizer
from networks import QNetwork, Trace, make_q_network


class DoubleDqn(Algorithm):
  """Double DQN: an online and a target network (van Hasselt et al., 2016).

  Attributes:
    target: the target network.
  """

  policy: QNetwork

  def __init__(self, config: RunConfig, spec: specs.EnvironmentSpec, seed: int):
    """Makes the networks.

    Args:
      config: of the run.
      spec: of the environment; actions are discrete.
      seed: of the initial weights.

    Raises:
      UserError: the actions are not discrete.
    """
    super().__init__(config, make_q_network(config, spec, seed))
    self.target = make_q_network(config, spec, seed)
    learner = config.learner
    assert isinstance(learner.algorithm, DdqnConfig)
    self._td_loss = huber if learner.algorithm.td_loss == "huber" else half_square
    self._optimizer = Optimizer(
      self.policy.trainable_variables, learner.learning_rate, learner.max_gradient_norm, learner.mixed_precision
    )

  def update(self, batch: Batch, rule: GradientRule) -> tuple[Metrics, Outputs]:
    """Updates both networks once; see `Algorithm.update`."""
    features = self.policy.features(batch["observation"])
    next_features = self.policy.features(batch["next_observation"])
    q_t_value, q_t_selector = self.target(next_features), self.policy(next_features)
    discounts = self._learner.discount * batch["discount"]

    def loss(trace: Trace | None) -> Loss:
      q_tm1 = self.policy(features, trace)
      td_error = double_q_learning(q_tm1, batch["action"], batch["reward"], discounts, q_t_value, q_t_selector)
      return Loss(batch.weights * self._td_loss(td_error), (q_tm1, td_error))

    row_losses, (q_tm1, td_error), _ = rule.minimise(self._optimizer, loss, batch)
    in_every(self._learner.target_update_period, self._optimizer.steps, self._follow)
    taken = tf.gather(q_tm1, batch["action"], batch_dims=1)
    return {"loss": tf.reduce_mean(row_losses), "mean_q": tf.reduce_mean(taken)}, {"td_error": td_error}

  def _follow(self) -> None:
    """Takes a step of the target network."""
    follow(self.target.trainable_variables, self.policy.trainable_variables, self._learner.target_update_rate)
