"""Runs jobs, several at once, each in a process of its own."""

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from experiments.jobs import Job, read_result, result_path, write_job
from launch.run_directory import RunDirectory, take_failures

_POLL_SECONDS = 0.2
# Each run has one core's work: libraries with threads of their own would only get in each other's way. The networks are
# small, so a GPU is no help, and as many runs as cores would not fit on one.
_ENVIRONMENT = {
  "OMP_NUM_THREADS": "1",
  "OPENBLAS_NUM_THREADS": "1",
  "MKL_NUM_THREADS": "1",
  "CUDA_VISIBLE_DEVICES": "-1",
  "PYTHONUNBUFFERED": "1",
}


@dataclasses.dataclass(frozen=True)
class Folder:
  """Where an experiment's files lie.

  Attributes:
    path: of the experiment's output.
  """

  path: pathlib.Path

  @property
  def results(self) -> pathlib.Path:
    """A small file for every run that finished."""
    return self.path / "runs"

  @property
  def work(self) -> pathlib.Path:
    """Run directories of the runs that go on, and of those that failed."""
    return self.path / "work"

  def done(self, job: Job) -> bool:
    """Whether the job has its result."""
    return read_result(result_path(self.results, job), job) is not None


@dataclasses.dataclass(frozen=True)
class Progress:
  """How far the jobs are.

  Attributes:
    fractions: of the jobs that run now, how far each is, from 0 to 1.
    waiting: jobs that are still to be started.
  """

  fractions: Mapping[str, float]
  waiting: int


@dataclasses.dataclass(frozen=True)
class FailedRun:
  """A run that left no result.

  Attributes:
    job: that failed.
    sentence: why, for people.
  """

  job: Job
  sentence: str


class _Running:
  """One job's process."""

  def __init__(self, job: Job, folder: Folder, core: int | None):
    self.job = job
    self.core = core
    self._result = result_path(folder.results, job)
    self._work = folder.work / job.stem
    shutil.rmtree(self._work, ignore_errors=True)  # A run that was killed starts anew.
    self._run = RunDirectory(self._work)
    self._run.logs.mkdir(parents=True)
    job_file = self._work / "job.json"
    write_job(job_file, job)
    arguments = [str(job_file), str(self._work), str(self._result), str(os.getpid())]
    with self.log.open("w") as log:
      self.process = subprocess.Popen(
        [sys.executable, "-m", "experiments.one_run", *arguments],
        env={**os.environ, **_ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        # A session of its own: Ctrl-C reaches this process alone, which ends its runs.
        start_new_session=True,
      )
    if core is not None:
      with contextlib.suppress(OSError):  # It may have ended.
        os.sched_setaffinity(self.process.pid, {core})  # Threads that it starts from here on inherit it.

  @property
  def log(self) -> pathlib.Path:
    return self._run.logs / "output"

  def fraction(self) -> float:
    """How far the run is, from 0 to 1, by the status that it keeps writing."""
    try:
      steps = json.loads((self._work / "status.json").read_text())["environment_steps"]
    except (OSError, ValueError):
      return 0.0
    return min(1.0, float(steps) / self.job.config.environment_steps)

  def finish(self) -> str:
    """Why the run, which has ended, failed; empty where it did not. A run that did not leaves its result alone."""
    if read_result(self._result, self.job) is not None:
      shutil.rmtree(self._work, ignore_errors=True)
      return ""
    failures = take_failures(self._run.logs)
    if failures:
      return f"{failures[0].sentence} (Log: {self.log})"
    return f"Its process ended with code {self.process.returncode} and without a result: see {self.log}."

  def kill(self) -> None:
    """Ends the process; what an unfinished run has done is of no use to anyone."""
    with contextlib.suppress(ProcessLookupError):
      self.process.kill()
    self.process.wait()
    shutil.rmtree(self._work, ignore_errors=True)


def run_jobs(
  jobs: Sequence[Job],
  folder: Folder,
  processes: int,
  stop: threading.Event,
  on_progress: Callable[[Progress], None],
  on_end: Callable[[Job, str], None],
) -> list[FailedRun]:
  """Runs `jobs`; one that fails does not keep the others from going on.

  Whatever ends this function, no process is left.

  Args:
    jobs: that have no result yet, in the order in which they are to be started.
    folder: for their results.
    processes: how many run at once.
    stop: ends all of them.
    on_progress: called a few times a second.
    on_end: called with every job that ended, and the sentence where it failed.

  Returns:
    The runs that failed.
  """
  folder.results.mkdir(parents=True, exist_ok=True)
  waiting = collections.deque(jobs)
  # A run with all its threads on one core makes a sixth more steps a second: the server's threads and its own then wake up for
  # several messages at a time.
  cores: set[int | None] = set(os.sched_getaffinity(0))
  if processes > len(cores):
    cores = {None}
  running: list[_Running] = []
  failed: list[FailedRun] = []
  try:
    while (waiting or running) and not stop.is_set():
      while waiting and len(running) < processes:
        core = next(iter(cores - {run.core for run in running}), None)
        running.append(_Running(waiting.popleft(), folder, core))
      for run in [run for run in running if run.process.poll() is not None]:
        running.remove(run)
        sentence = run.finish()
        if sentence:
          failed.append(FailedRun(run.job, sentence))
        on_end(run.job, sentence)
      on_progress(Progress({run.job.stem: run.fraction() for run in running}, len(waiting)))
      stop.wait(_POLL_SECONDS)
  finally:
    for run in running:
      run.kill()
    with contextlib.suppress(OSError):
      folder.work.rmdir()  # Where nothing failed it is empty.
  return failed
