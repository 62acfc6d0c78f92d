"""V-RACER in smarties, the code of ReF-ER's authors, for an interpreter that finds smarties' module and gymnasium's MuJoCo.

`python refer_smarties.py WORLD STEPS SEED ...` trains on one thread for so many environment steps with each seed, and prints a
CSV in the form of an experiment's: the mean return of the training episodes that ended in each twentieth of the steps, and what
smarties' statistics last said by then about its memory. The updates per second go to stderr. It imports nothing of this project.
docs/experiments.md says how to make such an environment, and which of the paper's settings smarties no longer has.
"""

import csv
import importlib
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time
import traceback
from typing import Any

_POINTS = 20
_COLUMNS = (
  "method",
  "seed",
  "config",
  "environment_steps",
  "gradient_steps",
  "train_return",
  "learner/refer_mean_divergence",
  "learner/refer_far_share",
)
# There is no job whose digest could stand in the column `config`.
_DIGEST = "0"
# The paper's settings (Appendix A); N is that of runs of 100,000 steps, and N_start, which the paper does not give, the presets'.
_FIRST_STEPS = 8_000
_SETTINGS = {
  "learner": "VRACER",
  "returnsEstimator": "retrace",
  "lambda": 1.0,
  "dataSamplingAlgo": "uniform",
  "ERoldSeqFilter": "oldest",
  "minTotObsNum": _FIRST_STEPS,
  "maxTotObsNum": 2**16,
  "obsPerStep": 1,
  "clipImpWeight": 4,
  "penalTol": 0.1,
  "epsAnneal": 5e-7,
  # A standard deviation: the paper's variance is .2.
  "explNoise": 0.2**0.5,
  "gamma": 0.995,
  "batchSize": 256,
  "learnrate": 1e-4,
  "nnLambda": 0,
  "targetDelay": 0,
  "encoderLayerSizes": [0],
  "nnLayerSizes": [128, 128],
  "nnType": "FFNN",
  "nnFunc": "SoftSign",
  "nnOutputFunc": "Linear",
  "outWeightsPrefac": 0.1,
  "ESpopSize": 1,
  # Nothing reads what it would save.
  "saveFreq": 10**9,
}
_UPDATES_PER_STATISTICS = 1_000
# BLAS and OpenMP read these as they are loaded.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_RECORD, _LOG, _STATISTICS = "record.json", "log.txt", "agent_00_stats.txt"


def main() -> None:
  """Trains once for each seed on the command line."""
  world, steps, *seeds = sys.argv[1:]
  if int(steps) <= _FIRST_STEPS:
    raise SystemExit(f"STEPS must exceed {_FIRST_STEPS:,}: smarties gathers so many before its first update.")
  os.environ.update(_ONE_THREAD)
  writer = csv.writer(sys.stdout, lineterminator="\n")
  writer.writerow(_COLUMNS)
  for seed in map(int, seeds):
    points, rate = train(f"{world}-v5", int(steps), seed)
    for point in points:
      writer.writerow(("smarties", seed, _DIGEST, *point))
    sys.stdout.flush()
    print(f"seed {seed}: {rate:,.0f} updates per second", file=sys.stderr, flush=True)


