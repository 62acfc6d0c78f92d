"""The paper's two-room world (SSET, Sections 5.2 and 5.3), with good events and bad ones.

Section 5.3 gives tau = 30 and eta_0 = 0.7. Table 1 has no column for this world: the rest is that of the three rooms.
"""

from configs.algorithms import DdqnConfig
from configs.errors import UserError, name_hint
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

# Section 5.3's names for sets of events.
EVENT_SETS = {
  "gap_goal": ("at_gap", "done"),
  "only_goal": ("done",),
  "near_goal": ("near_goal",),
  "only_gap": ("at_gap",),
  "near_initial": ("near_initial",),
}
_TIME_LIMIT = 300


def get_config(events: str = "gap_goal", default_probability: float = 0.7) -> RunConfig:
  """Two rooms with SSET.

  Args:
    events: a name of `EVENT_SETS`.
    default_probability: the default table's share, eta_0; the event tables divide the rest equally.

  Raises:
    UserError: there is no such set, or the probability leaves nothing for the events.
  """
  if events not in EVENT_SETS:
    raise UserError(f"two_rooms has no events {events!r}: {name_hint(events, EVENT_SETS, 'use one of')}")
  names = EVENT_SETS[events]
  share = round((1 - default_probability) / len(names), 9)
  return RunConfig(
    name="two_rooms",
    environment_steps=400_000,
    environment=EnvironmentConfig("two_rooms", {"time_limit": _TIME_LIMIT}),
    events=tuple(EventSpec(name, f"environments.two_rooms:{name}", history=30) for name in names),
    replay=ReplayConfig(
      capacity=20_000,
      default=TableSpec("default", probability=default_probability, min_size=1_000),
      tables=tuple(TableSpec(name, probability=share) for name in names),
      # Not in the paper, as for the three rooms.
      environment_steps_per_update=10,
    ),
    network=NetworkConfig(hidden_sizes=(256,)),
    # Not in the paper: a random policy reaches the goal in one of seven episodes, an untrained epsilon-greedy one in fewer.
    actor=ActorConfig(workers=2, random_steps=10_000),
    learner=LearnerConfig(
      algorithm=DdqnConfig(epsilon=0.3), batch_size=32, learning_rate=1e-3, discount=0.99, target_update_rate=0.01
    ),
    # Not every set has an event at the goal, so the return decides. An episode that reaches the goal returns more than this; one
    # that does not returns -0.1 per step up to the time limit.
    evaluator=EvaluatorConfig(solved_return=-0.1 * _TIME_LIMIT + 0.5, solved_evaluations=4),
  )
