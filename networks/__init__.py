"""The networks that actors and learner build."""

from networks.acting import NO_EXTRAS, ActingPolicy, ActingQNetwork, Array, Extras
from networks.encoding import Encoding, encoding_of
from networks.factory import (
  PolicyModule,
  check_actions,
  count_weights,
  make_acting_policy,
  make_acting_q_network,
  make_critics,
  make_deterministic_policy,
  make_gaussian_policy,
  make_policy,
  make_q_network,
)
from networks.layers import Normalization, StackedMlp, Trace, operations_at_once
from networks.policy_networks import DeterministicPolicy, GaussianPolicy, squash
from networks.q_network import QNetwork
from networks.weights import assign_weights, flatten_weights

__all__ = [
  "NO_EXTRAS",
  "ActingPolicy",
  "ActingQNetwork",
  "Array",
  "DeterministicPolicy",
  "Encoding",
  "Extras",
  "GaussianPolicy",
  "Normalization",
  "PolicyModule",
  "QNetwork",
  "StackedMlp",
  "Trace",
  "assign_weights",
  "check_actions",
  "count_weights",
  "encoding_of",
  "flatten_weights",
  "make_acting_policy",
  "make_acting_q_network",
  "make_critics",
  "make_deterministic_policy",
  "make_gaussian_policy",
  "make_policy",
  "make_q_network",
  "operations_at_once",
  "squash",
]
