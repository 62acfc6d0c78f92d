"""Experiment 1: the three-room world (SSET, Section 5.1, Figure 2)."""

import dataclasses

from configs import RunConfig
from configs.presets import three_rooms
from experiments.definition import Budget, Experiment, Panel, Threshold, evaluated_every, papers_methods


def get_experiment() -> Experiment:
  """Five methods in the three-room world; 10 environment steps to a gradient step."""
  return Experiment(
    name="three_rooms",
    summary="three rooms in a row: learned values and return (SSET, Section 5.1, Figure 2)",
    config=evaluated_every(three_rooms.get_config(), 320),
    methods=papers_methods(),
    budgets={
      "paper": Budget(gradient_steps=19_200, seeds=30),
      "quick": Budget(gradient_steps=4_800, seeds=4, change=_in_small_rooms),
    },
    panels=(
      Panel("summed_q", "Q summed over all (s, a)"),
      Panel("eval_return", "return of the greedy policy"),
    ),
    thresholds=(Threshold("eval_solved", 1.0, "the first evaluation that reaches the goal"),),
    probes={"summed_q": "experiments.probes:summed_q"},
  )


def _in_small_rooms(config: RunConfig) -> RunConfig:
  """Rooms of 3 x 3 cells, in which a random policy finds the goal sooner."""
  environment = dataclasses.replace(config.environment, arguments={"room_size": 3, "time_limit": 200})
  return dataclasses.replace(
    config, environment=environment, actor=dataclasses.replace(config.actor, random_steps=5_000)
  )
