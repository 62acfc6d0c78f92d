"""Policy networks for continuous actions, and the tanh-squashed Gaussian."""

import math

import sonnet as snt
import tensorflow as tf

from configs import NetworkConfig
from networks.encoding import Encoding
from networks.layers import Features, Mlp, Trace

# Range of log sigma, as in the authors' code (Haarnoja et al., 2018): beyond it, densities are of no use.
LOG_STD_RANGE = (-20.0, 2.0)


class GaussianPolicy(snt.Module):
  """A diagonal Gaussian before the tanh: features [B, inputs] -> (mean [B, A], log standard deviation [B, A]), float32.

  Attributes:
    features: turns observations into the network's inputs.
  """

  def __init__(
    self,
    encoding: Encoding,
    num_dimensions: int,
    network: NetworkConfig,
    seed: int,
    mixed_precision: bool,
    dropout: float = 0.0,
  ):
    """Makes the layers, with their variables.

    Args:
      encoding: of the observations.
      num_dimensions: A.
      network: the config of its layers, and whether observations are normalised.
      seed: of the initial weights.
      mixed_precision: whether hidden layers are computed in float16.
      dropout: dropout rate of the hidden layers in training.
    """
    super().__init__("gaussian_policy")
    self.features = Features(encoding, network.normalize_observations)
    sizes = (encoding.inputs, *network.hidden_sizes, 2 * num_dimensions)
    self._mlp = Mlp(sizes, seed, dropout, mixed_precision, network=network)

  def __call__(
    self, features: tf.Tensor, is_training: bool = False, trace: Trace | None = None
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and log standard deviation, with dropout only if `is_training`. Every layer is appended to `trace`."""
    mean, log_std = tf.split(self._mlp(features, is_training, trace), 2, axis=-1)
    return mean, tf.clip_by_value(log_std, *LOG_STD_RANGE)

  def best_actions(self, observations: tf.Tensor) -> tf.Tensor:
    """The tanh of the means: float32 [B, A]."""
    return tf.tanh(self(self.features(observations))[0])


class DeterministicPolicy(snt.Module):
  """features [B, inputs] -> actions, float32 [B, A] in [-1, 1].

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
    super().__init__("deterministic_policy")
    self.features = Features(encoding, network.normalize_observations)
    sizes = (encoding.inputs, *network.hidden_sizes, num_dimensions)
    self._mlp = Mlp(sizes, seed, mixed_precision=mixed_precision, network=network)

  def __call__(self, features: tf.Tensor, trace: Trace | None = None) -> tf.Tensor:
    """The actions. Every layer is appended to `trace`."""
    return tf.tanh(self._mlp(features, trace=trace))

  def best_actions(self, observations: tf.Tensor) -> tf.Tensor:
    """The actions: float32 [B, A]."""
    return self(self.features(observations))


class ValueGaussianPolicy(snt.Module):
  """A state's value and a Gaussian policy whose deviation all states share: V-RACER's network (ReF-ER, Section 2, Appendix A).

  features [B, inputs] -> (value [B], mean [B, A], standard deviation [A], coefficients [B, C]), float32. The mean has no bounds.
  The deviation is the softplus of a vector that is trained with the layers. The coefficients are those of an advantage.

  Attributes:
    features: turns observations into the network's inputs.
    raw_deviation: float32 [A], that vector.
  """

  def __init__(
    self,
    encoding: Encoding,
    num_dimensions: int,
    network: NetworkConfig,
    seed: int,
    mixed_precision: bool,
    initial_deviation: float,
    num_coefficients: int = 0,
  ):
    """Makes the layers, with their variables.

    Args:
      encoding: of the observations.
      num_dimensions: A.
      network: the config of its layers, and whether observations are normalised.
      seed: of the initial weights.
      mixed_precision: whether hidden layers are computed in float16.
      initial_deviation: of each component at first, above 0.
      num_coefficients: C.
    """
    super().__init__("value_gaussian_policy")
    self.features = Features(encoding, network.normalize_observations)
    self._num_dimensions = num_dimensions
    sizes = (encoding.inputs, *network.hidden_sizes, 1 + num_dimensions + num_coefficients)
    self._mlp = Mlp(sizes, seed, mixed_precision=mixed_precision, network=network)
    # The inverse of the softplus.
    raw = initial_deviation + math.log(-math.expm1(-initial_deviation))
    self.raw_deviation = tf.Variable(tf.fill([num_dimensions], raw), name="raw_deviation")

  def __call__(
    self, features: tf.Tensor, trace: Trace | None = None
  ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Value, mean, deviation and coefficients. Every layer is appended to `trace`, which the deviation is not part of."""
    outputs = self._mlp(features, trace=trace)
    end = 1 + self._num_dimensions
    return outputs[:, 0], outputs[:, 1:end], tf.nn.softplus(self.raw_deviation), outputs[:, end:]

  def best_actions(self, observations: tf.Tensor) -> tf.Tensor:
    """The means, clipped to [-1, 1]: float32 [B, A]."""
    return tf.clip_by_value(self(self.features(observations))[1], -1.0, 1.0)


def squash(mean: tf.Tensor, log_std: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """An action of the tanh-squashed Gaussian and its log-density (Haarnoja et al., 2018, Appendix C, Eq. 21).

  a = tanh(u), u = mean + std * noise; log p(a) = log N(u) - sum log(1 - tanh(u)^2). The last logarithm is computed as
  2 (log 2 - u - softplus(-2 u)), which stays accurate where the tanh saturates.

  Args:
    mean: float32 [B, A].
    log_std: float32 [B, A].
    noise: float32 [B, A], standard normal.

  Returns:
    (actions [B, A] in [-1, 1], log-densities [B]), float32.
  """
  before = mean + tf.exp(log_std) * noise
  log_normal = -0.5 * tf.square(noise) - log_std - 0.5 * math.log(2 * math.pi)
  log_slope = 2.0 * (math.log(2.0) - before - tf.nn.softplus(-2.0 * before))
  return tf.tanh(before), tf.reduce_sum(log_normal - log_slope, axis=-1)
