"""One environment of a rollout worker: its episodes, from the chosen actions to rows and summaries."""

from actors.adder import EventTableAdder
from actors.behaviour import Behaviour
from actors.engine import Choice
from environments import EventEnvironment
from networks import Array
from replay_server.contract.messages import EpisodeSummary


class Rollout:
  """Plays episodes in one environment and writes every transition through an adder.

  The loop is `begin()`, then `step(choice)` until `ended`, and so on.

  Attributes:
    environment: to play in.
    behaviour: chooses its actions.
    adder: for this environment alone.
    ended: whether the last episode is over, or none has begun.
    observation: the latest one, once an episode has begun.
    length: steps of the episode so far.
  """

  observation: Array

  def __init__(self, name: str, environment: EventEnvironment, behaviour: Behaviour, adder: EventTableAdder):
    """Makes a rollout whose first episode has not begun; `name` is the worker's, for summaries."""
    self.environment = environment
    self.behaviour = behaviour
    self.adder = adder
    self.ended = True
    self.length = 0
    self._name = name
    self._episode_return = 0.0
    self._events = 0

  def begin(self) -> None:
    """Begins an episode."""
    timestep = self.environment.reset()
    self.adder.add_first(timestep)
    self.observation, self.ended = timestep.observation, False
    self.length, self._episode_return, self._events = 0, 0.0, 0

  def drop(self) -> None:
    """Forgets an episode that has begun; rows of it that were sent stay."""
    self.adder.reset()
    self.ended = True

  def step(self, choice: Choice) -> EpisodeSummary | None:
    """Takes a step and writes it; returns the episode's summary if the step ended it.

    Raises:
      UserError: the environment produced something that cannot be stored.
      Stopped: asked to stop while the server held the writer back.
    """
    timestep = self.environment.step(choice.action)
    version = self.behaviour.version
    self.adder.add(choice.action, timestep, {"policy_version": version, **choice.extras})
    self.observation, self.ended = timestep.observation, timestep.last()
    self.length += 1
    self._episode_return += float(timestep.reward)
    self._events |= timestep.events
    if not self.ended:
      return None
    return EpisodeSummary(self._name, self._episode_return, self.length, self._events, version)
