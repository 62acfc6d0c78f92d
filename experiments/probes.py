"""Curves beside the evaluator's: numbers that are worked out from a policy's weights."""

from collections.abc import Callable

import numpy as np

from configs import RunConfig, UserError
from environments import ThreeRooms, make, make_environment_spec, make_event_environment
from networks import ActingNetwork


def summed_q(config: RunConfig) -> Callable[[np.ndarray], float]:
  """The learned values summed over all states and actions (SSET, Section 5.1 and Figure 2(b)).

  Raises:
    UserError: the run's world does not list its states.
  """
  world = make(config.environment)
  if not isinstance(world, ThreeRooms):
    raise UserError(f"The world {config.environment.name!r} does not list its states: leave the probe 'summed_q' out.")
  observations = world.all_observations()
  environment = make_event_environment(config)
  spec = make_environment_spec(environment)
  environment.close()
  return lambda weights: float(ActingNetwork(spec, config.network, weights)(observations).sum(dtype=np.float64))
