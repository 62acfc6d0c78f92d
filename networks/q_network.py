"""The Q-network."""

import functools

import sonnet as snt
import tensorflow as tf

from configs import NetworkConfig
from networks.encoding import Encoding
from networks.layers import Features, Mlp, Trace, activation_of


class QNetwork(snt.Module):
  """One value for every action: features [B, inputs] -> float32 [B, num_actions].

  A duelling network (Wang et al., 2016, Eq. 9) has two streams from the last hidden layer on, one for the state's value V and
  one for the actions' advantages A: Q = V + A - mean A.

  Attributes:
    features: turns observations into the network's inputs.
  """

  def __init__(
    self,
    encoding: Encoding,
    num_actions: int,
    network: NetworkConfig,
    seed: int,
    mixed_precision: bool,
    dueling: bool = False,
  ):
    """Makes the layers, with their variables.

    Args:
      encoding: of the observations.
      num_actions: outputs.
      network: the config of its layers, and whether observations are normalised.
      seed: of the initial weights; biases start at 0.
      mixed_precision: whether hidden layers are computed in float16.
      dueling: whether the network has two streams.
    """
    super().__init__("q_network")
    self.features = Features(encoding, network.normalize_observations)
    self._dueling = dueling
    self._activation = activation_of(network)
    make = functools.partial(Mlp, mixed_precision=mixed_precision, network=network)
    if not dueling:
      self._values = make((encoding.inputs, *network.hidden_sizes, num_actions), seed)
      return
    *shared, last = (encoding.inputs, *network.hidden_sizes)
    self._shared = None
    if len(shared) > 1:
      self._shared = make(shared, seed, ends_network=False)
    self._state_value = make((shared[-1], last, 1), seed + 1)
    self._advantages = make((shared[-1], last, num_actions), seed + 2)

  def __call__(self, features: tf.Tensor, trace: Trace | None = None) -> tf.Tensor:
    """Q(s, .). Every layer is appended to `trace`."""
    if not self._dueling:
      return self._values(features, trace=trace)
    hidden = features if self._shared is None else self._activation(self._shared(features, trace=trace))
    advantages = self._advantages(hidden, trace=trace)
    return self._state_value(hidden, trace=trace) + advantages - tf.reduce_mean(advantages, axis=-1, keepdims=True)

  def values(self, observations: tf.Tensor) -> tf.Tensor:
    """Q(s, .) of observations [B, ...]: float32 [B, num_actions]."""
    return self(self.features(observations))

  def best_actions(self, observations: tf.Tensor) -> tf.Tensor:
    """The actions with the largest values, of observations [B, ...]: int32 [B]."""
    return tf.argmax(self.values(observations), axis=-1, output_type=tf.int32)
