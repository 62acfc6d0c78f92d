"""The learner's part of a run's config, with its algorithms' own."""

import dataclasses
import math
from typing import Literal, get_args

from configs.checks import require, require_positive
from configs.schedules import linear

Algorithm = Literal["ddqn", "sac", "qr_sac", "td3"]
BiasCorrection = Literal["none", "counts", "priority_sum", "balance"]


@dataclasses.dataclass(frozen=True)
class CagradConfig:
  """Conflict-averse gradients over the tables' losses (SSET, Section 5.7; Liu et al., 2021); see docs/design.md.

  Attributes:
    coefficient: c at the start, in [0, 1); 0 is the average gradient, higher serves the worst-served table more.
    final_coefficient: the value it reaches, linearly; None keeps `coefficient`. The paper suggests 0: a high one learns
      faster at first and ends lower.
    updates: gradient steps over which it gets there.
  """

  coefficient: float = 0.0
  final_coefficient: float | None = None
  updates: int = 10_000

  def __post_init__(self) -> None:
    final = () if self.final_coefficient is None else (self.final_coefficient,)
    for value in (self.coefficient, *final):
      require(0 <= value < 1, f"A coefficient of learner.cagrad is {value}: it must lie in [0, 1).")
    require_positive("learner.cagrad", updates=self.updates)
    require(
      self.final_coefficient is not None or self.updates == CagradConfig.updates,
      "learner.cagrad.updates is how long the coefficient takes to its final value, and there is none: set "
      "learner.cagrad.final_coefficient, or leave it out.",
    )

  @property
  def in_use(self) -> bool:
    """Whether gradients are ever anything but the average."""
    return bool(self.coefficient or self.final_coefficient)

  def coefficient_at(self, updates: int) -> float:
    """c after some gradient steps."""
    return linear(self.coefficient, self.final_coefficient, updates / self.updates)


@dataclasses.dataclass(frozen=True)
class SacConfig:
  """Soft actor-critic, and QR-SAC; see docs/algorithms.md.

  Attributes:
    temperature: alpha, at the start where it is learned.
    learn_temperature: whether alpha follows the policy's entropy.
    target_entropy: that it keeps; None for minus the number of action dimensions.
    quantiles: N of each critic of QR-SAC.
    kappa: where QR-SAC's quantile Huber loss turns linear.
  """

  temperature: float = 1.0
  learn_temperature: bool = True
  target_entropy: float | None = None
  quantiles: int = 32
  kappa: float = 1.0

  def __post_init__(self) -> None:
    require_positive("learner.sac", temperature=self.temperature, quantiles=self.quantiles, kappa=self.kappa)
    require(
      self.target_entropy is None or math.isfinite(self.target_entropy),
      f"learner.sac.target_entropy is {self.target_entropy}: it must be a finite number, or none.",
    )


@dataclasses.dataclass(frozen=True)
class Td3Config:
  """TD3 (Fujimoto et al., 2018); see docs/algorithms.md.

  Attributes:
    policy_period: updates of the critics for one of the policy.
    target_period: updates of the critics after which all target networks follow; None takes `policy_period`, as in TD3's paper.
    target_noise: deviation of the noise on the target policy's actions.
    target_noise_clip: where that noise is cut off.
  """

  policy_period: int = 2
  target_period: int | None = None
  target_noise: float = 0.2
  target_noise_clip: float = 0.5

  def __post_init__(self) -> None:
    require_positive("learner.td3", policy_period=self.policy_period)
    if self.target_period is not None:
      require_positive("learner.td3", target_period=self.target_period)
    for name, value in (("target_noise", self.target_noise), ("target_noise_clip", self.target_noise_clip)):
      require(
        math.isfinite(value) and value >= 0, f"learner.td3.{name} is {value}: it must be a finite number, 0 or more."
      )


