"""The networks of a run: the policy as a Sonnet module for the learner and in numpy for acting, and the critics."""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from acme import specs

from configs import RunConfig, UserError, VRacerConfig
from networks.acting import (
  ActingDeterministicPolicy,
  ActingGaussianPolicy,
  ActingNafNetwork,
  ActingPolicy,
  ActingQNetwork,
  ActingValueGaussianPolicy,
  Layers,
  count_of,
)
from networks.encoding import Encoding, encoding_of
from networks.exploration import GaussianNoise, OrnsteinUhlenbeckNoise
from networks.layers import StackedMlp
from networks.naf_network import NafNetwork, triangle_count
from networks.policy_networks import DeterministicPolicy, GaussianPolicy, ValueGaussianPolicy
from networks.q_network import QNetwork
from networks.weights import Floats

T = TypeVar("T")

PolicyModule = QNetwork | GaussianPolicy | DeterministicPolicy | ValueGaussianPolicy | NafNetwork


def make_policy(config: RunConfig, spec: specs.EnvironmentSpec, seed: int | None = None) -> PolicyModule:
  """The network that the run's algorithm publishes, with its variables made.

  Args:
    config: of the run.
    spec: of the environment.
    seed: of the initial weights; None gives different weights each time.

  Raises:
    UserError: the algorithm cannot act in such an environment.
  """
  return _FAMILIES[config.learner.algorithm.POLICY].module(config, spec, seed)


def make_q_network(config: RunConfig, spec: specs.EnvironmentSpec, seed: int | None = None) -> QNetwork:
  """A Q-network; arguments and errors are those of `make_policy`."""
  encoding, actions = _sizes(config, spec)
  return QNetwork(
    encoding, actions, config.network, _or_random(seed), config.learner.mixed_precision, _own(config, "dueling", False)
  )


def make_gaussian_policy(config: RunConfig, spec: specs.EnvironmentSpec, seed: int | None = None) -> GaussianPolicy:
  """A Gaussian policy; arguments and errors are those of `make_policy`."""
  encoding, dimensions = _sizes(config, spec)
  dropout = _own(config, "policy_dropout", 0.0)
  return GaussianPolicy(encoding, dimensions, config.network, _or_random(seed), config.learner.mixed_precision, dropout)


def make_deterministic_policy(
  config: RunConfig, spec: specs.EnvironmentSpec, seed: int | None = None
) -> DeterministicPolicy:
  """A deterministic policy; arguments and errors are those of `make_policy`."""
  encoding, dimensions = _sizes(config, spec)
  return DeterministicPolicy(encoding, dimensions, config.network, _or_random(seed), config.learner.mixed_precision)


def make_value_gaussian_policy(
  config: RunConfig, spec: specs.EnvironmentSpec, seed: int | None = None
) -> ValueGaussianPolicy:
  """A value and a Gaussian policy in one network; arguments and errors are those of `make_policy`.

  The initial deviation is the field `initial_deviation` of the algorithm's config; its field `advantage` asks for coefficients.
  """
  encoding, dimensions = _sizes(config, spec)
  deviation = _own(config, "initial_deviation", VRacerConfig.initial_deviation)
  return ValueGaussianPolicy(
    encoding,
    dimensions,
    config.network,
    _or_random(seed),
    config.learner.mixed_precision,
    deviation,
    _num_coefficients(config, dimensions),
  )


def make_naf_network(config: RunConfig, spec: specs.EnvironmentSpec, seed: int | None = None) -> NafNetwork:
  """NAF's network; arguments and errors are those of `make_policy`."""
  encoding, dimensions = _sizes(config, spec)
  return NafNetwork(encoding, dimensions, config.network, _or_random(seed), config.learner.mixed_precision)


def make_own_noise(config: RunConfig, spec: specs.EnvironmentSpec) -> OrnsteinUhlenbeckNoise | None:
  """The noise that one environment adds to its actions, with a memory of its own.

  Returns:
    None if the noise has no memory; then the policy adds it to the actions of all environments at once.

  Raises:
    UserError: the algorithm cannot act in such an environment.
  """
  if not _has_own_noise(config):
    return None
  _, dimensions = _sizes(config, spec)
  noise, reversion = _own(config, "action_noise", 0.0), _own(config, "noise_reversion", 1.0)
  return OrnsteinUhlenbeckNoise(dimensions, noise, reversion, config.learner.stores_behaviour)


