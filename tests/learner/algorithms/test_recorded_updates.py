"""200 updates from recorded blocks and fixed initial weights still give the recorded weights.

Commit c085281 wrote `recorded/updates.npz`, before the learner was redesigned. All row weights are 1, and CAGrad is off. Each
case starts from the weights that a seed gives, which are recorded too.
"""

import pathlib
from typing import Any

import numpy as np
import pytest
from acme import specs

from configs import DdqnConfig, LearnerConfig, NetworkConfig, QrSacConfig, RunConfig, SacConfig, Td3Config
from learner.algorithms import Algorithm
from learner.updates import make_updates
from networks import layers
from replay_server.contract.layout import make_row_codec
from tests.learner.batches import update

pytestmark = pytest.mark.compiled

_SCALAR = specs.Array((), np.float32)
DISCRETE = specs.EnvironmentSpec(specs.Array((3,), np.float32), specs.DiscreteArray(3), _SCALAR, _SCALAR)
CONTINUOUS = DISCRETE._replace(actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0, "action"))
RECORDED = np.load(pathlib.Path(__file__).with_name("recorded") / "updates.npz")
# Recorded name -> the name now.
NETWORKS = {
  "policy": "policy",
  "target": "target",
  "critics": "critics",
  "targets": "target_critics",
  "target_policy": "target_policy",
  "log_temperature": "log_temperature",
}


def _config(network: NetworkConfig, **learner: Any) -> RunConfig:
  return RunConfig(
    network=network,
    learner=LearnerConfig(learning_rate=1e-3, discount=0.95, target_update_rate=0.05, batch_size=16, **learner),
  )


SMALL, DEEP = NetworkConfig((16,)), NetworkConfig((16, 8), normalize_observations=True)
CASES = {
  "ddqn": (DISCRETE, _config(SMALL)),
  "ddqn_options": (
    DISCRETE,
    _config(DEEP, algorithm=DdqnConfig(dueling=True), max_gradient_norm=0.5),
  ),
  "sac": (CONTINUOUS, _config(SMALL, algorithm=SacConfig())),
  "sac_options": (
    CONTINUOUS,
    _config(DEEP, algorithm=SacConfig(policy_l2=1e-3, policy_learning_rate=5e-4), max_gradient_norm=0.5),
  ),
  "qr_sac": (
    CONTINUOUS,
    _config(
      SMALL,
      algorithm=QrSacConfig(temperature=0.2, learn_temperature=False, quantiles=8, kappa=0.7),
    ),
  ),
  "td3": (CONTINUOUS, _config(SMALL, algorithm=Td3Config())),
  "td3_options": (
    CONTINUOUS,
    _config(
      SMALL,
      algorithm=Td3Config(policy_l2=1e-3, policy_period=3, target_period=1),
      max_gradient_norm=1.0,
    ),
  ),
}


def _weights(algorithm: Algorithm) -> dict[str, np.ndarray]:
  parts = {name: getattr(algorithm, now) for name, now in NETWORKS.items() if hasattr(algorithm, now)}
  variables = {name: getattr(part, "variables", [part]) for name, part in parts.items()}
  return {name: np.concatenate([variable.numpy().ravel() for variable in each]) for name, each in variables.items()}


@pytest.mark.parametrize(
  ("case", "operations"), [*((case, 1) for case in CASES), *((case, 2) for case in ("sac", "sac_options", "td3"))]
)
def test_200_updates_give_the_recorded_weights(case: str, operations: int, monkeypatch: pytest.MonkeyPatch) -> None:
  # With two operations at once, twin critics are computed side by side.
  monkeypatch.setattr(layers, "operations_at_once", lambda: operations)
  spec, config = CASES[case]
  updates = make_updates(config, make_row_codec(spec), spec, seed=7)
  before = _weights(updates.algorithm)
  assert len(before) == sum(name.startswith(f"{case}/before/") for name in RECORDED)
  for name, weights in before.items():
    np.testing.assert_array_equal(weights, RECORDED[f"{case}/before/{name}"])
  for block in RECORDED["rows/discrete" if spec is DISCRETE else "rows/continuous"]:
    _, td_errors = update(updates, block)
  for name, weights in _weights(updates.algorithm).items():
    np.testing.assert_allclose(weights, RECORDED[f"{case}/after/{name}"], rtol=0, atol=1e-5, err_msg=name)
  np.testing.assert_allclose(td_errors, RECORDED[f"{case}/td_errors"], rtol=1e-4, atol=1e-4)
