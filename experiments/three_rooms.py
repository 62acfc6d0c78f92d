"""Experiment 1: the three-room world (SSET, Section 5.1, Figure 2)."""

import dataclasses
from typing import get_args

from configs import RunConfig
from configs.methods import METHODS
from configs.presets import three_rooms
from configs.run import NewItems
from experiments.definition import (
  Budget,
  Experiment,
  Method,
  Panel,
  Threshold,
  evaluated_every,
  from_memory,
  known_method,
  papers_methods,
  replaying_from_memory,
  with_priority,
)


def get_experiment() -> Experiment:
  """Five methods in the three-room world; 10 environment steps to a gradient step."""
  return Experiment(
    name="three_rooms",
    summary="three rooms in a row: learned values and return (SSET, Section 5.1, Figure 2)",
    config=evaluated_every(three_rooms.get_config(), 320),
    methods=papers_methods(),
    budgets={
      "paper": Budget(steps=19_200, seeds=30),
      "quick": Budget(steps=4_800, seeds=4, change=_in_small_rooms),
    },
    panels=(
      Panel("summed_q", "Q summed over all (s, a)"),
      Panel("eval_return", "return of the greedy policy"),
    ),
    thresholds=(Threshold("eval_solved", 1.0, "the first evaluation that reaches the goal"),),
    probes={"summed_q": "experiments.probes:summed_q"},
  )


def get_new_items() -> Experiment:
  """PER and PER + SSET with new items at the largest and at the mean priority, beside SSET."""
  rooms = get_experiment()
  sweep = tuple(_with_new_items(name, new_items) for name in ("per", "sset_per") for new_items in get_args(NewItems))
  return dataclasses.replace(
    rooms,
    name="new_items",
    summary="three rooms: the priority of new items (SSET, Section 5.1; PER, Section 3.3)",
    methods=(known_method("uniform", "Uniform ER"), known_method("sset", "SSET"), *sweep),
  )


def get_memory() -> Experiment:
  """The five methods with replay from the learner's own memory, which must give what the server gives."""
  rooms = get_experiment()
  return dataclasses.replace(
    rooms,
    name="three_rooms_memory",
    summary="three rooms: replay from the learner's own memory, to compare with three_rooms",
    methods=tuple(map(from_memory, rooms.methods)),
    reference=f"{rooms.reference}_memory",
  )


def get_importance() -> Experiment:
  """PER whose exponent beta of importance weights rises to 1, as by default, and with a fixed one, from the learner's memory."""
  rooms = get_experiment()
  fixed = (
    Method(
      f"per_beta_{round(100 * beta)}",
      f"PER, β = {beta:g}",
      with_priority(METHODS["per"], importance_exponent=beta, final_importance_exponent=beta),
    )
    for beta in (0.4, 0.0)
  )
  return dataclasses.replace(
    rooms,
    name="importance",
    summary="three rooms: PER's importance weights (SSET, Section 5.1; PER, Section 3.4)",
    config=replaying_from_memory(rooms.config),
    methods=(known_method("uniform", "Uniform ER"), known_method("per", "PER, β from .4 to 1"), *fixed),
  )


def _with_new_items(name: str, new_items: NewItems) -> Method:
  """A prioritised method whose new items get `new_items`."""
  label = {"per": "PER", "sset_per": "PER + SSET"}[name]
  change = with_priority(METHODS[name], new_items=new_items)
  return Method(f"{name}_{new_items}", f"{label}, new at the {new_items}", change)


def _in_small_rooms(config: RunConfig) -> RunConfig:
  """Rooms of 3 x 3 cells, in which a random policy finds the goal sooner."""
  environment = dataclasses.replace(config.environment, arguments={"room_size": 3, "time_limit": 200})
  return dataclasses.replace(
    config, environment=environment, actor=dataclasses.replace(config.actor, random_steps=5_000)
  )
