"""How observations become the inputs of a network: numbers as they are, categories one-hot, bytes scaled to [0, 1]."""

import dataclasses
import math

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from acme import specs

from configs import UserError
from configs.specs import CATEGORIES

Floats = npt.NDArray[np.float32]

# A layer of 256 units on so many inputs has 25 million weights.
_MOST_CATEGORIES = 100_000
_NONE = np.empty(0, np.int32)


@dataclasses.dataclass(frozen=True, eq=False)
class Encoding:
  """Turns observations [B, ...] of any number type into float32 [B, inputs].

  Attributes:
    numbers: in one observation.
    columns: int [inputs], of categories: an input is 1 where this number of the observation has the input's value, and else 0.
      Empty if the numbers themselves are the inputs.
    values: int [inputs], of categories.
    scale: what numbers are multiplied by.
  """

  numbers: int
  columns: npt.NDArray[np.int32] = _NONE
  values: npt.NDArray[np.int32] = _NONE
  scale: float = 1.0

  @property
  def inputs(self) -> int:
    """The numbers that the network gets."""
    return len(self.columns) or self.numbers

  def in_graph(self, observations: tf.Tensor) -> tf.Tensor:
    """Encodes a tensor."""
    flat = tf.reshape(observations, [-1, self.numbers])
    if len(self.columns):
      return tf.cast(tf.equal(tf.gather(flat, self.columns, axis=1), tf.cast(self.values, flat.dtype)), tf.float32)
    numbers = tf.cast(flat, tf.float32)
    return numbers if self.scale == 1.0 else numbers * self.scale

  def in_numpy(self, observations: npt.NDArray[np.generic]) -> Floats:
    """Encodes an array; float32 observations without a scale are not copied."""
    flat = observations.reshape(-1, self.numbers)
    if len(self.columns):
      encoded: Floats = (flat[:, self.columns] == self.values).astype(np.float32)
      return encoded
    numbers: Floats = flat.astype(np.float32, copy=False)
    return numbers if self.scale == 1.0 else numbers * np.float32(self.scale)


def encoding_of(spec: specs.Array) -> Encoding:
  """The encoding of a world's observations: one-hot for categories, [0, 1] for bytes from 0 to 255, else the numbers.

  Args:
    spec: of the observations; categories are called `CATEGORIES`.

  Raises:
    UserError: there are more categories than a network should have inputs.
  """
  numbers = math.prod(spec.shape)
  if spec.name == CATEGORIES and isinstance(spec, specs.BoundedArray):
    first, last = (np.broadcast_to(bound, spec.shape).ravel().astype(int) for bound in (spec.minimum, spec.maximum))
    counts = last - first + 1
    if counts.sum() > _MOST_CATEGORIES:
      raise UserError(
        f"The environment's observations have {counts.sum()} categories in all, and each would be an input of the network: wrap "
        f"the environment so that there are at most {_MOST_CATEGORIES}, or that it gives numbers in a Box."
      )
    values = np.concatenate([np.arange(low, high + 1) for low, high in zip(first, last, strict=True)])
    return Encoding(numbers, np.repeat(np.arange(numbers), counts).astype(np.int32), values.astype(np.int32))
  is_bytes = spec.dtype == np.uint8 and isinstance(spec, specs.BoundedArray)
  if is_bytes and np.all(spec.minimum == 0) and np.all(spec.maximum == 255):
    return Encoding(numbers, scale=1 / 255)
  return Encoding(numbers)
