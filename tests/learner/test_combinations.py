"""All options of a learner work together, except pairs that are refused: every other pair is tried at least once."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from acme import specs

from configs import (
  CagradConfig,
  EventSpec,
  LearnerConfig,
  NetworkConfig,
  ReplayConfig,
  RunConfig,
  TableSpec,
  UserError,
  from_dict,
)
from configs.algorithms import AlgorithmConfig
from configs.mixup import MixupConfig
from learner.learner import make_learner
from tests.learner.conftest import SPEC

pytestmark = pytest.mark.compiled

CONTINUOUS_SPEC = SPEC._replace(actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0, "action"))
AXES: Mapping[str, tuple[Any, ...]] = {
  "algorithm": ("ddqn", "sac", "qr_sac", "td3", "ddpg", "naf"),
  "bias_correction": ("none", "counts", "priority_sum", "balance"),
  "default_selector": ("uniform", "prioritized"),
  "event_selector": ("uniform", "prioritized"),
  "cagrad": (False, True),
  "at_least_one": (False, True),
  "n_step": (1, 3),
  "normalize": (False, True),
  "dueling": (False, True),
  "dropout": (False, True),
  "max_gradient_norm": (None, 1.0),
  "mixed_precision": (False, True),
  "jit_compile": (False, True),
  "prefetch": (False, True),
  "mixup": ("none", "s4rl", "noise"),
}
CONTINUOUS = ("sac", "qr_sac", "td3", "ddpg", "naf")
REFUSED = {
  # Counting needs discrete actions and a default table that does not draw by priority.
  *((("algorithm", name), ("bias_correction", "counts")) for name in CONTINUOUS),
  (("bias_correction", "counts"), ("default_selector", "prioritized")),
  # Parts of networks that the algorithm lacks.
  *((("algorithm", name), ("dueling", True)) for name in CONTINUOUS),
  *((("algorithm", name), ("dropout", True)) for name in ("ddqn", "td3", "ddpg", "naf")),
  # Only SAC's policies have dropout, and only double DQN has two streams and can count; so dropout excludes both.
  (("dueling", True), ("dropout", True)),
  (("bias_correction", "counts"), ("dropout", True)),
  (("cagrad", True), ("mixed_precision", True)),
  # Discrete actions cannot be mixed.
  *(
    (choice, ("mixup", kind))
    for choice in (("algorithm", "ddqn"), ("bias_correction", "counts"), ("dueling", True))
    for kind in ("s4rl", "noise")
  ),
}
Choice = tuple[str, Any]


def _algorithm(chosen: Mapping[str, Any]) -> AlgorithmConfig:
  fields: dict[str, Any] = {"name": chosen["algorithm"]}
  fields |= {"dueling": True} if chosen["dueling"] else {}
  fields |= {"policy_dropout": 0.5} if chosen["dropout"] else {}
  return from_dict(fields, AlgorithmConfig)


def _config(chosen: Mapping[str, Any]) -> RunConfig:
  return RunConfig(
    events=(EventSpec("done", "environments.three_rooms:done", history=1),),
    replay=ReplayConfig(
      capacity=100,
      default=TableSpec("default", 0.75, min_size=4, selector=chosen["default_selector"]),
      tables=(TableSpec("done", 0.25, selector=chosen["event_selector"]),),
      environment_steps_per_update=None,
      at_least_one=chosen["at_least_one"],
    ),
    network=NetworkConfig(
      hidden_sizes=(8,),
      normalize_observations=chosen["normalize"],
    ),
    learner=LearnerConfig(
      batch_size=8,
      updates_per_block=2,
      device="CPU:0",
      cagrad=CagradConfig(0.5) if chosen["cagrad"] else CagradConfig(),
      algorithm=_algorithm(chosen),
      mixup=MixupConfig(chosen["mixup"]),
      **{
        name: chosen[name]
        for name in (
          "bias_correction",
          "n_step",
          "max_gradient_norm",
          "mixed_precision",
          "jit_compile",
          "prefetch",
        )
      },
    ),
  )


def _builds(chosen: Mapping[str, Any]) -> bool:
  try:
    _config(chosen)
  except UserError:
    return False
  return True


def _every_pair() -> set[tuple[Choice, Choice]]:
  return {
    ((name, value), (other, another))
    for name, other in itertools.combinations(AXES, 2)
    for value, another in itertools.product(AXES[name], AXES[other])
  }


def _pairs(choices: tuple[Choice, ...]) -> set[tuple[Choice, Choice]]:
  return set(itertools.combinations(choices, 2))


def _covering() -> list[dict[str, Any]]:
  """Valid combinations that cover every valid pair. Found greedily: each is the best of some hundred random ones."""
  rng = np.random.default_rng(0)
  left = _every_pair() - REFUSED
  rows: list[dict[str, Any]] = []
  while left:
    first, second = min(left, key=repr)
    best: tuple[int, tuple[Choice, ...]] = (0, ())
    while not best[0]:
      for _ in range(200):
        row = {name: values[rng.integers(len(values))] for name, values in AXES.items()} | dict((first, second))
        choices = tuple(row.items())
        if not _pairs(choices) & REFUSED:
          best = max(best, (len(_pairs(choices) & left), choices), key=lambda found: found[0])
    left -= _pairs(best[1])
    rows.append(dict(best[1]))
  return rows


def _pairs_that_build() -> set[tuple[Choice, Choice]]:
  """All valid pairs. Only options that can be refused are tried in all combinations; the others go with everything."""
  refusing = (
    "algorithm",
    "bias_correction",
    "default_selector",
    "dueling",
    "dropout",
    "cagrad",
    "mixed_precision",
    "mixup",
  )
  found: set[tuple[Choice, Choice]] = set()
  for values in itertools.product(*(AXES[name] for name in refusing)):
    fixed = dict(zip(refusing, values, strict=True))
    if _builds({name: fixed.get(name, values[0]) for name, values in AXES.items()}):
      free = [(name, value) for name in AXES if name not in fixed for value in AXES[name]]
      order = list(AXES)
      choices = sorted([*fixed.items(), *free], key=lambda choice: order.index(choice[0]))
      found |= {pair for pair in itertools.combinations(choices, 2) if pair[0][0] != pair[1][0]}
  return found


def test_exactly_these_pairs_are_refused() -> None:
  assert _every_pair() - _pairs_that_build() == REFUSED


@pytest.mark.parametrize("chosen", [pytest.param(row, id=str(index)) for index, row in enumerate(_covering())])
def test_a_learner_with_every_pair_learns_and_can_be_resumed(serve, tmp_path, chosen: dict[str, Any]) -> None:
  continuous = chosen["algorithm"] != "ddqn"
  filled = serve(_config(chosen), spec=CONTINUOUS_SPEC if continuous else SPEC)
  action = {"action": np.array([0.5, -0.5], np.float32)} if continuous else {}
  filled.fill("default", range(10), **action)
  filled.fill("done", range(5), **action)
  server = filled.server
  learner = make_learner(server.connection, server.manifest, 0, filled.stop, tmp_path / "run")
  learner.run(num_steps=1)
  assert all(np.isfinite(value) for value in learner.metrics().values()), learner.metrics()
  again = make_learner(server.connection, server.manifest, 1, filled.stop, tmp_path / "run")
  again.close()
  assert again.gradient_steps == 2
  np.testing.assert_array_equal(again.get_variables([])[0], learner.get_variables([])[0])
