"""Experiment 3: badly designed events in the two-room world (SSET, Section 5.3, Figures 11 and 12)."""

import dataclasses

from configs import RunConfig
from configs.presets import two_rooms
from experiments.definition import Budget, Experiment, Method, Panel, Threshold, evaluated_every, known_method
from experiments.two_rooms import in_small_rooms, with_gap_potential

# Section 5.3 compares the events at .7 and announces a sweep without giving its values.
DEFAULT_PROBABILITY = 0.7
SWEEP = (0.3, 0.7, 0.9)

_LABELS = {
  "gap_goal": "gap and goal",
  "only_goal": "goal",
  "near_goal": "near the goal",
  "only_gap": "gap",
  "near_initial": "near the start",
}


def get_experiment() -> Experiment:
  """Five sets of events at three shares of the default table, uniform replay, and shaping."""
  events = tuple(_events(name, share) for name in two_rooms.EVENT_SETS for share in SWEEP)
  at_default = tuple(method.name for method in events if method.name.endswith(f"_{_percent(DEFAULT_PROBABILITY)}"))
  return Experiment(
    name="bad_events",
    summary="two rooms: good and bad events, and shares of the default table (SSET, Section 5.3, Figures 11 and 12)",
    config=with_gap_potential(evaluated_every(two_rooms.get_config(), 320)),
    methods=(known_method("uniform", "Uniform ER"), known_method("pbs", "Uniform ER + shaping"), *events),
    budgets={
      "paper": Budget(steps=9_600, seeds=30),
      "quick": Budget(steps=1_600, seeds=2, change=in_small_rooms),
    },
    panels=(
      Panel("eval_return", f"return, η₀ = {DEFAULT_PROBABILITY}", ("uniform", "pbs", *at_default)),
      *(
        Panel("eval_return", f"return, {_LABELS[name]}", tuple(_events(name, share).name for share in SWEEP))
        for name in two_rooms.EVENT_SETS
      ),
    ),
    thresholds=(Threshold("eval_solved", 1.0, "the first evaluation that reaches the goal"),),
  )


def _events(name: str, share: float) -> Method:
  """SSET with one set of events and one share of the default table."""

  def change(config: RunConfig) -> RunConfig:
    events = two_rooms.get_config(name, share)
    replay = dataclasses.replace(config.replay, default=events.replay.default, tables=events.replay.tables)
    environment = dataclasses.replace(config.environment, potential="", potential_arguments={})
    return dataclasses.replace(config, events=events.events, replay=replay, environment=environment)

  return Method(f"{name}_{_percent(share)}", f"{_LABELS[name]}, η₀ = {share:g}", change)


def _percent(share: float) -> str:
  return str(round(100 * share))
