"""Whole SAC runs in HalfCheetah against SBX, Stable-Baselines3 in JAX: environment steps per second."""

import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from replay_server.process.recorder import METRICS_FILE, read_metrics

_PEER = pathlib.Path(__file__).with_name("sbx_peer.py")
_TIMEOUT_SECONDS = 1_200.0
_FROM_MEMORY, _THROUGH_SERVER, _THEIRS = "a local run from memory", "a local run through the server", "SBX"
_RATIOS = (
  (_FROM_MEMORY, _THEIRS, 0.92, 1.2),
  (_FROM_MEMORY, _THROUGH_SERVER, None, None),
  (_THROUGH_SERVER, _THEIRS, None, None),
)
_SMALL = (
  "--config.network.hidden_sizes=[16,16]",
  "--config.learner.batch_size=16",
  "--config.learner.jit_compile=false",
)


def run(runs: int, quick: bool, peer: pathlib.Path | None = None) -> Report:
  """SAC with 2 x 256 units and batches of 256, an update per environment step, on all of this machine's cores.

  Args:
    runs: number of runs of each contender.
    quick: whether the runs are short and the networks small.
    peer: the Python that has `sbx-rl`; without it only our own runs are measured.
  """
  # (steps of the warm-up, those between which the time is taken)
  steps = (100, 200, 500) if quick else (1_000, 2_500, 8_500)
  changes = _SMALL if quick else ()
  contenders: dict[str, Contender] = {_FROM_MEMORY: _ours(steps, ("--config.replay.sampling=memory", *changes))}
  if not quick:
    contenders[_THROUGH_SERVER] = _ours(steps, changes)
  if peer:
    contenders[_THEIRS] = _theirs(steps, peer)
  figures = {
    name: Figure(name, "steps/s", values["steps"])
    for name, values in interleave(contenders, runs, warm_up=False).items()
  }
  ratios = [
    Ratio.of(f"{ours} / {theirs}", figures[ours], figures[theirs], required, aim)
    for ours, theirs, required, aim in _RATIOS
    if ours in figures and theirs in figures
  ]
  return Report(
    "sbx",
    (
      f"HalfCheetah-v5, SAC: steps {steps[1]:,} to {steps[2]:,} of whole runs; ours have a server, a worker and a learner.",
      "SBX runs in one process." if peer else "Give --sbx the Python of an environment with sbx-rl to compare.",
    ),
    tuple(figures.values()),
    tuple(ratios),
  )


def _ours(steps: tuple[int, int, int], changes: Sequence[str]) -> Contender:
  warm_up, first, last = steps

  def train() -> Mapping[str, float]:
    with tempfile.TemporaryDirectory() as folder:
      _output(
        *(sys.executable, "-m", "slipstream", "train", "--config=halfcheetah", "--method=uniform", "--quiet"),
        *(f"--run_root={folder}", "--config.evaluator.enabled=false", f"--config.environment_steps={last}"),
        *(f"--config.replay.default.min_size={warm_up}", f"--config.actor.random_steps={warm_up}", *changes),
      )
      (metrics,) = pathlib.Path(folder).rglob(METRICS_FILE)
      rows = read_metrics(metrics)
    seconds, taken = (np.array([row[name] or 0.0 for row in rows]) for name in ("seconds", "environment_steps"))
    began = float(np.interp(first, taken, seconds))
    ended = float(np.interp(taken.max(), taken, seconds))
    return {"steps": float(taken.max() - first) / (ended - began)}

  return train


def _theirs(steps: tuple[int, int, int], python: pathlib.Path) -> Contender:
  warm_up, first, last = map(str, steps)

  def train() -> Mapping[str, float]:
    return {"steps": float(_output(str(python), "-I", str(_PEER), first, last, warm_up).split()[-1])}

  return train


def _output(*words: str) -> str:
  """What a command prints; raises if it fails."""
  finished = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
  if finished.returncode:
    raise RuntimeError(
      f"{words[0]} ended with {finished.returncode}: {finished.stderr[-2_000:] or finished.stdout[-2_000:]}"
    )
  return finished.stdout
