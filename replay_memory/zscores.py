"""The z-scores of a memory's rows: some of their words, less their means and in units of their deviations."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from replay_memory.memory import ReplayMemory

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

# Rows that are copied at once.
_CHUNK_ROWS = 65_536


class ZScores:
  """Moments of all stored rows' words, made anew when the memory has grown.

  A word that has one value in all rows counts nothing: its z-score is 0.

  Attributes:
    epoch: how often the moments were made.
    received: rows that the memory had received by the last time.
    sampled: rows that they were made of.
  """

  def __init__(self, memory: ReplayMemory, words: Int64, growth: float):
    """Makes no moments yet.

    Args:
      memory: whose rows are measured.
      words: int64 [words], those of each row that are, all of them float32 values.
      growth: moments are made anew once the memory has received this share of its rows more; with 0 whenever it has received any.
    """
    self._memory, self._words, self._growth = memory, words, growth
    self._mean = np.zeros(len(words))
    self._scale = np.zeros(len(words))
    self.epoch = self.received = self.sampled = 0

  @property
  def width(self) -> int:
    """Numbers of a row."""
    return len(self._words)

  @property
  def growth(self) -> float:
    """Rows received since the moments were made, as a share of those that they were made of."""
    return (self._memory.received - self.received) / max(1, self.sampled)

  @property
  def is_due(self) -> bool:
    """Whether the memory has grown by enough for new moments."""
    return not self.epoch or (self._memory.received > self.received and self.growth >= self._growth)

  def renew(self) -> tuple[Int64, Float32]:
    """Makes the moments anew, of all rows that are stored now.

    Returns:
      (the slots of these rows, int64 [rows], in the order in which they were received; their z-scores, float32 [rows, words]).
    """
    slots = self._memory.slots
    points = np.empty((len(slots), self.width), np.float32)
    for part in _chunks(len(slots)):
      points[part] = self._memory.take(slots[part])[:, self._words]
    varies = points.max(axis=0) > points.min(axis=0)
    self._mean = points.mean(axis=0, dtype=np.float64)
    self._scale = np.divide(1.0, points.std(axis=0, dtype=np.float64), out=np.zeros(self.width), where=varies)
    self.epoch += 1
    self.received, self.sampled = self._memory.received, len(slots)
    for part in _chunks(len(slots)):
      points[part] = self._scaled(points[part])
    return slots, points

  def of(self, rows: Float32) -> Float32:
    """The z-scores of rows, float32 [n, words] for packed float32 [n, width]."""
    return self._scaled(rows[:, self._words])

  def _scaled(self, points: Float32) -> Float32:
    scores: npt.NDArray[np.float64] = (points - self._mean) * self._scale
    return scores.astype(np.float32)


def _chunks(rows: int) -> Iterator[slice]:
  yield from (slice(start, start + _CHUNK_ROWS) for start in range(0, rows, _CHUNK_ROWS))
