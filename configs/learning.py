"""The learner's part of a run's config: the settings that every algorithm uses."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Literal, get_args

from configs.algorithms import ALGORITHMS, GAUSSIAN_BEHAVIOURS, AlgorithmConfig, DdqnConfig, Td3Config
from configs.checks import require, require_positive, require_seconds, require_whole, shown
from configs.mixup import MixupConfig
from configs.refer import ReferConfig
from configs.schedules import linear

# TensorFlow starts them all at once.
_MOST_THREADS = 1_024

BiasCorrection = Literal["none", "counts", "priority_sum", "balance"]


@dataclasses.dataclass(frozen=True)
class CagradConfig:
  """Conflict-averse gradients over the tables' losses (SSET, Section 5.7; Liu et al., 2021); see docs/design.md.

  Attributes:
    coefficient: c at the start, in [0, 1); 0 is the average gradient, a higher c improves the worst-served table more.
    final_coefficient: value that c reaches linearly; None keeps it constant. The paper suggests 0: a high c learns faster at
      first but ends lower.
    updates: gradient steps until c reaches its final value.
  """

  coefficient: float = 0.0
  final_coefficient: float | None = None
  updates: int = 10_000

  def __post_init__(self) -> None:
    final = () if self.final_coefficient is None else (self.final_coefficient,)
    for value in (self.coefficient, *final):
      require(0 <= value < 1, f"A coefficient of learner.cagrad is {value}: it must lie in [0, 1).")
    require_whole("learner.cagrad", updates=self.updates)
    require(
      self.final_coefficient is not None or self.updates == CagradConfig.updates,
      "learner.cagrad.updates is set without learner.cagrad.final_coefficient, so the coefficient stays constant: set both, or "
      "leave updates out.",
    )

  @property
  def in_use(self) -> bool:
    """Whether gradients ever differ from the average."""
    return bool(self.coefficient or self.final_coefficient)

  def coefficient_at(self, updates: int) -> float:
    """c after this many gradient steps."""
    return linear(self.coefficient, self.final_coefficient, updates / self.updates)


@dataclasses.dataclass(frozen=True)
class LearnerConfig:
  """The learner.

  Attributes:
    algorithm: the algorithm, with its own settings; see `configs.algorithms`.
    batch_size: transitions per gradient step.
    learning_rate: of Adam.
    final_learning_rate: to which the rate falls linearly; None keeps it constant. The `policy_learning_rate` of an algorithm
      falls by the same factor.
    learning_rate_decay_updates: gradient steps until the rate is the final one.
    max_gradient_norm: norm to which each network's gradient is clipped; None for no clipping.
    discount: gamma.
    n_step: steps in the return of a row.
    bias_correction: weights that correct the bias of event tables in stochastic environments: `none`, `counts` (SSET, Lemma 2,
      for few states), `priority_sum` (its form for continuous states) or `balance` (the exact ratio to uniform replay).
    cagrad: how the tables' gradients are combined.
    mixup: how drawn rows are mixed before they are learned from.
    refer: which steps give gradients, and how the policy is held near their behaviour (ReF-ER).
    scale_rewards: whether rewards are divided by their root mean square over the default table, which is measured before the
      first update and every 1,000 (ReF-ER, Eq. 16). Needs replay.sampling="memory".
    target_update_rate: fraction of the way that an update moves a target network to the online weights (Polyak averaging); 1
      copies them.
    target_update_period: gradient steps from one such move to the next. TD3 has a period of its own.
    updates_per_block: K, gradient steps per call; a block of K batches is drawn at once.
    prefetch: whether the next block is drawn while the current one is used, and so without knowing what that one changes. False
      draws a block when it is due, and so with `updates_per_block=1` each batch only after the previous update.
    publish_period_updates: gradient steps between two policies sent to the workers.
    checkpoint_period_seconds: time between two checkpoints; another is written when the run stops.
    mixed_precision: whether hidden layers are computed in float16, with float32 weights and loss scaling; for large networks on
      a GPU.
    jit_compile: whether the update is compiled with XLA if the device is a CPU and the update has one core. It makes an update
      of SAC a seventh faster and the first update about five seconds slower.
    device: a TensorFlow device, such as "CPU:0" or "GPU:0"; empty takes the first GPU, or the CPU if there is none.
    threads: number of TensorFlow threads; 0 takes half of the cores that the learner may use (its CPU set and its container's
      quota count), or one in an inline run. SAC and TD3 take at least two where there are two cores, a critic on each.
  """

  algorithm: AlgorithmConfig = DdqnConfig()
  batch_size: int = 32
  learning_rate: float = 1e-3
  final_learning_rate: float | None = None
  learning_rate_decay_updates: int = 100_000
  max_gradient_norm: float | None = None
  discount: float = 0.99
  n_step: int = 1
  bias_correction: BiasCorrection = "none"
  cagrad: CagradConfig = CagradConfig()
  mixup: MixupConfig = MixupConfig()
  refer: ReferConfig = ReferConfig()
  scale_rewards: bool = False
  target_update_rate: float = 0.01
  target_update_period: int = 1
  updates_per_block: int = 32
  prefetch: bool = True
  publish_period_updates: int = 64
  checkpoint_period_seconds: float = 60.0
  mixed_precision: bool = False
  jit_compile: bool = False
  device: str = ""
  threads: int = 0

  def __post_init__(self) -> None:
    require_whole("learner", least=0, most=_MOST_THREADS, threads=self.threads)
    require(
      type(self.algorithm) in ALGORITHMS.values(),
      f"learner.algorithm is {self.algorithm!r}: give it a {' or '.join(kind.__name__ for kind in ALGORITHMS.values())}.",
    )
    require(
      self.bias_correction in get_args(BiasCorrection),
      f"learner.bias_correction is {self.bias_correction!r}: use one of {', '.join(get_args(BiasCorrection))}.",
    )
    require_whole("learner", batch_size=self.batch_size, n_step=self.n_step)
    self._check_learning_rate()
    if self.max_gradient_norm is not None:
      require_positive("learner", max_gradient_norm=self.max_gradient_norm)
    require_whole(
      "learner", updates_per_block=self.updates_per_block, publish_period_updates=self.publish_period_updates
    )
    require_seconds("learner", checkpoint_period_seconds=self.checkpoint_period_seconds)
    require(
      not (self.mixed_precision and self.cagrad.in_use),
      "learner.mixed_precision is not precise enough for the products of gradients in learner.cagrad: switch one of them off.",
    )
    require(0 <= self.discount <= 1, f"learner.discount is {self.discount}: it must lie in [0, 1].")
    require(
      0 < self.target_update_rate <= 1,
      f"learner.target_update_rate is {self.target_update_rate}: it must lie in (0, 1].",
    )
    require_whole("learner", target_update_period=self.target_update_period)
    require(
      self.target_update_period == 1 or not isinstance(self.algorithm, Td3Config),
      "learner.target_update_period is set, but TD3 has a period of its own: set learner.algorithm.target_period.",
    )
    self._check_behaviour()

  def _check_learning_rate(self) -> None:
    require_positive("learner", learning_rate=self.learning_rate)
    require_whole("learner", learning_rate_decay_updates=self.learning_rate_decay_updates)
    if self.final_learning_rate is None:
      require(
        self.learning_rate_decay_updates == LearnerConfig.learning_rate_decay_updates,
        "learner.learning_rate_decay_updates is set without learner.final_learning_rate, so the rate stays constant: set both, "
        "or leave learning_rate_decay_updates out.",
      )
      return
    require(
      0 <= self.final_learning_rate <= self.learning_rate,
      f"learner.final_learning_rate is {shown(self.final_learning_rate)}: it must lie between 0 and learner.learning_rate, "
      f"{self.learning_rate}.",
    )
    require(
      not (self.refer.rejects or self.refer.penalizes),
      "learner.final_learning_rate is set, but ReF-ER lets the learning rate fall by learner.refer.annealing: use one of them.",
    )

  def learning_rate_scale_at(self, updates: int) -> float:
    """What the learning rates are multiplied by after this many gradient steps."""
    rate = linear(self.learning_rate, self.final_learning_rate, updates / self.learning_rate_decay_updates)
    return rate / self.learning_rate

  def _check_behaviour(self) -> None:
    if not self.stores_behaviour:
      return
    algorithm = self.algorithm
    needs = f"{self.needs_behaviour}, which needs the Gaussian that each action was drawn from"
    require(
      algorithm.POLICY in GAUSSIAN_BEHAVIOURS,
      f"{needs}, and {algorithm.NAME!r} draws from none: use one of "
      f"{', '.join(name for name, kind in ALGORITHMS.items() if kind.POLICY in GAUSSIAN_BEHAVIOURS)}.",
    )
    require(
      getattr(algorithm, "action_noise", 1.0) > 0,
      f"{needs}, and learner.algorithm.action_noise is 0: raise it.",
    )
    require(
      self.mixup.kind == "none",
      f"{needs}, and a mixed row has none: set learner.mixup.kind to 'none'.",
    )
    require(self.n_step == 1, f"{needs}, one for each row, and learner.n_step is {shown(self.n_step)}: set it to 1.")

  @property
  def stores_behaviour(self) -> bool:
    """Whether rows hold the Gaussian that their action was drawn from, as the field `behaviour`."""
    return self.algorithm.STORES_BEHAVIOUR or self.refer.is_on

  @property
  def needs_behaviour(self) -> str:
    """The setting for which rows hold that Gaussian, as the beginning of a sentence."""
    if self.refer.is_on:
      return f"learner.refer.rules is {self.refer.rules!r}"
    return f"learner.algorithm is {self.algorithm.NAME!r}"

  def row_fields(self, action_shape: tuple[int, ...]) -> Mapping[str, tuple[str, tuple[int, ...]]]:
    """The fields that a row holds beyond the transition: name -> (dtype, shape).

    Args:
      action_shape: of one action.
    """
    behaviour = {"behaviour": ("float32", (2 * math.prod(action_shape),))} if self.stores_behaviour else {}
    return {**self.algorithm.row_fields(action_shape), **behaviour}