def make_acting_policy(config: RunConfig, spec: specs.EnvironmentSpec, vector: Floats) -> ActingPolicy:
  """The run's policy in numpy, with published weights, float32 [P].

  Raises:
    UserError: the algorithm cannot act in such an environment, or the weights belong to another network.
  """
  return _FAMILIES[config.learner.algorithm.POLICY].acting(config, spec, vector)


def count_weights(config: RunConfig, spec: specs.EnvironmentSpec) -> int:
  """How many weights the run's policy has; makes no network.

  Raises:
    UserError: the algorithm cannot act in such an environment.
  """
  encoding, outputs = _sizes(config, spec)
  family = _FAMILIES[config.learner.algorithm.POLICY]
  own = outputs if family.has_deviation else 0
  return count_of(family.layers(config, encoding, outputs), encoding, config.network, own)


def make_acting_q_network(config: RunConfig, spec: specs.EnvironmentSpec, vector: Floats) -> ActingQNetwork:
  """The network of `make_q_network` in numpy, with these weights, float32 [P].

  Raises:
    UserError: the actions are not discrete, or the weights belong to another network.
  """
  encoding, actions = _sizes(config, spec)
  return ActingQNetwork(encoding, actions, config.network, _own(config, "dueling", False), vector)


def _make_acting_gaussian_policy(
  config: RunConfig, spec: specs.EnvironmentSpec, vector: Floats
) -> ActingGaussianPolicy:
  encoding, dimensions = _sizes(config, spec)
  return ActingGaussianPolicy(encoding, dimensions, config.network, vector)


def _make_acting_deterministic_policy(
  config: RunConfig, spec: specs.EnvironmentSpec, vector: Floats
) -> ActingDeterministicPolicy:
  encoding, dimensions = _sizes(config, spec)
  return ActingDeterministicPolicy(encoding, dimensions, config.network, _shared_noise(config), vector)


def _make_acting_value_gaussian_policy(
  config: RunConfig, spec: specs.EnvironmentSpec, vector: Floats
) -> ActingValueGaussianPolicy:
  encoding, dimensions = _sizes(config, spec)
  return ActingValueGaussianPolicy(
    encoding,
    dimensions,
    config.network,
    config.learner.stores_behaviour,
    vector,
    _num_coefficients(config, dimensions),
  )


def _make_acting_naf_network(config: RunConfig, spec: specs.EnvironmentSpec, vector: Floats) -> ActingNafNetwork:
  encoding, dimensions = _sizes(config, spec)
  return ActingNafNetwork(encoding, dimensions, config.network, _shared_noise(config), vector)


def _num_coefficients(config: RunConfig, num_dimensions: int) -> int:
  """The coefficients of V-RACER's advantage for an observation (ReF-ER, Appendix E)."""
  counts = {"none": 0, "quadratic": triangle_count(num_dimensions), "gaussian": 1 + 2 * num_dimensions}
  return counts[_own(config, "advantage", VRacerConfig.advantage)]


def _has_own_noise(config: RunConfig) -> bool:
  return _own(config, "noise", "gaussian") == "ornstein_uhlenbeck"


def _shared_noise(config: RunConfig) -> GaussianNoise | None:
  """The noise that a policy adds to the actions of all environments; None if each adds its own."""
  if _has_own_noise(config):
    return None
  return GaussianNoise(_own(config, "action_noise", 0.0), config.learner.stores_behaviour)


@dataclasses.dataclass(frozen=True)
class _Family:
  """A kind of policy: as a module for the learner, in numpy for acting, and the sizes of its MLPs.

  Attributes:
    module: makes the module.
    acting: makes its counterpart in numpy.
    layers: sizes of the MLPs, in the order of their weights.
    has_deviation: whether it has a weight for each action dimension that belongs to no layer.
  """

  module: Callable[[RunConfig, specs.EnvironmentSpec, int | None], PolicyModule]
  acting: Callable[[RunConfig, specs.EnvironmentSpec, Floats], ActingPolicy]
  layers: Callable[[RunConfig, Encoding, int], list[Layers]]
  has_deviation: bool = False


