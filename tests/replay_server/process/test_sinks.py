"""Other places for a run's numbers: the queue in front of a client, and the real clients where they are installed.

Slipstream does not install the clients. To run their tests, install wandb and mlflow-skinny beside it, or put them on PYTHONPATH.
"""

import importlib.util
import math
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Mapping

import pytest

from configs import RunConfig
from replay_server.process.sinks import PACKAGES, QueuedSink, check_sinks, flattened, open_sinks
from slipstream.main import run as run_command
from tests.serving import wait_for

_ROOT = pathlib.Path(__file__).parents[3]
_TINY = (
  "train --config=three_rooms --inline --quiet --config.environment_steps=400 --config.replay.default.min_size=100 "
  "--config.learner.updates_per_block=8 --config.network.hidden_sizes=[8] --config.environment.arguments.room_size=2 "
  "--config.environment.arguments.time_limit=12 --config.evaluator.period_updates=8 --config.evaluator.solved_evaluations=0"
)


def _installed(name: str) -> bool:
  return importlib.util.find_spec(name) is not None


class _Service:
  """A client that keeps what it gets, can be away, and can be slow."""

  def __init__(self) -> None:
    self.points: list[tuple[dict[str, float], int]] = []
    self.is_away = self.is_closed = False
    self.may_answer = threading.Event()
    self.may_answer.set()

  def log(self, tags: Mapping[str, float], step: int, seconds: float) -> None:
    assert self.may_answer.wait(30)
    if self.is_away:
      raise ConnectionError("nobody there\nat all")
    assert math.isfinite(seconds)
    self.points.append((dict(tags), step))

  def close(self) -> None:
    self.is_closed = True


def test_a_service_gets_every_point_in_order_and_is_then_closed() -> None:
  service = _Service()
  sink = QueuedSink("service", service)
  for step in range(100):
    sink.write({"loss": step / 2}, step)
  sink.close()
  assert service.points == [({"loss": step / 2}, step) for step in range(100)]
  assert service.is_closed


def test_a_service_that_is_away_is_said_once_and_so_is_its_return(capsys: pytest.CaptureFixture[str]) -> None:
  service = _Service()
  sink = QueuedSink("service", service)
  service.is_away = True
  said = ""

  def has_said(sentence: str) -> bool:
    nonlocal said
    said += capsys.readouterr().out
    return sentence in said

  for step in range(3):
    sink.write({"loss": 1.0}, step)
  wait_for(
    lambda: has_said("service does not take the run's numbers (nobody there): the run goes on, see metrics.csv.\n")
  )
  service.is_away = False
  sink.write({"loss": 1.0}, 9)
  wait_for(lambda: has_said("service takes the run's numbers again.\n"))
  sink.close()
  assert said.count("\n") == 2
  assert service.points[-1] == ({"loss": 1.0}, 9)


def test_a_service_that_hangs_holds_up_neither_the_run_nor_its_end(capsys: pytest.CaptureFixture[str]) -> None:
  service = _Service()
  service.may_answer.clear()
  sink = QueuedSink("service", service, most_waiting=5, close_seconds=0.1)
  for step in range(100):
    sink.write({"loss": 1.0}, step)
  sink.close()
  assert "service did not take the last numbers within 0.1 s" in capsys.readouterr().out
  service.may_answer.set()
  wait_for(lambda: 5 <= len(service.points) <= 7)


def test_a_config_becomes_pairs_of_path_and_text() -> None:
  data = {"name": "a", "learner": {"sizes": [8, 8], "rate": 0.5}, "arguments": {}, "goal": None}
  assert dict(flattened(data)) == {
    "name": "a",
    "learner.sizes": "[8, 8]",
    "learner.rate": "0.5",
    "arguments": "{}",
    "goal": "null",
  }


@pytest.mark.parametrize("name", sorted(PACKAGES))
@pytest.mark.parametrize("command", ["train", "serve"])
def test_a_client_that_is_not_installed_is_named_before_anything_is_started(
  name: str, command: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
  # Also where it is installed: its folder is then not on the path.
  found = importlib.util.find_spec(name)
  if found is not None and found.origin is not None:
    folder = str(pathlib.Path(found.origin).parents[1])
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != folder])
    monkeypatch.delitem(sys.modules, name, raising=False)
  assert run_command([command, "--config=three_rooms", f"--{name}", f"--run_root={tmp_path / 'runs'}"]) == 2
  assert capsys.readouterr() == (
    "",
    f"--{name} needs the package {PACKAGES[name]}, which is not installed: install it in Slipstream's environment with 'pip "
    f"install {PACKAGES[name]}'.\n",
  )
  assert not (tmp_path / "runs").exists()


