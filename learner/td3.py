"""Twin delayed deep deterministic policy gradient."""

from collections.abc import Mapping

import tensorflow as tf
from acme import specs

from configs import RunConfig, Td3Config
from learner.actor_critic import ActorCritic
from learner.algorithm import follow
from learner.losses import td_errors
from networks import DeterministicPolicy, make_deterministic_policy
from replay_server.contract.codec import RowCodec


class Td3(ActorCritic):
  """TD3: twin critics, target policy smoothing, and a policy that moves at every other update (Fujimoto et al., 2018)."""

  policy: DeterministicPolicy
  METRICS = ("loss", "mean_q", "policy_loss")

  def __init__(self, config: RunConfig, codec: RowCodec, spec: specs.EnvironmentSpec, seed: int):
    """Makes the networks.

    Args:
      config: of the run.
      codec: of the rows.
      spec: of the environment; actions lie in [-1, 1]^A.
      seed: of the initial weights and of the noise.

    Raises:
      UserError: the algorithm cannot act in such an environment.
    """
    assert isinstance(config.learner.algorithm, Td3Config)
    self._td3 = config.learner.algorithm
    self._target_policy = make_deterministic_policy(config, spec, seed)
    self._steps = tf.Variable(0, dtype=tf.int64, name="steps")
    self._policy_loss = tf.Variable(0.0, name="policy_loss")
    policy = make_deterministic_policy(config, spec, seed)
    super().__init__(config, codec, spec, seed, policy, target_policy=self._target_policy, steps=self._steps)

  def _update(
    self, batch: Mapping[str, tf.Tensor], weights: tf.Tensor, tables: tf.Tensor, cagrad: tf.Tensor
  ) -> tuple[Mapping[str, tf.Tensor], tf.Tensor]:
    features = self.policy.features(batch["observation"])
    next_features = self.policy.features(batch["next_observation"])
    next_value = tf.reduce_min(self._values(self._targets, next_features, self._smoothed(next_features)), axis=0)
    trace = self._trace()
    with self._tape() as tape:
      values = self._values(self._critics, features, batch["action"], trace)
      errors = td_errors(values, batch["reward"], self._config.discount * batch["discount"], next_value)
      row_losses = weights * tf.reduce_sum(0.5 * tf.square(errors), axis=0)
    self._apply(self._critics_adam, tape, trace, row_losses, tables, cagrad)
    self._steps.assign_add(1)
    target_period = self._td3.target_period or self._td3.policy_period
    tf.cond(self._steps % self._td3.policy_period == 0, lambda: self._improve_policy(features), tf.no_op)
    tf.cond(self._steps % target_period == 0, self._follow_all, tf.no_op)
    metrics = {
      "loss": tf.reduce_mean(row_losses),
      "mean_q": tf.reduce_mean(values),
      "policy_loss": self._policy_loss.read_value(),
    }
    return metrics, tf.reduce_mean(tf.abs(errors), axis=0)

  def _smoothed(self, next_features: tf.Tensor) -> tf.Tensor:
    """The target policy's actions with clipped noise (Fujimoto et al., 2018, Eq. 15)."""
    actions = self._target_policy(next_features)
    noise = self._td3.target_noise * self._noise.normal(tf.shape(actions))
    limit = self._td3.target_noise_clip
    return tf.clip_by_value(actions + tf.clip_by_value(noise, -limit, limit), -1.0, 1.0)

  def _improve_policy(self, features: tf.Tensor) -> tf.Operation:
    """A step of the policy."""

    def policy_loss() -> tuple[tf.Tensor]:
      return (-tf.reduce_mean(self._values(self._critics, features, self.policy(features))[0]),)

    (loss,) = self._improve(policy_loss)
    self._policy_loss.assign(loss)
    return tf.no_op()

  def _follow_all(self) -> tf.Operation:
    """A step of all target networks."""
    follow(self._target_policy.trainable_variables, self.policy.trainable_variables, self._config.target_update_rate)
    self._follow_critics()
    return tf.no_op()
