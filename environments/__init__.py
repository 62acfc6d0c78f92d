"""The built-in worlds, event conditions, reward shaping, and the environment that a run steps."""

import importlib
from typing import TYPE_CHECKING, Any

from environments.factory import register_built_in

if TYPE_CHECKING:
  from environments.calls import LateCall as LateCall
  from environments.calls import last_call_began as last_call_began
  from environments.calls import late_calls as late_calls
  from environments.conditions import And as And
  from environments.conditions import EpisodeEnd as EpisodeEnd
  from environments.conditions import Held as Held
  from environments.conditions import Info as Info
  from environments.conditions import Not as Not
  from environments.conditions import Or as Or
  from environments.conditions import Region as Region
  from environments.conditions import Rising as Rising
  from environments.conditions import Then as Then
  from environments.conditions import Threshold as Threshold
  from environments.event_environment import EventEnvironment as EventEnvironment
  from environments.event_environment import make_environment_spec as make_environment_spec
  from environments.event_factory import make_event_environment as make_event_environment
  from environments.event_factory import make_event_worlds as make_event_worlds
  from environments.events import Condition as Condition
  from environments.events import EventMonitor as EventMonitor
  from environments.events import EventStep as EventStep
  from environments.events import load_reference as load_reference
  from environments.factory import BUILT_IN as BUILT_IN
  from environments.factory import make as make
  from environments.grid_planner import shortest_plan as shortest_plan
  from environments.grid_world import GridWorld as GridWorld
  from environments.obstacle_course import ObstacleCourse as ObstacleCourse
  from environments.potentials import paper_potentials as paper_potentials
  from environments.randomised_skills import RandomisedSkills as RandomisedSkills
  from environments.shaping import Potential as Potential
  from environments.shaping import Shaping as Shaping
  from environments.shaping import make_potential as make_potential
  from environments.shaping import shaping_reward as shaping_reward
  from environments.three_rooms import ThreeRooms as ThreeRooms
  from environments.timestep import EventTimeStep as EventTimeStep
  from environments.two_rooms import TwoRooms as TwoRooms
  from environments.worlds import EventWorlds as EventWorlds

register_built_in()

# Name -> its module, which is imported at the first use: a console has neither cattrs nor acme.
_MODULES = {
  "BUILT_IN": "environments.factory",
  "And": "environments.conditions",
  "Condition": "environments.events",
  "EpisodeEnd": "environments.conditions",
  "EventEnvironment": "environments.event_environment",
  "EventMonitor": "environments.events",
  "EventStep": "environments.events",
  "EventTimeStep": "environments.timestep",
  "EventWorlds": "environments.worlds",
  "GridWorld": "environments.grid_world",
  "Held": "environments.conditions",
  "Info": "environments.conditions",
  "LateCall": "environments.calls",
  "Not": "environments.conditions",
  "ObstacleCourse": "environments.obstacle_course",
  "Or": "environments.conditions",
  "Potential": "environments.shaping",
  "RandomisedSkills": "environments.randomised_skills",
  "Region": "environments.conditions",
  "Rising": "environments.conditions",
  "Shaping": "environments.shaping",
  "Then": "environments.conditions",
  "ThreeRooms": "environments.three_rooms",
  "Threshold": "environments.conditions",
  "TwoRooms": "environments.two_rooms",
  "last_call_began": "environments.calls",
  "late_calls": "environments.calls",
  "load_reference": "environments.events",
  "make": "environments.factory",
  "make_environment_spec": "environments.event_environment",
  "make_event_environment": "environments.event_factory",
  "make_event_worlds": "environments.event_factory",
  "make_potential": "environments.shaping",
  "paper_potentials": "environments.potentials",
  "shaping_reward": "environments.shaping",
  "shortest_plan": "environments.grid_planner",
}

__all__ = [
  "BUILT_IN",
  "And",
  "Condition",
  "EpisodeEnd",
  "EventEnvironment",
  "EventMonitor",
  "EventStep",
  "EventTimeStep",
  "EventWorlds",
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
  "make_event_worlds",
  "make_potential",
  "paper_potentials",
  "register_built_in",
  "shaping_reward",
  "shortest_plan",
]


def __getattr__(name: str) -> Any:
  module = _MODULES.get(name)
  if module is None:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  value = globals()[name] = getattr(importlib.import_module(module), name)
  return value
