"""Experiment 2: event tables and potential-based shaping in the two-room world (SSET, Section 5.2, Figure 3)."""

import dataclasses

from configs import RunConfig
from configs.presets import two_rooms
from experiments.definition import Budget, Experiment, Panel, Threshold, evaluated_every, known_method

# (x, y) of the one gap in the default world.
GAP = (6, 1)


def get_experiment() -> Experiment:
  """No shaping, shaping, SSET, and both; 10 environment steps to a gradient step."""
  return Experiment(
    name="two_rooms",
    summary="two rooms: event tables against shaped rewards, and both (SSET, Section 5.2, Figure 3)",
    config=with_gap_potential(evaluated_every(two_rooms.get_config(default_probability=0.7), 320)),
    methods=(
      known_method("uniform", "Uniform ER"),
      known_method("pbs", "Uniform ER + shaping"),
      known_method("sset", "SSET"),
      known_method("sset_pbs", "SSET + shaping"),
    ),
    budgets={
      "paper": Budget(gradient_steps=9_600, seeds=30),
      "quick": Budget(gradient_steps=3_200, seeds=4, change=in_small_rooms),
    },
    panels=(Panel("eval_return", "return of the greedy policy"),),
    thresholds=(Threshold("eval_solved", 1.0, "the first evaluation that reaches the goal"),),
  )


def with_gap_potential(config: RunConfig) -> RunConfig:
  """The paper's potential, 1 at the gap and 0 elsewhere, for the methods that shape."""
  environment = dataclasses.replace(
    config.environment,
    potential="environments.potentials:AtCells",
    potential_arguments={"cells": [list(GAP)]},
  )
  return dataclasses.replace(config, environment=environment)


def in_small_rooms(config: RunConfig) -> RunConfig:
  """Rooms of 3 x 3 cells, in which a random policy finds the goal sooner."""
  arguments = {**config.environment.arguments, "room_size": 3}
  potential = {"cells": [[4, 1]]} if config.environment.potential else {}
  environment = dataclasses.replace(config.environment, arguments=arguments, potential_arguments=potential)
  return dataclasses.replace(
    config, environment=environment, actor=dataclasses.replace(config.actor, random_steps=2_000)
  )
