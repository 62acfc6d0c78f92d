"""The configs of the algorithms; `learner.algorithm` is one of them.

In JSON a tag names the algorithm: {"name": "sac", "temperature": 0.2}. A name alone stands for its defaults. Settings that every
algorithm uses (learning rate, batch size, discount, ...) belong to `LearnerConfig`.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

from configs.checks import require, require_positive, require_whole
from configs.errors import UserError, name_hint
from configs.schedules import linear

_PART = "learner.algorithm"
# A critic has an output for each.
_MOST_QUANTILES = 65_536

TdLoss = Literal["squared", "huber"]
Noise = Literal["gaussian", "ornstein_uhlenbeck"]
Advantage = Literal["none", "quadratic", "gaussian"]
PolicyKind = Literal["values", "gaussian", "deterministic", "value_gaussian", "naf"]
# Of these an action is drawn from a Gaussian whose density is known; a tanh changes it, and values give none.
GAUSSIAN_BEHAVIOURS: tuple[PolicyKind, ...] = ("deterministic", "value_gaussian", "naf")


@dataclasses.dataclass(frozen=True)
class AlgorithmConfig:
  """Base class of the algorithms' configs. Subclasses that can be chosen are listed in `ALGORITHMS`.

  Attributes:
    NAME: tag in JSON, on the command line and in messages.
    POLICY: kind of policy network that the learner publishes: `values` (one per discrete action), `gaussian` (squashed by a
      tanh), `deterministic`, `value_gaussian` (a state's value and a Gaussian) or `naf` (values quadratic in the action).
    ACTIONS: kind of actions that the algorithm chooses.
    SIDE_BY_SIDE: whether two cores make an update faster, a critic on each, than XLA makes it on one.
    STORES_BEHAVIOUR: whether the algorithm reads the Gaussian that each row's action was drawn from.
  """

  NAME: ClassVar[str]
  POLICY: ClassVar[PolicyKind]
  ACTIONS: ClassVar[Literal["discrete", "continuous"]]
  SIDE_BY_SIDE: ClassVar[bool] = False
  STORES_BEHAVIOUR: ClassVar[bool] = False

  def epsilon_at(self, worker_index: int, gradient_steps: int) -> float:
    """The probability that a worker takes a random action; 0 if the algorithm's policy explores by itself.

    Args:
      worker_index: counted from 0.
      gradient_steps: of the policy that the worker uses.
    """
    del worker_index, gradient_steps
    return 0.0

  def row_fields(self, action_shape: tuple[int, ...]) -> Mapping[str, tuple[str, tuple[int, ...]]]:
    """The fields that a row holds for this algorithm alone, beyond the transition: name -> (dtype, shape).

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
    dueling: whether the network has one stream for the state's value and one for advantages (Wang et al., 2016), each with a
      last hidden layer of its own.
    td_loss: of a TD error: "squared", half its square, or "huber", which grows linearly beyond 1.
    epsilon: probability of a random action, at the start.
    final_epsilon: value that epsilon reaches linearly; None keeps it constant.
    epsilon_decay_updates: gradient steps until epsilon reaches its final value.
    worker_epsilons: constant values for worker 0, 1, ..., repeated if there are more workers; replaces the three above.
  """

  NAME = "ddqn"
  POLICY = "values"
  ACTIONS = "discrete"

  dueling: bool = False
  td_loss: TdLoss = "squared"
  epsilon: float = 0.3
  final_epsilon: float | None = None
  epsilon_decay_updates: int = 10_000
  worker_epsilons: tuple[float, ...] = ()

  def __post_init__(self) -> None:
    require(
      self.td_loss in get_args(TdLoss),
      f"{_PART}.td_loss is {self.td_loss!r}: use one of {', '.join(get_args(TdLoss))}.",
    )
    final = () if self.final_epsilon is None else (self.final_epsilon,)
    for value in (self.epsilon, *final, *self.worker_epsilons):
      require(0 <= value <= 1, f"An epsilon of {_PART} is {value}: it is a probability, from 0 to 1.")
    require_whole(_PART, epsilon_decay_updates=self.epsilon_decay_updates)

  def epsilon_at(self, worker_index: int, gradient_steps: int) -> float:
    """The worker's constant if there is one, otherwise the scheduled value."""
    if self.worker_epsilons:
      return self.worker_epsilons[worker_index % len(self.worker_epsilons)]
    return linear(self.epsilon, self.final_epsilon, gradient_steps / self.epsilon_decay_updates)

  def check_network(self, hidden_sizes: tuple[int, ...]) -> None:
    """Raises `UserError` if a duelling network has no hidden layer for its two streams."""
    require(
      not self.dueling or bool(hidden_sizes),
      f"{_PART}.dueling splits the last hidden layer, and network.hidden_sizes is empty: add a layer.",
    )


@dataclasses.dataclass(frozen=True)
class ActorCriticConfig(AlgorithmConfig):
  """The settings that all algorithms with a policy and critics share.

  Attributes:
    policy_learning_rate: of the policy; None takes `learner.learning_rate`.
    policy_l2: weight of the L2 penalty on the policy's weights in its loss (used in NMER's experiments with SAC).
  """

  ACTIONS = "continuous"
  SIDE_BY_SIDE = True

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
    policy_dropout: dropout rate of the policy's hidden layers in training.
    temperature: alpha; the initial value if it is learned.
    learn_temperature: whether alpha is adjusted to hold the policy's entropy at its target.
    target_entropy: that target; None for minus the number of action dimensions.
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
      f"{_PART}.target_entropy is {self.target_entropy}, but only a learned temperature ({_PART}.learn_temperature) uses it: "
      "set it to none, or learn the temperature.",
    )


