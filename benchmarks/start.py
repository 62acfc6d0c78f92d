"""How soon a local run stores rows, and what memory its processes take together."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import psutil
from gymnasium import spaces

from benchmarks.measure import Figure, Report, interleave
from configs import (
  ActorConfig,
  DdqnConfig,
  EnvironmentConfig,
  EvaluatorConfig,
  LearnerConfig,
  NetworkConfig,
  ReplayConfig,
  RunConfig,
  TableSpec,
  to_json,
)
from replay_server.process.keeper import read_status

# The environment variable with the folder in which a world notes when its first rows were stored.
_NOTES = "SLIPSTREAM_BENCHMARK_NOTES"
_PROJECT = pathlib.Path(__file__).resolve().parent.parent
_POLL_SECONDS = 0.1
_START_SECONDS = 600.0
_END_SECONDS = 120.0
_MEBIBYTE = 2.0**20

Observation = npt.NDArray[np.float32]


class Noted(gymnasium.Env[Observation, Any]):
  """A world of 20 steps an episode that notes when its process calls `reset` for the second time.

  A worker begins an episode when the server has confirmed the one before, so by then rows of the worker are stored.
  """

  def __init__(self) -> None:
    """Makes a world."""
    self.observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
    self.action_space = spaces.Discrete(2)
    self._episode = self._step = 0
    self._file = pathlib.Path(os.environ[_NOTES]) / str(os.getpid()) if _NOTES in os.environ else None

  def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Observation, dict[str, Any]]:
    """Begins an episode."""
    super().reset(seed=seed)
    self._episode, self._step = self._episode + 1, 0
    if self._episode == 2 and self._file is not None:
      self._file.write_text(str(time.time()))
    return self._observation(), {}

  def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
    """Takes a step of 50 ms, whatever the action."""
    time.sleep(0.05)
    self._step += 1
    return self._observation(), 1.0, False, self._step >= 20, {}

  def _observation(self) -> Observation:
    return np.full(4, self._step / 20, np.float32)


def run(runs: int, quick: bool) -> Report:
  """Local runs with a server, a learner, an evaluator and 2 or 20 workers, in worlds of 20 steps a second.

  Args:
    runs: number of runs of each size.
    quick: whether there is but one run of one worker.
  """
  sizes = (1,) if quick else (2, 20)
  contenders = {_workers(count): _starting(count) for count in sizes}
  measured = interleave(contenders, runs, warm_up=False)
  figures = (
    Figure(f"{size}: {what}", what.rpartition(" ")[2].strip("[]"), values)
    for size, values_of in measured.items()
    for what, values in values_of.items()
  )
  return Report(
    "start",
    (
      "From the start of `slipstream train`. Memory and CPU time are of all its processes together, when rows of all workers are",
      "stored, the learner has learned and the evaluator has evaluated. PSS counts memory that several share once in all.",
    ),
    tuple(figures),
  )


def _workers(count: int) -> str:
  return f"{count} worker{'' if count == 1 else 's'}"


def _starting(workers: int) -> Callable[[], Mapping[str, float]]:
  def start() -> Mapping[str, float]:
    with tempfile.TemporaryDirectory() as name:
      folder = pathlib.Path(name)
      notes = folder / "notes"
      notes.mkdir()
      config = folder / "config.json"
      config.write_text(to_json(_config(workers)))
      began = time.time()
      with (folder / "log").open("w") as log:
        process = subprocess.Popen(
          [sys.executable, "-m", "slipstream", "train", f"--config={config}", f"--run_root={folder}", "--quiet"],
          cwd=_PROJECT,
          env={**os.environ, _NOTES: str(notes)},
          stdout=log,
          stderr=log,
        )
      try:
        return _measure(process, folder, workers, began)
      finally:
        _end(process)

  return start


def _config(workers: int) -> RunConfig:
  """A run that goes on until it is ended."""
  return RunConfig(
    name="start",
    environment_steps=100_000_000,
    environment=EnvironmentConfig(f"{__name__}:{Noted.__name__}"),
    replay=ReplayConfig(capacity=100_000, default=TableSpec("default", probability=1.0, min_size=20)),
    network=NetworkConfig(hidden_sizes=(16,)),
    actor=ActorConfig(workers=workers, random_steps=20),
    learner=LearnerConfig(algorithm=DdqnConfig(), updates_per_block=2, publish_period_updates=2),
    evaluator=EvaluatorConfig(episodes=1, period_seconds=5.0, solved_evaluations=0),
  )


def _measure(process: "subprocess.Popen[bytes]", folder: pathlib.Path, workers: int, began: float) -> dict[str, float]:
  """Waits until all have begun.

  Raises:
    RuntimeError: they have not in time, or the run has ended.
  """
  while time.time() < began + _START_SECONDS and process.poll() is None:
    stored = _times(folder, workers)
    if len(stored) == workers:
      everyone = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
      return {
        "first rows stored after [s]": stored[0] - began,
        "rows of all stored after [s]": stored[-1] - began,
        "memory, PSS [MB]": sum(map(_pss, everyone)) / _MEBIBYTE,
        "CPU time [s]": sum(map(_cpu_seconds, everyone)),
      }
    time.sleep(_POLL_SECONDS)
  raise RuntimeError(f"not all of {workers} workers stored rows: {(folder / 'log').read_text()[-2_000:]}")


def _times(folder: pathlib.Path, workers: int) -> list[float]:
  """When rows of each worker were first stored, in order; none before all have, and the learner and the evaluator have begun."""
  runs = [path.parent for path in folder.glob("start/*/status.json")]
  status = read_status(runs[0]) if runs else None
  if status is None or not status.gradient_steps or not status.evaluations:
    return []
  files = [folder / "notes" / str(role.pid) for role in status.roles if role.role == "actor"]
  if len(files) < workers or not all(file.is_file() for file in files):
    return []
  return sorted(float(file.read_text()) for file in files)


def _pss(process: psutil.Process) -> int:
  """In bytes; 0 if it has ended meanwhile."""
  with contextlib.suppress(OSError):
    for line in pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
      if line.startswith("Pss:"):
        return int(line.split()[1]) * 1024
  return 0


def _cpu_seconds(process: psutil.Process) -> float:
  """Of itself and of its children that have ended; 0 if it has ended meanwhile."""
  with contextlib.suppress(psutil.Error):
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
  return 0.0


def _end(process: "subprocess.Popen[bytes]") -> None:
  process.send_signal(signal.SIGTERM)
  try:
    process.wait(_END_SECONDS)
  except subprocess.TimeoutExpired:
    with contextlib.suppress(psutil.Error):
      for child in psutil.Process(process.pid).children(recursive=True):
        child.kill()
    process.kill()
    process.wait()
