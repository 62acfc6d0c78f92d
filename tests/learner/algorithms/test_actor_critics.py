"""SAC, QR-SAC, TD3 and DDPG: their updates against plain numpy, and what they learn."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from acme import specs

from configs import (
  CagradConfig,
  DdpgConfig,
  EventSpec,
  LearnerConfig,
  NetworkConfig,
  QrSacConfig,
  ReplayConfig,
  RunConfig,
  SacConfig,
  TableSpec,
  Td3Config,
)
from configs.algorithms import ALGORITHMS, ActorCriticConfig, AlgorithmConfig
from learner.updates import Updates, make_updates
from networks import flatten_weights
from replay_server.contract.layout import make_row_codec
from tests.learner.batches import pack, part, update

_SCALAR = specs.Array((), np.float32)
SPEC = specs.EnvironmentSpec(
  specs.Array((3,), np.float32), specs.BoundedArray((2,), np.float32, -1.0, 1.0, "action"), _SCALAR, _SCALAR
)
CODEC = make_row_codec(SPEC)
BEST = np.array([0.3, -0.6])  # The action of the bandit that has the greatest reward.
TWINS = ["sac", "qr_sac", "td3"]
NAMES = [*TWINS, "ddpg"]
HIDDEN = 4

# b0, b1, w0, w1 of stacked networks, b0, w0, b1, w1 of one.
Weights = list[np.ndarray]


def make_run(algorithm: str | AlgorithmConfig, hidden: tuple[int, ...] = (HIDDEN,), **learner: Any) -> RunConfig:
  """A run of an algorithm; a name stands for its defaults."""
  if isinstance(algorithm, str):
    algorithm = ALGORITHMS[algorithm]()
  parts = {"learning_rate": 0.01, "discount": 0.9, "target_update_rate": 0.2, **learner}
  return RunConfig(
    events=(EventSpec("event", "module:function", 1),),
    replay=ReplayConfig(default=TableSpec("default", 0.5), tables=(TableSpec("event", 0.5),)),
    network=NetworkConfig(hidden),
    learner=LearnerConfig(algorithm=algorithm, **parts),
  )


def make(run: RunConfig, seed: int = 3) -> Updates:
  return make_updates(run, CODEC, SPEC, seed)


def shift(updates: Updates, *names: str) -> None:
  """Makes target networks differ from the online ones, as they do in the middle of a run."""
  for name in names:
    for index, variable in enumerate(part(updates, name).variables):
      wave = tf.cos(tf.range(tf.size(variable), dtype=tf.float32) + index)
      variable.assign_add(0.3 * tf.reshape(wave, variable.shape))


def random_rows(rng: np.random.Generator, batch: int = 5) -> np.ndarray:
  return pack(
    SPEC,
    observation=rng.normal(size=(batch, 3)).astype(np.float32),
    next_observation=rng.normal(size=(batch, 3)).astype(np.float32),
    action=rng.uniform(-1, 1, size=(batch, 2)).astype(np.float32),
    reward=rng.normal(size=batch),
    discount=rng.choice([0.0, 0.81, 1.0], size=batch),
  )


def has_target_policy(config: AlgorithmConfig) -> bool:
  return isinstance(config, (Td3Config, DdpgConfig))


def arrays(module: Any) -> Weights:
  return [variable.numpy().astype(np.float64) for variable in module.variables]


def mlp(weights: Weights, inputs: np.ndarray) -> np.ndarray:
  b0, w0, b1, w1 = weights
  outputs: np.ndarray = np.maximum(inputs @ w0 + b0, 0) @ w1 + b1
  return outputs


def critics(weights: Weights, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
  b0, b1, w0, w1 = weights
  inputs = np.concatenate([observations, actions], axis=1)
  return np.stack([np.maximum(inputs @ w0[n] + b0[n], 0) @ w1[n] + b1[n] for n in range(len(w0))])


def sample_actions(weights: Weights, observations: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Actions sampled from the squashed Gaussian, and their log-densities."""
  mean, log_std = np.split(mlp(weights, observations), 2, axis=1)
  before = mean + np.exp(log_std) * noise
  normal = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
  return np.tanh(before), np.sum(normal - np.log(1 - np.tanh(before) ** 2), axis=1)


