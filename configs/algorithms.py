"""The algorithms' own parts of a config: `learner.algorithm` is one of them.

In JSON a member is tagged with its name, {"name": "sac", "temperature": 0.2}; a name alone stands for its defaults. What every
algorithm uses (learning rate, batch size, discount, ...) is `LearnerConfig`'s.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar, Literal

from configs.checks import require, require_positive
from configs.errors import UserError, name_hint
from configs.schedules import linear

_PART = "learner.algorithm"


@dataclasses.dataclass(frozen=True)
class AlgorithmConfig:
  """What an algorithm has of its own. Every member of the union derives from this and is listed in `ALGORITHMS`.

  Attributes:
    NAME: its tag in JSON, on the command line and in messages.
    POLICY: the policy network that it publishes: `values` of discrete actions, a `gaussian` behind a tanh, or a `deterministic`
      one.
    ACTIONS: those it chooses.
  """

  NAME: ClassVar[str]
  POLICY: ClassVar[Literal["values", "gaussian", "deterministic"]]
  ACTIONS: ClassVar[Literal["discrete", "continuous"]]

  def epsilon_at(self, worker_index: int, gradient_steps: int) -> float:
    """The share of random actions that a worker mixes in; 0 for an algorithm whose policy explores by itself.

    Args:
      worker_index: of the worker, from 0.
      gradient_steps: of the policy that acts.
    """
    del worker_index, gradient_steps
    return 0.0

  def row_fields(self, action_shape: tuple[int, ...]) -> Mapping[str, tuple[str, tuple[int, ...]]]:
    """What a row must hold beyond the transition: name -> (dtype, shape).

    Args:
      action_shape: of one action.
    """
    del action_shape
    return {}

  def check_network(self, hidden_sizes: tuple[int, ...]) -> None:
    """Raises `UserError` where the algorithm cannot use networks with these hidden layers."""
    del hidden_sizes


@dataclasses.dataclass(frozen=True)
class DdqnConfig(AlgorithmConfig):
  """Double DQN (van Hasselt et al., 2016) with an epsilon-greedy policy; see docs/algorithms.md.

  Attributes:
    dueling: whether the network has one stream for the state's value and one for advantages (Wang et al., 2016); the last hidden
      layer is then there twice.
    epsilon: share of the workers' actions that are random, at the start.
    final_epsilon: the value it falls to, linearly; None keeps `epsilon`.
    epsilon_decay_updates: gradient steps over which it falls.
    worker_epsilons: constant values for worker 0, 1, ... (in turn, where there are more workers); replaces the three above.
  """

  NAME = "ddqn"
  POLICY = "values"
  ACTIONS = "discrete"

  dueling: bool = False
  epsilon: float = 0.3
  final_epsilon: float | None = None
  epsilon_decay_updates: int = 10_000
  worker_epsilons: tuple[float, ...] = ()

  def __post_init__(self) -> None:
    final = () if self.final_epsilon is None else (self.final_epsilon,)
    for value in (self.epsilon, *final, *self.worker_epsilons):
      require(0 <= value <= 1, f"An epsilon of {_PART} is {value}: it is a probability, from 0 to 1.")
    require_positive(_PART, epsilon_decay_updates=self.epsilon_decay_updates)

  def epsilon_at(self, worker_index: int, gradient_steps: int) -> float:
    """The worker's own constant, or else the value of the schedule."""
    if self.worker_epsilons:
      return self.worker_epsilons[worker_index % len(self.worker_epsilons)]
    return linear(self.epsilon, self.final_epsilon, gradient_steps / self.epsilon_decay_updates)

  def check_network(self, hidden_sizes: tuple[int, ...]) -> None:
    """Raises `UserError` where there is no hidden layer for the two streams."""
    require(
      not self.dueling or bool(hidden_sizes),
      f"{_PART}.dueling splits the last hidden layer, and network.hidden_sizes is empty: give it a layer.",
    )


@dataclasses.dataclass(frozen=True)
class ActorCriticConfig(AlgorithmConfig):
  """What algorithms with a policy beside critics have in common.

  Attributes:
    policy_learning_rate: of the policy; None takes `learner.learning_rate`.
    policy_l2: weight of the squares of the policy's weights in its loss (NMER's experiments with SAC).
  """

  ACTIONS = "continuous"

  policy_learning_rate: float | None = None
  policy_l2: float = 0.0

  def __post_init__(self) -> None:
    if self.policy_learning_rate is not None:
      require_positive(_PART, policy_learning_rate=self.policy_learning_rate)
    _require_not_negative(policy_l2=self.policy_l2)


