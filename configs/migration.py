"""The former form of configs: `learner.algorithm` was a name, and the algorithms' own settings lay in other parts.

`upgraded` reads a config stored in that form. `former_form` writes it, so that the digests of committed results still match their
configs (see `experiments.jobs.Job.digest`).
"""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from configs.algorithms import ALGORITHMS, find_algorithm
from configs.errors import UserError

_ALGORITHM = "learner.algorithm"
_FORMER_DEFAULT = "ddqn"

_OF_DDQN = {
  "dueling": "network.dueling",
  "epsilon": "actor.epsilon",
  "final_epsilon": "actor.final_epsilon",
  "epsilon_decay_updates": "actor.epsilon_decay_updates",
  "worker_epsilons": "actor.worker_epsilons",
}
_OF_ACTOR_CRITICS = {
  "policy_learning_rate": "learner.policy_learning_rate",
  "policy_l2": "learner.policy_l2",
}
_OF_SAC = _OF_ACTOR_CRITICS | {
  "policy_dropout": "network.policy_dropout",
  "temperature": "learner.sac.temperature",
  "learn_temperature": "learner.sac.learn_temperature",
  "target_entropy": "learner.sac.target_entropy",
}
_OF_QR_SAC = _OF_SAC | {"quantiles": "learner.sac.quantiles", "kappa": "learner.sac.kappa"}
_OF_TD3 = _OF_ACTOR_CRITICS | {
  "action_noise": "actor.action_noise",
  "policy_period": "learner.td3.policy_period",
  "target_period": "learner.td3.target_period",
  "target_noise": "learner.td3.target_noise",
  "target_noise_clip": "learner.td3.target_noise_clip",
}
# Algorithm -> field -> its former key.
_FORMER_KEYS: Mapping[str, Mapping[str, str]] = {
  "ddqn": _OF_DDQN,
  "sac": _OF_SAC,
  "qr_sac": _OF_QR_SAC,
  "td3": _OF_TD3,
}

# Former key -> today's key, in an algorithm that has it.
MOVED_KEYS: Mapping[str, str] = {
  "learner.sac": _ALGORITHM,
  "learner.td3": _ALGORITHM,
  **{former: f"{_ALGORITHM}.{field}" for keys in _FORMER_KEYS.values() for field, former in keys.items()},
}

# Former key -> its default, as a JSON value.
_DEFAULTS: Mapping[str, Any] = json.loads(
  json.dumps(
    {former: getattr(ALGORITHMS[name], field) for name, keys in _FORMER_KEYS.items() for field, former in keys.items()}
  )
)


def upgraded(data: Any) -> Any:
  """Converts a `RunConfig`, as JSON values, from the former form to today's; returns any other data unchanged.

  Raises:
    UserError: `data` mixes both forms, or sets a key that its algorithm does not use.
  """
  moved = dict(_moved(data))
  if not moved:
    return data
  data = copy.deepcopy(data)
  for key in moved:
    _take(data, key)
  learner = data.setdefault("learner", {})
  if not isinstance(learner, dict):
    return data
  name = learner.get("algorithm", _FORMER_DEFAULT)
  if not isinstance(name, str):
    key = next(iter(moved))
    raise UserError(
      f"The config has the former key {key!r} beside today's form of {_ALGORITHM}: write {MOVED_KEYS[key]!r}."
    )
  find_algorithm(name)
  used = {former: field for field, former in _FORMER_KEYS.get(name, {}).items()}
  for key, value in moved.items():
    if key not in used and value != _DEFAULTS[key]:
      raise UserError(f"{key} is set, but the algorithm {name!r} does not use it: leave it out.")
  learner["algorithm"] = {"name": name} | {used[key]: value for key, value in moved.items() if key in used}
  return data


def former_form(data: Mapping[str, Any]) -> dict[str, Any]:
  """Converts the result of `without_defaults` from today's form to the former one.

  A config with an algorithm or a field that did not exist then is returned unchanged.
  """
  former = copy.deepcopy(dict(data))
  algorithm = former.get("learner", {}).pop("algorithm", None)
  if algorithm is None:
    return former
  name = algorithm.pop("name")
  keys = _FORMER_KEYS.get(name)
  if keys is None or not keys.keys() >= algorithm.keys():
    return dict(data)
  if name != _FORMER_DEFAULT:
    former["learner"]["algorithm"] = name
  if not former["learner"]:
    del former["learner"]
  for field, value in algorithm.items():
    *parents, last = keys[field].split(".")
    node = former
    for parent in parents:
      node = node.setdefault(parent, {})
    node[last] = value
  return former


def _moved(data: Any) -> Iterator[tuple[str, Any]]:
  """The former keys in `data`, with their values."""
  for key in _DEFAULTS:
    node = data
    for step in key.split("."):
      if not isinstance(node, Mapping) or step not in node:
        break
      node = node[step]
    else:
      yield key, node


def _take(data: dict[str, Any], key: str) -> None:
  """Removes a key, and the dict that held it if that is now empty."""
  first, _, rest = key.partition(".")
  if rest:
    _take(data[first], rest)
  if not rest or not data[first]:
    del data[first]
