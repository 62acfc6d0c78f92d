"""Remember and forget experience replay (ReF-ER; Novati & Koumoutsakos, 2019)."""

import dataclasses
import math
from typing import Literal, get_args

from configs.checks import require, shown

Rules = Literal["off", "watched", "first", "second", "both"]
BetaRate = Literal["learning_rate", "batch_share"]


@dataclasses.dataclass(frozen=True)
class ReferConfig:
  """ReF-ER's rules (Section 3); see docs/algorithms.md.

  Attributes:
    rules: "off"; "watched": rows hold their behaviour, and the learner measures how far the policy is from it; "first": steps
      that are too unlikely or too likely under the policy give no gradient (Rule 1); "second": a penalty on KL(behaviour ||
      policy) holds the policy near what it replays (Rule 2); "both" is ReF-ER.
    limit: C, of c_max = 1 + C / (1 + A t); a step with an importance weight outside (1 / c_max, c_max) is far-policy.
    tolerance: D, the share of far-policy steps in memory that the penalty's weight 1 - beta aims at.
    annealing: A, by which c_max falls to 1 and the learning rate to 0 with environment steps.
    beta_rate: step of beta: "learning_rate" as in the paper (Eq. 12), or "batch_share", .1 times batch over memory size, as in
      the authors' code.
  """

  rules: Rules = "off"
  limit: float = 4.0
  tolerance: float = 0.1
  annealing: float = 5e-7
  beta_rate: BetaRate = "learning_rate"

  def __post_init__(self) -> None:
    require(
      self.rules in get_args(Rules), f"learner.refer.rules is {self.rules!r}: use one of {', '.join(get_args(Rules))}."
    )
    require(
      math.isfinite(self.limit) and self.limit > 0,
      f"learner.refer.limit is {shown(self.limit)}: it must be a finite number above 0.",
    )
    require(0 < self.tolerance < 1, f"learner.refer.tolerance is {shown(self.tolerance)}: it must lie in (0, 1).")
    require(
      math.isfinite(self.annealing) and self.annealing >= 0,
      f"learner.refer.annealing is {shown(self.annealing)}: it must be a finite number, 0 or more.",
    )
    require(
      self.beta_rate in get_args(BetaRate),
      f"learner.refer.beta_rate is {self.beta_rate!r}: use one of {', '.join(get_args(BetaRate))}.",
    )

  @property
  def is_on(self) -> bool:
    """Whether rows hold their behaviour."""
    return self.rules != "off"

  @property
  def rejects(self) -> bool:
    """Whether far-policy steps give no gradient (Rule 1)."""
    return self.rules in ("first", "both")

  @property
  def penalizes(self) -> bool:
    """Whether the policy is penalised (Rule 2)."""
    return self.rules in ("second", "both")

  def rate_scale_at(self, environment_steps: int) -> float:
    """What the learning rate is multiplied by, 1 / (1 + A t) (Eq. 13)."""
    return 1.0 / (1.0 + self.annealing * environment_steps)

  def largest_ratio_at(self, environment_steps: int) -> float:
    """c_max (Eq. 13)."""
    return 1.0 + self.limit * self.rate_scale_at(environment_steps)
