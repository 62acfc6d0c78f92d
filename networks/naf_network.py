"""The network of normalised advantage functions (NAF)."""

import numpy as np
import sonnet as snt
import tensorflow as tf

from configs import NetworkConfig
from networks.encoding import Encoding
from networks.layers import Features, Mlp, Trace


def triangle_count(num_dimensions: int) -> int:
  """The entries of a lower-triangular matrix [A, A]."""
  return num_dimensions * (num_dimensions + 1) // 2


def output_count(num_dimensions: int) -> int:
  """The numbers that the network gives for an observation: V, the A components of m, and the triangle of L."""
  return 1 + num_dimensions + triangle_count(num_dimensions)


def lower_triangles(entries: tf.Tensor, size: int) -> tf.Tensor:
  """Lower-triangular matrices with a positive diagonal, for which L -> L L' can be inverted.

  Args:
    entries: float32 [B, size (size + 1) / 2], row by row; the diagonal is their softplus.
    size: of the matrices.

  Returns:
    float32 [B, size, size].
  """
  # Of each entry of the matrix its place in the triangle; entries above the diagonal have that of a further 0.
  rows, columns = np.tril_indices(size)
  places = np.full((size, size), len(rows))
  places[rows, columns] = np.arange(len(rows))
  padded = tf.pad(entries, ((0, 0), (0, 1)))
  matrix = tf.reshape(tf.gather(padded, places.ravel().tolist(), axis=1), (-1, size, size))
  return tf.linalg.set_diag(matrix, tf.nn.softplus(tf.linalg.diag_part(matrix)))


class NafNetwork(snt.Module):
  """V, m and L of Q(s, a) = V(s) - [a - m(s)]' L(s) L(s)' [a - m(s)] (Gu et al., 2016; ReF-ER, Eq. 4).

  features [B, inputs] -> (V [B], m [B, A], L [B, A, A]), float32. L is lower-triangular, row by row, and the softplus of its
  diagonal makes L L' positive definite. Q is largest at m, which has no bounds.

  Attributes:
    features: turns observations into the network's inputs.
  """

  def __init__(self, encoding: Encoding, num_dimensions: int, network: NetworkConfig, seed: int, mixed_precision: bool):
    """Makes the layers, with their variables.

    Args:
      encoding: of the observations.
      num_dimensions: A.
      network: the config of its layers, and whether observations are normalised.
      seed: of the initial weights.
      mixed_precision: whether hidden layers are computed in float16.
    """
    super().__init__("naf_network")
    self.features = Features(encoding, network.normalize_observations)
    self._num_dimensions = num_dimensions
    sizes = (encoding.inputs, *network.hidden_sizes, output_count(num_dimensions))
    self._mlp = Mlp(sizes, seed, mixed_precision=mixed_precision, network=network)

  def __call__(self, features: tf.Tensor, trace: Trace | None = None) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """V, m and L. Every layer is appended to `trace`."""
    size = self._num_dimensions
    outputs = self._mlp(features, trace=trace)
    return outputs[:, 0], outputs[:, 1 : 1 + size], lower_triangles(outputs[:, 1 + size :], size)

  def best_actions(self, observations: tf.Tensor) -> tf.Tensor:
    """m, clipped to [-1, 1], of observations [B, ...]: float32 [B, A]."""
    return tf.clip_by_value(self(self.features(observations))[1], -1.0, 1.0)
