"""A small run in the three rooms, for the tests of workers and evaluators."""

import dataclasses
from typing import Any

import numpy as np

from configs import ActorConfig, DdqnConfig, EnvironmentConfig, EvaluatorConfig, EventSpec, NetworkConfig, RunConfig
from environments import make_environment_spec, make_event_environment
from networks import flatten_weights, make_q_network
from replay_server.contract.layout import make_row_codec
from replay_server.contract.policy import PolicySnapshot
from tests.serving import make_config

TIME_LIMIT = 12


def make_run(epsilon: float = 0.5, **actor: Any) -> RunConfig:
  """Three rooms of 2 x 2 cells whose episodes end after 12 steps."""
  config = make_config(capacity=5_000)
  return dataclasses.replace(
    config,
    environment=EnvironmentConfig("three_rooms", {"room_size": 2, "time_limit": TIME_LIMIT}),
    network=NetworkConfig((8,)),
    actor=ActorConfig(**{"random_steps": 0, **actor}),
    learner=dataclasses.replace(config.learner, algorithm=DdqnConfig(epsilon=epsilon)),
    evaluator=EvaluatorConfig(episodes=2, period_seconds=0.0, solved_return=0.0),
  )


def with_goal(run: RunConfig) -> RunConfig:
  """The run with an event for reaching the goal, which has a table of its own."""
  rows = make_config({"done": 500}, [("done", 12)], capacity=5_000).replay
  events = (EventSpec("done", "environments.three_rooms:done", 12),)
  return dataclasses.replace(run, events=events, replay=rows)


SPEC = make_environment_spec(make_event_environment(make_run()))
CODEC = make_row_codec(SPEC)


def snapshot(version: int, learner_steps: int = 10) -> PolicySnapshot:
  """A policy of random weights that are the same for the same version."""
  weights = flatten_weights(make_q_network(make_run(), SPEC, seed=version))
  return PolicySnapshot(version, learner_steps, np.asarray(weights))
