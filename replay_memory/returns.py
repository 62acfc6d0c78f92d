"""Return estimates of stored steps, kept up to date by sweeps back through their episodes (V-RACER; ReF-ER, Section 2)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from replay_memory import sweeps
from replay_memory.kernels import FRESH_SLOTS, NONE
from replay_memory.memory import ReplayMemory
from replay_memory.pages import zeros
from replay_memory.ratios import Ratios
from replay_server.contract.codec import RowCodec

Floats = npt.NDArray[np.float32]
Slots = npt.NDArray[np.int64]

_VALUE, _ACTION_VALUE, _END_VALUE, _Q_RET = "value", "action_value", "end_value", "q_ret"
# Numbers kept for a step, and one place free: half a line of the processor's cache.
_PLACES = 8
# Added to the scale of rewards (ReF-ER, Appendix B).
_EPSILON = 1e-7


class Values(NamedTuple):
  """What a network gives for rows, float32 [n] each.

  Attributes:
    value: V of their observations.
    action_value: Q of their observations and actions; V where no advantage is learned.
    next_value: V of their next observations.
  """

  value: Floats
  action_value: Floats
  next_value: Floats


class RewardScale:
  """The root mean square of the rewards in the default table (ReF-ER, Eq. 16).

  Attributes:
    value: by which rewards are divided; 1 until `measure`.
  """

  def __init__(self, memory: ReplayMemory, codec: RowCodec):
    """Measures nothing yet; `codec` is that of the memory's rows."""
    self._memory = memory
    self._reward = memory.field("reward", codec)
    self.value = 1.0

  def measure(self) -> None:
    """Takes the present rewards; without any rows the value stays."""
    ring = self._memory.places(0)
    if len(ring):
      self.value = float(np.sqrt(sweeps.add_up(ring, self._reward, True) / len(ring))) + _EPSILON


class Returns:
  """Keeps V(s_t) and Q_ret,t = r_t + gamma V_tbc,t+1 of each row.

  V_tbc,t = V_t + min(1, rho_t) (Q_ret,t - Q_t) (Eqs. 6 and 7), with rho of `Ratios`; without advantages Q is V (Eq. 8). Q_ret of
  an episode's last step is r_t + gamma V(s_T), where V(s_T) is 0 in a terminal state. When V, Q or rho of a step changes, Q_ret
  of all earlier steps of its episode follows. Where the step after one was evicted, that one keeps its Q_ret.
  """

  def __init__(self, memory: ReplayMemory, codec: RowCodec, ratios: Ratios, gamma: float):
    """Adds the columns to a new memory of whole episodes.

    Args:
      memory: new, of a plan with `whole_episodes`.
      codec: of its rows, which cover one step each.
      ratios: of the memory.
      gamma: the discount factor.
    """
    if not memory.plan.whole_episodes:
      raise ValueError("return estimates need whole episodes")
    self._memory = memory
    self._gamma = gamma
    self._entered = 0
    self._log_ratio = ratios.log_ratio
    self._fields = memory.field("reward", codec), memory.field("discount", codec)
    # Side by side, as a sweep mostly waits for the main memory: a step's numbers come from there together. It would take a third
    # longer if it looked into whole rows, and made rho of its logarithm; a checkpoint has neither copy.
    places = zeros((memory.plan.slots, _PLACES), np.float32).T
    reward, discount, cut, value, action_value, end_value, q_ret = places[:7]
    self._estimates = sweeps.Estimates(
      rows=memory.arrays.rows,
      reward=reward,
      discount=discount,
      value=memory.add_column(_VALUE, np.float32, 0.0, value),
      action_value=memory.add_column(_ACTION_VALUE, np.float32, 0.0, action_value),
      cut=cut,
      end_value=memory.add_column(_END_VALUE, np.float32, np.nan, end_value),
      q_ret=memory.add_column(_Q_RET, np.float32, 0.0, q_ret),
    )
    memory.follow_with(self)

  @property
  def q_ret(self) -> Floats:
    """Q_ret by slot, float32 [slots]."""
    return self._estimates.q_ret

  def new_slots(self) -> Slots:
    """The slots of the rows that entered the default table since the last call, int64 [n]: whole episodes in the order of steps.

    Their values must be given to `enter` before any of them is used.
    """
    inserts = int(self._memory.inserts[0])
    count, self._entered = inserts - self._entered, inserts
    return self._memory.contents(0)[-count:] if count else np.empty(0, np.int64)

  def is_end(self, slots: Slots) -> npt.NDArray[np.bool_]:
    """Which rows' Q_ret contains the value of their next observation, bool [...]."""
    ends: npt.NDArray[np.bool_] = ~np.isnan(self._estimates.end_value[slots]) & (self._estimates.discount[slots] > 0)
    return ends

  def enter(self, slots: Slots, values: Values, reward_scale: float) -> None:
    """Gives new rows their first estimates.

    Args:
      slots: int64 [n], as `new_slots` returned them.
      values: of the rows; the next value is read for those that no row follows.
      reward_scale: by which rewards are divided.
    """
    self._copy_fields(slots)
    has_next = self._memory.next_steps(slots) != NONE
    self._estimates.end_value[slots] = np.where(has_next, np.nan, values.next_value).astype(np.float32)
    # They come in the order of their steps.
    self._set(slots, values, np.ascontiguousarray(slots[::-1]), reward_scale)

  def learned(self, slots: Slots, values: Values, reward_scale: float) -> None:
    """Takes what an update computed for rows; their ratios are set before. The later one counts where a row is named twice.

    Args:
      slots: int64 [n], of stored rows.
      values: of the rows; the next value is read where `is_end`.
      reward_scale: by which rewards are divided.
    """
    ends = self.is_end(slots)
    self._estimates.end_value[slots[ends]] = values.next_value[ends]
    # An episode's rows are mostly stored in the order of their steps, and neighbours in memory are found faster.
    self._set(slots, values, np.ascontiguousarray(np.sort(slots)[::-1]), reward_scale)

  def _set(self, slots: Slots, values: Values, latest_first: Slots, reward_scale: float) -> None:
    self._estimates.cut[slots] = _cut(self._log_ratio[slots])
    self._estimates.value[slots] = values.value
    self._estimates.action_value[slots] = values.action_value
    sweeps.sweep(self._estimates, latest_first, self._gamma, reward_scale)

  def sweep_all(self, reward_scale: float) -> None:
    """Brings all estimates up to date, for another scale of rewards."""
    sweeps.sweep_all(self._estimates, int(self._memory.arrays.counts[FRESH_SLOTS]), self._gamma, reward_scale)

  def added(self, slots: Slots) -> None:
    """Does nothing: a row is new when its episode has ended; see `new_slots`."""
    del slots

  def restored(self) -> None:
    """None of the rows of a checkpoint is new; see `Rule.restored`."""
    self._entered = int(self._memory.inserts[0])
    self._copy_fields(slice(None))
    self._estimates.cut[:] = _cut(self._log_ratio)

  def _copy_fields(self, slots: Slots | slice) -> None:
    self._estimates.reward[slots], self._estimates.discount[slots] = (field[slots] for field in self._fields)


def _cut(log_ratio: Floats) -> Floats:
  """min(1, rho)."""
  cut: Floats = np.exp(np.minimum(log_ratio, np.float32(0)))
  return cut
