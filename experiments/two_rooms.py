"""Experiment 2: event tables and potential-based shaping in the two-room world (SSET, Section 5.2, Figure 3)."""

import dataclasses
from collections.abc import Callable

from configs import RunConfig
from configs.methods import METHODS
from configs.presets import two_rooms
from environments.potentials import paper_potentials
from experiments.definition import Budget, Experiment, Method, Panel, Threshold, evaluated_every, known_method

# (x, y) of the one gap and of the goal in the default world, and its columns and rows.
GAP, GOAL = (6, 1), (11, 5)
SIZE = (11, 5)

# Figure 11(b)'s names -> labels.
_POTENTIALS = {
  "gap": "1 in the gap",
  "manhattan_goal": "nearness to the goal",
  "manhattan_gap": "nearness to the gap",
  "right_wall": "nearness to the right wall",
  "left_wall": "nearness to the left wall",
}
_GAP_INPUT = "environments.two_rooms:GapInput"


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
      "paper": Budget(steps=9_600, seeds=30),
      "quick": Budget(steps=3_200, seeds=4, change=in_small_rooms),
    },
    panels=(Panel("eval_return", "return of the greedy policy"),),
    thresholds=(Threshold("eval_solved", 1.0, "the first evaluation that reaches the goal"),),
  )


def get_shaping() -> Experiment:
  """Why shaping with the gap's potential makes greedy policies less reliable."""
  methods = ("uniform", "gap", "gap_seen", "manhattan_goal")
  return _compare_potentials(
    name="shaping",
    summary="two rooms: potentials that jump and that do not, and an input for the gap (SSET, Section 5.3, Figure 11(b))",
    methods=tuple(method for method in _POTENTIAL_METHODS if method.name in methods),
    seeds=30,
    panels=(
      Panel("eval_solved", "greedy policies that reach the goal"),
      Panel("noisy_success", "episodes that reach the goal, ε = .05"),
      Panel("train_return", "return of training episodes (ε = .3)"),
    ),
  )


def get_potentials() -> Experiment:
  """Figure 11(b)'s five potentials, an input that shows the gap without one, and worlds without step costs."""
  free = ("uniform_free", "gap_free", "manhattan_goal_free")
  return _compare_potentials(
    name="potentials",
    summary="two rooms: the paper's five potentials, and the goal's reward alone (SSET, Section 5.3, Figure 11(b))",
    methods=tuple(method for method in _POTENTIAL_METHODS if method.name != "gap_seen"),
    seeds=10,
    panels=(
      Panel("eval_solved", "greedy policies that reach the goal", ("uniform", *_POTENTIALS)),
      Panel("noisy_success", "episodes that reach the goal, ε = .05", ("uniform", *_POTENTIALS)),
      Panel("train_return", "return of training episodes (ε = .3)", ("uniform", *_POTENTIALS)),
      Panel("eval_solved", "no costs: greedy policies that reach it", free),
      Panel("train_return", "no costs: return of training episodes", free),
      Panel("eval_solved", "greedy policies that reach the goal", ("uniform", "uniform_seen")),
    ),
  )


def _compare_potentials(
  name: str, summary: str, methods: tuple[Method, ...], seeds: int, panels: tuple[Panel, ...]
) -> Experiment:
  """Uniform replay in the two rooms, by `methods`."""
  return Experiment(
    name=name,
    summary=summary,
    config=evaluated_every(two_rooms.get_config(default_probability=0.7), 320),
    methods=methods,
    budgets={
      "paper": Budget(steps=9_600, seeds=seeds),
      "quick": Budget(steps=1_600, seeds=2),
    },
    panels=panels,
    thresholds=(Threshold("eval_solved", 1.0, "the first evaluation that reaches the goal"),),
    probes={"noisy_success": "experiments.probes:noisy_success"},
    recorded=("train_return",),
  )


def _shaped_by(name: str) -> Callable[[RunConfig], RunConfig]:
  """Uniform replay with the potential of Figure 11(b) called `name`."""
  potential, arguments = paper_potentials(SIZE, [GAP], GOAL, origin=[1, 1])[name]

  def change(config: RunConfig) -> RunConfig:
    config = METHODS["uniform"](config)
    environment = dataclasses.replace(config.environment, potential=potential, potential_arguments=arguments)
    return dataclasses.replace(config, environment=environment)

  return change


def _seeing_the_gap(potential: str) -> Callable[[RunConfig], RunConfig]:
  """Uniform replay with a potential, in the world whose observation tells whether the agent is in the gap."""

  def change(config: RunConfig) -> RunConfig:
    config = _shaped_by(potential)(config)
    return dataclasses.replace(config, environment=dataclasses.replace(config.environment, name=_GAP_INPUT))

  return change


def _without_step_costs(potential: str) -> Callable[[RunConfig], RunConfig]:
  """Uniform replay with a potential and the goal's reward alone, which may be what Section 5.3 calls the goal reward."""

  def change(config: RunConfig) -> RunConfig:
    config = _shaped_by(potential)(config)
    arguments = {**config.environment.arguments, "step_reward": 0.0}
    return dataclasses.replace(
      config,
      environment=dataclasses.replace(config.environment, arguments=arguments),
      evaluator=dataclasses.replace(config.evaluator, solved_return=0.5),
    )

  return change


_POTENTIAL_METHODS = (
  Method("uniform", "none", METHODS["uniform"]),
  *(Method(name, label, _shaped_by(name)) for name, label in _POTENTIALS.items()),
  Method("uniform_seen", "none, input for the gap", _seeing_the_gap("none")),
  Method("gap_seen", "1 in the gap, input for it", _seeing_the_gap("gap")),
  Method("uniform_free", "none, no step costs", _without_step_costs("none")),
  Method("gap_free", "1 in the gap, no step costs", _without_step_costs("gap")),
  Method("manhattan_goal_free", "nearness to the goal, no step costs", _without_step_costs("manhattan_goal")),
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
