"""What algorithms with a policy and critics share."""

import tensorflow as tf
from acme import specs

from configs import RunConfig
from configs.algorithms import ActorCriticConfig
from learner.algorithms.algorithm import Algorithm, follow
from learner.algorithms.losses import l2
from learner.gradients import Batch, GradientRule, Loss
from learner.gradients.rule import LossFunction
from learner.optimizer import Optimizer
from networks import DeterministicPolicy, GaussianPolicy, StackedMlp, Trace, make_critics


class ActorCritic(Algorithm):
  """A policy, critics and their target networks, and an optimiser each for policy and critics.

  Attributes:
    critics: the critics.
    target_critics: their target networks.
    noise: generates the updates' noise.
  """

  METRICS: tuple[str, ...] = ("loss", "mean_q", "policy_loss")

  def __init__(
    self,
    config: RunConfig,
    spec: specs.EnvironmentSpec,
    seed: int,
    policy: GaussianPolicy | DeterministicPolicy,
    critic_outputs: int = 1,
    critics: int = 2,
  ):
    """Makes the critics.

    Args:
      config: of the run.
      spec: of the environment; actions lie in [-1, 1]^A.
      seed: of the initial weights and of the noise.
      policy: the network to publish.
      critic_outputs: number of outputs of each critic: 1 for a value, or the number of quantiles.
      critics: how many; two are twin critics.

    Raises:
      UserError: the algorithm cannot act in such an environment.
    """
    super().__init__(config, policy)
    learner, algorithm = config.learner, config.learner.algorithm
    assert isinstance(algorithm, ActorCriticConfig)
    self._policy_l2 = algorithm.policy_l2
    self.critics = make_critics(config, spec, critic_outputs, seed + 1, critics)
    self.target_critics = make_critics(config, spec, critic_outputs, seed + 1, critics)
    self.noise = tf.random.Generator.from_seed(seed)
    self._policy_rate = algorithm.policy_learning_rate or learner.learning_rate
    limits = learner.max_gradient_norm, learner.mixed_precision
    self._critics_optimizer = Optimizer(self.critics.trainable_variables, learner.learning_rate, *limits)
    self._policy_optimizer = Optimizer(policy.trainable_variables, self._policy_rate, *limits)

  def _outputs(
    self, critics: StackedMlp, features: tf.Tensor, actions: tf.Tensor, trace: Trace | None = None
  ) -> tf.Tensor:
    """The outputs of all critics, float32 [critics, B, critic_outputs]."""
    return critics(tf.concat([features, actions], axis=-1), trace)

  def _improve_critics(self, loss: LossFunction, batch: Batch, rule: GradientRule, l2_weight: float = 0.0) -> Loss:
    """Takes a step of the critics, with an L2 penalty on their weights if it has a weight."""
    penalty = (lambda: l2(self.critics.weights, l2_weight)) if l2_weight else None
    return rule.minimise(self._critics_optimizer, loss, batch, penalty)

  def _improve_policy(self, loss: LossFunction, batch: Batch, rule: GradientRule) -> Loss:
    """Takes a step of the policy, with an L2 penalty on its weights if the config has one."""
    optimizer, weight = self._policy_optimizer, self._policy_l2
    return rule.minimise(optimizer, loss, batch, (lambda: l2(optimizer.parameters, weight)) if weight else None)

  def _follow_critics(self) -> None:
    rate = self._learner.target_update_rate
    follow(self.target_critics.trainable_variables, self.critics.trainable_variables, rate)
