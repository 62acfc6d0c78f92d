"""Twin delayed deep deterministic policy gradient."""

import tensorflow as tf
from acme import specs

from configs import RunConfig, Td3Config
from learner.algorithms.actor_critic import ActorCritic
from learner.algorithms.algorithm import Metrics, Outputs, follow
from learner.algorithms.behaviour import NoisyPolicy
from learner.algorithms.losses import td_errors
from learner.gradients import Batch, GradientRule, Loss
from learner.gradients.controls import DIVERGENCE, LOG_RATIO
from networks import DeterministicPolicy, Trace, make_deterministic_policy


class Td3(ActorCritic):
  """TD3: twin critics, target policy smoothing and delayed policy updates (Fujimoto et al., 2018).

  Attributes:
    target_policy: the policy's target network.
  """

  policy: DeterministicPolicy

  def __init__(self, config: RunConfig, spec: specs.EnvironmentSpec, seed: int):
    """Makes the networks.

    Args:
      config: of the run.
      spec: of the environment; actions lie in [-1, 1]^A.
      seed: of the initial weights and of the noise.

    Raises:
      UserError: the algorithm cannot act in such an environment.
    """
    super().__init__(config, spec, seed, make_deterministic_policy(config, spec, seed))
    td3 = config.learner.algorithm
    assert isinstance(td3, Td3Config)
    self._td3 = td3
    self.target_policy = make_deterministic_policy(config, spec, seed)
    self._noisy = NoisyPolicy(config)
    self.OUTPUTS = (*self.OUTPUTS, *self._noisy.outputs)
    self._updates = tf.Variable(0, dtype=tf.int64, name="updates")
    self._policy_loss = tf.Variable(0.0, name="policy_loss")

  def update(self, batch: Batch, rule: GradientRule) -> tuple[Metrics, Outputs]:
    """Updates the networks once; see `Algorithm.update`."""
    features = self.policy.features(batch["observation"])
    next_features = self.policy.features(batch["next_observation"])
    next_values = self._outputs(self.target_critics, next_features, self._smoothed(next_features))[..., 0]
    next_value = tf.reduce_min(next_values, axis=0)
    discounts = self._learner.discount * batch["discount"]
    compared = self._noisy.compare(batch.fields, self.policy(features))
    if compared:
      batch = rule.classify(batch, compared[LOG_RATIO])

    def critics_loss(trace: Trace | None) -> Loss:
      values = self._outputs(self.critics, features, batch["action"], trace)[..., 0]
      errors = td_errors(values, batch["reward"], discounts, next_value)
      return Loss(batch.weights * tf.reduce_sum(0.5 * tf.square(errors), axis=0), (values, errors))

    def policy_loss(trace: Trace | None) -> Loss:
      actions = self.policy(features, trace)
      divergence = self._noisy.compare(batch.fields, actions).get(DIVERGENCE)
      return Loss(-self._outputs(self.critics, features, actions)[0, :, 0], divergence=divergence)

    def improve_policy() -> tf.Operation:
      losses = self._improve_policy(policy_loss, batch, rule)
      self._policy_loss.assign(tf.reduce_mean(losses.rows))
      return tf.no_op()

    row_losses, (values, errors), _ = self._improve_critics(critics_loss, batch, rule)
    self._updates.assign_add(1)
    target_period = self._td3.target_period or self._td3.policy_period
    tf.cond(self._updates % self._td3.policy_period == 0, improve_policy, tf.no_op)
    tf.cond(self._updates % target_period == 0, self._follow_all, tf.no_op)
    metrics = {
      "loss": tf.reduce_mean(row_losses),
      "mean_q": tf.reduce_mean(values),
      "policy_loss": self._policy_loss.read_value(),
    }
    return metrics, {"td_error": tf.reduce_mean(tf.abs(errors), axis=0), **compared}

  def _smoothed(self, next_features: tf.Tensor) -> tf.Tensor:
    """The target policy's actions with clipped noise (Fujimoto et al., 2018, Eq. 15)."""
    actions = self.target_policy(next_features)
    noise = self._td3.target_noise * self.noise.normal(tf.shape(actions))
    limit = self._td3.target_noise_clip
    return tf.clip_by_value(actions + tf.clip_by_value(noise, -limit, limit), -1.0, 1.0)

  def _follow_all(self) -> tf.Operation:
    """Takes a step of all target networks."""
    follow(self.target_policy.trainable_variables, self.policy.trainable_variables, self._learner.target_update_rate)
    self._follow_critics()
    return tf.no_op()
