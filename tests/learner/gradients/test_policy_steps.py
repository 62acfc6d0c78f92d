"""Policies' losses go through the gradient rule, as the critics' do; row weights do not apply to them."""

import numpy as np
import pytest
import tensorflow as tf

from configs import CagradConfig, DdpgConfig, QrSacConfig, SacConfig, Td3Config
from configs.algorithms import AlgorithmConfig
from learner.gradients.cagrad import conflict_averse
from learner.updates import Updates
from networks import flatten_weights, squash
from tests.learner.algorithms.test_actor_critics import CODEC, make, make_run, random_rows
from tests.learner.batches import optimizer_of, part, update

TD3 = Td3Config(policy_period=1, policy_l2=0.1)
DDPG = DdpgConfig(policy_l2=0.1)
SAC = SacConfig(policy_l2=0.1, learn_temperature=False, temperature=0.3)
NOISE = 0.4


def _policy_losses(updates: Updates, policy: tf.Module, observations: np.ndarray) -> tf.Tensor:
  """The rows' policy losses by docs/algorithms.md, with the noise that the test fixes, float32 [batch]."""
  critics = part(updates, "critics")
  features = policy.features(observations)
  if hasattr(updates.algorithm, "target_policy"):
    actions, entropy_term = policy(features), 0.0
    values = critics(tf.concat([features, actions], axis=-1))[0, :, 0]
  else:
    mean, log_std = policy(features)
    actions, log_probs = squash(mean, log_std, tf.fill(mean.shape, NOISE))
    values = tf.reduce_min(critics(tf.concat([features, actions], axis=-1))[..., 0], axis=0)
    entropy_term = 0.3 * log_probs
  return entropy_term - values


@pytest.mark.parametrize("config", [TD3, DDPG, SAC], ids=["td3", "ddpg", "sac"])
@pytest.mark.parametrize("coefficient", [0.0, 0.6])
def test_a_policys_step_is_along_the_direction_that_the_tables_gradients_make(
  config: Td3Config | DdpgConfig | SacConfig, coefficient: float, monkeypatch: pytest.MonkeyPatch
) -> None:
  updates = make(make_run(config, (5, 4), cagrad=CagradConfig(coefficient=0.6)))
  before = make(make_run(config, (5, 4)))  # With the same seed: the policy before the step.
  monkeypatch.setattr(part(updates, "noise"), "normal", lambda shape: tf.fill(shape, NOISE))
  rows = random_rows(np.random.default_rng(8), batch=6)
  tables = np.array([0, 0, 0, 0, 1, 1])
  update(updates, rows[None], np.linspace(0.1, 5.0, 6)[None], tables[None], coefficient)

  policy, observations = part(before, "policy"), CODEC.unpack(rows)["observation"]
  with tf.GradientTape(persistent=True) as tape:
    losses = _policy_losses(updates, policy, observations)
    means = [tf.reduce_mean(losses[:4]), tf.reduce_mean(losses[4:])]
    penalty = 0.1 * tf.add_n([tf.reduce_sum(tf.square(v)) for v in policy.trainable_variables if v.shape.rank > 1])
  variables = policy.trainable_variables
  each = np.stack([np.concatenate([part.numpy().ravel() for part in tape.gradient(m, variables)]) for m in means])
  penalty_gradients = tape.gradient(penalty, variables, unconnected_gradients="zero")
  shares, c = tf.constant([4 / 6, 2 / 6], tf.float64), tf.constant(coefficient, tf.float64)
  mixture = conflict_averse(tf.constant(each @ each.T, tf.float64), shares, c).numpy()
  expected = mixture @ each + np.concatenate([part.numpy().ravel() for part in penalty_gradients])

  # After one step, Adam's first moment is .1 times the gradient.
  moments = optimizer_of(updates, part(updates, "policy")).state
  first = np.concatenate([moment.numpy().ravel() for moment in moments if moment.name.endswith("/m:0")])
  np.testing.assert_allclose(first, 0.1 * expected, rtol=2e-3, atol=1e-6)
  if not coefficient:
    np.testing.assert_allclose(mixture, shares, rtol=1e-6)


@pytest.mark.parametrize(
  "config", [SacConfig(), QrSacConfig(), Td3Config(policy_period=1), DdpgConfig()], ids=lambda config: config.NAME
)
def test_row_weights_apply_to_critics_and_not_to_the_policy(config: AlgorithmConfig) -> None:
  updates, before = make(make_run(config)), make(make_run(config))  # With the same seed.
  rows = random_rows(np.random.default_rng(3))[None]
  metrics, _ = update(updates, rows, np.zeros(rows.shape[:2]))
  assert metrics["loss"] == 0
  critics, policies = (
    [flatten_weights(part(each, name)) for each in (updates, before)] for name in ("critics", "policy")
  )
  np.testing.assert_array_equal(critics[0], critics[1])
  assert np.abs(policies[0] - policies[1]).max() > 1e-3