def slopes(loss: Callable[[Weights], float], weights: Weights) -> Weights:
  """The gradient by central differences."""
  gradients = []
  for array in weights:
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
      kept = array[index]
      array[index] = kept + 1e-6
      above = loss(weights)
      array[index] = kept - 1e-6
      gradient[index] = (above - loss(weights)) / 2e-6
      array[index] = kept
    gradients.append(gradient)
  return gradients


class Adam:
  """Kingma & Ba, Algorithm 1, with the gradient clipped to a norm."""

  def __init__(self, weights: Weights, rate: float, norm: float | None):
    self._rate = rate
    self._norm = np.inf if norm is None else norm
    self._first = [np.zeros_like(array) for array in weights]
    self._second = [np.zeros_like(array) for array in weights]
    self._steps = 0

  def apply(self, weights: Weights, gradients: Weights) -> None:
    self._steps += 1
    length = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
    for index, gradient in enumerate(gradients):
      gradient = gradient * min(1.0, self._norm / length)
      self._first[index] = 0.9 * self._first[index] + 0.1 * gradient
      self._second[index] = 0.999 * self._second[index] + 0.001 * gradient**2
      first, second = self._first[index] / (1 - 0.9**self._steps), self._second[index] / (1 - 0.999**self._steps)
      weights[index] -= self._rate * first / (np.sqrt(second) + 1e-8)


