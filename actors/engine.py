"""From observations to actions: the one path for workers, evaluations and reports, for one environment or several."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from acme import specs

from actors.behaviour import Behaviour
from networks import NO_EXTRAS, ActingPolicy, Array, Extras

# Of a policy's speed.
_TRIALS = 7


class Choice(NamedTuple):
  """What a behaviour chose for one environment.

  Attributes:
    action: of the environment's action spec.
    extras: that the policy or the noise returned with it, without the batch dimension; empty for a random action.
  """

  action: Array
  extras: Extras


def seconds_per_action(policy: ActingPolicy, observations: specs.Array, worlds: int) -> float:
  """How long a policy takes to choose the actions of so many worlds, in seconds: the median of some trials."""
  batch, rng = np.zeros((worlds, *observations.shape), observations.dtype), np.random.default_rng(0)
  seconds = []
  for _ in range(_TRIALS):
    began = time.perf_counter()
    policy.explore(batch, rng)
    seconds.append(time.perf_counter() - began)
  return sorted(seconds)[_TRIALS // 2]


def choose_actions(behaviours: Sequence[Behaviour], observations: Sequence[Array]) -> list[Choice]:
  """Chooses the next action of every environment; environments that share a policy share its forward pass.

  Args:
    behaviours: one for each environment. A shared policy takes its noise from the generator of its first behaviour; noise that
      remembers itself is each environment's own.
    observations: the latest of each environment, [...], in the same order.
  """
  choices: list[Any] = [None] * len(behaviours)  # Every one is set below.
  users: dict[ActingPolicy, list[int]] = {}
  for index, behaviour in enumerate(behaviours):
    policy = behaviour.next_policy()
    if policy is None:
      choices[index] = Choice(behaviour.random_action(), NO_EXTRAS)
    elif policy in users:
      users[policy].append(index)
    else:
      users[policy] = [index]
  for policy, indices in users.items():
    batch = np.array([observations[index] for index in indices])
    actions, extras = policy.explore(batch, behaviours[indices[0]].rng)
    for row, index in enumerate(indices):
      noise = behaviours[index].noise
      if noise is not None:
        choices[index] = Choice(*noise.explore(actions[row], behaviours[index].rng))
      else:
        choices[index] = Choice(actions[row], extras and {name: values[row] for name, values in extras.items()})
  return choices