@dataclasses.dataclass(frozen=True)
class SacConfig(ActorCriticConfig):
  """Soft actor-critic (Haarnoja et al., 2018); see docs/algorithms.md.

  Attributes:
    policy_dropout: share of the units of the policy's hidden layers that are left out in training.
    temperature: alpha, at the start where it is learned.
    learn_temperature: whether alpha follows the policy's entropy.
    target_entropy: the entropy that it keeps; None for minus the number of action dimensions.
  """

  NAME = "sac"
  POLICY = "gaussian"

  policy_dropout: float = 0.0
  temperature: float = 1.0
  learn_temperature: bool = True
  target_entropy: float | None = None

  def __post_init__(self) -> None:
    super().__post_init__()
    require(0 <= self.policy_dropout < 1, f"{_PART}.policy_dropout is {self.policy_dropout}: it must lie in [0, 1).")
    require_positive(_PART, temperature=self.temperature)
    require(
      self.target_entropy is None or math.isfinite(self.target_entropy),
      f"{_PART}.target_entropy is {self.target_entropy}: it must be a finite number, or none.",
    )
    require(
      self.learn_temperature or self.target_entropy is None,
      f"{_PART}.target_entropy is {self.target_entropy}, and a temperature that is not learned "
      f"({_PART}.learn_temperature) follows no entropy: set it to none, or let the temperature be learned.",
    )


@dataclasses.dataclass(frozen=True)
class QrSacConfig(SacConfig):
  """SAC with quantile critics (Wurman et al., 2022).

  Attributes:
    quantiles: N of each critic.
    kappa: where the quantile Huber loss turns linear.
  """

  NAME = "qr_sac"

  quantiles: int = 32
  kappa: float = 1.0

  def __post_init__(self) -> None:
    super().__post_init__()
    require_positive(_PART, quantiles=self.quantiles, kappa=self.kappa)


@dataclasses.dataclass(frozen=True)
class Td3Config(ActorCriticConfig):
  """TD3 (Fujimoto et al., 2018); see docs/algorithms.md.

  Attributes:
    action_noise: deviation of the Gaussian noise on the workers' actions, where these lie in [-1, 1].
    policy_period: updates of the critics for one of the policy.
    target_period: updates of the critics after which all target networks follow; None takes `policy_period`, as in TD3's paper.
    target_noise: deviation of the noise on the target policy's actions.
    target_noise_clip: where that noise is cut off.
  """

  NAME = "td3"
  POLICY = "deterministic"

  action_noise: float = 0.1
  policy_period: int = 2
  target_period: int | None = None
  target_noise: float = 0.2
  target_noise_clip: float = 0.5

  def __post_init__(self) -> None:
    super().__post_init__()
    require_positive(_PART, policy_period=self.policy_period)
    if self.target_period is not None:
      require_positive(_PART, target_period=self.target_period)
    _require_not_negative(
      action_noise=self.action_noise, target_noise=self.target_noise, target_noise_clip=self.target_noise_clip
    )


# The config's union, by tag.
ALGORITHMS: dict[str, type[AlgorithmConfig]] = {
  member.NAME: member for member in (DdqnConfig, SacConfig, QrSacConfig, Td3Config)
}


def find_algorithm(name: object) -> type[AlgorithmConfig]:
  """The member of the union with this tag.

  Raises:
    UserError: there is none; the sentence names the nearest.
  """
  if not isinstance(name, str):
    raise UserError(f"{_PART} has the name {name!r}: use one of {', '.join(ALGORITHMS)}.")
  if name not in ALGORITHMS:
    raise UserError(f"There is no algorithm {name!r} for {_PART}: {name_hint(name, ALGORITHMS)}")
  return ALGORITHMS[name]


def _require_not_negative(**values: float) -> None:
  for name, value in values.items():
    require(math.isfinite(value) and value >= 0, f"{_PART}.{name} is {value}: it must be a finite number, 0 or more.")
