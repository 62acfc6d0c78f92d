"""Stored policies: what it takes to play and to export them."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from environments import make_environment_spec, make_event_environment
from launch import roles
from networks import flatten_weights, make_policy
from replay_server.contract.policy import PolicySnapshot, save_snapshot
from slipstream.main import run
from tests.actors.running import make_run


@pytest.fixture(name="policy")
def _policy(tmp_path: pathlib.Path) -> pathlib.Path:
  """A file with a policy of random weights in a small three-room world."""
  config = make_run()
  environment = make_event_environment(config)
  spec = make_environment_spec(environment)
  environment.close()
  weights = np.asarray(flatten_weights(make_policy(config, spec, seed=1)))
  save_snapshot(tmp_path / "policy.npz", PolicySnapshot(1, 10, weights), config, spec)
  return tmp_path / "policy.npz"


def _actions(model: pathlib.Path) -> list[int]:
  loaded = tf.saved_model.load(str(model))
  observations = tf.random.stateless_normal([20, 3], seed=[1, 2])
  (actions,) = loaded.signatures["serving_default"](observations).values()
  result: list[int] = actions.numpy().tolist()
  return result


def test_a_file_from_before_the_specs_were_kept_plays_and_is_exported_as_well(
  policy: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  with np.load(policy) as data:
    np.savez(tmp_path / "former.npz", **{name: data[name] for name in data if name != "spec"})
  for path in (policy, tmp_path / "former.npz"):
    assert run(["evaluate", f"--checkpoint={path}", f"--export={tmp_path / path.stem}", "--episodes=2"]) == 0
    assert 'RESULT {"episodes": 2, "mean_return"' in capsys.readouterr().out
  assert _actions(tmp_path / "policy") == _actions(tmp_path / "former")


def test_an_export_alone_makes_no_environment(
  policy: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  monkeypatch.setattr(roles, "make_event_environment", None)
  assert run(["evaluate", f"--checkpoint={policy}", f"--export={tmp_path / 'model'}", "--episodes=0"]) == 0
  assert "RESULT" not in capsys.readouterr().out
  assert (tmp_path / "model" / "saved_model.pb").is_file()
