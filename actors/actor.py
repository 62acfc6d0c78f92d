"""The rollout actor: an Acme actor that explores, and writes what it saw through the event-table adder."""

import dataclasses

import numpy as np
from acme import core, specs

from actors.adder import EventTableAdder
from actors.policies import PolicyBank, random_action
from configs import RunConfig
from environments.timestep import EventTimeStep
from replay_server.contract.messages import EpisodeSummary
from replay_server.contract.policy import PolicySnapshot, PolicySource


@dataclasses.dataclass
class _Episode:
  episode_return: float = 0.0
  length: int = 0
  events: int = 0


class WarmUp:
  """The random steps that a run begins with (`actor.random_steps`), as one worker counts them for all of its environments.

  Attributes:
    steps_left: of the whole run, as far as the worker knows.
  """

  def __init__(self, random_steps: int):
    """Takes the steps of a run that has taken none."""
    self.steps_left = random_steps
    self._random_steps = random_steps

  def note(self, environment_steps: int) -> None:
    """Takes in how many steps the server has seen of the whole run. It can lag behind what this worker took itself."""
    self.steps_left = min(self.steps_left, self._random_steps - environment_steps)

  def take(self) -> bool:
    """Whether the next step is one of them, which it then was."""
    self.steps_left -= 1
    return self.steps_left >= 0


class NoPolicy(Exception):
  """The warm-up is over and no learner has published a policy."""


class RolloutActor(core.Actor):
  """Acts in one environment.

  The loop is Acme's: `update(); observe_first(timestep)`, then `action = select_action(observation);
  observe(action, next_timestep)` until a last timestep. Weights are fetched by `update`, at the start of an episode, and
  kept through it (SSET, Appendix A.3), or for `actor.policy_period_steps`: until then `update` does nothing, as Acme's
  EnvironmentLoop calls it at every step.

  Attributes:
    version: of the policy that acts; 0 before there is one.
    finished: the last episode's summary.
  """

  def __init__(
    self,
    name: str,
    index: int,
    config: RunConfig,
    spec: specs.BoundedArray,
    bank: PolicyBank,
    source: PolicySource,
    warm_up: WarmUp,
    adder: EventTableAdder,
    seed: int,
  ):
    """Makes the actor.

    Args:
      name: of its process, for the summaries.
      index: of its worker, for the per-worker exploration rate.
      config: of the run.
      spec: of the actions.
      bank: the process's policies.
      source: of the weights.
      warm_up: of the process.
      adder: for this actor alone.
      seed: of its exploration.
    """
    self._name = name
    self._index = index
    self._config = config
    self._epsilon = 0.0
    self._spec = spec
    self._bank = bank
    self._source = source
    self._warm_up = warm_up
    self._adder = adder
    self._rng = np.random.default_rng(seed)
    self._snapshot: PolicySnapshot | None = None
    self._episode = _Episode()
    self._in_episode = False
    self.version = 0
    self.finished: EpisodeSummary | None = None

  @property
  def update_is_due(self) -> bool:
    """Whether `update` would fetch weights."""
    if not self._in_episode:
      return True
    period = self._config.actor.policy_period_steps
    return period is not None and self._episode.length > 0 and self._episode.length % period == 0

  def update(self, wait: bool = False) -> None:
    """Fetches the latest weights where it is time to.

    Raises:
      NoPolicy: the warm-up is over and there are none yet.
      ServerLost: the server does not answer.
    """
    del wait
    if not self.update_is_due:
      return
    latest = self._source.fetch()
    self._warm_up.note(self._source.environment_steps)
    if latest is None:
      if self._warm_up.steps_left <= 0:
        raise NoPolicy
      return
    if latest.version != self.version:
      acquired = self._bank.acquire(latest)
      if self.version:
        self._bank.release(self.version)
      self._snapshot, self.version = latest, acquired
      self._adder.set_priorities(latest.priorities)
    self._epsilon = self._config.learner.algorithm.epsilon_at(self._index, latest.learner_steps)

  def explores(self) -> bool:
    """Whether the next action is random; draws it, so ask once a step."""
    # Without a policy the rest of an episode that began in the warm-up is random too.
    if self._warm_up.take() or self._snapshot is None:
      return True
    return self._epsilon > 0 and bool(self._rng.random() < self._epsilon)

  def random_action(self) -> np.ndarray:
    """An action drawn uniformly."""
    return random_action(self._spec, self._rng)

  def select_action(self, observation: np.ndarray) -> np.ndarray:
    """An action with the exploration of training."""
    if self.explores():
      return self.random_action()
    action: np.ndarray = self._bank[self.version].explore(observation[None], self._rng)[0]
    return action

  def observe_first(self, timestep: EventTimeStep) -> None:
    """Begins an episode."""
    self._adder.add_first(timestep)
    self._episode = _Episode()
    self._in_episode = True

  def observe(self, action: np.ndarray, next_timestep: EventTimeStep) -> None:
    """Takes in what an action led to.

    Raises:
      UserError: the environment produced something that cannot be stored.
      Stopped: told to stop while the server held the writer back.
    """
    self._adder.add(action, next_timestep, {"policy_version": self.version})
    episode = self._episode
    episode.episode_return += float(next_timestep.reward)
    episode.length += 1
    episode.events |= next_timestep.events
    if next_timestep.last():
      self._in_episode = False
      self.finished = EpisodeSummary(self._name, episode.episode_return, episode.length, episode.events, self.version)
