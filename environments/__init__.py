"""The built-in worlds, event conditions, reward shaping, and the environment that a run steps."""

from environments.calls import LateCall, last_call_began, late_calls
from environments.conditions import And, EpisodeEnd, Held, Info, Not, Or, Region, Rising, Then, Threshold
from environments.event_environment import EventEnvironment, make_environment_spec
from environments.events import Condition, EventMonitor, EventStep, load_reference
from environments.factory import BUILT_IN, make, make_event_environment, register_built_in
from environments.grid_planner import shortest_plan
from environments.grid_world import GridWorld
from environments.obstacle_course import ObstacleCourse
from environments.potentials import paper_potentials
from environments.randomised_skills import RandomisedSkills
from environments.shaping import Potential, Shaping, make_potential, shaping_reward
from environments.three_rooms import ThreeRooms
from environments.timestep import EventTimeStep
from environments.two_rooms import TwoRooms

register_built_in()

__all__ = [
  "BUILT_IN",
  "And",
  "Condition",
  "EpisodeEnd",
  "EventEnvironment",
  "EventMonitor",
  "EventStep",
  "EventTimeStep",
  "GridWorld",
  "Held",
  "Info",
  "LateCall",
  "Not",
  "ObstacleCourse",
  "Or",
  "Potential",
  "RandomisedSkills",
  "Region",
  "Rising",
  "Shaping",
  "Then",
  "ThreeRooms",
  "Threshold",
  "TwoRooms",
  "last_call_began",
  "late_calls",
  "load_reference",
  "make",
  "make_environment_spec",
  "make_event_environment",
  "make_potential",
  "paper_potentials",
  "register_built_in",
  "shaping_reward",
  "shortest_plan",
]
