"""The networks that actors and learner build."""

from networks.acting import ActingPolicy, ActingQNetwork
from networks.encoding import Encoding, encoding_of
from networks.exploration import NO_EXTRAS, Array, Extras, OrnsteinUhlenbeckNoise
from networks.factory import (
  PolicyModule,
  check_actions,
  count_weights,
  make_acting_policy,
  make_acting_q_network,
  make_critics,
  make_deterministic_policy,
  make_gaussian_policy,
  make_naf_network,
  make_own_noise,
  make_policy,
  make_q_network,
  make_value_gaussian_policy,
)
from networks.layers import Normalization, StackedMlp, Trace, operations_at_once
from networks.naf_network import NafNetwork, lower_triangles
from networks.policy_networks import DeterministicPolicy, GaussianPolicy, ValueGaussianPolicy, squash
from networks.q_network import QNetwork
from networks.weights import assign_weights, concatenate_weights, flatten_weights

__all__ = [
  "NO_EXTRAS",
  "ActingPolicy",
  "ActingQNetwork",
  "Array",
  "DeterministicPolicy",
  "Encoding",
  "Extras",
  "GaussianPolicy",
  "NafNetwork",
  "Normalization",
  "OrnsteinUhlenbeckNoise",
  "PolicyModule",
  "QNetwork",
  "StackedMlp",
  "Trace",
  "ValueGaussianPolicy",
  "assign_weights",
  "check_actions",
  "concatenate_weights",
  "count_weights",
  "encoding_of",
  "flatten_weights",
  "lower_triangles",
  "make_acting_policy",
  "make_acting_q_network",
  "make_critics",
  "make_deterministic_policy",
  "make_gaussian_policy",
  "make_naf_network",
  "make_own_noise",
  "make_policy",
  "make_q_network",
  "make_value_gaussian_policy",
  "operations_at_once",
  "squash",
]
