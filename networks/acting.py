"""Forward passes in numpy, for acting.

A call of a TensorFlow function costs a worker several times as much as a step of a small environment, mostly in thread switches;
these few matrix products do not.
"""

import abc
import itertools
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from configs import NetworkConfig
from networks.encoding import Encoding
from networks.exploration import NO_EXTRAS, Array, Extras, GaussianNoise, clip
from networks.layers import FEATURE_RANGE
from networks.naf_network import output_count
from networks.policy_networks import LOG_STD_RANGE
from networks.weights import Floats, split_vector

Shape = tuple[int, ...]
# The sizes of an MLP's layers, inputs first.
Layers = Sequence[int]

_ZERO = np.zeros((), np.float32)
_ONE = np.ones((), np.float32)
# So many observations are multiplied one by one: a product of matrices first copies the weights, which takes longer.
_FEW_ROWS = 8


class ActingPolicy(Protocol):
  """A policy in numpy: from observations [B, ...] to actions [B, ...]."""

  def explore(self, observations: Array, rng: np.random.Generator) -> tuple[Array, Extras]:
    """Actions [B, ...] with the noise of training, if the policy has its own noise, and their extras.

    The extras hold a value for every field that the learner adds to rows (`LearnerConfig.row_fields`), such as the mean and
    standard deviation that an action was sampled with; `NO_EXTRAS` if it adds none. A random action has no extras, so a run whose
    rows have further fields cannot have random steps.
    """
    ...

  def best(self, observations: Array) -> Array:
    """Actions [B, ...] without noise."""
    ...


class ActingQNetwork:
  """`QNetwork`'s forward pass, and its greedy policy."""

  def __init__(self, encoding: Encoding, num_actions: int, network: NetworkConfig, dueling: bool, vector: Floats):
    """Takes the weights that `flatten_weights` made.

    Args:
      encoding: of the observations.
      num_actions: A.
      network: the config of its layers, and whether observations are normalised.
      dueling: whether the network has two streams.
      vector: float32 [P].

    Raises:
      UserError: the vector has another length than such a network's weights.
    """
    self._dueling = dueling
    _, mlps, self._features = _split(vector, self.layers(encoding, num_actions, network, dueling), encoding, network)
    if dueling:
      self._advantages, self._shared, self._state_value = mlps
    else:
      (self._values,) = mlps

  @staticmethod
  def layers(encoding: Encoding, num_actions: int, network: NetworkConfig, dueling: bool) -> list[Layers]:
    """The sizes of its MLPs, in the order of their weights."""
    if not dueling:
      return [(encoding.inputs, *network.hidden_sizes, num_actions)]
    *shared, last = (encoding.inputs, *network.hidden_sizes)
    # Sorted by the attributes' names, like the variables of a module.
    return [(shared[-1], last, num_actions), shared, (shared[-1], last, 1)]

  def values(self, observations: Array) -> Floats:
    """Q(s, .): observations [B, ...] -> float32 [B, A]."""
    features = self._features(observations)
    if not self._dueling:
      return self._values(features)
    hidden = self._shared(features, then_activate=True)
    advantages = self._advantages(hidden)
    values: Floats = self._state_value(hidden) + advantages - advantages.mean(axis=-1, keepdims=True)
    return values

  def best(self, observations: Array) -> Array:
    """The actions with the largest values: int32 [B]."""
    actions: Array = self.values(observations).argmax(axis=-1).astype(np.int32)
    return actions

  def explore(self, observations: Array, rng: np.random.Generator) -> tuple[Array, Extras]:
    """The same actions; the worker mixes in the random ones."""
    del rng
    return self.best(observations), NO_EXTRAS


