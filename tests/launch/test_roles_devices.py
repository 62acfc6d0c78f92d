"""Only the learner sees a GPU, whether the machine has one or not."""

import contextlib
import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from configs import load_config, override
from environments.trust import Trust
from launch import gpu, roles
from launch.endpoint import Endpoint
from launch.program import build_program, role_commands
from launch.run_directory import create_run_directory


def test_the_learner_alone_is_started_where_it_sees_a_gpu(tmp_path):
  config = override(load_config("pendulum_sac"), {"actor.workers": "2"})
  run = create_run_directory(config, tmp_path)
  program = build_program(role_commands(config, run, "localhost:1"), run)
  assert set(program.groups) == {"server", "learner", "actors", "evaluator"}
  hidden = {
    command.title: command.env_overrides.get("CUDA_VISIBLE_DEVICES")
    for group, nodes in program.groups.items()
    for command in nodes[0].to_executables(nodes, group, None)
  }
  assert len(hidden) == 5
  assert hidden == {title: None if title == "learner/0" else "-1" for title in hidden}


class _Prepared(Exception):
  pass


@pytest.mark.parametrize("role", ["serve", "act", "evaluate", "learn"])
def test_a_role_by_itself_hides_gpus_from_its_tensorflow_unless_it_learns(role, tmp_path, monkeypatch):
  config = load_config("pendulum_sac")
  passed: dict[str, bool] = {}

  def prepare(threads, operations=1, sees_gpu=True):
    passed["sees_gpu"] = sees_gpu
    raise _Prepared

  monkeypatch.setattr(roles, "prepare_tensorflow", prepare)
  monkeypatch.setattr(roles, "join", lambda *_, **__: contextlib.nullcontext((None, SimpleNamespace(config=config))))
  arguments: dict[str, Any] = {
    "process": SimpleNamespace(stop=None),
    "config": config,
    "run": create_run_directory(config, tmp_path),
    "run_root": tmp_path,
    "endpoint": Endpoint("localhost:1"),
    "port": 1,
    "index": 0,
    "trust": Trust(),
  }
  function = getattr(roles, role)
  wanted = inspect.signature(function).parameters
  with pytest.raises(_Prepared):
    function(**{name: value for name, value in arguments.items() if name in wanted})
  assert passed["sees_gpu"] == (role == "learn")


@pytest.mark.parametrize(
  ("name", "threads", "cores", "has_gpu", "expected"),
  [
    ("pendulum_sac", 0, 2.0, False, (1, 2)),
    ("pendulum_sac", 0, 1.5, False, (1, 1)),
    ("pendulum_sac", 1, 16.0, False, (1, 1)),
    ("pendulum_sac", 0, 16.0, False, (4, 2)),
    ("pendulum_sac", 0, 16.0, True, (8, 1)),
    ("pendulum_td3", 4, 16.0, False, (2, 2)),
    ("pendulum_qr_sac", 0, 2.0, False, (1, 1)),
    ("cartpole", 0, 16.0, False, (8, 1)),
  ],
)
def test_twin_critics_are_computed_side_by_side_on_two_cores(name, threads, cores, has_gpu, expected, monkeypatch):
  learner = override(load_config(name), {"learner.threads": str(threads)}).learner
  library = gpu.Library(gpu.DRIVER, "the system") if has_gpu else gpu.Library(gpu.DRIVER, "", "there is none")
  asked: dict[str, tuple[int, int]] = {}
  monkeypatch.setattr(gpu, "load_driver", lambda: library)
  monkeypatch.setattr(roles, "usable_cores", lambda: cores)
  monkeypatch.setattr(roles, "prepare_tensorflow", lambda threads, operations=1: asked.update(it=(threads, operations)))
  monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
  roles.prepare_learner(learner, max(1, int(cores / 2)))
  assert asked["it"] == expected


def test_a_role_that_sees_no_gpu_takes_them_from_tensorflow_and_leaves_their_memory_alone(monkeypatch):
  calls: list[Any] = []

  def load_driver():
    calls.append("driver")
    return gpu.Library(gpu.DRIVER, "the system")

  config = tf.config
  monkeypatch.setattr(gpu, "load_driver", load_driver)
  monkeypatch.setattr(gpu, "load_libraries", lambda: calls.append("libraries"))
  monkeypatch.setattr(config.threading, "set_intra_op_parallelism_threads", lambda threads: None)
  monkeypatch.setattr(config.threading, "set_inter_op_parallelism_threads", lambda threads: None)
  monkeypatch.setattr(config, "set_visible_devices", lambda devices, kind: calls.append(("visible", devices, kind)))
  monkeypatch.setattr(config, "get_visible_devices", lambda kind: [] if ("visible", [], kind) in calls else ["a GPU"])
  monkeypatch.setattr(config.experimental, "set_memory_growth", lambda device, grows: calls.append((device, grows)))
  monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
  roles.prepare_tensorflow(1, sees_gpu=False)
  assert calls == [("visible", [], "GPU")]
  calls.clear()
  roles.prepare_tensorflow(1)
  assert calls == ["driver", "libraries", ("a GPU", True)]
