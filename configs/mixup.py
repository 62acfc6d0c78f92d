"""What is done to drawn rows before they are learned from (NMER; Sander et al., 2022)."""

import dataclasses
from typing import Literal, get_args

from configs.checks import require, require_whole, shown

MixupKind = Literal["none", "neighbors", "mixup", "continuous", "s4rl", "noise"]
# They look for other rows, which the server cannot do.
_NEED_MEMORY: tuple[MixupKind, ...] = ("neighbors", "mixup", "continuous")
_MOST_NEIGHBORS = 1_000
# numpy's draws from Beta(alpha, alpha) do not end for a far smaller alpha; for these almost all shares are 0 or 1, or 1/2.
_LEAST_ALPHA, _MOST_ALPHA = 1e-3, 1e3
_MOST_DEVIATION = 100.0


@dataclasses.dataclass(frozen=True)
class NeighborsConfig:
  """The neighbours that a row is mixed with.

  Attributes:
    count: k, the length of a row's list of nearest neighbours, one of which is drawn.
    growth: moments and index are made anew once the memory has received this share more rows; 0 does so for every draw.
  """

  count: int = 10
  growth: float = 0.1

  def __post_init__(self) -> None:
    require_whole("learner.mixup.neighbors", most=_MOST_NEIGHBORS, count=self.count)
    require(
      0 <= self.growth <= 1,
      f"learner.mixup.neighbors.growth is {shown(self.growth)}: it must lie in [0, 1].",
    )


@dataclasses.dataclass(frozen=True)
class MixupConfig:
  """How drawn rows are mixed (NMER, Section 5 and Appendices C to E); see docs/algorithms.md.

  Attributes:
    kind: `none`; `neighbors` mixes a row with a near one in state and action (NMER); `mixup` with any stored row; `continuous`
      with the next step of its episode (Continuous Transition); `s4rl` mixes its observation with its next one; `noise` adds
      Gaussian noise.
    neighbors: which rows are near; for `neighbors` alone.
    alpha: lambda, the row's own share, is drawn from Beta(alpha, alpha); 1 draws it uniformly.
    fraction: probability with which each row is changed (Appendix E).
    deviation: sigma of `noise`, in units of each component's deviation.
  """

  kind: MixupKind = "none"
  neighbors: NeighborsConfig = NeighborsConfig()
  alpha: float = 1.0
  fraction: float = 1.0
  deviation: float = 0.1

  def __post_init__(self) -> None:
    require(
      self.kind in get_args(MixupKind),
      f"learner.mixup.kind is {self.kind!r}: use one of {', '.join(get_args(MixupKind))}.",
    )
    require(
      _LEAST_ALPHA <= self.alpha <= _MOST_ALPHA,
      f"learner.mixup.alpha is {shown(self.alpha)}: it must lie in [{_LEAST_ALPHA:g}, {_MOST_ALPHA:g}].",
    )
    require(
      0 < self.deviation <= _MOST_DEVIATION,
      f"learner.mixup.deviation is {shown(self.deviation)}: it must be above 0, at most {_MOST_DEVIATION:g}.",
    )
    require(
      0 <= self.fraction <= 1,
      f"learner.mixup.fraction is {shown(self.fraction)}: it must lie in [0, 1].",
    )

  @property
  def needs_memory(self) -> bool:
    """Whether it looks for other rows, which only the learner's own memory can."""
    return self.kind in _NEED_MEMORY
