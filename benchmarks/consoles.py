"""Steps per second of worlds behind a console, in a process of its own, against the same worlds in process."""

import contextlib
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np

from benchmarks import child
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from configs import EnvironmentConfig
from consoles.client import Console
from environments import make
from environments.racing.time_trials import TimeTrials

_ROOT = pathlib.Path(__file__).parents[1]
_CARS = 20
_RATE = 10.0  # Hz, of the racing worlds.


def run(runs: int, quick: bool) -> Report:
  """Console and worker share this machine's cores."""
  steps = 50 if quick else 5_000
  slingshot = gymnasium.vector.SyncVectorEnv(
    [lambda: make(EnvironmentConfig("slingshot"))], autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED
  )
  with _console("slingshot") as one, _console("time_trials") as many:
    measured = interleave(
      {
        "slingshot, in process": _contender(slingshot, steps),
        "slingshot, on a console": _contender(one, steps),
        f"{_CARS} cars, in process": _contender(TimeTrials(_CARS), steps),
        f"{_CARS} cars, on a console": _contender(many, steps),
      },
      runs,
    )
  figures = {name: Figure(name, "steps/s", values["steps"]) for name, values in measured.items()}
  real_time = Figure("real time", "steps/s", (_RATE,) * runs)
  names = list(figures)
  return Report(
    "consoles",
    (
      "Random actions; a new episode for each car whose episode ends. A step is .1 s of all cars, features and rewards included.",
      "Console and worker are two processes of this machine, over gRPC without TLS.",
    ),
    tuple(figures.values()),
    (
      Ratio.of("slingshot: on a console / in process", figures[names[1]], figures[names[0]]),
      Ratio.of(f"{_CARS} cars: on a console / in process", figures[names[3]], figures[names[2]]),
      Ratio.of("slingshot, on a console / real time", figures[names[1]], real_time, required=20.0),
      Ratio.of(f"{_CARS} cars, on a console / real time", figures[names[3]], real_time, required=20.0),
    ),
  )


@contextlib.contextmanager
def _console(world: str) -> Iterator[Console]:
  process = subprocess.Popen(
    [sys.executable, "-m", "consoles", f"--world={world}"], cwd=_ROOT, stdout=subprocess.PIPE, text=True
  )
  assert process.stdout is not None
  try:
    ready = re.search(r"is ready at (\S+) after", process.stdout.readline())
    assert ready, "the console has ended"
    console = Console(ready[1])
    yield console
    console.close()
  finally:
    process.terminate()
    child.wait(process)


def _contender(env: "gymnasium.vector.VectorEnv[Any, Any, Any]", steps: int) -> Contender:
  actions = np.random.default_rng(0).uniform(-1, 1, (steps, env.num_envs, 2)).astype(np.float32)
  actions *= np.array([0.1, 1.0], np.float32)

  def play() -> Mapping[str, float]:
    env.reset(seed=0)
    began = time.perf_counter()
    for action in actions:
      _, _, terminated, truncated, _ = env.step(action)
      ended = terminated | truncated
      if ended.any():
        env.reset(options={"reset_mask": ended})
    return {"steps": steps / (time.perf_counter() - began)}

  return play
