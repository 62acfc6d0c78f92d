"""Stored policies: what it takes to play and to export them."""

import contextlib
import os
import pathlib
import resource
from collections.abc import Iterator

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


@contextlib.contextmanager
def _full_disk(most_bytes: int) -> Iterator[None]:
  """Meanwhile no file of this process can be longer, which fails as on a full disk."""
  before = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
  try:
    yield
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_export_that_does_not_fit_on_the_disk_is_one_sentence_and_leaves_nothing(
  policy: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  with _full_disk(5_000):
    assert run(["evaluate", f"--checkpoint={policy}", f"--export={tmp_path / 'model'}", "--episodes=0"]) == 2
  said = capsys.readouterr().err
  assert said.startswith(f"The SavedModel cannot be written to {tmp_path / 'model'} (")
  assert said.endswith("): choose another folder with --export.\n")
  assert not (tmp_path / "model").exists()


def test_an_export_into_an_empty_folder_is_written_and_a_second_one_does_not_replace_it(
  policy: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  model = tmp_path / "model"
  model.mkdir()
  command = ["evaluate", f"--checkpoint={policy}", f"--export={model}", "--episodes=0"]
  assert run(command) == 0
  written = {path: path.read_bytes() for path in model.rglob("*") if path.is_file()}
  assert run(command) == 2
  assert f"--export names {model}, which holds other files" in capsys.readouterr().err
  assert {path: path.read_bytes() for path in model.rglob("*") if path.is_file()} == written


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_an_export_to_a_folder_of_somebody_else_is_one_sentence(
  policy: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  (tmp_path / "theirs").mkdir(mode=0o500)
  assert run(["evaluate", f"--checkpoint={policy}", f"--export={tmp_path / 'theirs' / 'model'}", "--episodes=0"]) == 2
  assert "(Permission denied): choose another folder with --export." in capsys.readouterr().err
