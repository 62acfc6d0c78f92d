"""Gaussian noise on the actions of a policy, and what a row holds of the Gaussian that an action came from."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
# What a row must hold about the policy that chose its action: name of an extra row field -> values, [B, ...] for a batch.
Extras = Mapping[str, Array]
NO_EXTRAS: Extras = {}

# Where rows know their behaviour, actions are drawn within so many deviations of the mean (ReF-ER, Appendix A).
MOST_DEVIATIONS = 3.0


def clip(values: Floats, low: float, high: float) -> Floats:
  """The values within bounds. For so few numbers this takes a quarter of the time of np.clip."""
  clipped: Floats = np.minimum(np.maximum(values, np.float32(low)), np.float32(high))
  return clipped


def truncated_normal(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
  """Standard normal numbers within `MOST_DEVIATIONS` of 0, float32 of this shape; those beyond are drawn again."""
  numbers = rng.standard_normal(shape, np.float32)
  while (beyond := np.abs(numbers) > MOST_DEVIATIONS).any():
    numbers[beyond] = rng.standard_normal(int(beyond.sum()), np.float32)
  return numbers


class GaussianNoise:
  """A Gaussian around a policy's means."""

  def __init__(self, deviation: float | Floats, stores_behaviour: bool):
    """Takes its size.

    Args:
      deviation: standard deviation, of every component or float32 [A].
      stores_behaviour: whether rows hold the Gaussian (`LearnerConfig.stores_behaviour`). Actions are then drawn within
        `MOST_DEVIATIONS` and not clipped, so that the Gaussian has a density where they are; the world clips them itself.
    """
    self._deviation = np.asarray(deviation, np.float32)
    self._stores_behaviour = stores_behaviour

  def explore(self, means: Floats, rng: np.random.Generator) -> tuple[Array, Extras]:
    """Actions around `means`, float32 [..., A], and their extras; see `answer`."""
    return self.answer(means, self.draw(means, rng))

  def draw(self, means: Floats, rng: np.random.Generator) -> Floats:
    """Draws of the Gaussian around `means`, float32 [..., A]."""
    shape = means.shape
    noise = truncated_normal(shape, rng) if self._stores_behaviour else rng.standard_normal(shape, np.float32)
    drawn: Floats = means + self._deviation * noise
    return drawn

  def answer(self, means: Floats, drawn: Floats) -> tuple[Array, Extras]:
    """The actions that draws around `means` become, and their extras, float32 [..., A] each.

    Returns:
      The draws as they are, and `behaviour`, means and deviations, [..., 2A]; without a stored behaviour the draws clipped to
      [-1, 1], and no extras.
    """
    if not self._stores_behaviour:
      return clip(drawn, -1.0, 1.0), NO_EXTRAS
    deviations = np.broadcast_to(self._deviation, means.shape)
    return drawn, {"behaviour": np.concatenate([means, deviations], axis=-1)}


class OrnsteinUhlenbeckNoise:
  """Noise that remembers itself, of one environment: noise_t = (1 - theta) noise_{t-1} + sigma N(0, I), from 0 at each start.

  It is the discretisation of Ornstein and Uhlenbeck's process with a step of 1 that DDPG explores with (Lillicrap et al., 2016,
  Section 7). Given the noise before it, an action is Gaussian around (the policy's action + (1 - theta) noise_{t-1}).
  """

  def __init__(self, dimensions: int, deviation: float, reversion: float, stores_behaviour: bool):
    """Begins at 0.

    Args:
      dimensions: A.
      deviation: sigma.
      reversion: theta, in (0, 1].
      stores_behaviour: as `GaussianNoise`.
    """
    self._gaussian = GaussianNoise(deviation, stores_behaviour)
    self._kept = np.float32(1.0 - reversion)
    self._last = np.zeros(dimensions, np.float32)

  def begin_episode(self) -> None:
    """Sets the noise to 0."""
    self._last = np.zeros_like(self._last)

  def explore(self, action: Floats, rng: np.random.Generator) -> tuple[Array, Extras]:
    """Adds the next step's noise to a policy's action, float32 [A]; returns what `GaussianNoise.answer` makes of it."""
    means = action + self._kept * self._last
    drawn = self._gaussian.draw(means, rng)
    self._last = drawn - action
    return self._gaussian.answer(means, drawn)
