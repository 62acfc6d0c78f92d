"""MuJoCo's worlds with the learners of NMER's experiments (its Appendix F, Tables 4 and 5), and each buffer's best settings."""

import dataclasses
from collections.abc import Callable
from typing import Literal

from configs.algorithms import SacConfig, Td3Config
from configs.learning import LearnerConfig
from configs.methods import apply_method
from configs.mixup import MixupConfig, NeighborsConfig
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

Name = Literal["sac", "td3"]
# By their methods' names.
Buffer = Literal["uniform", "per", "ct", "nmer"]


@dataclasses.dataclass(frozen=True)
class Tuned:
  """The paper's choices for a buffer in one world: the row with its highest return in Tables 8 to 18.

  Table 1 has other returns for some of these cells, and does not say for which settings.

  Attributes:
    updates_per_step: RR, the replay ratio.
    policy_l2: L, the weight of the L2 penalty on the policy.
    max_gradient_norm: G; None for no clipping.
    neighbors: k, for NMER.
  """

  updates_per_step: int
  policy_l2: float = 0.0
  max_gradient_norm: float | None = None
  neighbors: int = 10


# SAC in Humanoid is not among the paper's experiments.
TUNED: dict[Name, dict[str, dict[Buffer, Tuned]]] = {
  "sac": {
    "Ant": {
      "uniform": Tuned(5, 1e-3),
      "per": Tuned(1, 1e-3),
      "ct": Tuned(5, 1e-3),
      "nmer": Tuned(20, 2e-3, neighbors=25),
    },
    "HalfCheetah": {
      "uniform": Tuned(5, 1e-3),
      "per": Tuned(5, 5e-4),
      "ct": Tuned(20, 1e-3),
      "nmer": Tuned(20, 1e-3),
    },
    "Hopper": {
      "uniform": Tuned(5, 1e-3, 40.0),
      "per": Tuned(5, 1e-2),
      "ct": Tuned(20, 5e-3, 40.0),
      "nmer": Tuned(20, 1e-2, 40.0),
    },
    "Swimmer": {
      "uniform": Tuned(20, 1e-4),
      "per": Tuned(20, 1e-4),
      "ct": Tuned(20, 5e-4),
      "nmer": Tuned(20, 1e-4, neighbors=25),
    },
    # NMER's row gives no L. That of all other rows is taken.
    "Walker2d": {
      "uniform": Tuned(5, 1e-2),
      "per": Tuned(1, 1e-2),
      "ct": Tuned(20, 1e-2),
      "nmer": Tuned(20, 1e-2),
    },
  },
  "td3": {
    "Ant": {"uniform": Tuned(1), "per": Tuned(1), "ct": Tuned(1), "nmer": Tuned(20, neighbors=25)},
    "HalfCheetah": {"uniform": Tuned(1), "per": Tuned(5), "ct": Tuned(20), "nmer": Tuned(20)},
    "Hopper": {"uniform": Tuned(20), "per": Tuned(5), "ct": Tuned(5), "nmer": Tuned(20)},
    "Swimmer": {"uniform": Tuned(20), "per": Tuned(20), "ct": Tuned(20), "nmer": Tuned(20)},
    "Walker2d": {"uniform": Tuned(1), "per": Tuned(5), "ct": Tuned(5), "nmer": Tuned(20)},
    "Humanoid": {"uniform": Tuned(5), "per": Tuned(1), "ct": Tuned(5), "nmer": Tuned(20)},
  },
}

# The tables do not give SAC's. This is how long RLlib, on which the paper builds, waits before the first update.
_RANDOM_STEPS: dict[Name, int] = {"sac": 1_500, "td3": 10_000}
_STEPS_PER_POLICY = 64
_STEPS_PER_EVALUATION = 5_000


def get_config(algorithm: Name, world: str, buffer: Buffer = "uniform") -> RunConfig:
  """The config of one entry of `TUNED`."""
  tuned = TUNED[algorithm][world][buffer]
  learner = LearnerConfig(
    max_gradient_norm=tuned.max_gradient_norm,
    target_update_rate=0.005,
    discount=0.99,
    updates_per_block=16 if tuned.updates_per_step == 1 else 20,
    publish_period_updates=_STEPS_PER_POLICY * tuned.updates_per_step,
    jit_compile=True,
    mixup=MixupConfig(neighbors=NeighborsConfig(tuned.neighbors)),
  )
  if algorithm == "sac":
    # Policy, critics and temperature share one learning rate. Initial temperature and target entropy are the defaults.
    sac = SacConfig(policy_l2=tuned.policy_l2)
    learner = dataclasses.replace(learner, algorithm=sac, learning_rate=3e-3, batch_size=256)
  else:
    # Unlike in TD3's own paper, target networks follow at every update (Table 5).
    td3 = Td3Config(policy_l2=tuned.policy_l2, target_period=1)
    learner = dataclasses.replace(learner, algorithm=td3, learning_rate=5e-4, batch_size=100)
  config = RunConfig(
    name=name_of(algorithm, world, buffer),
    environment_steps=200_000,
    environment=EnvironmentConfig(f"{world}-v5"),
    replay=ReplayConfig(
      capacity=1_000_000,
      default=TableSpec("default", probability=1.0, min_size=_RANDOM_STEPS[algorithm]),
      # Table 6, for `--method=per`: beta stays at 0.4.
      priority=PriorityConfig(
        exponent=0.6,
        importance_exponent=0.4,
        final_importance_exponent=0.4,
        importance_updates=20_000,
        epsilon=1e-6,
      ),
      environment_steps_per_update=1 / tuned.updates_per_step,
      insert_tolerance_steps=1_000,
    ),
    network=NetworkConfig(hidden_sizes=(256, 256) if algorithm == "sac" else (400, 300)),
    actor=ActorConfig(workers=1, random_steps=_RANDOM_STEPS[algorithm], policy_period_steps=_STEPS_PER_POLICY),
    learner=learner,
    evaluator=EvaluatorConfig(
      episodes=10, period_updates=_STEPS_PER_EVALUATION * tuned.updates_per_step, period_seconds=60.0
    ),
  )
  return config if buffer == "uniform" else apply_method(config, buffer)


def name_of(algorithm: Name, world: str, buffer: Buffer) -> str:
  """The name of an entry's preset."""
  return f"nmer_{algorithm}_{world.lower()}" + ("" if buffer == "uniform" else f"_{buffer}")


def preset(algorithm: Name, world: str, buffer: Buffer) -> Callable[[], RunConfig]:
  """The function that returns an entry's config, with a docstring about that entry."""

  def get_world_config() -> RunConfig:
    return get_config(algorithm, world, buffer)

  name = {"uniform": "uniform replay", "per": "PER", "ct": "Continuous Transition", "nmer": "NMER"}[buffer]
  get_world_config.__doc__ = f"{world} with {algorithm.upper()} as in NMER's experiments, {name}."
  return get_world_config
