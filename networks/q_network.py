"""The value network, and its weights as one vector."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import sonnet as snt
import tensorflow as tf
from acme import specs

from configs import NetworkConfig, UserError


class _FanInInitializer(snt.initializers.Initializer):
  """Sonnet's default for a linear layer, truncated normal with a deviation of 1/sqrt(inputs), from a seed of its own.

  Sonnet's seeded initialisers draw from TensorFlow's stateful generators: the same seed gives other numbers the second
  time.
  """

  def __init__(self, seed: Sequence[int]):
    """Takes the two numbers of a stateless TensorFlow seed."""
    self._seed = tf.constant(seed, tf.int64)

  def __call__(self, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
    return tf.random.stateless_truncated_normal(shape, self._seed, stddev=1 / math.sqrt(shape[0]), dtype=dtype)


class QNetwork(snt.Module):
  """An MLP from a batch of observations to one value per action: [B, ...] -> float32 [B, num_actions]."""

  def __init__(self, observation_size: int, num_actions: int, hidden_sizes: Sequence[int], seed: int):
    """Makes the layers; their variables come with the first call.

    Args:
      observation_size: numbers in one observation.
      num_actions: outputs.
      hidden_sizes: units of each hidden layer; they are ReLUs.
      seed: of the initial weights; biases start at 0.
    """
    super().__init__("q_network")
    self._observation_size = observation_size
    self._layers = [
      snt.Linear(size, w_init=_FanInInitializer((seed, index)), name=f"linear_{index}")
      for index, size in enumerate((*hidden_sizes, num_actions))
    ]

  def __call__(self, observations: tf.Tensor) -> tf.Tensor:
    """Q(s, .): observations [B, ...] of any number type -> float32 [B, num_actions]."""
    hidden = tf.cast(tf.reshape(observations, [-1, self._observation_size]), tf.float32)
    *hidden_layers, output = self._layers
    for layer in hidden_layers:
      hidden = tf.nn.relu(layer(hidden))
    return output(hidden)


def make_q_network(
  environment_spec: specs.EnvironmentSpec, config: NetworkConfig, seed: int | None = None
) -> snt.Module:
  """The Q network of an environment, with its variables made.

  Args:
    environment_spec: of the environment; its actions are discrete.
    config: the hidden layers.
    seed: the same seed gives the same weights; None gives other ones each time.

  Raises:
    UserError: the actions are not discrete.
  """
  actions, observations = environment_spec.actions, environment_spec.observations
  if not isinstance(actions, specs.DiscreteArray):
    raise UserError(
      f"The environment's actions are continuous (shape {actions.shape}, {actions.dtype}), and DDQN chooses among "
      "discrete ones: use an environment with a Discrete action space."
    )
  if seed is None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
  network = QNetwork(math.prod(observations.shape), int(actions.num_values), config.hidden_sizes, seed)
  network(tf.zeros((1, *observations.shape), tf.as_dtype(observations.dtype)))
  return network


_ZERO = np.zeros((), np.float32)


class ActingNetwork:
  """`QNetwork`'s forward pass in numpy, for acting.

  A call of a TensorFlow function costs a worker several times what a step of a small environment does, most of it thread
  switches; these few matrix products do not.
  """

  def __init__(self, environment_spec: specs.EnvironmentSpec, config: NetworkConfig, vector: npt.NDArray[np.float32]):
    """Takes the weights that `flatten_weights` made.

    Args:
      environment_spec: of the environment; its actions are discrete.
      config: the hidden layers.
      vector: float32 [P].

    Raises:
      UserError: the vector has another length than such a network's weights.
    """
    sizes = (math.prod(environment_spec.observations.shape), *config.hidden_sizes, environment_spec.actions.num_values)
    shapes = [shape for inputs, outputs in itertools.pairwise(sizes) for shape in ((outputs,), (inputs, outputs))]
    parts = _split(vector, shapes)
    *self._hidden_layers, self._output_layer = zip(parts[1::2], parts[::2], strict=True)

  def __call__(self, observations: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Q(s, .): observations [B, ...] of any number type -> float32 [B, num_actions]."""
    hidden = observations.reshape(len(observations), -1)
    if hidden.dtype != np.float32:
      hidden = hidden.astype(np.float32)
    # In place, and with the method and a constant of the right type: for one observation numpy's overhead is the cost.
    for weights, bias in self._hidden_layers:
      hidden = hidden.dot(weights)
      hidden += bias
      np.maximum(hidden, _ZERO, out=hidden)
    weights, bias = self._output_layer
    values: npt.NDArray[np.float32] = hidden.dot(weights)
    values += bias
    return values


def flatten_weights(module: snt.Module) -> npt.NDArray[np.float32]:
  """All weights of a module as one vector, float32 [P].

  The order is that of `module.variables`: modules by the name of the attribute that holds them, lists by position. For
  `QNetwork` that is layer by layer, and in each layer the bias before the weights (rows of inputs).
  """
  return np.concatenate([variable.numpy().astype(np.float32).ravel() for variable in module.variables])


def assign_weights(module: snt.Module, vector: npt.NDArray[np.float32]) -> None:
  """Sets all weights of a module from the vector that `flatten_weights` made, float32 [P].

  Raises:
    UserError: the vector has another length than the module's weights.
  """
  parts = _split(vector, [tuple(variable.shape) for variable in module.variables])
  for variable, part in zip(module.variables, parts, strict=True):
    variable.assign(part)


def _split(vector: npt.NDArray[np.float32], shapes: Sequence[tuple[int, ...]]) -> list[npt.NDArray[np.float32]]:
  sizes = [math.prod(shape) for shape in shapes]
  if np.shape(vector) != (sum(sizes),):
    raise UserError(
      f"The weights have the shape {np.shape(vector)}, but this network takes ({sum(sizes)},): use one config.network "
      "and one environment for every role of a run."
    )
  parts = np.split(vector, np.cumsum(sizes)[:-1])
  return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
