"""Algorithms by name."""

from acme import specs

from configs import RunConfig
from learner.algorithm import Algorithm
from learner.ddqn import DoubleDqn
from learner.sac import SoftActorCritic
from learner.td3 import Td3
from replay_server.contract.codec import RowCodec

_ALGORITHMS: dict[str, type[DoubleDqn | SoftActorCritic | Td3]] = {
  "ddqn": DoubleDqn,
  "sac": SoftActorCritic,
  "qr_sac": SoftActorCritic,
  "td3": Td3,
}


def make_algorithm(config: RunConfig, codec: RowCodec, spec: specs.EnvironmentSpec, seed: int) -> Algorithm:
  """The run's algorithm.

  Args:
    config: of the run.
    codec: of the rows.
    spec: of the environment.
    seed: of the initial weights and of noise.

  Raises:
    UserError: the algorithm cannot act in such an environment.
  """
  return _ALGORITHMS[config.learner.algorithm.NAME](config, codec, spec, seed)