def test_no_service_is_asked_for_by_default(tmp_path: pathlib.Path) -> None:
  check_sinks(())
  with open_sinks((), "run", RunConfig(), tmp_path) as sinks:
    assert sinks == []


def _train(tmp_path: pathlib.Path, flag: str, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
  command = [sys.executable, "-m", "slipstream", *_TINY.split(), flag, f"--run_root={tmp_path / 'runs'}"]
  path = os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])
  variables = {**os.environ, **environment, "PYTHONPATH": path}
  return subprocess.run(
    command,
    env=variables,
    cwd=tmp_path,
    capture_output=True,
    text=True,
    timeout=200,
    stdin=subprocess.DEVNULL,
    check=False,
  )


@pytest.mark.skipif(not _installed("wandb"), reason="wandb is not installed")
def test_weights_and_biases_gets_the_tags_of_tensorboard(tmp_path: pathlib.Path) -> None:
  from wandb.proto import wandb_internal_pb2
  from wandb.sdk.internal.datastore import DataStore

  done = _train(tmp_path, "--wandb", {"WANDB_MODE": "offline"})
  assert done.returncode == 0, done.stderr
  (file,) = tmp_path.glob("runs/three_rooms/*/wandb/offline-run-*/run-*.wandb")
  store = DataStore()
  store.open_for_scan(str(file))
  rows: list[dict[str, str]] = []
  while (data := store.scan_data()) is not None:
    record = wandb_internal_pb2.Record()
    record.ParseFromString(data)
    rows.append({item.nested_key[0] if item.nested_key else item.key: item.value_json for item in record.history.item})
  store.close()
  steps = [int(row["environment_steps"]) for row in rows if row.get("environment_steps")]
  assert steps[-1] >= 400
  assert {"eval/mean_reward", "rollout/ep_rew_mean", "replay/done/size"} <= {tag for row in rows for tag in row}


@pytest.mark.skipif(not _installed("wandb"), reason="wandb is not installed")
def test_without_a_key_weights_and_biases_is_one_sentence(tmp_path: pathlib.Path) -> None:
  environment = {"WANDB_MODE": "online", "WANDB_API_KEY": "", "HOME": str(tmp_path), "NETRC": str(tmp_path / "netrc")}
  done = _train(tmp_path, "--wandb", environment)
  assert done.returncode == 2
  assert done.stderr.splitlines()[-1].startswith("wandb does not take the run (UsageError: ")
  assert done.stderr.endswith("and for working offline, or leave --wandb out.\n")
  assert "Traceback" not in done.stderr


@pytest.mark.skipif(not _installed("mlflow"), reason="mlflow is not installed")
def test_mlflow_gets_the_tags_of_tensorboard_and_the_config(tmp_path: pathlib.Path) -> None:
  environment = {"MLFLOW_TRACKING_URI": f"file://{tmp_path / 'mlruns'}", "MLFLOW_ALLOW_FILE_STORE": "true"}
  done = _train(tmp_path, "--mlflow", environment)
  assert done.returncode == 0, done.stderr
  (folder,) = tmp_path.glob("mlruns/*/*/metrics")
  _, value, step = (folder / "replay" / "default" / "size").read_text().splitlines()[-1].split()
  assert float(value) == int(step) >= 400
  assert (folder / "eval" / "mean_reward").is_file()
  assert (folder.parent / "params" / "learner.algorithm.name").read_text() == "ddqn"
  assert (folder.parent / "tags" / "slipstream.run_id").read_text() == next(
    (tmp_path / "runs" / "three_rooms").iterdir()
  ).name


@pytest.mark.skipif(not _installed("mlflow"), reason="mlflow is not installed")
def test_an_address_without_mlflow_is_one_sentence(tmp_path: pathlib.Path) -> None:
  done = _train(
    tmp_path, "--mlflow", {"MLFLOW_TRACKING_URI": "http://localhost:1", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
  )
  assert done.returncode == 2
  assert done.stderr.splitlines()[-1].startswith("mlflow does not take the run (MlflowException: ")
  assert "Traceback" not in done.stderr