def train(world: str, steps: int, seed: int) -> tuple[list[tuple[int | float | str, ...]], float]:
  """The columns of each point from `environment_steps` on, empty where nothing was measured; and updates per second."""
  # smarties can run once in a process, and keeps its files in the working directory.
  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(world, steps, seed, folder), daemon=True)
    process.start()
    process.join()
    if process.exitcode or not (folder / _RECORD).exists():
      log = (folder / _LOG).read_text(errors="replace") if (folder / _LOG).exists() else ""
      raise SystemExit(f"smarties ended with {process.exitcode}:\n{log[-4_000:]}")
    record = json.loads((folder / _RECORD).read_text())
    measures = _read_statistics(folder / _STATISTICS)
  points: list[tuple[int | float | str, ...]] = []
  for point, gradient_steps in enumerate(record["gradient_steps"], start=1):
    low, high = steps * (point - 1) // _POINTS, steps * point // _POINTS
    own = [value for end, value in record["episodes"] if low < end <= high]
    last = min(gradient_steps // _UPDATES_PER_STATISTICS, len(measures))
    measured = measures[last - 1] if last else ("", "")
    points.append((high, gradient_steps, sum(own) / len(own) if own else "", *measured))
  return points, record["updates_per_second"]


def _run(world: str, steps: int, seed: int, folder: pathlib.Path) -> None:
  os.chdir(folder)
  log = os.open(_LOG, os.O_WRONLY | os.O_CREAT)
  os.dup2(log, 1)
  os.dup2(log, 2)
  pathlib.Path("settings.json").write_text(json.dumps(_SETTINGS))
  options = {
    "nThreads": 1,
    "nMasters": 1,
    "nEnvironments": 1,
    # The world runs in a process that smarties forks.
    "workerProcessesPerEnv": 0,
    # Those after the first steps.
    "nTrainSteps": steps - _FIRST_STEPS,
    # With 0 it would draw a seed.
    "randSeed": seed + 1,
    "restart": "none",
    "logAllSamples": 0,
  }
  engine = importlib.import_module("smarties").Engine(
    ["refer_smarties", *(part for key, value in options.items() for part in (f"--{key}", str(value)))]
  )
  if engine.parse():
    raise SystemExit("smarties does not take these options.")

  def play(learner: Any) -> None:
    # This is a fork of smarties' process, and must not leave by the same way.
    try:
      (folder / _RECORD).write_text(json.dumps(_play(learner, world, steps, seed)))
    except BaseException:
      traceback.print_exc()
      os._exit(1)
    os._exit(0)

  engine.run(play)
  os.wait()


def _play(learner: Any, world: str, steps: int, seed: int) -> dict[str, Any]:
  """Steps the world with smarties' actions until its training is over: what `train` reads of that."""
  gymnasium, np = importlib.import_module("gymnasium"), importlib.import_module("numpy")
  environment = gymnasium.make(world)
  low, high = environment.action_space.low, environment.action_space.high
  learner.setStateActionDims(environment.observation_space.shape[0], len(low))
  # Actions that are scaled and not bounded have a Gaussian policy, bounded ones a squashed Gaussian.
  learner.setActionScales(high.tolist(), low.tolist(), False)
  ends = [steps * point // _POINTS for point in range(1, _POINTS + 1)]
  count = 0
  episodes: list[tuple[int, float]] = []
  gradient_steps: list[int] = []
  # Of the first update that was seen, and of the last.
  times: list[tuple[float, int]] = []
  while not learner.terminateTraining():
    observation, _ = environment.reset(seed=None if count else seed)
    learner.sendInitState(observation.tolist())
    total, is_over = 0.0, False
    while not is_over and not learner.terminateTraining():
      # smarties keeps what it drew.
      observation, reward, is_terminated, is_truncated, _ = environment.step(np.clip(learner.recvAction(), low, high))
      count += 1
      total += float(reward)
      is_over = is_terminated or is_truncated
      # The last state of a truncated episode has a value, a terminal one has none.
      send = learner.sendTermState if is_terminated else learner.sendLastState if is_truncated else learner.sendState
      send(observation.tolist(), float(reward))
      if is_over:
        episodes.append((count, total))
      updates = learner.getLearnersGradStepsNum()
      if updates:
        times = [*times[:1], (time.perf_counter(), updates)]
      if len(gradient_steps) < _POINTS and count == ends[len(gradient_steps)]:
        gradient_steps.append(updates)
  rate = (times[1][1] - times[0][1]) / (times[1][0] - times[0][0]) if len(times) > 1 else 0.0
  return {"episodes": episodes, "gradient_steps": gradient_steps, "updates_per_second": rate}


def _read_statistics(path: pathlib.Path) -> list[tuple[float, float]]:
  """(mean KL over memory, share of far-policy steps in it) after every `_UPDATES_PER_STATISTICS` updates."""
  if not path.exists():
    return []
  header, *lines = path.read_text().splitlines()
  # The first part of the header stands over two columns.
  names = ["", *(part.strip() for part in header.split("|"))]
  rows = [dict(zip(names, line.split(), strict=True)) for line in lines]
  return [(float(row["DKL"]), int(row["nFarP"]) / int(row["nObs"])) for row in rows]


if __name__ == "__main__":
  main()
