"""Small worlds to try an algorithm on: Pendulum with SAC, QR-SAC and TD3, CartPole and Acrobot with double DQN."""

import dataclasses

from configs.algorithms import DdqnConfig, QrSacConfig, SacConfig, Td3Config
from configs.learning import LearnerConfig
from configs.run import (
  ActorConfig,
  EnvironmentConfig,
  EvaluatorConfig,
  NetworkConfig,
  ReplayConfig,
  RunConfig,
)
from configs.specs import TableSpec


def get_pendulum_config() -> RunConfig:
  """Pendulum with SAC, one gradient step per environment step: -200 within 10,000 steps."""
  return RunConfig(
    name="pendulum_sac",
    environment_steps=10_000,
    environment=EnvironmentConfig("Pendulum-v1"),
    replay=ReplayConfig(
      capacity=50_000,
      default=TableSpec("default", probability=1.0, min_size=500),
      environment_steps_per_update=1,
      insert_tolerance_steps=200,
    ),
    network=NetworkConfig(hidden_sizes=(64, 64)),
    # Workers take every new policy, as in the papers of SAC and TD3.
    actor=ActorConfig(workers=1, random_steps=500, policy_period_steps=32),
    learner=LearnerConfig(
      algorithm=SacConfig(),
      batch_size=128,
      learning_rate=1e-3,
      target_update_rate=0.005,
      updates_per_block=8,
      publish_period_updates=32,
    ),
    evaluator=EvaluatorConfig(episodes=10, period_updates=1_000, solved_return=-200.0, solved_evaluations=2),
  )


def get_pendulum_qr_sac_config() -> RunConfig:
  """Pendulum with QR-SAC: quantile critics."""
  sac = get_pendulum_config()
  learner = dataclasses.replace(sac.learner, algorithm=QrSacConfig(quantiles=16))
  return dataclasses.replace(sac, name="pendulum_qr_sac", learner=learner)


def get_pendulum_td3_config() -> RunConfig:
  """Pendulum with TD3."""
  sac = get_pendulum_config()
  learner = dataclasses.replace(sac.learner, algorithm=Td3Config())
  return dataclasses.replace(sac, name="pendulum_td3", learner=learner)


def get_cartpole_config() -> RunConfig:
  """CartPole with double DQN: 475 of 500 steps."""
  return RunConfig(
    name="cartpole",
    environment_steps=100_000,
    environment=EnvironmentConfig("CartPole-v1"),
    replay=ReplayConfig(
      capacity=50_000,
      default=TableSpec("default", probability=1.0, min_size=1_000),
      environment_steps_per_update=2,
    ),
    network=NetworkConfig(hidden_sizes=(128, 128)),
    actor=ActorConfig(workers=1, random_steps=1_000),
    learner=LearnerConfig(
      algorithm=DdqnConfig(dueling=True, epsilon=1.0, final_epsilon=0.05, epsilon_decay_updates=5_000),
      batch_size=64,
      learning_rate=5e-4,
      target_update_rate=0.005,
      updates_per_block=16,
    ),
    evaluator=EvaluatorConfig(episodes=10, period_updates=1_000, solved_return=475.0, solved_evaluations=2),
  )


def get_acrobot_config() -> RunConfig:
  """Acrobot with double DQN and returns of three steps: -100."""
  cartpole = get_cartpole_config()
  return dataclasses.replace(
    cartpole,
    name="acrobot",
    environment=EnvironmentConfig("Acrobot-v1"),
    learner=dataclasses.replace(cartpole.learner, n_step=3),
    evaluator=dataclasses.replace(cartpole.evaluator, solved_return=-100.0),
  )
