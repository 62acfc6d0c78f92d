"""Sums over a memory's default table, and sweeps of return estimates back through episodes, which numba compiles."""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from configs.compiling import helper, kernel

Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

_NONE = -1
_whole: Any = np.int64


class Estimates(NamedTuple):
  """What return estimates are made of, by slot (ReF-ER, Section 2).

  Attributes:
    rows: `kernels.ROW` [slots], for the links between an episode's rows.
    reward: float32 [slots], r of each step.
    discount: float32 [slots], 0 for a step into a terminal state.
    value: float32 [slots], V of the step's observation, as it was computed last.
    action_value: float32 [slots], Q of the step's observation and action, likewise; V where no advantage is learned.
    cut: float32 [slots], min(1, rho), likewise.
    end_value: float32 [slots], V of the next observation, for a step that none follows; NaN for any other.
    q_ret: float32 [slots], the estimate of r_t + gamma V_tbc,t+1.
  """

  rows: Any
  reward: Float32
  discount: Float32
  value: Float32
  action_value: Float32
  cut: Float32
  end_value: Float32
  q_ret: Float32


@helper
def _bootstrapped(estimates: Estimates, slot: int) -> float:
  """V_tbc = V + min(1, rho) (Q_ret - Q) of a step (Eq. 7)."""
  above = estimates.q_ret[slot] - estimates.action_value[slot]
  bootstrapped: float = estimates.value[slot] + estimates.cut[slot] * above
  return bootstrapped


@helper
def _set_end(estimates: Estimates, slot: int, gamma: float, reward_scale: float) -> None:
  """Sets Q_ret of a step that none follows, if it is one."""
  if not math.isnan(estimates.end_value[slot]):
    reward = estimates.reward[slot] / reward_scale
    estimates.q_ret[slot] = reward + gamma * estimates.discount[slot] * estimates.end_value[slot]


@helper
def _sweep_back(estimates: Estimates, slot: int, gamma: float, reward_scale: float, in_full: bool) -> None:
  """Sets Q_ret of the stored steps before one of their episode; unless `in_full`, of those alone that it changes."""
  rows = estimates.rows
  at, before = slot, _whole(rows.previous[slot])
  while before != _NONE:
    kept = estimates.q_ret[before]
    if rows.step[before] == rows.step[at] - 1:
      reward = estimates.reward[before] / reward_scale
      estimates.q_ret[before] = reward + gamma * estimates.discount[before] * _bootstrapped(estimates, at)
    else:
      _set_end(estimates, before, gamma, reward_scale)
    # All before it follow from it alone, so they stay too.
    if not in_full and estimates.q_ret[before] == kept:
      return
    at, before = before, _whole(rows.previous[before])


@kernel
def sweep(estimates: Estimates, slots: Int64, gamma: float, reward_scale: float) -> None:
  """Brings Q_ret up to date after V, Q, rho or the end's value of steps have changed: of these steps and of all before them.

  A sweep ends where an estimate stays to the last bit. As V_tbc keeps min(1, rho) of what changed, that is soon for most.

  Args:
    estimates: of all rows.
    slots: int64 [n], of the steps that changed. Of one episode the latest first takes the least time. `_NONE` is passed over.
    gamma: the discount factor.
    reward_scale: by which rewards are divided.
  """
  for index in range(len(slots)):
    slot = slots[index]
    if slot != _NONE:
      _set_end(estimates, slot, gamma, reward_scale)
  for index in range(len(slots)):
    slot = slots[index]
    if slot != _NONE:
      _sweep_back(estimates, slot, gamma, reward_scale, False)


@kernel
def sweep_all(estimates: Estimates, used: int, gamma: float, reward_scale: float) -> None:
  """Brings Q_ret of every stored step up to date, for another scale of rewards.

  A step whose next one is no longer stored keeps its Q_ret: what came after it is not known any more.

  Args:
    estimates: of all rows.
    used: slots that were used at least once.
    gamma: the discount factor.
    reward_scale: by which rewards are divided.
  """
  rows = estimates.rows
  for slot in range(used):
    if rows.sequence[slot] != _NONE and rows.following[slot] == _NONE:
      _set_end(estimates, slot, gamma, reward_scale)
      _sweep_back(estimates, slot, gamma, reward_scale, True)


class Outside(NamedTuple):
  """How many rows of a table have |log rho| >= a limit.

  Attributes:
    rows: the number of them.
    nearest: no other row has |log rho| above this; the number is the same for every limit between this and the present one.
  """

  rows: int
  nearest: float


@kernel
def count_outside(ring: Int32, log_ratio: Float32, limit: float) -> Outside:
  """How many of a table's rows have |log rho| >= `limit` (ReF-ER, Section 3: far-policy).

  Args:
    ring: int32 [n], the rows' slots.
    log_ratio: float32 [slots].
    limit: log c_max.
  """
  outside, nearest = 0, 0.0
  for place in range(len(ring)):
    distance = abs(log_ratio[ring[place]])
    if distance >= limit:
      outside += 1
    else:
      nearest = max(nearest, float(distance))
  return Outside(outside, nearest)


@kernel
def set_log_ratios(
  log_ratio: Float32, slots: Int64, values: Float32, position: Int32, before: Outside, limit: float
) -> Outside:
  """Sets log rho of rows, and brings what `count_outside` returned up to date; the later one counts where a row is named twice.

  Args:
    log_ratio: float32 [slots].
    slots: int64 [n], the rows' slots.
    values: float32 [n], for them.
    position: int32 [slots], above 0 for the rows of the table.
    before: the count so far.
    limit: that it was counted for.
  """
  outside, nearest = before
  for index in range(len(slots)):
    slot, value = slots[index], values[index]
    if position[slot] > 0:
      distance = abs(value)
      outside += (distance >= limit) - (abs(log_ratio[slot]) >= limit)
      if distance < limit:
        nearest = max(nearest, float(distance))
    log_ratio[slot] = value
  return Outside(outside, nearest)


@kernel
def add_up(ring: Int32, values: Float32, squared: bool) -> float:
  """The sum of the values, or of their squares, of a table's rows, as float64.

  Args:
    ring: int32 [n], the rows' slots.
    values: float32 [slots].
    squared: whether to add squares.
  """
  total = 0.0
  for place in range(len(ring)):
    value = float(values[ring[place]])
    total += value * value if squared else value
  return total