@dataclasses.dataclass(frozen=True)
class QrSacConfig(SacConfig):
  """SAC with quantile critics (Wurman et al., 2022).

  Attributes:
    quantiles: N, the number of quantiles of each critic.
    kappa: error at which the quantile Huber loss becomes linear.
  """

  NAME = "qr_sac"
  # Its loss of all pairs of quantiles is a hundred small operations, which XLA makes one.
  SIDE_BY_SIDE = False

  quantiles: int = 32
  kappa: float = 1.0

  def __post_init__(self) -> None:
    super().__post_init__()
    require_whole(_PART, most=_MOST_QUANTILES, quantiles=self.quantiles)
    require_positive(_PART, kappa=self.kappa)


@dataclasses.dataclass(frozen=True)
class Td3Config(ActorCriticConfig):
  """TD3 (Fujimoto et al., 2018); see docs/algorithms.md.

  Attributes:
    action_noise: standard deviation of the Gaussian noise on the workers' actions, which lie in [-1, 1].
    policy_period: critic updates per policy update.
    target_period: critic updates per update of the target networks; None takes `policy_period`, as in TD3's paper.
    target_noise: standard deviation of the noise on the target policy's actions.
    target_noise_clip: bound to which that noise is clipped.
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
    require_whole(_PART, policy_period=self.policy_period)
    if self.target_period is not None:
      require_whole(_PART, target_period=self.target_period)
    _require_not_negative(
      action_noise=self.action_noise, target_noise=self.target_noise, target_noise_clip=self.target_noise_clip
    )


@dataclasses.dataclass(frozen=True)
class NoisyConfig(AlgorithmConfig):
  """The settings of the noise on the workers' actions, which lie in [-1, 1].

  Attributes:
    action_noise: sigma, standard deviation of what is drawn anew at each step.
    noise: "gaussian", sigma N(0, I), or "ornstein_uhlenbeck", which remembers itself: noise_t = (1 - theta) noise_{t-1} +
      sigma N(0, I), from 0 at each episode's start.
    noise_reversion: theta; "gaussian" does not use it.
  """

  action_noise: float = 0.2
  noise: Noise = "gaussian"
  noise_reversion: float = 0.15

  def __post_init__(self) -> None:
    _require_not_negative(action_noise=self.action_noise)
    require(self.noise in get_args(Noise), f"{_PART}.noise is {self.noise!r}: use one of {', '.join(get_args(Noise))}.")
    require(0 < self.noise_reversion <= 1, f"{_PART}.noise_reversion is {self.noise_reversion}: it must lie in (0, 1].")


@dataclasses.dataclass(frozen=True)
class DdpgConfig(ActorCriticConfig, NoisyConfig):
  """DDPG (Lillicrap et al., 2016) as in ReF-ER (Novati & Koumoutsakos, 2019); see docs/algorithms.md.

  Attributes:
    critic_l2: weight of the L2 penalty on the critic's weights in its loss; 1e-4 in ReF-ER's experiments.
  """

  NAME = "ddpg"
  POLICY = "deterministic"
  # It has one critic.
  SIDE_BY_SIDE = False

  critic_l2: float = 0.0

  def __post_init__(self) -> None:
    ActorCriticConfig.__post_init__(self)
    NoisyConfig.__post_init__(self)
    _require_not_negative(critic_l2=self.critic_l2)


@dataclasses.dataclass(frozen=True)
class NafConfig(NoisyConfig):
  """NAF, normalised advantage functions (Gu et al., 2016), as in ReF-ER; see docs/algorithms.md."""

  NAME = "naf"
  POLICY = "naf"
  ACTIONS = "continuous"


@dataclasses.dataclass(frozen=True)
class VRacerConfig(AlgorithmConfig):
  """V-RACER (Novati & Koumoutsakos, 2019, Section 2): a value and a Gaussian policy in one network.

  Attributes:
    initial_deviation: standard deviation of each component of an action at first; the paper's covariance is .2 I.
    advantage: "none", every action has its state's value, or a closed form that the network has coefficients for: "quadratic", as
      in NAF, or "gaussian", an asymmetric bell (Appendix E).
  """

  NAME = "v_racer"
  POLICY = "value_gaussian"
  ACTIONS = "continuous"
  STORES_BEHAVIOUR = True

  initial_deviation: float = 0.2**0.5
  advantage: Advantage = "none"

  def __post_init__(self) -> None:
    require_positive(_PART, initial_deviation=self.initial_deviation)
    known = get_args(Advantage)
    require(self.advantage in known, f"{_PART}.advantage is {self.advantage!r}: use one of {', '.join(known)}.")


# Tag -> algorithm.
ALGORITHMS: dict[str, type[AlgorithmConfig]] = {
  member.NAME: member for member in (DdqnConfig, SacConfig, QrSacConfig, Td3Config, DdpgConfig, NafConfig, VRacerConfig)
}


def find_algorithm(name: object) -> type[AlgorithmConfig]:
  """The algorithm with this tag.

  Raises:
    UserError: there is none; the message suggests the nearest.
  """
  if not isinstance(name, str):
    raise UserError(f"{_PART} has the name {name!r}: use one of {', '.join(ALGORITHMS)}.")
  if name not in ALGORITHMS:
    raise UserError(f"There is no algorithm {name!r} for {_PART}: {name_hint(name, ALGORITHMS)}")
  return ALGORITHMS[name]


def _require_not_negative(**values: float) -> None:
  for name, value in values.items():
    require(math.isfinite(value) and value >= 0, f"{_PART}.{name} is {value}: it must be a finite number, 0 or more.")
