"""What the SSET paper proves about event tables, as a calculator (Appendix A.1).

Symbols: eta, the share of a batch that comes from all event tables together; tau, the length of the histories in steps; n, the
number of event tables, which share eta equally; mu, an upper bound of the share of all transitions at which one event
occurs.
"""

import dataclasses
import math

from configs import UserError

# The least value for what must be above 0: far below any useful one, and large enough for floats not to overflow.
LEAST = 1e-12
_MOST_EVENTS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Setting:
  """One set-up of event tables; the module's docstring explains the symbols.

  Attributes:
    eta: in (0, 1).
    tau: in steps, at least 1.
    events: n, at least 1.
    mu: in (0, 1).
  """

  eta: float
  tau: float
  events: int
  mu: float

  def __post_init__(self) -> None:
    if not LEAST <= self.eta <= 1 - LEAST:
      raise UserError(
        f"eta is {self.eta:g}: it is the share of all event tables together, at least {LEAST:g} and at most 1 - {LEAST:g}."
      )
    if not (math.isfinite(self.tau) and self.tau >= 1):
      raise UserError(f"tau is {self.tau:g}: it is the length of a history in steps, at least 1.")
    if not 1 <= self.events <= _MOST_EVENTS:
      raise UserError(f"events is {self.events}: the number of event tables is from 1 to {_MOST_EVENTS:,}.")
    if not LEAST <= self.mu < 1:
      raise UserError(
        f"mu is {self.mu:g}: it is the share of the steps at which an event occurs, at least {LEAST:g} and below 1."
      )


@dataclasses.dataclass(frozen=True)
class Guarantee:
  """What the paper guarantees for a set-up.

  Attributes:
    m: Eq. 8. The paper's statements hold for m >= 0 and say nothing below.
    over_sampling: Lemma 1, (1 - eta)^-m: every transition in an event table is drawn at least that many times as often as
      without event tables; None if m < 0.
    sample_share: Theorem 1, (1 - eta)^(2m): the samples that target Q-learning needs with event tables, as a share of those
      without, for the states whose optimal trajectories are in the tables; None if m < 0.
    longest_history: the tau at which m is 0, 1 / (n mu), in steps: nothing is proven for longer histories.
  """

  m: float
  over_sampling: float | None
  sample_share: float | None
  longest_history: float


def guarantee(setting: Setting) -> Guarantee:
  """Eq. 8, Lemma 1 and Theorem 1 for a set-up."""
  m = exponent(setting)
  return Guarantee(
    m=m,
    over_sampling=(1 - setting.eta) ** -m if m >= 0 else None,
    sample_share=(1 - setting.eta) ** (2 * m) if m >= 0 else None,
    longest_history=1 / (setting.events * setting.mu),
  )


def exponent(setting: Setting) -> float:
  """m of Eq. 8: W_0(a ln a / (n tau mu)) / ln a - 1 with a = 1 / (1 - eta).

  It is the m at which the condition of Lemma 1 holds with equality, tau = (1 - eta)^m / ((m + 1) n mu). It is above -1, and
  at least 0 where n tau mu <= 1.
  """
  log_a = -math.log1p(-setting.eta)
  product = setting.events * setting.tau * setting.mu
  m = lambert_w_of_exp(log_a + math.log(log_a) - math.log(product)) / log_a - 1
  # If the product is 1, m is 0, and rounding could make it negative.
  return max(m, 0.0) if product <= 1 else m


def history_bound(eta: float, m: float, events: int, mu: float) -> float:
  """The condition of Lemma 1: the longest tau, in steps, for which it holds with this m > -1."""
  return math.pow(1 - eta, m) / ((m + 1) * events * mu)


def lambert_w_of_exp(x: float) -> float:
  """W_0(e^x): the w > 0 for which w + ln w = x.

  It takes the logarithm of W_0's argument, which cannot overflow. Newton's method solves the equation: w + ln w is concave, so
  from a start below the root the iterates rise and never pass it.
  """
  if x < -40:
    return math.exp(x)  # W_0(z) = z - z^2 + ..., which rounds to z.
  w = 1 / (1 + math.exp(-x))  # z / (1 + z) <= W_0(z).
  for _ in range(100):
    following = w * (1 + x - math.log(w)) / (1 + w)
    if following <= w * (1 + 1e-15):
      break
    w = following
  return w


def monolithic_samples(gamma: float, accuracy: float, rarest: float, commonest: float) -> float:
  """The bound of Prop. 1 (Li et al. 2022) on the samples that target Q-learning needs without event tables.

  832 gamma^2 / ((1 - gamma)^5 eps^2) * ln(4 / ((1 - gamma) eps)) * L / c^3, for rewards in [0, 1].

  Args:
    gamma: discount, in (0, 1).
    accuracy: eps, how far Q may be from Q*.
    rarest: c, the least probability with which a state-action pair is drawn.
    commonest: L, the greatest.

  Raises:
    UserError: a value is out of its range.
  """
  if not LEAST <= gamma <= 1 - LEAST:
    raise UserError(f"gamma is {gamma:g}: it is the discount, at least {LEAST:g} and at most 1 - {LEAST:g}.")
  if not LEAST <= accuracy < 1 / (1 - gamma):
    raise UserError(
      f"accuracy is {accuracy:g}: it must be at least {LEAST:g} and below {1 / (1 - gamma):g}, the largest value with rewards "
      "up to 1."
    )
  if not LEAST <= rarest <= commonest <= 1:
    raise UserError(
      f"rarest is {rarest:g} and commonest {commonest:g}: they are the least and the greatest probability of a "
      f"state-action pair, so {LEAST:g} <= rarest <= commonest <= 1."
    )
  logarithm = math.log(4 / ((1 - gamma) * accuracy))
  return 832 * gamma**2 / ((1 - gamma) ** 5 * accuracy**2) * logarithm * commonest / rarest**3
