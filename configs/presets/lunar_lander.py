"""The lunar lander with the events of SSET (Section 6; parameters of Table 2)."""

import dataclasses

from configs.algorithms import DdqnConfig, QrSacConfig, SacConfig
from configs.learning import LearnerConfig
from configs.run import (
  ActorConfig,
  EnvironmentConfig,
  EvaluatorConfig,
  NetworkConfig,
  ReplayConfig,
  RunConfig,
)
from configs.specs import EventSpec, TableSpec

# Event -> its table's share of a batch, eta_i of Table 2.
SHARES = {"land_between_flags": 0.1, "land_near_middle": 0.2}
# From Table 2.
_TARGET_ENTROPY = -2.0


def get_config() -> RunConfig:
  """LunarLanderContinuous with SAC and SSET."""
  return RunConfig(
    name="lunar_lander_continuous",
    environment_steps=150_000,
    environment=EnvironmentConfig("LunarLanderContinuous-v3"),
    events=tuple(EventSpec(name, f"environments.lunar_lander:{name}", history=200) for name in SHARES),
    replay=ReplayConfig(
      capacity=20_000,
      default=TableSpec("default", probability=0.7, min_size=1_000),
      # min_size is not in the paper. It keeps the learner from overfitting to a few early rows.
      tables=tuple(TableSpec(name, share, min_size=500) for name, share in SHARES.items()),
      # Not in the paper, which trains asynchronously with one worker.
      environment_steps_per_update=1,
      insert_tolerance_steps=500,
    ),
    network=NetworkConfig(hidden_sizes=(256, 256)),
    # Workers take every new policy, as in SAC's paper: an episode can have 1,000 steps.
    actor=ActorConfig(workers=1, random_steps=1_000, policy_period_steps=64),
    learner=LearnerConfig(
      algorithm=SacConfig(target_entropy=_TARGET_ENTROPY),
      batch_size=32,
      learning_rate=3e-4,
      target_update_rate=0.005,
      updates_per_block=16,
      publish_period_updates=64,
    ),
    # As many episodes as in the paper's Figure 6.
    evaluator=EvaluatorConfig(episodes=30, period_updates=5_000, solved_return=200.0, solved_evaluations=2),
  )


def get_qr_sac_config() -> RunConfig:
  """LunarLanderContinuous with QR-SAC (quantile critics) and SSET."""
  sac = get_config()
  learner = dataclasses.replace(sac.learner, algorithm=QrSacConfig(target_entropy=_TARGET_ENTROPY))
  return dataclasses.replace(sac, name="lunar_lander_qr_sac", learner=learner)


def get_discrete_config() -> RunConfig:
  """LunarLander with double DQN and SSET."""
  sac = get_config()
  return dataclasses.replace(
    sac,
    name="lunar_lander",
    environment=EnvironmentConfig("LunarLander-v3"),
    replay=dataclasses.replace(sac.replay, environment_steps_per_update=4),
    actor=dataclasses.replace(sac.actor, policy_period_steps=None),
    learner=dataclasses.replace(
      sac.learner,
      algorithm=DdqnConfig(epsilon=1.0, final_epsilon=0.05, epsilon_decay_updates=10_000),
      batch_size=64,
      learning_rate=5e-4,
    ),
  )
