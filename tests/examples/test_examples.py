"""The examples run as their users would run them, and learn."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from configs import load_config
from environments import EventMonitor, EventStep, make

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORRIDOR = ROOT / "examples" / "corridor"


@pytest.fixture
def config(monkeypatch):
  monkeypatch.syspath_prepend(CORRIDOR)
  yield load_config(str(CORRIDOR / "config.py"))
  sys.modules.pop("corridor", None)


def _run(command, **options):
  env = {**os.environ, "PYTHONPATH": str(ROOT)}
  done = subprocess.run(
    [sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=280, check=False, **options
  )
  assert done.returncode == 0, done.stdout + done.stderr
  return done.stdout


def _step(cell, terminated=False):
  return EventStep([0.0], 1, -0.01, [0.0], {"cell": cell}, terminated, False)


def test_the_corridor_ends_at_its_door(config):
  corridor: Any = make(config.environment)
  corridor.reset(seed=0)
  steps = [corridor.step(1) for _ in range(corridor.length - 1)]
  assert [terminated for _, _, terminated, _, _ in steps] == [False] * 10 + [True]
  assert corridor.observation_space.contains(steps[-1][0])


def test_progress_fires_every_three_cells_and_forgets_at_reset(config):
  monitor = EventMonitor(config.events)
  progress, at_door = 1, 2
  for _ in range(2):
    monitor.reset()
    assert [monitor(_step(cell)) for cell in (1, 2, 3, 2, 3, 5, 6, 11)] == [0, 0, progress, 0, 0, 0, progress, progress]
  assert monitor(_step(11, terminated=True)) == at_door


def test_the_corridor_is_solved_and_its_tables_fill(tmp_path):
  flags = ["--config=examples/corridor/config.py", "--pythonpath=examples/corridor", f"--run_root={tmp_path}"]
  output = _run(["-m", "slipstream", "train", *flags, "--inline", "--quiet"])
  result = json.loads(output.splitlines()[-1].removeprefix("RESULT "))
  assert result["solved"]
  assert result["environment_steps"] < 25_000
  run = pathlib.Path(result["run_dir"])
  sizes = {table["name"]: table["size"] for table in json.loads((run / "status.json").read_text())["tables"]}
  assert sizes["progress"] > 100
  assert sizes["at_door"] > 100
  assert (run / "greedy_path.png").is_file()


def test_training_from_python_solves_both_corridors(tmp_path):
  output = _run(["examples/train_from_python.py", str(tmp_path)])
  assert output.count(": solved after") == 2
