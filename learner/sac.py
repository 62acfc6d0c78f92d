"""Soft actor-critic, and QR-SAC, whose critics tell the distribution of returns."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from acme import specs

from configs import QrSacConfig, RunConfig, SacConfig
from learner.actor_critic import ActorCritic
from learner.adam import Adam
from learner.losses import lesser_distribution, quantile_huber, soft_value, td_errors
from networks import GaussianPolicy, make_gaussian_policy, squash
from replay_server.contract.codec import RowCodec

Metrics = Mapping[str, tf.Tensor]


class SoftActorCritic(ActorCritic):
  """SAC with twin critics and a temperature that is learned or fixed (Haarnoja et al., 2018; Wurman et al., 2022 for QR-SAC).

  Each update takes one step of the critics, then one of the policy against them, one of the temperature, and one of the
  target critics; docs/algorithms.md has the equations.
  """

  policy: GaussianPolicy
  METRICS = ("loss", "mean_q", "policy_loss", "entropy", "temperature")

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
    sac = config.learner.algorithm
    assert isinstance(sac, SacConfig)
    self._sac = sac
    self._kappa = sac.kappa if isinstance(sac, QrSacConfig) else QrSacConfig.kappa
    policy = make_gaussian_policy(config, spec, seed)  # Which refuses what has not one row of actions.
    dimensions = int(spec.actions.shape[0])
    self._target_entropy = -float(dimensions) if sac.target_entropy is None else sac.target_entropy
    self._log_temperature = tf.Variable(float(np.log(sac.temperature)), name="log_temperature")
    self._temperature_adam = Adam([self._log_temperature], sac.policy_learning_rate or config.learner.learning_rate)
    super().__init__(
      config,
      codec,
      spec,
      seed,
      policy,
      sac.quantiles if isinstance(sac, QrSacConfig) else None,
      log_temperature=self._log_temperature,
      temperature_adam=self._temperature_adam,
    )

  def _update(
    self, batch: Mapping[str, tf.Tensor], weights: tf.Tensor, tables: tf.Tensor, cagrad: tf.Tensor
  ) -> tuple[Metrics, tf.Tensor]:
    features = self.policy.features(batch["observation"])
    next_features = self.policy.features(batch["next_observation"])
    temperature = tf.exp(self._log_temperature)
    discounts = self._config.discount * batch["discount"]
    next_actions, next_log_probs = self._draw(next_features)
    next_values = self._values(self._targets, next_features, next_actions)

    trace = self._trace()
    with self._tape() as tape:
      values = self._values(self._critics, features, batch["action"], trace)
      if self._quantiles is None:
        next_value = soft_value(next_values, next_log_probs, temperature)
        errors = td_errors(values, batch["reward"], discounts, next_value)
        critic_losses = 0.5 * tf.square(errors)
        td_error = tf.reduce_mean(tf.abs(errors), axis=0)
      else:
        next_returns = lesser_distribution(next_values) - temperature * next_log_probs[:, None]
        targets = batch["reward"][:, None] + discounts[:, None] * next_returns
        critic_losses = quantile_huber(values, targets, self._kappa)
        of_means = tf.reduce_mean(targets, axis=-1) - tf.reduce_mean(values, axis=-1)
        td_error = tf.reduce_mean(tf.abs(of_means), axis=0)
      row_losses = weights * tf.reduce_sum(critic_losses, axis=0)
    self._apply(self._critics_adam, tape, trace, row_losses, tables, cagrad)

    policy_loss, entropy = self._improve(lambda: self._policy_loss(features, temperature))
    if self._sac.learn_temperature:
      self._temperature_adam.apply([entropy - self._target_entropy])
    self._follow_critics()
    metrics = {
      "loss": tf.reduce_mean(row_losses),
      "mean_q": tf.reduce_mean(values),
      "policy_loss": policy_loss,
      "entropy": entropy,
      "temperature": temperature,
    }
    return metrics, td_error

  def _policy_loss(self, features: tf.Tensor, temperature: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The policy's loss and its entropy, float32 () each."""
    actions, log_probs = self._draw(features)
    values = self._values(self._critics, features, actions)
    if self._quantiles is not None:
      values = tf.reduce_mean(values, axis=-1)
    return -tf.reduce_mean(soft_value(values, log_probs, temperature)), -tf.reduce_mean(log_probs)

  def _draw(self, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    mean, log_std = self.policy(features, is_training=True)
    return squash(mean, log_std, self._noise.normal(tf.shape(mean)))
