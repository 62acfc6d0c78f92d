"""The paper's three-room world (SSET, Section 5.1; parameters of Table 1)."""

from configs.algorithms import DdqnConfig
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


def get_config() -> RunConfig:
  """Three rooms with SSET: events at the gaps between rooms and at the goal."""
  return RunConfig(
    name="three_rooms",
    environment_steps=400_000,
    environment=EnvironmentConfig("three_rooms"),
    events=(
      EventSpec("at_gap", "environments.three_rooms:at_gap", history=200),
      EventSpec("done", "environments.three_rooms:done", history=200),
    ),
    replay=ReplayConfig(
      capacity=20_000,
      default=TableSpec("default", probability=0.5, min_size=1_000),
      tables=(TableSpec("at_gap", probability=0.2), TableSpec("done", probability=0.3)),
      # Not in the paper; its learner ran at 40 updates a second beside two free-running workers.
      environment_steps_per_update=10,
    ),
    network=NetworkConfig(hidden_sizes=(256,)),
    # Not in the paper. Nothing is learned before the goal is reached: a random policy reaches it in one of twenty episodes, an
    # untrained epsilon-greedy one in hardly any.
    actor=ActorConfig(workers=2, random_steps=20_000),
    learner=LearnerConfig(
      algorithm=DdqnConfig(epsilon=0.3), batch_size=32, learning_rate=1e-3, discount=0.99, target_update_rate=0.01
    ),
    evaluator=EvaluatorConfig(solved_event="done", solved_evaluations=4),
  )