class Oracle:
  """The algorithms in plain numpy, float64, with gradients by differences, for one hidden layer."""

  def __init__(self, updates: Updates, run: RunConfig, seed: int):
    self.policy, self.critics = arrays(part(updates, "policy")), arrays(part(updates, "critics"))
    self.target_critics = arrays(part(updates, "target_critics"))
    self.target_policy = arrays(part(updates, "target_policy")) if has_target_policy(run.learner.algorithm) else []
    self.config = run.learner
    self.algorithm: Any = run.learner.algorithm
    self.log_temperature = np.array(np.log(getattr(self.algorithm, "temperature", 1.0)))
    self._noise = tf.random.Generator.from_seed(seed)
    config = run.learner
    assert isinstance(self.algorithm, ActorCriticConfig)
    policy_rate = self.algorithm.policy_learning_rate or config.learning_rate
    self._critics_adam = Adam(self.critics, config.learning_rate, config.max_gradient_norm)
    self._policy_adam = Adam(self.policy, policy_rate, config.max_gradient_norm)
    self._temperature_adam = Adam([self.log_temperature], policy_rate, None)
    self._steps = 0

  def update(self, batch: dict[str, np.ndarray], weights: np.ndarray) -> tuple[float, np.ndarray]:
    rewards, discounts = batch["reward"].astype(np.float64), self.config.discount * batch["discount"]
    update = {Td3Config: self._td3, DdpgConfig: self._ddpg}.get(type(self.algorithm), self._sac)
    return update(batch["observation"], batch["action"], rewards, discounts, batch["next_observation"], weights)

  def _draw_noise(self, rows: int) -> np.ndarray:
    noise: np.ndarray = self._noise.normal((rows, 2)).numpy().astype(np.float64)
    return noise

  def _critics_step(self, losses: Callable[[Weights], np.ndarray], weights: np.ndarray) -> float:
    """A step down the mean of `losses`, [critics, B], and the penalty; returns the loss before the step."""

    def loss(of: Weights) -> float:
      return float((weights * losses(of).sum(axis=0)).mean())

    def objective(of: Weights) -> float:
      # The last two arrays are weights, and the first two biases.
      return loss(of) + getattr(self.algorithm, "critic_l2", 0.0) * sum(float((array**2).sum()) for array in of[2:])

    before = loss(self.critics)
    self._critics_adam.apply(self.critics, slopes(objective, self.critics))
    return before

  def _squares(self, weights: Weights) -> float:
    penalty: float = self.algorithm.policy_l2 * sum(float((array**2).sum()) for array in weights if array.ndim > 1)
    return penalty

  def _follow(self, targets: Weights, online: Weights) -> None:
    rate = self.config.target_update_rate
    for index, array in enumerate(online):
      targets[index] = (1 - rate) * targets[index] + rate * array

  def _sac(self, observations, actions, rewards, discounts, next_observations, weights) -> tuple[float, np.ndarray]:
    alpha = float(np.exp(self.log_temperature))
    next_actions, next_log_probs = sample_actions(self.policy, next_observations, self._draw_noise(len(rewards)))
    next_values = critics(self.target_critics, next_observations, next_actions)
    lesser = next_values.mean(axis=2).argmin(axis=0)
    returns = next_values[lesser, np.arange(len(rewards))] - alpha * next_log_probs[:, None]
    targets = rewards[:, None] + discounts[:, None] * returns
    td_error = np.abs(targets.mean(axis=1) - critics(self.critics, observations, actions).mean(axis=2)).mean(axis=0)

    def losses(of: Weights) -> np.ndarray:
      values = critics(of, observations, actions)
      squares: np.ndarray = 0.5 * (targets - values)[..., 0] ** 2
      if not isinstance(self.algorithm, QrSacConfig):
        return squares
      count, kappa = values.shape[2], self.algorithm.kappa
      u = targets[None, :, None, :] - values[:, :, :, None]
      huber = np.where(np.abs(u) <= kappa, 0.5 * u**2, kappa * (np.abs(u) - 0.5 * kappa))
      taus = (np.arange(count) + 0.5)[:, None] / count
      quantile_losses: np.ndarray = (np.abs(taus - (u < 0)) * huber / kappa).mean(axis=3).sum(axis=2)
      return quantile_losses

    loss = self._critics_step(losses, weights)
    noise = self._draw_noise(len(rewards))

    def policy_loss(of: Weights) -> float:
      actions_of_policy, log_probs = sample_actions(of, observations, noise)
      values = critics(self.critics, observations, actions_of_policy).mean(axis=2).min(axis=0)
      return float((alpha * log_probs - values).mean()) + self._squares(of)

    entropy = -sample_actions(self.policy, observations, noise)[1].mean()
    self._policy_adam.apply(self.policy, slopes(policy_loss, self.policy))
    if self.algorithm.learn_temperature:
      target = -2.0 if self.algorithm.target_entropy is None else self.algorithm.target_entropy
      self._temperature_adam.apply([self.log_temperature], [np.array(entropy - target)])
    self._follow(self.target_critics, self.critics)
    return loss, td_error

  def _td3(self, observations, actions, rewards, discounts, next_observations, weights) -> tuple[float, np.ndarray]:
    td3 = self.algorithm
    noise = np.clip(td3.target_noise * self._draw_noise(len(rewards)), -td3.target_noise_clip, td3.target_noise_clip)
    next_actions = np.clip(np.tanh(mlp(self.target_policy, next_observations)) + noise, -1, 1)
    targets = rewards + discounts * critics(self.target_critics, next_observations, next_actions)[..., 0].min(axis=0)
    td_error = np.abs(targets - critics(self.critics, observations, actions)[..., 0]).mean(axis=0)
    loss = self._critics_step(lambda of: 0.5 * (targets - critics(of, observations, actions)[..., 0]) ** 2, weights)

    def policy_loss(of: Weights) -> float:
      values = critics(self.critics, observations, np.tanh(mlp(of, observations)))
      return -float(values[0].mean()) + self._squares(of)

    self._steps += 1
    if self._steps % td3.policy_period == 0:
      self._policy_adam.apply(self.policy, slopes(policy_loss, self.policy))
    if self._steps % (td3.target_period or td3.policy_period) == 0:
      self._follow(self.target_policy, self.policy)
      self._follow(self.target_critics, self.critics)
    return loss, td_error

  def _ddpg(self, observations, actions, rewards, discounts, next_observations, weights) -> tuple[float, np.ndarray]:
    next_actions = np.tanh(mlp(self.target_policy, next_observations))
    targets = rewards + discounts * critics(self.target_critics, next_observations, next_actions)[0, :, 0]
    td_error = targets - critics(self.critics, observations, actions)[0, :, 0]
    loss = self._critics_step(lambda of: 0.5 * (targets - critics(of, observations, actions)[..., 0]) ** 2, weights)

    def policy_loss(of: Weights) -> float:
      values = critics(self.critics, observations, np.tanh(mlp(of, observations)))
      return -float(values.mean()) + self._squares(of)

    self._policy_adam.apply(self.policy, slopes(policy_loss, self.policy))
    self._steps += 1
    if self._steps % self.config.target_update_period == 0:
      self._follow(self.target_policy, self.policy)
      self._follow(self.target_critics, self.critics)
    return loss, td_error


