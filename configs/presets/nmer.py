"""MuJoCo's worlds with the learners of NMER's experiments (its Appendix F, Tables 4 and 5), on uniform replay."""

import dataclasses
from collections.abc import Callable
from typing import Literal

from configs.algorithms import SacConfig, Td3Config
from configs.learning import LearnerConfig
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


@dataclasses.dataclass(frozen=True)
class Tuned:
  """The paper's choices for one world: those with the highest return of uniform replay in its Tables 8 to 18.

  Attributes:
    updates_per_step: RR, the replay ratio.
    policy_l2: L, the weight of the L2 penalty on the policy.
    max_gradient_norm: G; None for no clipping.
  """

  updates_per_step: int
  policy_l2: float = 0.0
  max_gradient_norm: float | None = None


# SAC in Humanoid is not among the paper's experiments.
TUNED: dict[Name, dict[str, Tuned]] = {
  "sac": {
    "Ant": Tuned(5, 1e-3),
    "HalfCheetah": Tuned(5, 1e-3),
    "Hopper": Tuned(5, 1e-3, 40.0),
    "Swimmer": Tuned(20, 1e-4),
    "Walker2d": Tuned(5, 1e-2),
  },
  "td3": {
    "Ant": Tuned(1),
    "HalfCheetah": Tuned(1),
    "Hopper": Tuned(20),
    "Swimmer": Tuned(20),
    "Walker2d": Tuned(1),
    "Humanoid": Tuned(5),
  },
}

# The tables do not give SAC's. This is how long RLlib, on which the paper builds, waits before the first update.
_RANDOM_STEPS: dict[Name, int] = {"sac": 1_500, "td3": 10_000}
_STEPS_PER_POLICY = 64
_STEPS_PER_EVALUATION = 5_000


def get_config(algorithm: Name, world: str) -> RunConfig:
  """The config of one experiment in `TUNED`."""
  tuned = TUNED[algorithm][world]
  learner = LearnerConfig(
    max_gradient_norm=tuned.max_gradient_norm,
    target_update_rate=0.005,
    discount=0.99,
    updates_per_block=16 if tuned.updates_per_step == 1 else 20,
    publish_period_updates=_STEPS_PER_POLICY * tuned.updates_per_step,
    jit_compile=True,
  )
  if algorithm == "sac":
    # Policy, critics and temperature share one learning rate. Initial temperature and target entropy are the defaults.
    sac = SacConfig(policy_l2=tuned.policy_l2)
    learner = dataclasses.replace(learner, algorithm=sac, learning_rate=3e-3, batch_size=256)
  else:
    # Unlike in TD3's own paper, target networks follow at every update (Table 5).
    td3 = Td3Config(policy_l2=tuned.policy_l2, target_period=1)
    learner = dataclasses.replace(learner, algorithm=td3, learning_rate=5e-4, batch_size=100)
  return RunConfig(
    name=f"nmer_{algorithm}_{world.lower()}",
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


def preset(algorithm: Name, world: str) -> Callable[[], RunConfig]:
  """The function that returns a world's config, with a docstring about that world."""

  def get_world_config() -> RunConfig:
    return get_config(algorithm, world)

  get_world_config.__doc__ = f"{world} with {algorithm.upper()} as in NMER's experiments, uniform replay."
  return get_world_config
