"""The paper's randomised skills (SSET, Section 5.4).

Table 1 has no column for this world: the parameters are those of the obstacle course, with the spikes' share of a batch
added to the default table's, since there are no spikes.
"""

import dataclasses

from configs.presets import obstacle_course
from configs.run import EnvironmentConfig, RunConfig
from configs.specs import EventSpec, TableSpec

EVENTS = ("at_lava", "at_gap", "pickup_key", "at_door", "done")


def get_config() -> RunConfig:
  """Lava, a gap or a door in each episode, with SSET: an event for each kind of obstacle and for the goal."""
  course = obstacle_course.get_config()
  tables = tuple(TableSpec(name, obstacle_course.SHARES[name]) for name in EVENTS)
  default = dataclasses.replace(course.replay.default, probability=1 - sum(table.probability for table in tables))
  return dataclasses.replace(
    course,
    name="randomised_skills",
    environment_steps=2_000_000,
    # The paper names no sizes. A random policy opens a door twice as often in this room as in the world's default, 9 x 5 cells.
    environment=EnvironmentConfig("randomised_skills", {"width": 8, "height": 4}),
    events=tuple(EventSpec(name, f"environments.randomised_skills:{name}", history=50) for name in EVENTS),
    replay=dataclasses.replace(course.replay, default=default, tables=tables),
    # Ten episodes of each skill, on average.
    evaluator=dataclasses.replace(course.evaluator, episodes=30),
  )