@pytest.mark.parametrize(
  ("config", "learner"),
  [
    (SacConfig(), {}),
    (SacConfig(temperature=0.2, learn_temperature=False), {}),
    (SacConfig(temperature=0.5, target_entropy=-1.0, policy_learning_rate=0.003), {}),
    (SacConfig(policy_l2=0.1), {"max_gradient_norm": 0.05}),
    (QrSacConfig(temperature=0.3, quantiles=3, kappa=0.5), {}),
    (Td3Config(), {}),
    (Td3Config(policy_period=1, target_noise=1.0, target_noise_clip=0.3, policy_l2=0.1), {}),
    (Td3Config(policy_period=2, target_period=1), {}),
    (Td3Config(policy_period=1, target_period=3), {}),
    (DdpgConfig(), {}),
    (DdpgConfig(critic_l2=0.1, policy_l2=0.2, policy_learning_rate=0.002), {"max_gradient_norm": 0.2}),
    (DdpgConfig(), {"target_update_period": 2}),
  ],
)
def test_updates_are_those_of_plain_numpy(config: AlgorithmConfig, learner: dict[str, Any]) -> None:
  run = make_run(config, **learner)
  updates = make(run, seed=3)
  shift(updates, "target_critics", *(["target_policy"] if has_target_policy(config) else []))
  oracle = Oracle(updates, run, seed=3)
  rng = np.random.default_rng(0)
  for _ in range(4):
    rows = random_rows(rng)
    weights = rng.uniform(0.1, 2.0, len(rows)).astype(np.float32)
    metrics, td_errors = update(updates, rows[None], weights[None])
    loss, td_error = oracle.update(CODEC.unpack(rows), weights)
    np.testing.assert_allclose(metrics["loss"], [loss], rtol=2e-3)
    np.testing.assert_allclose(td_errors, [td_error], rtol=2e-3, atol=2e-4)
    for part_name in ("policy", "critics", "target_critics", *(["target_policy"] if oracle.target_policy else [])):
      for ours, theirs in zip(arrays(part(updates, part_name)), getattr(oracle, part_name), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=3e-4)
    if isinstance(config, SacConfig):
      np.testing.assert_allclose(part(updates, "log_temperature").numpy(), oracle.log_temperature, rtol=1e-3, atol=1e-4)


