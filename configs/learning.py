"""The learner's part of a run's config: what every algorithm uses."""

import dataclasses
from typing import Literal, get_args

from configs.algorithms import ALGORITHMS, AlgorithmConfig, DdqnConfig
from configs.checks import require, require_positive
from configs.schedules import linear

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
class LearnerConfig:
  """The learner.

  Attributes:
    algorithm: which one, with what it has of its own: one of `configs.algorithms`.
    batch_size: transitions per gradient step.
    learning_rate: of Adam.
    max_gradient_norm: length to which each network's gradient is cut; None for no limit.
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

  algorithm: AlgorithmConfig = DdqnConfig()
  batch_size: int = 32
  learning_rate: float = 1e-3
  max_gradient_norm: float | None = None
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
      type(self.algorithm) in ALGORITHMS.values(),
      f"learner.algorithm is {self.algorithm!r}: give it a {' or '.join(kind.__name__ for kind in ALGORITHMS.values())}.",
    )
    require(
      self.bias_correction in get_args(BiasCorrection),
      f"learner.bias_correction is {self.bias_correction!r}: use one of {', '.join(get_args(BiasCorrection))}.",
    )
    require_positive("learner", batch_size=self.batch_size, learning_rate=self.learning_rate, n_step=self.n_step)
    if self.max_gradient_norm is not None:
      require_positive("learner", max_gradient_norm=self.max_gradient_norm)
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