class ActingGaussianPolicy:
  """`GaussianPolicy` without dropout."""

  def __init__(self, encoding: Encoding, num_dimensions: int, network: NetworkConfig, vector: Floats):
    """Takes the weights that `flatten_weights` made; the arguments are the network's.

    Raises:
      UserError: the vector has another length than such a network's weights.
    """
    _, (self._mlp,), self._features = _split(vector, self.layers(encoding, num_dimensions, network), encoding, network)
    self._num_dimensions = num_dimensions

  @staticmethod
  def layers(encoding: Encoding, num_dimensions: int, network: NetworkConfig) -> list[Layers]:
    """The sizes of its MLPs, in the order of their weights."""
    return [(encoding.inputs, *network.hidden_sizes, 2 * num_dimensions)]

  def best(self, observations: Array) -> Array:
    """The tanh of the means: float32 [B, A]."""
    actions: Floats = np.tanh(self._mlp(self._features(observations))[:, : self._num_dimensions])
    return actions

  def explore(self, observations: Array, rng: np.random.Generator) -> tuple[Array, Extras]:
    """Actions sampled from the policy: float32 [B, A]."""
    outputs = self._mlp(self._features(observations))
    mean, log_std = outputs[:, : self._num_dimensions], outputs[:, self._num_dimensions :]
    std = np.exp(clip(log_std, *LOG_STD_RANGE))
    return np.tanh(mean + std * rng.standard_normal(mean.shape, np.float32)), NO_EXTRAS


class _AroundMeans(abc.ABC):
  """A policy that gives each observation a mean, and explores around it."""

  def __init__(self, noise: GaussianNoise | None):
    """Takes the noise; None if the policy's own actions have none."""
    self._noise = noise

  @abc.abstractmethod
  def means(self, observations: Array) -> Floats:
    """The means: observations [B, ...] -> float32 [B, A]."""

  def best(self, observations: Array) -> Array:
    """The means, clipped to [-1, 1]: float32 [B, A]."""
    return clip(self.means(observations), -1.0, 1.0)

  def explore(self, observations: Array, rng: np.random.Generator) -> tuple[Array, Extras]:
    """Actions around the means, float32 [B, A]; the means themselves where the environments add their own noise."""
    means = self.means(observations)
    return (means, NO_EXTRAS) if self._noise is None else self._noise.explore(means, rng)


class ActingDeterministicPolicy(_AroundMeans):
  """`DeterministicPolicy`, with noise for exploration."""

  def __init__(
    self, encoding: Encoding, num_dimensions: int, network: NetworkConfig, noise: GaussianNoise | None, vector: Floats
  ):
    """Takes the weights that `flatten_weights` made; the arguments are the network's.

    Args:
      encoding: of the observations.
      num_dimensions: A.
      network: the config of its layers, and whether observations are normalised.
      noise: on its actions, which lie in [-1, 1]; None for none.
      vector: float32 [P].

    Raises:
      UserError: the vector has another length than such a network's weights.
    """
    super().__init__(noise)
    _, (self._mlp,), self._features = _split(vector, self.layers(encoding, num_dimensions, network), encoding, network)

  @staticmethod
  def layers(encoding: Encoding, num_dimensions: int, network: NetworkConfig) -> list[Layers]:
    """The sizes of its MLPs, in the order of their weights."""
    return [(encoding.inputs, *network.hidden_sizes, num_dimensions)]

  def means(self, observations: Array) -> Floats:
    """The policy's actions: observations [B, ...] -> float32 [B, A]."""
    actions: Floats = np.tanh(self._mlp(self._features(observations)))
    return actions


class ActingValueGaussianPolicy(_AroundMeans):
  """`ValueGaussianPolicy` without its value and coefficients."""

  def __init__(
    self,
    encoding: Encoding,
    num_dimensions: int,
    network: NetworkConfig,
    stores_behaviour: bool,
    vector: Floats,
    num_coefficients: int = 0,
  ):
    """Takes the weights that `flatten_weights` made; the arguments are the network's.

    Args:
      encoding: of the observations.
      num_dimensions: A.
      network: the config of its layers, and whether observations are normalised.
      stores_behaviour: whether rows hold the Gaussian that their action came from.
      vector: float32 [P].
      num_coefficients: of an advantage.

    Raises:
      UserError: the vector has another length than such a network's weights.
    """
    layers = self.layers(encoding, num_dimensions, network, num_coefficients)
    raw, (self._mlp,), self._features = _split(vector, layers, encoding, network, own=num_dimensions)
    super().__init__(GaussianNoise(np.logaddexp(raw, _ZERO), stores_behaviour))
    self._num_dimensions = num_dimensions

  @staticmethod
  def layers(
    encoding: Encoding, num_dimensions: int, network: NetworkConfig, num_coefficients: int = 0
  ) -> list[Layers]:
    """The sizes of its MLPs, in the order of their weights."""
    return [(encoding.inputs, *network.hidden_sizes, 1 + num_dimensions + num_coefficients)]

  def means(self, observations: Array) -> Floats:
    """The Gaussian's means: observations [B, ...] -> float32 [B, A]."""
    return self._mlp(self._features(observations))[:, 1 : 1 + self._num_dimensions]