@pytest.mark.compiled
@pytest.mark.parametrize("name", NAMES)
def test_several_updates_in_one_call_are_as_many_calls_of_one(name: str) -> None:
  together, alone = make(make_run(name)), make(make_run(name))
  rng = np.random.default_rng(1)
  rows = np.stack([random_rows(rng) for _ in range(5)])
  metrics, td_errors = update(together, rows)
  for index, batch in enumerate(rows):
    single, single_errors = update(alone, batch[None])
    np.testing.assert_allclose(td_errors[index], single_errors[0], rtol=1e-4, atol=1e-5)
    assert single.keys() == metrics.keys()
    for metric, value in single.items():
      np.testing.assert_allclose(metrics[metric][index], value[0], rtol=1e-4, atol=1e-5)
  for part_name in ("policy", "critics", "target_critics"):
    np.testing.assert_allclose(
      flatten_weights(part(together, part_name)), flatten_weights(part(alone, part_name)), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_terminated_row_does_not_bootstrap_and_a_truncated_one_does(name: str) -> None:
  run = make_run(name)
  updates = make(run)
  # The target critics return 1000 for every input.
  _, last_bias, *weights = part(updates, "target_critics").variables
  last_bias.assign(tf.fill(last_bias.shape, 1000.0))
  for variable in weights:
    variable.assign(tf.zeros_like(variable))
  same = np.array([[0.1, -0.2, 0.3]] * 2, np.float32)
  rows = pack(
    SPEC,
    observation=same,
    next_observation=same,
    action=np.zeros((2, 2), np.float32),
    reward=[0.5, 0.5],
    discount=[0.0, 1.0],
    terminated=[True, False],
    truncated=[False, True],
  )
  _, td_errors = update(updates, rows[None])
  terminated, truncated = td_errors[0]
  assert abs(terminated) < 10
  assert truncated - terminated == pytest.approx(900, abs=15)


@pytest.mark.parametrize("name", TWINS)
def test_errors_of_twin_critics_that_have_opposite_signs_do_not_cancel_out(name: str) -> None:
  updates = make(make_run(name))
  # For every input one critic returns 4 and the other -2; a row's target is its reward.
  _, last_bias, *weights = part(updates, "critics").variables
  last_bias.assign(tf.reshape([4.0, -2.0], (2, 1, 1)) * tf.ones_like(last_bias))
  for variable in weights:
    variable.assign(tf.zeros_like(variable))
  rows = pack(
    SPEC,
    observation=np.zeros((3, 3), np.float32),
    next_observation=np.zeros((3, 3), np.float32),
    action=np.zeros((3, 2), np.float32),
    reward=[1.0, 4.0, 6.0],
    discount=np.zeros(3),
  )
  _, td_errors = update(updates, rows[None])
  np.testing.assert_allclose(td_errors, [[3.0, 3.0, 5.0]], rtol=1e-6)


@pytest.mark.parametrize("kind", [SacConfig, QrSacConfig])
def test_updates_drop_units_of_a_policy_with_dropout(kind: type[SacConfig]) -> None:
  rows = random_rows(np.random.default_rng(0), batch=16)[None]
  (plain, _), (again, _), (dropping, _) = (
    update(make(make_run(kind(policy_dropout=share), (64,))), rows) for share in (0.0, 0.0, 0.5)
  )
  assert plain["policy_loss"] == again["policy_loss"]
  assert abs(plain["policy_loss"] - dropping["policy_loss"]) > 1e-3
  assert abs(plain["entropy"] - dropping["entropy"]) > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_targets_start_as_the_online_networks_and_a_seed_makes_the_same_ones(name: str) -> None:
  first, second, other = make(make_run(name), 3), make(make_run(name), 3), make(make_run(name), 4)
  np.testing.assert_array_equal(flatten_weights(part(first, "critics")), flatten_weights(part(first, "target_critics")))
  np.testing.assert_array_equal(flatten_weights(part(first, "policy")), flatten_weights(part(second, "policy")))
  assert not np.array_equal(flatten_weights(part(first, "policy")), flatten_weights(part(other, "policy")))


@pytest.mark.parametrize("name", NAMES)
def test_conflict_averse_updates_without_a_coefficient_are_plain_ones_and_with_one_they_are_not(name: str) -> None:
  combining = make_run(name, cagrad=CagradConfig(coefficient=0.5))
  plain, average, averse = make(make_run(name)), make(combining), make(combining)
  rng = np.random.default_rng(5)
  rows = np.stack([random_rows(rng) for _ in range(3)])
  tables = np.sort(rng.integers(0, 2, rows.shape[:2]), axis=1)
  for updates, coefficient in ((plain, 0.0), (average, 0.0), (averse, 0.5)):
    update(updates, rows, None, tables, coefficient)
  weights = [flatten_weights(part(updates, "critics")) for updates in (plain, average, averse)]
  np.testing.assert_allclose(weights[1], weights[0], rtol=1e-3, atol=1e-4)
  assert np.abs(weights[2] - weights[0]).max() > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_observations_are_normalised_by_the_moments_of_the_default_tables_rows(name: str) -> None:
  run = make_run(name)
  run = dataclasses.replace(run, network=dataclasses.replace(run.network, normalize_observations=True))
  updates = make(run)
  rng = np.random.default_rng(2)
  rows = np.stack([random_rows(rng, batch=40) for _ in range(3)])
  tables = np.repeat([[0] * 30 + [1] * 10], 3, axis=0)
  for _ in range(2):
    update(updates, rows, None, tables)
  seen = CODEC.unpack(rows[:, :30].reshape(-1, CODEC.width))["observation"]
  features = part(updates, "policy").features(seen).numpy()
  np.testing.assert_allclose(features.mean(axis=0), np.zeros(3), atol=1e-5)
  np.testing.assert_allclose(features.std(axis=0), np.ones(3), rtol=1e-4)


@pytest.mark.parametrize(
  ("name", "cagrad"), [*((name, CagradConfig()) for name in NAMES), ("sac", CagradConfig(coefficient=0.5))]
)
def test_compiled_updates_are_those_without_compilation(
  name: str, cagrad: CagradConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
  compiled, plain = (make(make_run(name, jit_compile=jit, cagrad=cagrad)) for jit in (True, False))
  for updates in (compiled, plain):
    # XLA generates other numbers from the same generator state.
    monkeypatch.setattr(part(updates, "noise"), "normal", lambda shape: tf.fill(shape, 0.5))
  rng = np.random.default_rng(6)
  rows = np.stack([random_rows(rng) for _ in range(4)])
  tables = np.sort(rng.integers(0, 2, rows.shape[:2]), axis=1)
  theirs, their_errors = update(plain, rows, None, tables, cagrad.coefficient)
  tf.config.run_functions_eagerly(False)
  ours, our_errors = update(compiled, rows, None, tables, cagrad.coefficient)
  np.testing.assert_allclose(our_errors, their_errors, rtol=2e-3, atol=2e-3)
  for metric, value in theirs.items():
    np.testing.assert_allclose(ours[metric], value, rtol=2e-3, atol=2e-3)
  for part_name in ("policy", "critics", "target_critics"):
    np.testing.assert_allclose(
      flatten_weights(part(compiled, part_name)), flatten_weights(part(plain, part_name)), rtol=2e-3, atol=2e-3
    )


@pytest.mark.compiled
@pytest.mark.parametrize("cagrad", [CagradConfig(), CagradConfig(coefficient=0.5)])
def test_a_compiled_update_takes_rows_as_parameters_so_that_other_rows_need_no_other_code(cagrad: CagradConfig) -> None:
  updates = make(make_run("sac", jit_compile=True, cagrad=cagrad))
  controls = {name: tf.constant(value, tf.float32) for name, value in updates.controls(0).items()}
  rows = tf.constant(random_rows(np.random.default_rng(0)))
  columns = {name: tf.zeros(len(rows)) for name in updates.algorithm.INPUTS}
  update_one: Any = updates._update_one  # noqa: SLF001  # There is no other way to its code.
  code = update_one.experimental_get_compiler_ir(
    rows, tf.ones(len(rows)), tf.zeros(len(rows), tf.int64), columns, controls
  )(stage="hlo")
  shape = re.escape(f"f32[{len(rows)},{CODEC.width}]")
  assert re.search(rf"= {shape}\S* parameter\(", code[code.index("ENTRY") :])


@pytest.fixture(scope="module")
def bandit() -> np.ndarray:
  """300 batches of 64 random actions, whose reward is less the further they are from `BEST`."""
  zeros = np.zeros((64, 3), np.float32)
  return np.stack(
    [
      pack(
        SPEC,
        observation=zeros,
        next_observation=zeros,
        action=batch,
        reward=-((batch - BEST) ** 2).sum(axis=1),
        discount=np.zeros(64),
      )
      for batch in np.random.default_rng(0).uniform(-1, 1, size=(300, 64, 2)).astype(np.float32)
    ]
  )


@pytest.mark.compiled
@pytest.mark.parametrize("name", NAMES)
def test_it_finds_the_best_action_of_a_bandit(name: str, bandit: np.ndarray) -> None:
  changes = {} if name in ("td3", "ddpg") else {"temperature": 0.01, "learn_temperature": False}
  config = dataclasses.replace(ALGORITHMS[name](), **changes)
  updates = make(make_run(config, (32,), learning_rate=0.01, target_update_rate=0.05))
  for _ in range(2):
    metrics, _ = update(updates, bandit)
  assert np.isfinite(list(metrics.values())).all()
  # A random action loses 1.1 on average.
  assert np.square(part(updates, "policy").best_actions(np.zeros((1, 3), np.float32))[0] - BEST).sum() < 0.04


@pytest.mark.parametrize("name", NAMES)
def test_updates_stay_finite_where_the_policy_is_at_its_bounds(name: str) -> None:
  updates = make(make_run(name))
  for variable in part(updates, "policy").trainable_variables:
    variable.assign(variable + 30.0)
  rows = np.stack([random_rows(np.random.default_rng(seed)) for seed in range(5)])
  metrics, td_errors = update(updates, rows)
  assert np.isfinite(list(metrics.values())).all()
  assert np.isfinite(td_errors).all()
  assert np.isfinite(flatten_weights(part(updates, "policy"))).all()
  assert np.isfinite(flatten_weights(part(updates, "critics"))).all()


def test_a_learned_temperature_rises_while_the_policy_has_too_little_entropy_and_falls_while_it_has_too_much() -> None:
  rows = np.stack([random_rows(np.random.default_rng(0))] * 5)
  temperatures = [
    update(make(make_run(SacConfig(temperature=0.5, target_entropy=target))), rows)[0]["temperature"]
    for target in (50.0, -50.0)
  ]
  assert (np.diff(temperatures[0]) > 0).all()
  assert (np.diff(temperatures[1]) < 0).all()
