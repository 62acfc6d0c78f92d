"""`make soak MINUTES=30`: a run whose processes are killed one after another, and what it takes meanwhile, as a picture.

After a warm-up, memory and files must not grow beyond noise: the slope of each role's memory over the rest of the time is
printed, and a role whose memory grows by more than `--most_mb_an_hour` fails the soak.
"""

import argparse
import contextlib
import dataclasses
import pathlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

import numpy as np
import psutil

from replay_server.contract.status import SERVER
from tests.faults.fleet import CaseFailed, Fleet

_SAMPLE_SECONDS = 5.0
_KILL_SECONDS = 120.0
_WARM_UP = 0.3  # Of the whole time.
_LIFE_WARM_UP = 5.0  # Minutes.
# A server's memory rises with its snapshots, by less and less, and has its size after some eight minutes of them.
_SERVER_WARM_UP = 10.0
# Of both tables: they must be full at the end of the warm-up, since the server's memory grows until then.
_CAPACITY = 40_000
# In turn. The server is killed early and then lives for 24 minutes, longer than its warm-up.
_VICTIMS = ("actor_0", "server", *(("learner", "evaluator", "actor_1", "actor_0") * 3)[:11])
_SERVED_SECONDS = 60.0
_SNAPSHOT_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class Sample:
  """What the run took at one moment.

  Attributes:
    minutes: since the beginning.
    memory: role -> resident MB; a role that is down is missing.
    lives: role -> how many times it was started; memory is compared within a life.
    files: name -> MB on the disk.
    environment_steps: confirmed so far, by the worlds' notes.
    gradient_steps: so far.
  """

  minutes: float
  memory: Mapping[str, float]
  lives: Mapping[str, int]
  files: Mapping[str, float]
  environment_steps: int
  gradient_steps: int


def take_sample(fleet: Fleet, began: float) -> Sample:
  """Reads memory, files and counts; `began` is the monotonic time of the beginning."""
  memory = {}
  for name, role in fleet.roles.items():
    with contextlib.suppress(psutil.Error, CaseFailed):
      memory[name] = psutil.Process(role.pid).memory_info().rss / 1e6
  files = {
    "metrics.csv and tb": _megabytes(fleet.run_dir / "metrics.csv") + _megabytes(fleet.run_dir / "tb"),
    "logs": sum(role.log.stat().st_size for role in fleet.roles.values() if role.log.exists()) / 1e6,
    "checkpoints": _megabytes(fleet.run_dir / "checkpoints") + _megabytes(fleet.folder / "learner"),
  }
  return Sample(
    (time.monotonic() - began) / 60,
    memory,
    {name: len(role.exits) for name, role in fleet.roles.items()},
    files,
    sum(episode.steps for episode in fleet.episodes()),
    fleet.gradient_steps(),
  )


def _megabytes(path: pathlib.Path) -> float:
  total = 0
  for one in [path, *path.rglob("*")] if path.exists() else []:
    with contextlib.suppress(OSError):  # It may be removed meanwhile.
      total += one.stat().st_size if one.is_file() else 0
  return total / 1e6


def growth(samples: Sequence[Sample], role: str) -> float:
  """MB an hour by which a role's memory grows after the warm-up: the slope common to its lives, each with its own level.

  Every life has a warm-up of its own.
  """
  warm_up = (_SERVER_WARM_UP if role == SERVER else _LIFE_WARM_UP) / 60
  last = samples[-1].minutes
  lives: dict[int, list[tuple[float, float]]] = {}
  for sample in samples:
    if sample.minutes > _WARM_UP * last and role in sample.memory:
      lives.setdefault(sample.lives[role], []).append((sample.minutes / 60, sample.memory[role]))
  points = [np.array(life) for life in lives.values()]
  points = [life[life[:, 0] > life[0, 0] + warm_up] for life in points]
  centred = [life - life.mean(axis=0) for life in points if len(life) > 2]
  if not centred:
    return 0.0
  hours, megabytes = np.concatenate(centred).T
  return float((hours * megabytes).sum() / (hours**2).sum())


