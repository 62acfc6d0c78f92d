"""What the algorithms with a policy and twin critics have in common."""

from collections.abc import Callable

import tensorflow as tf
from acme import specs

from configs import RunConfig
from configs.algorithms import ActorCriticConfig
from learner.adam import Adam
from learner.algorithm import Algorithm, follow
from learner.losses import l2
from networks import DeterministicPolicy, GaussianPolicy, StackedMlp, Trace, make_critics
from replay_server.contract.codec import RowCodec


class ActorCritic(Algorithm):
  """A policy, twin critics with their targets, and an Adam for each side."""

  def __init__(
    self,
    config: RunConfig,
    codec: RowCodec,
    spec: specs.EnvironmentSpec,
    seed: int,
    policy: GaussianPolicy | DeterministicPolicy,
    quantiles: int | None = None,
    **checkpointed: tf.Module,
  ):
    """Makes the critics.

    Args:
      config: of the run.
      codec: of the rows.
      spec: of the environment; actions lie in [-1, 1]^A.
      seed: of the initial weights and of the noise.
      policy: the network to publish.
      quantiles: that each critic gives; None for a value.
      checkpointed: what a checkpoint must hold besides.

    Raises:
      UserError: the algorithm cannot act in such an environment.
    """
    learner, algorithm = config.learner, config.learner.algorithm
    assert isinstance(algorithm, ActorCriticConfig)
    self._policy_l2 = algorithm.policy_l2
    self._quantiles = quantiles
    self._critics = make_critics(config, spec, quantiles or 1, seed + 1)
    self._targets = make_critics(config, spec, quantiles or 1, seed + 1)
    self._noise = tf.random.Generator.from_seed(seed)
    self._critics_adam = Adam(
      self._critics.trainable_variables, learner.learning_rate, learner.max_gradient_norm, learner.mixed_precision
    )
    self._policy_adam = Adam(
      policy.trainable_variables,
      algorithm.policy_learning_rate or learner.learning_rate,
      learner.max_gradient_norm,
      learner.mixed_precision,
    )
    super().__init__(
      config,
      codec,
      policy,
      critics=self._critics,
      targets=self._targets,
      noise=self._noise,
      critics_adam=self._critics_adam,
      policy_adam=self._policy_adam,
      **checkpointed,
    )

  def _values(
    self, critics: StackedMlp, features: tf.Tensor, actions: tf.Tensor, trace: Trace | None = None
  ) -> tf.Tensor:
    """Of each critic: float32 [2, B], or [2, B, quantiles]."""
    outputs = critics(tf.concat([features, actions], axis=-1), trace)
    return outputs[..., 0] if self._quantiles is None else outputs

  def _improve(self, policy_loss: Callable[[], tuple[tf.Tensor, ...]]) -> tuple[tf.Tensor, ...]:
    """A step of the policy.

    Args:
      policy_loss: makes its loss, float32 (), and whatever else is to be known of it.

    Returns:
      What `policy_loss` made.
    """
    adam = self._policy_adam
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(adam.parameters)
      made = policy_loss()
      objective = made[0] + l2(adam.parameters, self._policy_l2)
    adam.apply(tape.gradient(objective, adam.parameters, output_gradients=adam.loss_scale))
    return made

  def _follow_critics(self) -> None:
    follow(self._targets.trainable_variables, self._critics.trainable_variables, self._config.target_update_rate)
