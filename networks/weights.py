"""A network's weights as one vector, the form in which they are published."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import sonnet as snt
import tensorflow as tf

from configs import UserError

Floats = npt.NDArray[np.float32]


def flatten_weights(module: snt.Module) -> Floats:
  """All weights of a module as one vector, float32 [P].

  The order is that of `module.variables`: modules by the name of the attribute that holds them, lists by position. For an
  `Mlp` that is layer by layer, and in each layer the bias before the weights (rows of inputs).
  """
  vector: Floats = concatenate_weights(module).numpy()
  return vector


def concatenate_weights(module: snt.Module) -> tf.Tensor:
  """What `flatten_weights` returns, on the device, so that a GPU makes one copy."""
  return tf.concat([tf.reshape(tf.cast(variable, tf.float32), [-1]) for variable in module.variables], axis=0)


def assign_weights(module: snt.Module, vector: Floats) -> None:
  """Sets all weights of a module from the vector that `flatten_weights` made, float32 [P].

  Raises:
    UserError: the vector has another length than the module's weights.
  """
  parts = split_vector(vector, [tuple(variable.shape) for variable in module.variables])
  for variable, part in zip(module.variables, parts, strict=True):
    variable.assign(part)


def split_vector(vector: Floats, shapes: Sequence[tuple[int, ...]]) -> list[Floats]:
  """Splits `vector`, float32 [P], into arrays of these shapes, one after another.

  Raises:
    UserError: the vector has another length.
  """
  sizes = [math.prod(shape) for shape in shapes]
  if np.shape(vector) != (sum(sizes),):
    raise UserError(
      f"The weights have the shape {np.shape(vector)}, but this network takes ({sum(sizes)},): use one config.network "
      "and one environment for every role of a run."
    )
  parts = np.split(vector, np.cumsum(sizes)[:-1])
  return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
