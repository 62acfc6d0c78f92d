"""Reliability-adjusted priorities (ReaPER) of a memory's rows, exactly as the paper's Algorithm 2 has them."""

import numpy as np
import numpy.typing as npt

from replay_memory import kernels
from replay_memory.memory import ReplayMemory
from replay_memory.pages import zeros
from replay_memory.plan import tree_of

# A row's delta; a checkpoint has it, and the rest follows from it.
ERROR_COLUMN = "td_error"
# Before the first update (Algorithm 2, line 1).
_FIRST_CRITERION = _FIRST_ERROR = 1.0


class Reliability:
  """Keeps delta, the size of the TD error, of each row, and gives rows the criterion Psi_t = R_t^omega delta_t^alpha.

  R_t, the reliability of row t, is the sum of its episode's delta up to t, divided by that of the whole episode. While the
  episode goes on it is divided by F instead, the largest such sum of any stored episode (ReaPER, Eqs. 4 and 15 to 17). The sums
  are over stored rows. A truncated episode has ended like a terminated one. Where all delta of an episode are 0, R is 1.

  A row has one delta, whichever tables hold it, and its criterion is its weight in each of them. After `update` every stored row
  has the criterion that Algorithm 2, lines 16 to 21, computes from all delta. Until then a new row has the largest of its table
  (line 7). Algorithm 2 leaves open which delta a new row adds to the sums: here it is the largest stored at the last update.
  """

  def __init__(self, memory: ReplayMemory, exponent: float, reliability_exponent: float):
    """Follows the memory's rows from now on.

    Args:
      memory: new, of a plan that `tracks_episodes` and `tracks_extremes` and whose prioritised tables have an exponent of 1.
      exponent: alpha, in [0, 1].
      reliability_exponent: omega, in [0, 1].
    """
    if not (memory.plan.tracks_episodes and memory.plan.tracks_extremes):
      raise ValueError("the memory's plan must track episodes and extremes")
    self._memory = memory
    self._alpha = exponent
    slots, levels = memory.plan.slots, tree_of(len(memory.arrays.episodes))
    self._arrays = kernels.Reliability(
      error=memory.add_column(ERROR_COLUMN, np.float64, 0.0),
      power=zeros((slots,), np.float64),
      part=zeros((slots,), np.float64),
      total=zeros((sum(levels),), np.float64),
      peak=zeros((sum(levels),), np.float64),
      start=np.cumsum([0, *levels[:-1]]),
      work=np.empty((2, len(memory.arrays.nodes)), np.int64),
      scales=_scales(reliability_exponent),
      steps=_steps(reliability_exponent),
    )
    self._largest_error = _FIRST_ERROR
    memory.follow_with(self)

  @property
  def new_criteria(self) -> npt.NDArray[np.float64]:
    """The criterion of new rows, float64 [tables]: the largest in their table, 1 in one that holds none above 0."""
    largest = self._memory.largest_weights
    return np.where(largest > 0, largest, _FIRST_CRITERION)

  def update(self, handles: npt.NDArray[np.uint64], errors: npt.NDArray[np.float64]) -> None:
    """Sets delta of rows, and then the criteria of all that changed.

    Args:
      handles: uint64 [n]; a row that is no longer stored is passed over, and the later one counts where a row is named twice.
      errors: float64 [n], finite and not below 0.
    """
    self._set_errors(self._memory.slots_of(handles), errors)
    kernels.refresh(self._memory.arrays, self._arrays)
    # Nothing is stored while all errors are 0.
    self._largest_error = float(self._arrays.peak[-1]) or _FIRST_ERROR

  def added(self, slots: npt.NDArray[np.int64]) -> None:
    """Gives new rows the largest delta; see `Rule.added`."""
    self._set_errors(slots, np.full(len(slots), self._largest_error))

  def restored(self) -> None:
    """Makes the rest anew from each row's delta; see `Rule.restored`."""
    slots = self._memory.slots
    if len(slots):
      errors = self._arrays.error[slots]
      self._set_errors(slots, errors)
      self._largest_error = float(errors.max()) or _FIRST_ERROR

  def _set_errors(self, slots: npt.NDArray[np.int64], errors: npt.NDArray[np.float64]) -> None:
    kernels.set_errors(self._memory.arrays, self._arrays, np.ascontiguousarray(slots), errors, self._alpha)


def _scales(omega: float) -> npt.NDArray[np.float64]:
  """See `kernels.Reliability.scales`; no float has the exponents at the ends, whose powers would overflow."""
  exponents = np.arange(-kernels.MOST_BINARY_EXPONENT, kernels.MOST_BINARY_EXPONENT)
  scales: npt.NDArray[np.float64] = np.exp2(omega * np.clip(exponents, -1_022, 1_023))
  return scales


def _steps(omega: float) -> npt.NDArray[np.float64]:
  """See `kernels.Reliability.steps`."""
  lower = 0.5 + np.arange(kernels.STEPS) / (2 * kernels.STEPS)
  coefficients = np.zeros(kernels.STEPS)
  coefficients[0] = 1.0
  for term in range(1, 6):
    coefficients[term] = coefficients[term - 1] * (omega - term + 1) / term
  return np.stack([1 / lower, lower**omega, coefficients])