class ActingNafNetwork(_AroundMeans):
  """`NafNetwork`'s means, with noise for exploration."""

  def __init__(
    self, encoding: Encoding, num_dimensions: int, network: NetworkConfig, noise: GaussianNoise | None, vector: Floats
  ):
    """Takes the weights that `flatten_weights` made; the arguments are those of `ActingDeterministicPolicy`.

    Raises:
      UserError: the vector has another length than such a network's weights.
    """
    super().__init__(noise)
    _, (self._mlp,), self._features = _split(vector, self.layers(encoding, num_dimensions, network), encoding, network)
    self._num_dimensions = num_dimensions

  @staticmethod
  def layers(encoding: Encoding, num_dimensions: int, network: NetworkConfig) -> list[Layers]:
    """The sizes of its MLPs, in the order of their weights."""
    return [(encoding.inputs, *network.hidden_sizes, output_count(num_dimensions))]

  def means(self, observations: Array) -> Floats:
    """The best actions by Q, which may leave [-1, 1]: observations [B, ...] -> float32 [B, A]."""
    return self._mlp(self._features(observations))[:, 1 : 1 + self._num_dimensions]


class _Features:
  def __init__(self, encoding: Encoding, parts: Sequence[Floats]):
    self._encode = encoding.in_numpy
    self._normalization = (parts[0], parts[1]) if parts else None  # Scale and shift, in the order of their names.

  def __call__(self, observations: Array) -> Floats:
    encoded = self._encode(observations)
    if self._normalization is None:
      return encoded
    scale, shift = self._normalization
    return clip((encoded - shift) * scale, *FEATURE_RANGE)


class _Mlp:
  def __init__(self, parts: Sequence[Floats], network: NetworkConfig):
    self._layers = list(zip(parts[1::2], parts[::2], strict=True))
    self._is_softsign = network.activation == "softsign"

  def __call__(self, inputs: Floats, then_activate: bool = False) -> Floats:
    # In place, with the method `dot` and a float32 constant: for one observation, numpy's overhead is most of the cost.
    hidden, last = inputs, len(self._layers) - 1
    is_few = 1 < len(inputs) <= _FEW_ROWS
    for index, (weights, bias) in enumerate(self._layers):
      hidden = np.matmul(hidden[:, np.newaxis], weights)[:, 0] if is_few else hidden.dot(weights)
      hidden += bias
      if index < last or then_activate:
        if self._is_softsign:
          hidden /= _ONE + np.abs(hidden)
        else:
          np.maximum(hidden, _ZERO, out=hidden)
    return hidden


def count_of(mlps: Sequence[Layers], encoding: Encoding, network: NetworkConfig, own: int = 0) -> int:
  """How many weights a network with these MLPs, and `own` weights that belong to no layer, has."""
  return sum(math.prod(shape) for shape in _shapes(mlps, encoding, network, own))


def _shapes(mlps: Sequence[Layers], encoding: Encoding, network: NetworkConfig, own: int) -> list[Shape]:
  """Of the weights, in their order: a module's own variables come before those of its modules."""
  of_mlps: list[Shape] = [
    shape for sizes in mlps for rows, columns in itertools.pairwise(sizes) for shape in ((columns,), (rows, columns))
  ]
  of_features: list[Shape] = [(encoding.inputs,)] * 2 if network.normalize_observations else []
  return [(own,), *of_mlps, *of_features]


def _split(
  vector: Floats, mlps: Sequence[Layers], encoding: Encoding, network: NetworkConfig, own: int = 0
) -> tuple[Floats, list[_Mlp], _Features]:
  """The network's `own` weights, MLPs of these sizes, and the features, from the weights of a network whose MLPs come first."""
  first, *rest = split_vector(vector, _shapes(mlps, encoding, network, own))
  parts = iter(rest)
  networks = [_Mlp(list(itertools.islice(parts, 2 * (len(sizes) - 1))), network) for sizes in mlps]
  return first, networks, _Features(encoding, list(parts))
