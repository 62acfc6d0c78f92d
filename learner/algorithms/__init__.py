"""The algorithms, by the tag of their config."""

from collections.abc import Callable

from acme import specs

from configs import RunConfig
from learner.algorithms.algorithm import Algorithm
from learner.algorithms.ddpg import Ddpg
from learner.algorithms.ddqn import DoubleDqn
from learner.algorithms.naf import Naf
from learner.algorithms.sac import QrSac, SoftActorCritic
from learner.algorithms.td3 import Td3
from learner.algorithms.v_racer import VRacer

__all__ = ["ALGORITHMS", "Algorithm", "make_algorithm"]

# Tag -> constructor of the algorithm, from the run's config, its environment's spec and a seed.
ALGORITHMS: dict[str, Callable[[RunConfig, specs.EnvironmentSpec, int], Algorithm]] = {
  "ddqn": DoubleDqn,
  "sac": SoftActorCritic,
  "qr_sac": QrSac,
  "td3": Td3,
  "ddpg": Ddpg,
  "naf": Naf,
  "v_racer": VRacer,
}


def make_algorithm(config: RunConfig, spec: specs.EnvironmentSpec, seed: int) -> Algorithm:
  """Makes the run's algorithm.

  Args:
    config: of the run.
    spec: of the environment.
    seed: of the initial weights and of the noise.

  Raises:
    UserError: the algorithm cannot act in such an environment.
  """
  return ALGORITHMS[config.learner.algorithm.NAME](config, spec, seed)
