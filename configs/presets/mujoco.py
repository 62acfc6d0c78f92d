"""MuJoCo's worlds with SAC and the reward events of SSET (Section 6; parameters of Table 2)."""

import dataclasses
from collections.abc import Callable, Mapping

from configs.algorithms import QrSacConfig, SacConfig
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

# World -> reward threshold -> share of a batch; a step's reward above a threshold is an event. Table 2 has the first four worlds;
# the others have no events and use uniform replay.
EVENTS: Mapping[str, Mapping[float, float]] = {
  "HalfCheetah": {8: 0.2, 12: 0.1, 16: 0.1},
  "Hopper": {2.5: 0.2, 3: 0.1, 3.5: 0.1},
  "Walker2d": {4: 0.2, 5: 0.1, 6: 0.05, 7: 0.05},
  "Humanoid": {5: 0.2, 7: 0.1, 10: 0.1},
  "Ant": {},
  "Swimmer": {},
}


def get_config(world: str, rewards: Mapping[float, float] | None = None) -> RunConfig:
  """A world with SAC, one gradient step per environment step.

  Args:
    world: one of `EVENTS`.
    rewards: reward thresholds and their shares, in place of the world's own.
  """
  rewards = EVENTS[world] if rewards is None else rewards
  # Names have no dots, because a dot separates the keys of an override.
  events = {f"reward_above_{reward:g}".replace(".", "_"): (reward, share) for reward, share in rewards.items()}
  return RunConfig(
    name=world.lower(),
    environment_steps=1_000_000,
    environment=EnvironmentConfig(f"{world}-v5"),
    events=tuple(
      EventSpec(name, "environments.conditions:Threshold", history=200, arguments={"of": "reward", "above": reward})
      for name, (reward, _) in events.items()
    ),
    replay=ReplayConfig(
      capacity=1_000_000,
      default=TableSpec("default", probability=1 - sum(rewards.values()), min_size=5_000),
      # min_size is not in the paper. It keeps the learner from overfitting to a few early rows.
      tables=tuple(TableSpec(name, share, min_size=1_000) for name, (_, share) in events.items()),
      # Not in the paper, which trains asynchronously with one worker.
      environment_steps_per_update=1,
      insert_tolerance_steps=1_000,
    ),
    network=NetworkConfig(hidden_sizes=(256, 256)),
    # Workers take every new policy, as in SAC's paper: an episode of 1,000 steps is too long to wait for.
    actor=ActorConfig(workers=1, random_steps=5_000, policy_period_steps=64),
    # The target entropies of Table 2 are the default, minus the number of action dimensions.
    learner=LearnerConfig(
      algorithm=SacConfig(),
      batch_size=256,
      learning_rate=3e-4,
      target_update_rate=0.005,
      updates_per_block=16,
      publish_period_updates=64,
      jit_compile=True,
    ),
    evaluator=EvaluatorConfig(episodes=10, period_updates=10_000, period_seconds=60.0),
  )


def get_large_config() -> RunConfig:
  """HalfCheetah with the learner of the racing experiments (SSET, Appendix A.3): QR-SAC, 4 x 2048 units, batches of 1024."""
  config = get_config("HalfCheetah")
  return dataclasses.replace(
    config,
    name="halfcheetah_large",
    network=NetworkConfig(hidden_sizes=(2048,) * 4),
    actor=dataclasses.replace(config.actor, policy_period_steps=1_000),
    learner=dataclasses.replace(
      config.learner,
      algorithm=QrSacConfig(policy_learning_rate=2.5e-5, policy_dropout=0.1, temperature=0.01, learn_temperature=False),
      batch_size=1024,
      learning_rate=5e-5,
      discount=0.9896,
      updates_per_block=4,
      # A policy has about 50 MB.
      publish_period_updates=1_000,
    ),
  )


def preset(world: str) -> Callable[[], RunConfig]:
  """The function that returns a world's config, with a docstring about that world."""

  def get_world_config() -> RunConfig:
    return get_config(world)

  get_world_config.__doc__ = (
    f"{world} with SAC and {'SSET: events of high reward' if EVENTS[world] else 'uniform replay'}."
  )
  return get_world_config
