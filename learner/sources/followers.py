"""What a memory source keeps of each row besides its priority, for algorithms and gradient rules that ask for it."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from configs import RunConfig
from learner.gradients.controls import (
  ACTION_VALUE,
  BETA,
  DIVERGENCE,
  IS_END,
  LARGEST_RATIO,
  LOG_RATIO,
  NEXT_VALUE,
  Q_RET,
  RATE_SCALE,
  REWARD_SCALE,
  VALUE,
)
from learner.sources.source import Model, State
from replay_memory.kernels import NONE
from replay_memory.memory import ReplayMemory
from replay_memory.ratios import Ratios
from replay_memory.returns import Returns, RewardScale, Values
from replay_server.contract.codec import RowCodec

Floats = npt.NDArray[np.float32]
Slots = npt.NDArray[np.int64]

# Gradient steps between two looks at all rewards (ReF-ER, Appendix B).
SCALE_PERIOD_UPDATES = 1_000
# Blocks between two looks at the divergence of all rows, which is only shown.
_MEASURE_PERIOD_BLOCKS = 50
# The authors' code moves beta by this times batch over memory size.
_BATCH_SHARE = 0.1


class Follower:
  """Follows the rows of a memory source; does nothing by itself."""

  def begin(self, updates: int, model: Model) -> None:
    """A block that was drawn is about to be used, after `updates` gradient steps."""
    del updates, model

  def columns(self, slots: Slots) -> Mapping[str, Floats]:
    """What algorithms read for drawn rows, float32 [...] each, for int64 [...]."""
    del slots
    return {}

  def controls(self) -> Mapping[str, float]:
    """Numbers for the next block; their names never change."""
    return {}

  def feed_back(self, slots: Slots, outputs: Mapping[str, Floats]) -> None:
    """Takes in what was computed for drawn rows.

    Args:
      slots: int64 [K, batch]; `NONE` for a row that is no longer stored.
      outputs: float32 [K, batch] each.
    """
    del slots, outputs

  def metrics(self) -> Mapping[str, float]:
    """Metrics for the learner's heartbeats."""
    return {}

  def state(self) -> State:
    """What `restore` needs besides the memory's columns."""
    return {}

  def restore(self, state: State) -> None:
    """Restores what `state` returned; empty if there is none."""
    del state


class FirstMoments(Follower):
  """Normalises observations by the rows that the default table holds before the first update (ReF-ER, Eqs. 14 and 15)."""

  def __init__(self, memory: ReplayMemory):
    """Takes the memory."""
    self._memory = memory

  def begin(self, updates: int, model: Model) -> None:
    """Sets the normalisation before the first update."""
    if updates == 0:
      model.normalize(self._memory.take(self._memory.contents(0)))


class ScaledRewards(Follower):
  """Measures by what rewards are divided, before the first update and every thousand."""

  def __init__(self, memory: ReplayMemory, codec: RowCodec):
    """Measures nothing yet."""
    self._scale = RewardScale(memory, codec)
    self._measured: int | None = None  # Updates.

  def current(self) -> float:
    """The latest measurement."""
    return self._scale.value

  def begin(self, updates: int, model: Model) -> None:
    """Measures if it is time to."""
    del model
    if self._measured is None or updates - self._measured >= SCALE_PERIOD_UPDATES:
      self._scale.measure()
      self._measured = updates - updates % SCALE_PERIOD_UPDATES

  def controls(self) -> Mapping[str, float]:
    """The scale."""
    return {REWARD_SCALE: self._scale.value}

  def metrics(self) -> Mapping[str, float]:
    """The scale."""
    return {REWARD_SCALE: self._scale.value}

  def state(self) -> State:
    """The scale, and when it was measured."""
    return {} if self._measured is None else {"scale": np.array([self._scale.value, self._measured], np.float64)}

  def restore(self, state: State) -> None:
    """Restores the measurement."""
    if "scale" in state:
      self._scale.value = float(state["scale"][0])
      self._measured = int(state["scale"][1])


class Closeness(Follower):
  """Knows how far the policy is from the behaviours in memory, and moves ReF-ER's beta by it (Section 3, Eqs. 12 and 13).

  Attributes:
    ratios: of the memory.
    beta: the weight of an update's own gradient; 1 - beta is that of the penalty. It starts at 1, which the paper leaves open.
  """

  def __init__(self, config: RunConfig, memory: ReplayMemory):
    """Takes the run's `learner.refer`."""
    self.ratios = Ratios(memory)
    self.beta = 1.0
    self._far_share = self._mean_divergence = 0.0
    self._fed_back = 0
    self._memory = memory
    self._refer = config.learner.refer
    self._learning_rate = config.learner.learning_rate
    self._batch_size = config.learner.batch_size

  @property
  def _steps(self) -> int:
    return self._memory.received  # t

  def controls(self) -> Mapping[str, float]:
    """beta, c_max and what the learning rate is multiplied by: without a rule it stays, as in the paper's plain replay."""
    steps, acts = self._steps, self._refer.rejects or self._refer.penalizes
    return {
      BETA: self.beta,
      LARGEST_RATIO: self._refer.largest_ratio_at(steps),
      RATE_SCALE: self._refer.rate_scale_at(steps) if acts else 1.0,
    }

  def feed_back(self, slots: Slots, outputs: Mapping[str, Floats]) -> None:
    """Takes in the rows' ratios, and then moves beta once for each update."""
    self.ratios.set(*_of_stored(slots, outputs[LOG_RATIO], outputs[DIVERGENCE]))
    self._far_share = self.ratios.far_share(self._refer.largest_ratio_at(self._steps))
    if self._refer.penalizes:
      for _ in range(len(slots)):
        self.beta = next_beta(self.beta, self._rate(), self._far_share, self._refer.tolerance)
    if self._fed_back % _MEASURE_PERIOD_BLOCKS == 0:
      self._mean_divergence = self.ratios.mean_divergence()
    self._fed_back += 1

  def _rate(self) -> float:
    if self._refer.beta_rate == "batch_share":
      return min(1.0, _BATCH_SHARE * self._batch_size / max(1, int(self._memory.sizes[0])))
    return self._learning_rate * self._refer.rate_scale_at(self._steps)

  def metrics(self) -> Mapping[str, float]:
    """beta, c_max, the share of far-policy steps and the mean KL divergence over memory."""
    return {
      "refer_beta": self.beta,
      "refer_largest_ratio": self._refer.largest_ratio_at(self._steps),
      "refer_far_share": self._far_share,
      "refer_mean_divergence": self._mean_divergence,
    }

  def state(self) -> State:
    """beta, and what is shown: the histogram of log rho is for the run's report, and is made anew."""
    counts, edges = self.ratios.histogram()
    return {
      "closeness": np.array([self.beta, self._far_share, self._mean_divergence, self._fed_back], np.float64),
      "log_ratio_counts": counts,
      "log_ratio_edges": edges,
      "largest_ratio": np.array(self._refer.largest_ratio_at(self._steps)),
    }

  def restore(self, state: State) -> None:
    """Restores beta, and what is shown."""
    if "closeness" in state:
      self.beta, self._far_share, self._mean_divergence, fed_back = state["closeness"].tolist()
      self._fed_back = int(fed_back)


