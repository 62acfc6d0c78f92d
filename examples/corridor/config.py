"""A run of the corridor: slipstream train --config=examples/corridor/config.py --pythonpath=examples/corridor."""

from slipstream import (
  ActorConfig,
  DdqnConfig,
  EnvironmentConfig,
  EvaluatorConfig,
  EventSpec,
  LearnerConfig,
  NetworkConfig,
  ReplayConfig,
  RunConfig,
  TableSpec,
)


def get_config() -> RunConfig:
  """Two events, each with a table of its own, beside the table of every transition."""
  return RunConfig(
    name="corridor",
    environment_steps=50_000,
    environment=EnvironmentConfig("corridor:Corridor", arguments={"length": 12}),
    events=(
      EventSpec("progress", "corridor:Progress", history=20, arguments={"cells": 3}),
      EventSpec("at_door", "corridor:at_door", history=50),
    ),
    replay=ReplayConfig(
      capacity=10_000,
      default=TableSpec("default", probability=0.7, min_size=500),
      tables=(TableSpec("progress", probability=0.15), TableSpec("at_door", probability=0.15)),
      environment_steps_per_update=4,
    ),
    network=NetworkConfig(hidden_sizes=(64,)),
    actor=ActorConfig(workers=2, random_steps=500),
    learner=LearnerConfig(algorithm=DdqnConfig(epsilon=0.2), discount=0.95),
    evaluator=EvaluatorConfig(solved_event="at_door", solved_evaluations=3, period_updates=250),
  )