@dataclasses.dataclass(frozen=True)
class LearnerConfig:
  """The learner.

  Attributes:
    algorithm: `ddqn` (double DQN) for discrete actions; `sac`, `qr_sac` (SAC with quantile critics) or `td3` for continuous ones.
    sac: of SAC and QR-SAC.
    td3: of TD3.
    batch_size: transitions per gradient step.
    learning_rate: of Adam.
    policy_learning_rate: of the policy, where there is one beside critics; None takes `learning_rate`.
    max_gradient_norm: length to which each network's gradient is cut; None for no limit.
    policy_l2: weight of the squares of the policy's weights in its loss (NMER's experiments with SAC).
    discount: gamma.
    n_step: steps in the return of a row.
    bias_correction: weights against the bias of event tables where outcomes are random: `none`, `counts` (SSET, Lemma 2, for
      few states), `priority_sum` (its form for continuous states) or `balance` (the exact ratio to uniform replay).
    cagrad: how the tables' gradients are combined.
    target_update_rate: share of the online weights that the target network takes over after each gradient step (Polyak).
    updates_per_block: K, gradient steps per call; a block of K batches is drawn at once.
    prefetch: draw the next block while this one is learned from. False with `updates_per_block=1` draws every batch
      afresh, after the last one's update.
    publish_period_updates: gradient steps between two policies sent to the workers.
    checkpoint_period_seconds: between two checkpoints; one more is written when the run stops.
    mixed_precision: compute the networks' hidden layers in float16, with float32 weights and a loss scale: for large networks on
      a GPU.
    jit_compile: compile the update with XLA where the device is a CPU: an update of SAC takes a seventh less time, the first
      one some five seconds more.
    device: a TensorFlow device, as "CPU:0" or "GPU:0"; empty takes the first GPU, or else the CPU.
    threads: of TensorFlow; 0 takes half of the machine's cores, or one in an inline run.
  """

  algorithm: Algorithm = "ddqn"
  sac: SacConfig = SacConfig()
  td3: Td3Config = Td3Config()
  batch_size: int = 32
  learning_rate: float = 1e-3
  policy_learning_rate: float | None = None
  max_gradient_norm: float | None = None
  policy_l2: float = 0.0
  discount: float = 0.99
  n_step: int = 1
  bias_correction: BiasCorrection = "none"
  cagrad: CagradConfig = CagradConfig()
  target_update_rate: float = 0.01
  updates_per_block: int = 32
  prefetch: bool = True
  publish_period_updates: int = 64
  checkpoint_period_seconds: float = 60.0
  mixed_precision: bool = False
  jit_compile: bool = False
  device: str = ""
  threads: int = 0

  def __post_init__(self) -> None:
    require(self.threads >= 0, f"learner.threads is {self.threads}: it must be 0 or more.")
    require(
      self.algorithm in get_args(Algorithm),
      f"learner.algorithm is {self.algorithm!r}: use one of {', '.join(get_args(Algorithm))}.",
    )
    require(
      self.bias_correction in get_args(BiasCorrection),
      f"learner.bias_correction is {self.bias_correction!r}: use one of {', '.join(get_args(BiasCorrection))}.",
    )
    require_positive("learner", batch_size=self.batch_size, learning_rate=self.learning_rate, n_step=self.n_step)
    for name, value in (
      ("policy_learning_rate", self.policy_learning_rate),
      ("max_gradient_norm", self.max_gradient_norm),
    ):
      if value is not None:
        require_positive("learner", **{name: value})
    require(
      math.isfinite(self.policy_l2) and self.policy_l2 >= 0,
      f"learner.policy_l2 is {self.policy_l2}: it must be a finite number, 0 or more.",
    )
    require_positive(
      "learner", updates_per_block=self.updates_per_block, publish_period_updates=self.publish_period_updates
    )
    require_positive("learner", checkpoint_period_seconds=self.checkpoint_period_seconds)
    require(
      not (self.mixed_precision and self.cagrad.in_use),
      "learner.mixed_precision leaves too few digits for the products of gradients that learner.cagrad is made from: switch "
      "one of them off.",
    )
    require(0 <= self.discount <= 1, f"learner.discount is {self.discount}: it must lie in [0, 1].")
    require(
      0 < self.target_update_rate <= 1,
      f"learner.target_update_rate is {self.target_update_rate}: it must lie in (0, 1].",
    )
