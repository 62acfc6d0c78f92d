"""Where the rows that others are mixed with come from: the learner's own memory."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from configs.mixup import MixupConfig
from learner.mixup.rows import Layout
from replay_memory.memory import ReplayMemory
from replay_memory.neighbors import Neighbors, bytes_of
from replay_memory.zscores import ZScores
from replay_server.contract.codec import Packed, RowCodec

Int64 = npt.NDArray[np.int64]


class MemoryPartners:
  """Finds partners among the rows of a memory."""

  def __init__(self, memory: ReplayMemory, zscores: ZScores, find: Callable[[Int64, np.random.Generator], Int64]):
    """Composes it.

    Args:
      memory: has the rows.
      zscores: of its rows; they say how far partners are from each other.
      find: as `Partners.find`.
    """
    self._memory, self._zscores = memory, zscores
    self._find = find

  def find(self, slots: Int64, rng: np.random.Generator) -> Int64:
    """As `Partners.find`."""
    return self._find(slots, rng)

  def take(self, slots: Int64) -> Packed:
    """As `Partners.take`."""
    return self._memory.take(slots)

  def distances(self, rows: Packed, others: Packed) -> npt.NDArray[np.float32]:
    """As `Partners.distances`."""
    between = self._zscores.of(rows) - self._zscores.of(others)
    distances: npt.NDArray[np.float32] = np.linalg.norm(between, axis=1)
    return distances

  @property
  def age(self) -> float:
    """As `Partners.age`."""
    return self._zscores.growth


def make_partners(config: MixupConfig, codec: RowCodec, memory: ReplayMemory) -> MemoryPartners:
  """Makes what finds the partners of a memory's rows.

  Args:
    config: its kind needs the memory.
    codec: of the rows.
    memory: that has no row yet.

  Raises:
    UserError: faiss is needed and not installed.
  """
  zscores = ZScores(memory, Layout.of(codec).point, config.neighbors.growth)
  if config.kind == "neighbors":
    return MemoryPartners(memory, zscores, Neighbors(memory, zscores, config.neighbors.count).partners)

  def find(slots: Int64, rng: np.random.Generator) -> Int64:
    if zscores.is_due:
      zscores.renew()
    return memory.random_slots(len(slots), rng) if config.kind == "mixup" else memory.next_steps(slots)

  return MemoryPartners(memory, zscores, find)


def bytes_beside(config: MixupConfig, codec: RowCodec, slots: int) -> int:
  """What finding partners takes beside a full memory, in bytes.

  Args:
    config: of the run.
    codec: of the rows.
    slots: rows that the memory can store.
  """
  return bytes_of(slots, config.neighbors.count, len(Layout.of(codec).point)) if config.kind == "neighbors" else 0