def next_beta(beta: float, rate: float, far_share: float, tolerance: float) -> float:
  """beta after an update (Eq. 12): it goes to 0 while more than the tolerated share is far-policy, and else to 1."""
  return (1.0 - rate) * beta + (0.0 if far_share > tolerance else rate)


class ReturnEstimates(Follower):
  """Keeps V-RACER's return estimates up to date (Section 2; Appendix C, Algorithms 2 and 3)."""

  def __init__(
    self, memory: ReplayMemory, codec: RowCodec, ratios: Ratios, reward_scale: Callable[[], float], gamma: float
  ):
    """Takes what it needs of the followers that the source calls before it.

    Args:
      memory: new.
      codec: of its rows.
      ratios: of the memory.
      reward_scale: by what rewards are divided now.
      gamma: the discount factor.
    """
    self._memory = memory
    self._ratios = ratios
    self._scale = reward_scale
    self._swept_with = np.nan  # The scale of the last sweep of all.
    self._returns = Returns(memory, codec, ratios, gamma)

  def begin(self, updates: int, model: Model) -> None:
    """Estimates the returns of episodes that ended since the last block; all estimates follow the scale of rewards."""
    new = self._returns.new_slots()
    if updates == 0:
      new = self._memory.contents(0)  # The normalisation of observations has only just been set.
    if len(new):
      self._enter(new, model)
    if self._swept_with != self._scale():
      self._swept_with = self._scale()
      self._returns.sweep_all(self._swept_with)

  def _enter(self, slots: Slots, model: Model) -> None:
    outputs = model.evaluate(self._memory.take(slots))
    self._ratios.set(slots, outputs[LOG_RATIO], outputs[DIVERGENCE])
    self._returns.enter(slots, _values_of(outputs), self._scale())

  def columns(self, slots: Slots) -> Mapping[str, Floats]:
    """The estimates of the rows' returns."""
    return {Q_RET: self._returns.q_ret[slots], IS_END: self._returns.is_end(slots).astype(np.float32)}

  def feed_back(self, slots: Slots, outputs: Mapping[str, Floats]) -> None:
    """Takes in the rows' values, whose ratios were set before; the returns of all earlier steps follow."""
    stored, *values = _of_stored(slots, *_values_of(outputs))
    self._returns.learned(stored, Values(*values), self._scale())

  def state(self) -> State:
    """The scale of the last sweep of all."""
    return {"swept_with": np.array(self._swept_with)}

  def restore(self, state: State) -> None:
    """Restores that scale."""
    if "swept_with" in state:
      self._swept_with = float(state["swept_with"])


def _of_stored(slots: Slots, *columns: Floats) -> tuple[npt.NDArray[Any], ...]:
  """The slots that are not `NONE`, int64 [n], and the columns there, [n] each."""
  stored = slots != NONE
  if stored.all():  # As almost always, and without copies.
    return slots.ravel(), *(column.ravel() for column in columns)
  return slots[stored], *(column[stored] for column in columns)


def _values_of(outputs: Mapping[str, Floats]) -> Values:
  return Values(outputs[VALUE], outputs[ACTION_VALUE], outputs[NEXT_VALUE])


def make_followers(config: RunConfig, memory: ReplayMemory, codec: RowCodec) -> Mapping[str, Follower]:
  """The followers that a run needs, by the names under which a checkpoint keeps their states, in the order of their calls.

  Args:
    config: of the run.
    memory: new.
    codec: of its rows.
  """
  learner = config.learner
  followers: dict[str, Follower] = {}
  reward_scale = _unscaled
  if config.network.normalize_by == "first_rows":
    followers["moments"] = FirstMoments(memory)
  if learner.scale_rewards:
    followers["rewards"] = rewards = ScaledRewards(memory, codec)
    reward_scale = rewards.current
  if learner.stores_behaviour:
    followers["closeness"] = closeness = Closeness(config, memory)
    if learner.algorithm.NAME == "v_racer":
      followers["returns"] = ReturnEstimates(memory, codec, closeness.ratios, reward_scale, learner.discount)
  return followers


def _unscaled() -> float:
  return 1.0
