"""How the actions of one environment are chosen: which policy acts, and which actions are random."""

import dataclasses

import numpy as np
from acme import specs

from actors.policies import random_action
from networks import NO_EXTRAS, ActingPolicy, Array, Extras, OrnsteinUhlenbeckNoise


class WarmUp:
  """Counts the random steps that a run begins with (`actor.random_steps`), for all environments of one worker.

  Attributes:
    steps_left: random steps that the run still needs, as far as this worker knows; 0 or less once the warm-up is over.
  """

  def __init__(self, random_steps: int):
    """Begins the warm-up of a run that has taken no steps yet."""
    self.steps_left = random_steps
    self._random_steps = random_steps

  def note(self, environment_steps: int) -> None:
    """Takes in the server's count of the whole run's steps, which may lag behind what this worker has counted itself."""
    self.steps_left = min(self.steps_left, self._random_steps - environment_steps)

  def take(self) -> bool:
    """Counts one step; True if it belongs to the warm-up."""
    self.steps_left -= 1
    return self.steps_left >= 0


class Greedy:
  """A policy that explores without noise, for evaluations."""

  def __init__(self, policy: ActingPolicy):
    """Wraps `policy`."""
    self._policy = policy

  def best(self, observations: Array) -> Array:
    """The policy's best actions, [B, ...]."""
    return self._policy.best(observations)

  def explore(self, observations: Array, rng: np.random.Generator) -> tuple[Array, Extras]:
    """The policy's best actions, [B, ...], and no extras."""
    del rng
    return self._policy.best(observations), NO_EXTRAS


@dataclasses.dataclass(eq=False)
class Behaviour:
  """A policy, and how often random actions replace its own.

  Attributes:
    actions: the environment's action spec.
    rng: of random actions and of noise.
    policy: chooses the actions; None for random actions only.
    version: of the policy; 0 without one.
    epsilon: probability of a random action where the policy would act.
    warm_up: random steps to take first; shared by the environments of a worker.
    noise: that this environment adds to the policy's actions, if the noise remembers itself; None if it has no memory, so that
      the policy adds it.
  """

  actions: specs.BoundedArray
  rng: np.random.Generator
  policy: ActingPolicy | None = None
  version: int = 0
  epsilon: float = 0.0
  warm_up: WarmUp = dataclasses.field(default_factory=lambda: WarmUp(0))
  noise: OrnsteinUhlenbeckNoise | None = None

  def begin_episode(self) -> None:
    """Forgets the noise of the episode before."""
    if self.noise is not None:
      self.noise.begin_episode()

  def next_policy(self) -> ActingPolicy | None:
    """The policy that chooses the next action; None if that action is random. Counts a step: call it once per step."""
    # An episode that began in the warm-up may outlast it, and has no policy until it ends.
    if self.warm_up.take() or self.policy is None:
      return None
    if self.epsilon > 0 and self.rng.random() < self.epsilon:
      return None
    return self.policy

  def random_action(self) -> Array:
    """A uniformly random action.

    Raises:
      UserError: the spec has no finite bounds.
    """
    return random_action(self.actions, self.rng)
