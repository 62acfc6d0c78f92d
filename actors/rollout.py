"""The worlds of a rollout worker: their episodes, from the chosen actions to rows and summaries."""

from collections.abc import Sequence

from actors.absence import Absence
from actors.adder import EventTableAdder
from actors.behaviour import Behaviour
from actors.engine import Choice
from configs import EpisodesLost
from environments import EventTimeStep, EventWorlds
from networks import Array
from replay_server.contract.messages import EpisodeSummary


class Rollout:
  """Writes the episodes of one world through an adder.

  The loop is `begin(first time step)`, then `take(choice, time step)` until `ended`, and so on.

  Attributes:
    behaviour: chooses the actions.
    adder: for this world alone.
    ended: whether the last episode is over, or none has begun.
    observation: the latest one, once an episode has begun.
    length: steps of the episode so far.
  """

  observation: Array

  def __init__(self, name: str, behaviour: Behaviour, adder: EventTableAdder):
    """Makes a rollout whose first episode has not begun; `name` is the worker's, for summaries."""
    self.behaviour = behaviour
    self.adder = adder
    self.ended = True
    self.length = 0
    self._name = name
    self._episode_return = 0.0
    self._events = 0

  def begin(self, timestep: EventTimeStep) -> None:
    """Begins an episode."""
    self.adder.add_first(timestep)
    self.behaviour.begin_episode()
    self.observation, self.ended = timestep.observation, False
    self.length, self._episode_return, self._events = 0, 0.0, 0

  @property
  def is_open(self) -> bool:
    """Whether the episode has taken a step and has not ended."""
    return not self.ended and self.length > 0

  def drop(self) -> bool:
    """Forgets the episode; rows of it that were sent stay. Returns whether it was open."""
    was_open = self.is_open
    self.adder.reset()
    self.ended = True
    return was_open

  def take(self, choice: Choice, timestep: EventTimeStep) -> EpisodeSummary | None:
    """Writes the step that a choice led to; returns the episode's summary if the step ended it.

    Raises:
      UserError: the environment produced something that cannot be stored.
      Stopped: asked to stop while the server held the writer back.
    """
    version = self.behaviour.version
    self.adder.add(choice.action, timestep, {"policy_version": version, **choice.extras})
    self.observation, self.ended = timestep.observation, timestep.last()
    self.length += 1
    self._episode_return += float(timestep.reward)
    self._events |= timestep.events
    if not self.ended:
      return None
    return EpisodeSummary(self._name, self._episode_return, self.length, self._events, version, dict(timestep.measures))


class Stage:
  """Worlds that one call steps, each with its rollout.

  If they lose their episodes, these are dropped; `begin` begins new ones, after the pauses of `absence`.

  Attributes:
    worlds: that are stepped.
    rollouts: one for each.
    is_ready: whether every world has an episode that goes on, so that the stage can be stepped.
    absence: of their episodes.
    dropped: episodes with at least one step that were dropped.
  """

  def __init__(self, worlds: EventWorlds, rollouts: Sequence[Rollout]):
    """Takes the worlds, and the rollouts in their order."""
    self.worlds = worlds
    self.rollouts = rollouts
    self.is_ready = False
    self.absence = Absence()
    self.dropped = 0

  def ended(self) -> list[Rollout]:
    """The rollouts that `begin` will begin an episode for."""
    return [rollout for rollout in self.rollouts if rollout.ended]

  def begin(self) -> None:
    """Begins an episode in every world whose last one has ended; `is_ready` says whether that went well.

    Raises:
      UserError: a world failed, or has given no episodes for ten minutes.
    """
    chosen = [index for index, rollout in enumerate(self.rollouts) if rollout.ended]
    if chosen:
      try:
        timesteps = self.worlds.reset(chosen)
      except EpisodesLost as error:
        self.drop()
        self.absence.note(error)
        return
      for index, timestep in zip(chosen, timesteps, strict=True):
        self.rollouts[index].begin(timestep)
    self.is_ready = True
    self.absence.end()

  def step(self, choices: Sequence[Choice]) -> list[EpisodeSummary] | None:
    """Takes a step in every world; returns the summaries of the episodes that it ended, or None if all episodes were lost.

    Raises:
      UserError: a world failed, or produced something that cannot be stored.
      Stopped: asked to stop while the server held the writer back.
    """
    try:
      timesteps = self.worlds.step([choice.action for choice in choices])
    except EpisodesLost as error:
      self.drop()
      self.absence.note(error)
      return None
    summaries = []
    for rollout, choice, timestep in zip(self.rollouts, choices, timesteps, strict=True):
      summary = rollout.take(choice, timestep)
      if summary is not None:
        summaries.append(summary)
        self.is_ready = False
    return summaries

  def drop(self) -> None:
    """Drops all open episodes."""
    self.dropped += sum([rollout.drop() for rollout in self.rollouts])
    self.is_ready = False
