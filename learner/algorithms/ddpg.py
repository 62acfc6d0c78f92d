"""Deep deterministic policy gradient."""

import tensorflow as tf
from acme import specs

from configs import DdpgConfig, RunConfig
from learner.algorithms.actor_critic import ActorCritic
from learner.algorithms.algorithm import Metrics, Outputs, follow, in_every
from learner.algorithms.behaviour import NoisyPolicy
from learner.algorithms.losses import half_square, td_errors
from learner.gradients import Batch, GradientRule, Loss
from learner.gradients.controls import DIVERGENCE, LOG_RATIO
from networks import DeterministicPolicy, StackedMlp, Trace, make_deterministic_policy


class Ddpg(ActorCritic):
  """DDPG: one critic, and target networks of critic and policy (Lillicrap et al., 2016; ReF-ER, Eqs. 2 and 3).

  Attributes:
    target_policy: the policy's target network.
  """

  policy: DeterministicPolicy

  def __init__(self, config: RunConfig, spec: specs.EnvironmentSpec, seed: int):
    """Makes the networks.

    Args:
      config: of the run.
      spec: of the environment; actions lie in [-1, 1]^A.
      seed: of the initial weights.

    Raises:
      UserError: the algorithm cannot act in such an environment.
    """
    super().__init__(config, spec, seed, make_deterministic_policy(config, spec, seed), critics=1)
    ddpg = config.learner.algorithm
    assert isinstance(ddpg, DdpgConfig)
    self._critic_l2 = ddpg.critic_l2
    self._noisy = NoisyPolicy(config)
    self.OUTPUTS = (*self.OUTPUTS, *self._noisy.outputs)
    self.target_policy = make_deterministic_policy(config, spec, seed)

  def update(self, batch: Batch, rule: GradientRule) -> tuple[Metrics, Outputs]:
    """Updates the networks once, the critic first; see `Algorithm.update`."""
    features = self.policy.features(batch["observation"])
    next_features = self.policy.features(batch["next_observation"])
    next_value = self._values(self.target_critics, next_features, self.target_policy(next_features))
    discounts = self._learner.discount * batch["discount"]
    compared = self._noisy.compare(batch.fields, self.policy(features))
    if compared:
      batch = rule.classify(batch, compared[LOG_RATIO])

    def critic_loss(trace: Trace | None) -> Loss:
      values = self._values(self.critics, features, batch["action"], trace)
      errors = td_errors(values, batch["reward"], discounts, next_value)
      return Loss(batch.weights * half_square(errors), (values, errors))

    def policy_loss(trace: Trace | None) -> Loss:
      actions = self.policy(features, trace)
      divergence = self._noisy.compare(batch.fields, actions).get(DIVERGENCE)
      return Loss(-self._values(self.critics, features, actions), divergence=divergence)

    row_losses, (values, errors), _ = self._improve_critics(critic_loss, batch, rule, self._critic_l2)
    policy_losses = self._improve_policy(policy_loss, batch, rule).rows
    in_every(self._learner.target_update_period, self._critics_optimizer.steps, self._follow_all)
    metrics = {
      "loss": tf.reduce_mean(row_losses),
      "mean_q": tf.reduce_mean(values),
      "policy_loss": tf.reduce_mean(policy_losses),
    }
    return metrics, {"td_error": errors, **compared}

  def _values(
    self, critics: StackedMlp, features: tf.Tensor, actions: tf.Tensor, trace: Trace | None = None
  ) -> tf.Tensor:
    """The critic's values, float32 [B]."""
    return self._outputs(critics, features, actions, trace)[0, :, 0]

  def _follow_all(self) -> None:
    """Takes a step of both target networks."""
    follow(self.target_policy.trainable_variables, self.policy.trainable_variables, self._learner.target_update_rate)
    self._follow_critics()
