"""Double DQN."""

from collections.abc import Mapping

import tensorflow as tf
from acme import specs

from configs import RunConfig
from learner.adam import Adam
from learner.algorithm import Algorithm, follow
from learner.losses import double_q_learning
from networks import QNetwork, make_q_network
from replay_server.contract.codec import RowCodec


class DoubleDqn(Algorithm):
  """Online and target network, Adam, and the update of both (van Hasselt et al., 2016)."""

  policy: QNetwork

  def __init__(self, config: RunConfig, codec: RowCodec, spec: specs.EnvironmentSpec, seed: int):
    """Makes the networks.

    Args:
      config: of the run.
      codec: of the rows.
      spec: of the environment; actions are discrete.
      seed: of the initial weights.

    Raises:
      UserError: the actions are not discrete.
    """
    self.policy = make_q_network(config, spec, seed)
    self._target = make_q_network(config, spec, seed)
    learner = config.learner
    self._adam = Adam(
      self.policy.trainable_variables, learner.learning_rate, learner.max_gradient_norm, learner.mixed_precision
    )
    super().__init__(config, codec, self.policy, target=self._target, adam=self._adam)

  def _update(
    self, batch: Mapping[str, tf.Tensor], weights: tf.Tensor, tables: tf.Tensor, cagrad: tf.Tensor
  ) -> tuple[Mapping[str, tf.Tensor], tf.Tensor]:
    features = self.policy.features(batch["observation"])
    next_features = self.policy.features(batch["next_observation"])
    q_t_value, q_t_selector = self._target(next_features), self.policy(next_features)
    trace = self._trace()
    with self._tape() as tape:
      q_tm1 = self.policy(features, trace)
      td_error = double_q_learning(
        q_tm1, batch["action"], batch["reward"], self._config.discount * batch["discount"], q_t_value, q_t_selector
      )
      row_losses = 0.5 * weights * tf.square(td_error)
    self._apply(self._adam, tape, trace, row_losses, tables, cagrad)
    follow(self._target.trainable_variables, self.policy.trainable_variables, self._config.target_update_rate)
    taken = tf.gather(q_tm1, batch["action"], batch_dims=1)
    return {"loss": tf.reduce_mean(row_losses), "mean_q": tf.reduce_mean(taken)}, td_error
