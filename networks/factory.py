"""The policy of a run: as a Sonnet module for the learner, in numpy for those who act."""

import math

import numpy as np
from acme import specs

from configs import RunConfig, UserError
from networks.acting import ActingDeterministicPolicy, ActingGaussianPolicy, ActingPolicy, ActingQNetwork
from networks.layers import StackedMlp
from networks.policy_networks import DeterministicPolicy, GaussianPolicy
from networks.q_network import QNetwork
from networks.weights import Floats

PolicyModule = QNetwork | GaussianPolicy | DeterministicPolicy


def make_policy(config: RunConfig, spec: specs.EnvironmentSpec, seed: int | None = None) -> PolicyModule:
  """The network that the run's algorithm publishes, with its variables made.

  Args:
    config: of the run.
    spec: of the environment.
    seed: the same seed gives the same weights; None gives other ones each time.

  Raises:
    UserError: the algorithm cannot act in such an environment.
  """
  if config.learner.algorithm == "ddqn":
    return make_q_network(config, spec, seed)
  if config.learner.algorithm == "td3":
    return make_deterministic_policy(config, spec, seed)
  return make_gaussian_policy(config, spec, seed)


def make_q_network(config: RunConfig, spec: specs.EnvironmentSpec, seed: int | None = None) -> QNetwork:
  """Double DQN's network; arguments and errors are those of `make_policy`."""
  inputs, actions = _sizes(config, spec)
  return QNetwork(inputs, actions, config.network, _or_random(seed), config.learner.mixed_precision)


def make_gaussian_policy(config: RunConfig, spec: specs.EnvironmentSpec, seed: int | None = None) -> GaussianPolicy:
  """SAC's and QR-SAC's network; arguments and errors are those of `make_policy`."""
  inputs, dimensions = _sizes(config, spec)
  return GaussianPolicy(inputs, dimensions, config.network, _or_random(seed), config.learner.mixed_precision)


def make_deterministic_policy(
  config: RunConfig, spec: specs.EnvironmentSpec, seed: int | None = None
) -> DeterministicPolicy:
  """TD3's network; arguments and errors are those of `make_policy`."""
  inputs, dimensions = _sizes(config, spec)
  return DeterministicPolicy(inputs, dimensions, config.network, _or_random(seed), config.learner.mixed_precision)


def make_acting_policy(config: RunConfig, spec: specs.EnvironmentSpec, vector: Floats) -> ActingPolicy:
  """What those who act do with weights that were published, float32 [P].

  Raises:
    UserError: the algorithm cannot act in such an environment, or the weights are of another network.
  """
  if config.learner.algorithm == "ddqn":
    return make_acting_q_network(config, spec, vector)
  inputs, dimensions = _sizes(config, spec)
  if config.learner.algorithm == "td3":
    return ActingDeterministicPolicy(inputs, dimensions, config.network, config.actor.action_noise, vector)
  return ActingGaussianPolicy(inputs, dimensions, config.network, vector)


def make_acting_q_network(config: RunConfig, spec: specs.EnvironmentSpec, vector: Floats) -> ActingQNetwork:
  """The values that weights of double DQN, float32 [P], give.

  Raises:
    UserError: the actions are not discrete, or the weights are of another network.
  """
  inputs, actions = _sizes(config, spec)
  return ActingQNetwork(inputs, actions, config.network, vector)


def make_critics(config: RunConfig, spec: specs.EnvironmentSpec, outputs: int, seed: int) -> StackedMlp:
  """Twin critics (Fujimoto et al., 2018): features and actions side by side, [B, inputs + A] -> float32 [2, B, outputs].

  Args:
    config: of the run.
    spec: of the environment.
    outputs: 1 for a value, or the number of its quantiles.
    seed: of the initial weights.

  Raises:
    UserError: the algorithm cannot act in such an environment.
  """
  inputs, dimensions = _sizes(config, spec)
  sizes = (inputs + dimensions, *config.network.hidden_sizes, outputs)
  return StackedMlp(2, sizes, seed, config.learner.mixed_precision)


def _or_random(seed: int | None) -> int:
  return int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed


def _sizes(config: RunConfig, spec: specs.EnvironmentSpec) -> tuple[int, int]:
  """Numbers in an observation; actions, or dimensions of an action."""
  actions, algorithm = spec.actions, config.learner.algorithm
  inputs = math.prod(spec.observations.shape)
  if isinstance(actions, specs.DiscreteArray):
    if algorithm != "ddqn":
      raise UserError(
        f"The environment has {actions.num_values} discrete actions, and {algorithm} chooses continuous ones: use an environment "
        "with a Box of actions, or learner.algorithm 'ddqn'."
      )
    return inputs, int(actions.num_values)
  if algorithm == "ddqn":
    raise UserError(
      f"The environment's actions are continuous (shape {actions.shape}, {actions.dtype}), and DDQN chooses among "
      "discrete ones: use an environment with a Discrete action space, or learner.algorithm 'sac'."
    )
  if len(actions.shape) != 1 or not (np.all(actions.minimum == -1) and np.all(actions.maximum == 1)):
    raise UserError(
      f"The environment's actions have the shape {actions.shape} and bounds from {actions.minimum.min()} to "
      f"{actions.maximum.max()}, and {algorithm} chooses vectors of numbers between finite bounds: wrap the environment so that "
      "its actions are."
    )
  return inputs, int(actions.shape[0])
