"""The worlds, the event conditions that belong to them, and their way into the run."""

from environments.event_environment import EventEnvironment, make_environment_spec
from environments.events import Condition, EventMonitor, EventStep, load_reference
from environments.factory import BUILT_IN, make, make_event_environment, register_built_in
from environments.grid_planner import shortest_plan
from environments.grid_world import GridWorld
from environments.obstacle_course import ObstacleCourse
from environments.randomised_skills import RandomisedSkills
from environments.three_rooms import ThreeRooms
from environments.timestep import EventTimeStep
from environments.two_rooms import TwoRooms

register_built_in()

__all__ = [
  "BUILT_IN",
  "Condition",
  "EventEnvironment",
  "EventMonitor",
  "EventStep",
  "EventTimeStep",
  "GridWorld",
  "ObstacleCourse",
  "RandomisedSkills",
  "ThreeRooms",
  "TwoRooms",
  "load_reference",
  "make",
  "make_environment_spec",
  "make_event_environment",
  "register_built_in",
  "shortest_plan",
]
