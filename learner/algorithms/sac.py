"""Soft actor-critic, and QR-SAC, whose critics estimate the distribution of returns."""

import abc
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from acme import specs

from configs import QrSacConfig, RunConfig, SacConfig
from learner.algorithms.actor_critic import ActorCritic
from learner.algorithms.algorithm import Metrics, Outputs, in_every
from learner.algorithms.losses import lesser_distribution, quantile_huber, soft_value, td_errors
from learner.gradients import Batch, GradientRule, Loss
from learner.optimizer import Optimizer
from networks import GaussianPolicy, Trace, make_gaussian_policy, squash


class _Next(NamedTuple):
  """What the critics' targets are made of, besides rewards.

  Attributes:
    outputs: the target critics' outputs for the next observation and an action sampled there, float32 [2, B, outputs].
    log_probs: that action's log-density, float32 [B].
    discounts: of what follows each row's steps, float32 [B].
    temperature: float32 ().
  """

  outputs: tf.Tensor
  log_probs: tf.Tensor
  discounts: tf.Tensor
  temperature: tf.Tensor


class _MaximumEntropy(ActorCritic, abc.ABC):
  """An actor-critic whose policy is stochastic, with a temperature that is learned or fixed.

  Each update takes a step of the critics, then of the policy, of the temperature, and of the target critics;
  docs/algorithms.md has the equations.

  Attributes:
    log_temperature: float32 ().
  """

  policy: GaussianPolicy
  METRICS = ("loss", "mean_q", "policy_loss", "entropy", "temperature")

  def __init__(self, config: RunConfig, spec: specs.EnvironmentSpec, seed: int, critic_outputs: int):
    """Makes the networks; the arguments are those of `ActorCritic`.

    Raises:
      UserError: the algorithm cannot act in such an environment.
    """
    policy = make_gaussian_policy(config, spec, seed)  # Refuses actions that are not one vector.
    super().__init__(config, spec, seed, policy, critic_outputs)
    sac = config.learner.algorithm
    assert isinstance(sac, SacConfig)
    self._learns_temperature = sac.learn_temperature
    dimensions = int(spec.actions.shape[0])
    self._target_entropy = -float(dimensions) if sac.target_entropy is None else sac.target_entropy
    self.log_temperature = tf.Variable(float(np.log(sac.temperature)), name="log_temperature")
    self._temperature_optimizer = Optimizer([self.log_temperature], self._policy_rate)

  def update(self, batch: Batch, rule: GradientRule) -> tuple[Metrics, Outputs]:
    """Updates all networks once; see `Algorithm.update`."""
    features = self.policy.features(batch["observation"])
    next_features = self.policy.features(batch["next_observation"])
    temperature = tf.exp(self.log_temperature)
    next_actions, next_log_probs = self._sample(next_features)
    following = _Next(
      self._outputs(self.target_critics, next_features, next_actions),
      next_log_probs,
      self._learner.discount * batch["discount"],
      temperature,
    )

    def critics_loss(trace: Trace | None) -> Loss:
      outputs = self._outputs(self.critics, features, batch["action"], trace)
      losses, td_error = self._critic_losses(outputs, batch["reward"], following)
      return Loss(batch.weights * tf.reduce_sum(losses, axis=0), (outputs, td_error))

    def policy_loss(trace: Trace | None) -> Loss:
      actions, log_probs = self._sample(features, trace)
      values = self._mean_values(self._outputs(self.critics, features, actions))
      return Loss(-soft_value(values, log_probs, temperature), (log_probs,))

    row_losses, (outputs, td_error), _ = self._improve_critics(critics_loss, batch, rule)
    policy_losses, (log_probs,), _ = self._improve_policy(policy_loss, batch, rule)
    entropy = -tf.reduce_mean(log_probs)
    if self._learns_temperature:
      self._temperature_optimizer.apply([entropy - self._target_entropy])
    in_every(self._learner.target_update_period, self._critics_optimizer.steps, self._follow_critics)
    metrics = {
      "loss": tf.reduce_mean(row_losses),
      "mean_q": tf.reduce_mean(outputs),
      "policy_loss": tf.reduce_mean(policy_losses),
      "entropy": entropy,
      "temperature": temperature,
    }
    return metrics, {"td_error": td_error}

  @abc.abstractmethod
  def _critic_losses(self, outputs: tf.Tensor, rewards: tf.Tensor, following: _Next) -> tuple[tf.Tensor, tf.Tensor]:
    """Each critic's losses, float32 [2, B], and the TD errors, float32 [B]."""

  @abc.abstractmethod
  def _mean_values(self, outputs: tf.Tensor) -> tf.Tensor:
    """The critics' values, float32 [2, B], from their outputs."""

  def _sample(self, features: tf.Tensor, trace: Trace | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Actions of the policy, float32 [B, A], and their log-densities, float32 [B]."""
    mean, log_std = self.policy(features, is_training=True, trace=trace)
    return squash(mean, log_std, self.noise.normal(tf.shape(mean)))


class SoftActorCritic(_MaximumEntropy):
  """SAC with twin critics (Haarnoja et al., 2018)."""

  def __init__(self, config: RunConfig, spec: specs.EnvironmentSpec, seed: int):
    """Makes the networks.

    Args:
      config: of the run.
      spec: of the environment; actions lie in [-1, 1]^A.
      seed: of the initial weights and of the noise.

    Raises:
      UserError: the algorithm cannot act in such an environment.
    """
    super().__init__(config, spec, seed, critic_outputs=1)

  def _critic_losses(self, outputs: tf.Tensor, rewards: tf.Tensor, following: _Next) -> tuple[tf.Tensor, tf.Tensor]:
    next_value = soft_value(self._mean_values(following.outputs), following.log_probs, following.temperature)
    errors = td_errors(self._mean_values(outputs), rewards, following.discounts, next_value)
    return 0.5 * tf.square(errors), tf.reduce_mean(tf.abs(errors), axis=0)

  def _mean_values(self, outputs: tf.Tensor) -> tf.Tensor:
    return outputs[..., 0]


class QrSac(_MaximumEntropy):
  """QR-SAC: SAC whose critics estimate quantiles of the return (Wurman et al., 2022)."""

  def __init__(self, config: RunConfig, spec: specs.EnvironmentSpec, seed: int):
    """Makes the networks.

    Args:
      config: of the run.
      spec: of the environment; actions lie in [-1, 1]^A.
      seed: of the initial weights and of the noise.

    Raises:
      UserError: the algorithm cannot act in such an environment.
    """
    qr_sac = config.learner.algorithm
    assert isinstance(qr_sac, QrSacConfig)
    self._kappa = qr_sac.kappa
    super().__init__(config, spec, seed, critic_outputs=qr_sac.quantiles)

  def _critic_losses(self, outputs: tf.Tensor, rewards: tf.Tensor, following: _Next) -> tuple[tf.Tensor, tf.Tensor]:
    next_returns = lesser_distribution(following.outputs) - following.temperature * following.log_probs[:, None]
    targets = rewards[:, None] + following.discounts[:, None] * next_returns
    mean_errors = tf.reduce_mean(targets, axis=-1) - tf.reduce_mean(outputs, axis=-1)
    return quantile_huber(outputs, targets, self._kappa), tf.reduce_mean(tf.abs(mean_errors), axis=0)

  def _mean_values(self, outputs: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(outputs, axis=-1)