# By `AlgorithmConfig.POLICY`.
_FAMILIES = {
  "values": _Family(
    make_q_network,
    make_acting_q_network,
    lambda config, encoding, actions: ActingQNetwork.layers(
      encoding, actions, config.network, _own(config, "dueling", False)
    ),
  ),
  "gaussian": _Family(
    make_gaussian_policy,
    _make_acting_gaussian_policy,
    lambda config, encoding, dimensions: ActingGaussianPolicy.layers(encoding, dimensions, config.network),
  ),
  "deterministic": _Family(
    make_deterministic_policy,
    _make_acting_deterministic_policy,
    lambda config, encoding, dimensions: ActingDeterministicPolicy.layers(encoding, dimensions, config.network),
  ),
  "value_gaussian": _Family(
    make_value_gaussian_policy,
    _make_acting_value_gaussian_policy,
    lambda config, encoding, dimensions: ActingValueGaussianPolicy.layers(
      encoding, dimensions, config.network, _num_coefficients(config, dimensions)
    ),
    has_deviation=True,
  ),
  "naf": _Family(
    make_naf_network,
    _make_acting_naf_network,
    lambda config, encoding, dimensions: ActingNafNetwork.layers(encoding, dimensions, config.network),
  ),
}


def make_critics(
  config: RunConfig, spec: specs.EnvironmentSpec, outputs: int, seed: int, critics: int = 2
) -> StackedMlp:
  """Critics: features and actions side by side, [B, inputs + A] -> float32 [critics, B, outputs].

  Args:
    config: of the run.
    spec: of the environment.
    outputs: 1 for a value, or the number of quantiles.
    seed: of the initial weights.
    critics: how many; two are twin critics (Fujimoto et al., 2018).

  Raises:
    UserError: the algorithm cannot act in such an environment.
  """
  encoding, dimensions = _sizes(config, spec)
  sizes = (encoding.inputs + dimensions, *config.network.hidden_sizes, outputs)
  return StackedMlp(critics, sizes, seed, config.learner.mixed_precision, config.network)


def _or_random(seed: int | None) -> int:
  return int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed


def _own(config: RunConfig, field: str, otherwise: T) -> T:
  """A field of the algorithm's config; `otherwise` if that has no such field."""
  value: T = getattr(config.learner.algorithm, field, otherwise)
  return value


def check_actions(config: RunConfig, spec: specs.EnvironmentSpec) -> None:
  """Refuses an environment in which the run's algorithm cannot act.

  Raises:
    UserError: the environment's actions are not of the algorithm's kind.
  """
  _sizes(config, spec)


def _sizes(config: RunConfig, spec: specs.EnvironmentSpec) -> tuple[Encoding, int]:
  """The encoding of observations, and the number of actions or of action dimensions."""
  actions, algorithm = spec.actions, config.learner.algorithm
  encoding = encoding_of(spec.observations)
  if isinstance(actions, specs.DiscreteArray):
    if algorithm.ACTIONS != "discrete":
      raise UserError(
        f"The environment has {actions.num_values} discrete actions, but {algorithm.NAME} chooses continuous ones: use an "
        "environment with a Box of actions, or learner.algorithm 'ddqn'."
      )
    return encoding, int(actions.num_values)
  if algorithm.ACTIONS != "continuous":
    raise UserError(
      f"The environment's actions are continuous (shape {actions.shape}, {actions.dtype}), but {algorithm.NAME} chooses among "
      "discrete ones: use an environment with a Discrete action space, or learner.algorithm 'sac'."
    )
  if len(actions.shape) != 1 or not (np.all(actions.minimum == -1) and np.all(actions.maximum == 1)):
    raise UserError(
      f"The environment's actions have the shape {actions.shape} and bounds from {actions.minimum.min()} to "
      f"{actions.maximum.max()}, but {algorithm.NAME} chooses vectors of numbers between finite bounds: wrap the environment so "
      "that its actions are such vectors."
    )
  return encoding, int(actions.shape[0])
