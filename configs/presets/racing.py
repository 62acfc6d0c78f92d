"""The paper's races with QR-SAC (SSET, Section 7; numbers of Appendix A.3), and both in a size for two cores."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from configs.algorithms import QrSacConfig
from configs.learning import LearnerConfig
from configs.run import ActorConfig, EnvironmentConfig, EvaluatorConfig, NetworkConfig, ReplayConfig, RunConfig
from configs.specs import EventSpec, TableSpec

# Control steps a second.
RATE = 10
# Mini-batches of an epoch (A.3).
EPOCH = 6_000
_CONDITIONS = "environments.conditions"


def get_slingshot_paper_config(slipstream: float = 0.7) -> RunConfig:
  """The slingshot pass of Section 7.1, with the paper's learner and consoles.

  Args:
    slipstream: above which value of this feature the event "slipstream" occurs; the paper also tries .1 and .9 (A.4).
  """
  events = (
    EventSpec(
      "slipstream",
      f"{_CONDITIONS}:Threshold",
      history=10 * RATE,
      arguments={"of": "info", "key": "slipstream", "above": slipstream},
    ),
    EventSpec("won", f"{_CONDITIONS}:Info", history=15 * RATE, arguments={"key": "won"}),
  )
  return RunConfig(
    name="slingshot_paper",
    environment_steps=100_000_000,
    environment=EnvironmentConfig("slingshot"),
    events=events,
    replay=_replay(events, share=0.1, capacity=2_500_000, min_size=5_000),
    network=NetworkConfig(hidden_sizes=(2048,) * 4),
    actor=ActorConfig(workers=20, random_steps=5_000),
    learner=_paper_learner(),
    evaluator=EvaluatorConfig(
      schedule="updates", period_updates=5 * EPOCH, environment_arguments={"distance": 35.0, "balance": 0.0}
    ),
  )


def get_slingshot_config(slipstream: float = 0.7) -> RunConfig:
  """The slingshot pass in a size for two cores: two workers and small networks. docs/experiments.md says how it was tuned.

  Args:
    slipstream: as for the paper's.
  """
  # Nobody who races needs 25 s, and cars that stand would fill most of 60 s at first.
  arguments = {"course_points": 8, "time_limit": 25.0}
  config = _small(get_slingshot_paper_config(slipstream), "slingshot", steps=1_000_000, arguments=arguments)
  # Nobody sees how strong the opponent is, and the events are met more often behind one that is weak, or strong.
  return dataclasses.replace(config, learner=dataclasses.replace(config.learner, bias_correction="balance"))


def get_time_trial_paper_config(on_course_seconds: int = 2, history_seconds: int = 7) -> RunConfig:
  """Staying on course, Section 7.2: twenty cars on each console, alone against the clock; the paper's learner.

  Args:
    on_course_seconds: after which a car that had left the course is "re_established"; the paper also tries 1 s.
    history_seconds: tau of that event; with 1 s the paper has 5 s.
  """
  off_course = {"condition": f"{_CONDITIONS}:Info", "arguments": {"key": "off_course"}}
  on_course = {"condition": f"{_CONDITIONS}:Info", "arguments": {"key": "off_course", "equals": False}}
  held = {
    "condition": f"{_CONDITIONS}:Held",
    "arguments": {"condition": on_course, "steps": on_course_seconds * RATE},
  }
  events = (
    EventSpec(
      "re_established",
      f"{_CONDITIONS}:Then",
      history=history_seconds * RATE,
      arguments={"first": off_course, "second": held},
    ),
  )
  return RunConfig(
    name="time_trial_paper",
    environment_steps=1_000_000_000,
    environment=EnvironmentConfig("time_trials"),
    events=events,
    replay=_replay(events, share=0.01, capacity=10_000_000, min_size=1_024),
    network=NetworkConfig(hidden_sizes=(2048,) * 4),
    actor=ActorConfig(workers=20, environments=20, random_steps=20_000),
    learner=_paper_learner(),
    evaluator=EvaluatorConfig(schedule="updates", period_updates=5 * EPOCH, environment_arguments={"laps": 3}),
  )


def get_time_trial_config(on_course_seconds: int = 2, history_seconds: int = 7) -> RunConfig:
  """Staying on course in a size for two cores: one worker with twenty cars, and small networks. It is less tried than the other.

  Args:
    on_course_seconds: as for the paper's.
    history_seconds: as for the paper's.
  """
  paper = get_time_trial_paper_config(on_course_seconds, history_seconds)
  config = _small(paper, "time_trial", steps=1_000_000, arguments={"course_points": 12})
  # Twenty cars make 30,000 steps in an episode, too many for one policy where there is one worker: a new one every 5 s.
  return dataclasses.replace(config, actor=dataclasses.replace(config.actor, workers=1, policy_period_steps=50))


def _replay(events: tuple[EventSpec, ...], share: float, capacity: int, min_size: int) -> ReplayConfig:
  """Tables with the same share of the batches and of the capacity for each event."""
  return ReplayConfig(
    capacity=capacity,
    default=TableSpec("default", probability=1 - share * len(events), min_size=min_size),
    tables=tuple(TableSpec(event.name, share, min_size=min_size) for event in events),
    # The paper's learner and consoles run free of each other; so do ours at the real pace.
    environment_steps_per_update=None,
  )


def _paper_learner() -> LearnerConfig:
  return LearnerConfig(
    algorithm=QrSacConfig(policy_learning_rate=2.5e-5, policy_dropout=0.1, temperature=0.01, learn_temperature=False),
    batch_size=1_024,
    learning_rate=5e-5,
    target_update_rate=0.005,
    discount=0.9896,
    updates_per_block=4,
    # A policy has about 50 MB.
    publish_period_updates=1_000,
  )


def _small(config: RunConfig, name: str, steps: int, arguments: Mapping[str, Any]) -> RunConfig:
  """The config with networks and batches that two cores can train, a smaller memory, and a ratio of steps to updates."""
  return dataclasses.replace(
    config,
    name=name,
    environment_steps=steps,
    environment=dataclasses.replace(config.environment, arguments=arguments),
    replay=dataclasses.replace(
      config.replay,
      capacity=400_000,
      default=dataclasses.replace(config.replay.default, min_size=5_000),
      tables=tuple(dataclasses.replace(table, min_size=1_000) for table in config.replay.tables),
      sampling="memory",
      environment_steps_per_update=4.0,
      insert_tolerance_steps=4_000,
    ),
    network=NetworkConfig(hidden_sizes=(128, 128), normalize_observations=True),
    actor=dataclasses.replace(config.actor, workers=2, random_steps=5_000),
    learner=dataclasses.replace(
      config.learner,
      # A step is worth about 8 and a state about 800, which smaller rates take too long to reach.
      algorithm=QrSacConfig(policy_learning_rate=1e-3, temperature=0.01, learn_temperature=False),
      batch_size=128,
      learning_rate=1e-3,
      updates_per_block=16,
      publish_period_updates=256,
      jit_compile=True,
    ),
    evaluator=dataclasses.replace(config.evaluator, period_updates=2_560),
  )