def draw(samples: Sequence[Sample], kills: Sequence[tuple[float, str]], path: pathlib.Path) -> None:
  """Draws memory, files and rates over time, with a line for every kill."""
  from matplotlib.backends.backend_agg import FigureCanvasAgg
  from matplotlib.figure import Figure

  figure = Figure(figsize=(10, 10), layout="constrained")
  FigureCanvasAgg(figure)
  memory, files, rates = figure.subplots(3, 1, sharex=True)
  minutes = [sample.minutes for sample in samples]
  for role in sorted({name for sample in samples for name in sample.memory}):
    memory.plot(minutes, [sample.memory.get(role, np.nan) for sample in samples], label=role)
  for name in samples[0].files:
    files.plot(minutes, [sample.files[name] for sample in samples], label=name)
  seconds = np.diff(minutes) * 60
  for name in ("environment_steps", "gradient_steps"):
    counts = np.diff([getattr(sample, name) for sample in samples])
    # Counts of a server that was killed fall back to its snapshot's.
    rates.plot(minutes[1:], np.maximum(counts, 0) / seconds, label=name.replace("_", " "))
  for axes, label in ((memory, "memory [MB]"), (files, "files [MB]"), (rates, "per second")):
    for minute, _ in kills:
      axes.axvline(minute, color="0.8", linewidth=1, zorder=0)
    axes.set_ylabel(label)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
  rates.set_xlabel("minutes; a grey line is a kill")
  figure.savefig(path, dpi=120)


def soak(fleet: Fleet, minutes: float, kill_seconds: float) -> tuple[list[Sample], list[tuple[float, str]]]:
  """Samples a run that learns, and kills one process after another.

  Raises:
    CaseFailed: the run does not come back after a kill.
  """
  began = time.monotonic()
  samples: list[Sample] = [take_sample(fleet, began)]
  kills: list[tuple[float, str]] = []
  next_kill = began + kill_seconds
  while time.monotonic() < began + 60 * minutes:
    time.sleep(_SAMPLE_SECONDS)
    if time.monotonic() >= next_kill:
      next_kill += kill_seconds
      victim = _VICTIMS[len(kills) % len(_VICTIMS)]
      fleet.signal(signal.SIGKILL, victim)
      kills.append(((time.monotonic() - began) / 60, victim))
      steps, updates = fleet.recovery(time.time(), _SERVED_SECONDS)
      print(
        f"{kills[-1][0]:.1f} min: {victim} killed; steps after {steps:.1f} s, updates after {updates:.1f} s", flush=True
      )
    samples.append(take_sample(fleet, began))
  return samples, kills


def main() -> int:
  """Runs the soak; returns 1 if a role's memory grows or the run does not come back."""
  parser = argparse.ArgumentParser(prog="make soak", description=(__doc__ or "").splitlines()[0])
  parser.add_argument("--minutes", type=float, default=30.0)
  parser.add_argument("--kill_seconds", type=float, default=_KILL_SECONDS, help="between two kills")
  parser.add_argument("--picture", default="soak.png", help="file of the picture")
  parser.add_argument("--most_mb_an_hour", type=float, default=60.0, help="growth of a role's memory that is noise")
  arguments = parser.parse_args()
  folder = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-soak-"))
  fleet = Fleet(folder, capacity=_CAPACITY, checkpoint_period_seconds=_SNAPSHOT_SECONDS)
  try:
    fleet.start()
    samples, kills = soak(fleet, arguments.minutes, arguments.kill_seconds)
    fleet.close()
  except CaseFailed as error:
    print(f"{error}; logs: {folder}", file=sys.stderr)
    return 1
  finally:
    fleet.kill()
  draw(samples, kills, pathlib.Path(arguments.picture))
  growths = {name: growth(samples, name) for name in fleet.roles}
  for name, slope in growths.items():
    print(f"{name}: {samples[-1].memory.get(name, float('nan')):.0f} MB, {slope:+.0f} MB an hour")
  for name, size in samples[-1].files.items():
    print(f"{name}: {size:.1f} MB after {samples[-1].minutes:.0f} minutes")
  print(f"Picture: {arguments.picture}")
  grown = [name for name, slope in growths.items() if slope > arguments.most_mb_an_hour]
  if grown:
    print(f"The memory of {', '.join(grown)} grows; logs: {folder}", file=sys.stderr)
    return 1
  shutil.rmtree(folder, ignore_errors=True)
  return 0


if __name__ == "__main__":
  sys.exit(main())
