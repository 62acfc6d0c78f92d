"""MuJoCo's worlds with the learners of ReF-ER's experiments (Novati & Koumoutsakos, 2019, Section 5 and Appendix A)."""

from collections.abc import Callable, Mapping

from configs.algorithms import AlgorithmConfig, DdpgConfig, NafConfig, VRacerConfig
from configs.learning import LearnerConfig
from configs.refer import ReferConfig
from configs.run import (
  ActorConfig,
  EnvironmentConfig,
  EvaluatorConfig,
  NetworkConfig,
  PriorityConfig,
  ReplayConfig,
  RunConfig,
)
from configs.specs import TableSpec

WORLDS = (
  "Ant",
  "HalfCheetah",
  "Hopper",
  "Humanoid",
  "HumanoidStandup",
  "InvertedDoublePendulum",
  "Reacher",
  "Swimmer",
  "Walker2d",
)
# DDPG's policy has a rate of its own; batches half as large as the others' make up for its second network.
ALGORITHMS: Mapping[str, AlgorithmConfig] = {
  "v_racer": VRacerConfig(),
  "ddpg": DdpgConfig(policy_learning_rate=1e-5, critic_l2=1e-4),
  "naf": NafConfig(),
}
_BATCH_SIZES = {"v_racer": 256, "ddpg": 128, "naf": 256}

# N_start, which the paper does not give.
_FIRST_STEPS = 8_000
# The paper's actors have the learner's policy of each step.
_STEPS_PER_POLICY = 16
_STEPS_PER_EVALUATION = 10_000


def get_config(algorithm: str, world: str) -> RunConfig:
  """An algorithm of `ALGORITHMS` with ReF-ER in a world of `WORLDS`; `configs.methods` makes what it is compared with of it."""
  return RunConfig(
    name=name_of(algorithm, world),
    environment_steps=10_000_000,
    environment=EnvironmentConfig(f"{world}-v5"),
    replay=ReplayConfig(
      capacity=2**18,
      default=TableSpec("default", probability=1.0, min_size=_FIRST_STEPS),
      sampling="memory",
      unit="episodes",
      # Of rank-based PER, whose exponents the paper does not give: those of Schaul et al. (2016, Table 3).
      priority=PriorityConfig(exponent=0.7, importance_exponent=0.5, importance_updates=100_000),
      environment_steps_per_update=1,
      insert_tolerance_steps=1_000,
    ),
    network=NetworkConfig(
      hidden_sizes=(128, 128),
      activation="softsign",
      initializer="glorot",
      output_scale=0.1,
      normalize_observations=True,
      normalize_by="first_rows",
    ),
    actor=ActorConfig(workers=1, random_steps=0, policy_period_steps=_STEPS_PER_POLICY),
    learner=LearnerConfig(
      algorithm=ALGORITHMS[algorithm],
      batch_size=_BATCH_SIZES[algorithm],
      learning_rate=1e-4,
      discount=0.995,
      refer=ReferConfig(rules="both"),
      scale_rewards=True,
      # beta moves after every update.
      updates_per_block=1,
      publish_period_updates=_STEPS_PER_POLICY,
      jit_compile=True,
    ),
    evaluator=EvaluatorConfig(episodes=10, period_updates=_STEPS_PER_EVALUATION, period_seconds=60.0),
  )


def name_of(algorithm: str, world: str) -> str:
  """The name of a preset."""
  return f"refer_{algorithm}_{world.lower()}"


def preset(algorithm: str, world: str) -> Callable[[], RunConfig]:
  """The function that returns a config, with a docstring about it."""

  def get_world_config() -> RunConfig:
    return get_config(algorithm, world)

  title = {"v_racer": "V-RACER", "ddpg": "DDPG", "naf": "NAF"}[algorithm]
  get_world_config.__doc__ = f"{world} with {title} and ReF-ER, as in its paper's experiments."
  return get_world_config
