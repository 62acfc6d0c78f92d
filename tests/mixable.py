"""Rows of a world with continuous observations and actions, for tests of what mixes them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from acme import specs
from hypothesis import strategies as st

from configs import ReplayConfig, RunConfig, TableSpec
from learner.mixup.rows import Layout
from replay_memory.memory import ReplayMemory
from replay_memory.plan import make_plan
from replay_server.contract.layout import make_row_codec

SPEC = specs.EnvironmentSpec(
  observations=specs.Array((2,), np.float32, "observation"),
  actions=specs.BoundedArray((1,), np.float32, -1, 1, "action"),
  rewards=specs.Array((), np.float32, "reward"),
  discounts=specs.BoundedArray((), np.float32, 0, 1, "discount"),
)
CODEC = make_row_codec(SPEC)
# Words of a row that distances are made of.
POINT = Layout.of(CODEC).point
_BLANK = {field.name: np.zeros(field.shape, field.dtype) for field in CODEC.fields}


def row(
  observation: Sequence[float],
  action: float = 0.0,
  reward: float = 0.0,
  next_observation: Sequence[float] = (0.0, 0.0),
  discount: float = 0.5,
  **others: Any,
) -> np.ndarray:
  """A packed row, float32 [width]; `others` are further fields, such as step or terminated."""
  return CODEC.packer().pack(
    {
      **_BLANK,
      "steps": 1,
      "observation": np.array(observation, np.float32),
      "action": np.array([action], np.float32),
      "reward": reward,
      "next_observation": np.array(next_observation, np.float32),
      "discount": discount,
      **others,
    }
  )


def random_rows(rng: np.random.Generator, count: int, episode_steps: int = 10, first: int = 0) -> np.ndarray:
  """Rows of a stream of episodes, float32 [count, width], every other of which is terminated, the others truncated."""
  rows = []
  for number in range(first, first + count):
    episode, step = divmod(number, episode_steps)
    is_last = step == episode_steps - 1
    point, after = rng.normal(size=2).tolist(), rng.normal(size=2).tolist()
    action, reward = rng.uniform(-1, 1, 2).tolist()
    ends = {"terminated": is_last and episode % 2 == 0, "truncated": is_last and episode % 2 == 1}
    discount = 0.0 if ends["terminated"] else 0.99
    rows.append(row(point, action, reward, after, discount, episode=episode, step=step, **ends))
  return np.array(rows, np.float32)


def memory_of(capacity: int) -> ReplayMemory:
  """An empty memory of such rows with the default table alone."""
  config = RunConfig(replay=ReplayConfig(capacity=capacity, default=TableSpec("default", 1.0, min_size=1)))
  return ReplayMemory(make_plan(config, CODEC.width), CODEC)


# Seeds, sizes and kinds of rows with which neighbours are compared with an oracle's, for `given`.
STREAMS: dict[str, st.SearchStrategy[Any]] = {
  "seed": st.integers(0, 2**32 - 1),
  "capacity": st.integers(2, 40),
  "count": st.integers(1, 12),
  "constant": st.booleans(),
  "levels": st.sampled_from([2, 4, 1_000_000]),
}


def grown(
  memory: ReplayMemory, rng: np.random.Generator, times: int, constant: bool, levels: int
) -> Iterator["NeighborOracle"]:
  """Adds random rows so many times, beyond the capacity too, and gives the oracle of what is stored after each.

  Args:
    memory: to add to.
    rng: of the rows.
    times: how often.
    constant: whether the first component is the same in all rows.
    levels: values from one whole number to the next; few of them make equal rows.
  """
  received = 0
  for added in rng.integers(1, 12, times).tolist():
    rows = random_rows(rng, added, first=received)
    rows[:, POINT] = np.round(rows[:, POINT] * levels) / levels
    if constant:
      rows[:, POINT[0]] = 7
    memory.add(rows)
    received += added
    yield NeighborOracle(memory)


class NeighborOracle:
  """z-scores and all distances in float64, of the rows that are stored when it is made."""

  def __init__(self, memory: ReplayMemory):
    self.handles = memory.handles_of(memory.slots)
    points = memory.take(memory.slots)[:, POINT].astype(np.float64)
    self.mean, deviation = points.mean(axis=0), points.std(axis=0)
    varies = (points != points[0]).any(axis=0)
    self.scale = np.where(varies, 1 / np.where(varies, deviation, 1), 0)
    self.points = self.scaled(points)

  def scaled(self, points: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = (points - self.mean) * self.scale
    return scaled

  def distances(self, memory: ReplayMemory, slot: int) -> dict[int, float]:
    """Handle -> distance, of all rows but the one itself."""
    own = self.scaled(memory.take(np.array([slot]))[:, POINT].astype(np.float64))
    found = zip(self.handles.tolist(), np.linalg.norm(self.points - own, axis=1).tolist(), strict=True)
    return {handle: distance for handle, distance in found if handle != memory.handles_of(np.array([slot]))[0]}
