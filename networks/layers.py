"""The layers of the networks."""

import itertools
import math
from collections.abc import Callable, Sequence

import sonnet as snt
import tensorflow as tf

from configs import NetworkConfig
from networks.encoding import Encoding

# Normalised numbers are clipped to this range: one that hardly varied so far can become huge.
FEATURE_RANGE = (-10.0, 10.0)

_DEFAULTS = NetworkConfig()

# (Inputs, outputs) of every linear layer of a forward pass, [..., B, units] each.
Trace = list[tuple[tf.Tensor, tf.Tensor]]


class FanIn(snt.initializers.Initializer):
  """Sonnet's default for a linear layer, a truncated normal with a standard deviation of 1/sqrt(inputs), with its own seed.

  Sonnet's seeded initialisers use TensorFlow's stateful generators, so that the same seed gives other numbers the second time.
  """

  def __init__(self, seed: Sequence[int]):
    """Takes the two numbers of a stateless TensorFlow seed."""
    self._seed = tf.constant(seed, tf.int64)

  def __call__(self, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
    """Weights of the shape [..., inputs, outputs]."""
    return tf.random.stateless_truncated_normal(shape, self._seed, stddev=1 / math.sqrt(shape[-2]), dtype=dtype)


class Glorot(snt.initializers.Initializer):
  """Uniform in +-sqrt(6 / (inputs + outputs)) (Glorot & Bengio, 2010, Eq. 16), with its own seed."""

  def __init__(self, seed: Sequence[int]):
    """Takes the two numbers of a stateless TensorFlow seed."""
    self._seed = tf.constant(seed, tf.int64)

  def __call__(self, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
    """Weights of the shape [..., inputs, outputs]."""
    bound = math.sqrt(6 / (shape[-2] + shape[-1]))
    return tf.random.stateless_uniform(shape, self._seed, -bound, bound, dtype=dtype)


class Scaled(snt.initializers.Initializer):
  """Uniform in +-scale / sqrt(inputs), with its own seed."""

  def __init__(self, seed: Sequence[int], scale: float):
    """Takes the two numbers of a stateless TensorFlow seed, and the scale."""
    self._seed = tf.constant(seed, tf.int64)
    self._scale = scale

  def __call__(self, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
    """Weights of the shape [..., inputs, outputs]."""
    bound = self._scale / math.sqrt(shape[-2])
    return tf.random.stateless_uniform(shape, self._seed, -bound, bound, dtype=dtype)


def initializer_of(network: NetworkConfig, seed: Sequence[int], is_output: bool) -> snt.initializers.Initializer:
  """What a layer's weights are drawn from at first.

  A network's output layer is `Scaled` if there is an `output_scale`; hidden layers are `Glorot` if `initializer` says so.
  Everything else is `FanIn`.

  Args:
    network: says which.
    seed: of this layer, two numbers.
    is_output: whether it is a network's output layer.
  """
  if is_output and network.output_scale is not None:
    return Scaled(seed, network.output_scale)
  if not is_output and network.initializer == "glorot":
    return Glorot(seed)
  return FanIn(seed)


def activation_of(network: NetworkConfig) -> Callable[[tf.Tensor], tf.Tensor]:
  """What comes after each hidden layer: max(x, 0), or x / (1 + |x|)."""
  activation: Callable[[tf.Tensor], tf.Tensor] = tf.nn.softsign if network.activation == "softsign" else tf.nn.relu
  return activation


class Normalization(snt.Module):
  """Subtracts `shift` and multiplies by `scale`, float32 [inputs] each. The learner sets both; at first they change nothing."""

  def __init__(self, inputs: int):
    """Makes the variables."""
    super().__init__("normalization")
    self.shift = tf.Variable(tf.zeros(inputs), trainable=False, name="shift")
    self.scale = tf.Variable(tf.ones(inputs), trainable=False, name="scale")

  def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
    """Normalises float32 [B, inputs], and clips it to `FEATURE_RANGE`."""
    return tf.clip_by_value((inputs - self.shift) * self.scale, *FEATURE_RANGE)


class Features(snt.Module):
  """Turns observations into a network's inputs: [B, ...] of any number type -> float32 [B, inputs].

  Attributes:
    encode: the encoding, before any normalisation.
    normalization: of the encoded observations; None if they are not normalised.
  """

  def __init__(self, encoding: Encoding, normalized: bool):
    """Takes the encoding, and whether to normalise what it gives."""
    super().__init__("features")
    self.encode = encoding.in_graph
    self.normalization = Normalization(encoding.inputs) if normalized else None

  def __call__(self, observations: tf.Tensor) -> tf.Tensor:
    """Encodes observations, and normalises them if asked to."""
    encoded = self.encode(observations)
    return encoded if self.normalization is None else self.normalization(encoded)


class Mlp(snt.Module):
  """Linear layers with activations between them: float32 [B, inputs] -> [B, outputs]."""

  def __init__(
    self,
    sizes: Sequence[int],
    seed: int,
    dropout: float = 0.0,
    mixed_precision: bool = False,
    ends_network: bool = True,
    network: NetworkConfig = _DEFAULTS,
  ):
    """Makes the layers, with their variables.

    Args:
      sizes: inputs, units of each hidden layer, outputs.
      seed: of the initial weights; biases start at 0.
      dropout: dropout rate of the hidden layers in a call with `is_training`.
      mixed_precision: whether hidden layers are computed in float16; weights and outputs stay float32.
      ends_network: whether the last layer is the network's output layer, not another hidden one.
      network: its activation, and what initial weights are drawn from.
    """
    super().__init__("mlp")
    self._dropout = dropout
    # A generator of its own, whose state checkpoints hold.
    self._noise = tf.random.Generator.from_seed(seed) if dropout else None
    self._dtypes = _computed_in(mixed_precision, len(sizes) - 1, ends_network)
    self._activation = activation_of(network)
    last = len(sizes) - 2
    self._layers = [
      snt.Linear(
        size,
        w_init=initializer_of(network, (seed, index), is_output=ends_network and index == last),
        name=f"linear_{index}",
      )
      for index, size in enumerate(sizes[1:])
    ]
    for layer, size in zip(self._layers, sizes, strict=False):
      layer(tf.zeros((1, size)))  # Makes its variables.

  def __call__(self, inputs: tf.Tensor, is_training: bool = False, trace: Trace | None = None) -> tf.Tensor:
    """The last layer's outputs, with dropout only if `is_training`. Every layer is appended to `trace`."""
    outputs = inputs
    for index, layer in enumerate(self._layers):
      if index:
        inputs = self._activation(outputs)
        if is_training and self._noise is not None:
          # XLA draws no random numbers of float16.
          dropped = tf.nn.experimental.stateless_dropout(
            tf.cast(inputs, tf.float32), self._dropout, self._noise.make_seeds()[:, 0]
          )
          inputs = tf.cast(dropped, inputs.dtype)
      outputs = _linear(inputs, layer.w, layer.b, self._dtypes[index])
      if trace is not None:
        trace.append((inputs, outputs))
    return tf.cast(outputs, tf.float32)


def operations_at_once() -> int:
  """The operations that TensorFlow runs at once: what was set before its first one, 1 where nothing was."""
  return tf.config.threading.get_inter_op_parallelism_threads() or 1


class StackedMlp(snt.Module):
  """Several MLPs of the same shape, such as twin critics: float32 [B, inputs] -> [N, B, outputs].

  Each layer is one batched matrix product for all MLPs, which takes half the operations of one MLP after another. Where
  TensorFlow runs operations side by side, each MLP has its own, so that one core computes one critic and another the other.
  """

  def __init__(
    self,
    networks: int,
    sizes: Sequence[int],
    seed: int,
    mixed_precision: bool = False,
    network: NetworkConfig = _DEFAULTS,
  ):
    """Makes the layers, with their variables.

    Args:
      networks: N.
      sizes: inputs, units of each hidden layer, outputs.
      seed: of the initial weights, which differ from network to network; biases start at 0.
      mixed_precision: whether hidden layers are computed in float16; weights and outputs stay float32.
      network: their activation, and what initial weights are drawn from.
    """
    super().__init__("stacked_mlp")
    self._side_by_side = operations_at_once() > 1
    self._dtypes = _computed_in(mixed_precision, len(sizes) - 1)
    self._activation = activation_of(network)
    self._weights = []
    self._biases = []
    for index, shape in enumerate(itertools.pairwise(sizes)):
      initializer = initializer_of(network, (seed, index), is_output=index == len(sizes) - 2)
      initial = initializer((networks, *shape), tf.float32)
      self._weights.append(tf.Variable(initial, name=f"w_{index}"))
      self._biases.append(tf.Variable(tf.zeros((networks, 1, shape[1])), name=f"b_{index}"))

  @property
  def weights(self) -> Sequence[tf.Variable]:
    """Of every layer, without the biases, which have as many dimensions: [N, inputs, outputs] each."""
    return self._weights

  def __call__(self, inputs: tf.Tensor, trace: Trace | None = None) -> tf.Tensor:
    """All networks' outputs for the same inputs. Every layer is appended to `trace`."""
    if self._side_by_side and trace is None:  # A trace has the layers of all MLPs together.
      return self._apart(inputs)
    hidden = outputs = inputs[None]
    for index, (weights, bias) in enumerate(zip(self._weights, self._biases, strict=True)):
      if index:
        hidden = self._activation(outputs)
      outputs = _linear(hidden, weights, bias, self._dtypes[index])
      if trace is not None:
        trace.append((hidden, outputs))
    return tf.cast(outputs, tf.float32)

  def _apart(self, inputs: tf.Tensor) -> tf.Tensor:
    parameters = [(tf.unstack(each), tf.unstack(bias)) for each, bias in zip(self._weights, self._biases, strict=True)]
    networks = []
    for network in range(self._weights[0].shape[0]):
      outputs = inputs
      for index, (weights, biases) in enumerate(parameters):
        hidden = self._activation(outputs) if index else outputs
        outputs = _linear(hidden, weights[network], biases[network], self._dtypes[index])
      networks.append(outputs)
    return tf.cast(tf.stack(networks), tf.float32)


def _computed_in(mixed_precision: bool, layers: int, ends_network: bool = True) -> list[tf.DType]:
  """The dtype that each layer is computed in. A network's last layer is computed in float32: above 512, float16 values are
  at least 0.5 apart, and returns are often that large.
  """
  dtypes = [tf.float16 if mixed_precision else tf.float32] * layers
  if ends_network:
    dtypes[-1] = tf.float32
  return dtypes


def _linear(inputs: tf.Tensor, weights: tf.Tensor, bias: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
  if tf.float16 in (inputs.dtype, dtype):
    # An observation or a layer's output beyond float16's range would become infinite, and the next layer's sum NaN. (A GPU
    # accumulates the sums themselves in float32.)
    inputs = tf.clip_by_value(inputs, tf.float16.min, tf.float16.max)
  return tf.matmul(tf.cast(inputs, dtype), tf.cast(weights, dtype)) + tf.cast(bias, dtype)
