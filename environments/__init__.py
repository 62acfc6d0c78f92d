"""The worlds, the event conditions that belong to them, and their way into the run."""

from environments.conditions import And, EpisodeEnd, Held, Info, Not, Or, Region, Rising, Then, Threshold
from environments.event_environment import EventEnvironment, make_environment_spec
from environments.events import Condition, EventMonitor, EventStep, load_reference
from environments.factory import BUILT_IN, make, make_event_environment
from environments.potentials import paper_potentials
from environments.shaping import Potential, Shaping, make_potential, shaping_reward
from environments.three_rooms import ThreeRooms
from environments.timestep import EventTimeStep

__all__ = [
  "BUILT_IN",
  "And",
  "Condition",
  "EpisodeEnd",
  "EventEnvironment",
  "EventMonitor",
  "EventStep",
  "EventTimeStep",
  "Held",
  "Info",
  "Not",
  "Or",
  "Potential",
  "Region",
  "Rising",
  "Shaping",
  "Then",
  "ThreeRooms",
  "Threshold",
  "load_reference",
  "make",
  "make_environment_spec",
  "make_event_environment",
  "make_potential",
  "paper_potentials",
  "shaping_reward",
]
