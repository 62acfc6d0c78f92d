"""Roles that do not step the environment need not have it installed: the manifest and a policy's file hold its spec."""

import contextlib
import json
import pathlib
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
from acme import specs

from configs import RunConfig, load_config, override
from replay_server.process.keeper import Keeper
from replay_server.process.server import ReplayServer
from tests.launch.processes import START_SECONDS, TERMINATE, cli, status_of, wait_for
from tests.serving import fill, serving

_SPEC = specs.EnvironmentSpec(
  observations=specs.BoundedArray((17,), np.float32, -np.inf, np.inf, "observation"),
  actions=specs.BoundedArray((6,), np.float32, -1.0, 1.0, "action"),
  rewards=specs.Array((), np.float32, "reward"),
  discounts=specs.BoundedArray((), np.float32, 0.0, 1.0, "discount"),
)


@pytest.fixture(scope="module")
def without_mujoco(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A folder that makes `import mujoco` fail where it is first on the path."""
  folder = tmp_path_factory.mktemp("shadowing")
  (folder / "mujoco").mkdir()
  (folder / "mujoco" / "__init__.py").write_text('raise ImportError("MuJoCo is not installed here.")\n')
  return folder


@pytest.fixture(name="run_dir", scope="module")
def _learned(tmp_path_factory: pytest.TempPathFactory, without_mujoco: pathlib.Path) -> pathlib.Path:
  """The directory of a HalfCheetah run for which `slipstream learn` took gradient steps, as `slipstream status` shows."""
  folder = tmp_path_factory.mktemp("run")
  config = _config()
  with _served(config, folder) as server:
    _fill(server, 100)
    at = f"--server={server.address}"
    with cli(folder, "learn", "learn", at, f"--run_dir={folder}", shadowing=without_mujoco) as learner:
      wait_for(lambda: status_of(folder)["gradient_steps"] > 0, START_SECONDS, "gradient steps")
      with cli(folder, "status", "status", at, "--json", shadowing=without_mujoco) as status:
        assert status.wait(START_SECONDS) == 0
        assert json.loads(status.output())["gradient_steps"] > 0
      learner.send(TERMINATE)
      assert learner.wait(60) == 143, learner.output()
  return folder


def _config() -> RunConfig:
  changes = {
    "network.hidden_sizes": "[8]",
    "replay.capacity": "20000",
    "replay.environment_steps_per_update": "none",
    "replay.default.min_size": "10",
    "learner.batch_size": "8",
    "learner.updates_per_block": "2",
    "learner.jit_compile": "false",
    "actor.random_steps": "0",
  }
  return override(load_config("halfcheetah"), changes)


@contextlib.contextmanager
def _served(config: RunConfig, folder: pathlib.Path) -> Iterator[ReplayServer]:
  """A server and its keeper, which writes its status."""
  stop = threading.Event()
  with serving(config, folder, _SPEC) as server, contextlib.closing(Keeper(server, folder)) as keeper:
    keeping = threading.Thread(target=keeper.run, args=(stop,))
    keeping.start()
    try:
      yield server
    finally:
      stop.set()
      keeping.join(60)


def _fill(server: ReplayServer, count: int) -> None:
  """Puts `count` random rows into the default table."""
  rng, codec = np.random.default_rng(0), server.manifest.codec
  floats = [field for field in codec.fields if field.dtype == "float32" and field.name != "discount"]
  rows = (
    {"step": step, **{field.name: rng.uniform(-1, 1, field.shape).astype(np.float32) for field in floats}}
    for step in range(count)
  )
  fill(server.connection, codec, server.manifest.config.replay.default.name, rows)


def test_a_learner_learns_and_its_policy_is_exported_without_the_world(
  run_dir: pathlib.Path, without_mujoco: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  command = ["evaluate", f"--checkpoint={run_dir}", f"--export={tmp_path / 'model'}", "--episodes=0"]
  with cli(tmp_path, "export", *command, shadowing=without_mujoco) as export:
    assert export.wait(START_SECONDS) == 0, export.output()
  model = tf.saved_model.load(str(tmp_path / "model"))
  (actions,) = model.signatures["serving_default"](tf.zeros([3, 17])).values()
  assert actions.shape == (3, 6)


def test_playing_the_policy_needs_the_world(
  run_dir: pathlib.Path, without_mujoco: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  with cli(tmp_path, "play", "evaluate", f"--checkpoint={run_dir}", shadowing=without_mujoco) as play:
    assert play.wait(START_SECONDS) == 2, play.output()
  assert "The environment 'HalfCheetah-v5' cannot be made" in play.output()
