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
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

import psutil

from configs.files import FileLock, LockTaken
from experiments.jobs import Job, read_result, result_path, write_job
from launch.process import FAILURE_FILE
from launch.run_directory import RunDirectory, failure_file, take_failures

_POLL_SECONDS = 0.2
# For which a command waits while another writes, which draws a picture in a few seconds.
_WRITER_SECONDS = 120.0
_MODULE = "experiments.one_run"
# Each run has one core, on which threads of libraries would only get in each other's way. The networks are too small to gain
# from a GPU, and as many runs as there are cores would not fit on one.
_ENVIRONMENT = {
  "OMP_NUM_THREADS": "1",
  "OPENBLAS_NUM_THREADS": "1",
  "MKL_NUM_THREADS": "1",
  "CUDA_VISIBLE_DEVICES": "-1",
  "PYTHONUNBUFFERED": "1",
}


@dataclasses.dataclass(frozen=True)
class Folder:
  """The folder of an experiment's files.

  Attributes:
    path: of the folder.
  """

  path: pathlib.Path

  @property
  def results(self) -> pathlib.Path:
    """A small file for every run that finished, a lock for each that did not, and the lock of `writing`."""
    return self.path / "runs"

  @property
  def work(self) -> pathlib.Path:
    """Run directories of the runs that are under way, and of those that failed."""
    return self.path / "work"

  @contextlib.contextmanager
  def writing(self) -> Iterator[None]:
    """Holds the lock of what several commands in the folder write: results from its CSVs, and the CSVs, pictures and tables.

    Raises:
      UserError: another command has held it for two minutes, or its file cannot be opened.
    """
    lock = FileLock(
      self.results / "writing.lock",
      taken=f"Another command has been writing in {self.path} for {_WRITER_SECONDS:.0f} s: try again when it has ended.",
      patience_seconds=_WRITER_SECONDS,
    )
    try:
      yield
    finally:
      lock.release()

  def lock(self, job: Job) -> FileLock | None:
    """Takes the lock of the run; None if another command has it.

    Raises:
      UserError: its file cannot be opened.
    """
    try:
      return FileLock(self._lock_of(job), taken="", patience_seconds=0.0)
    except LockTaken:
      return None

  def unlock(self, job: Job, lock: FileLock) -> None:
    """Releases the lock of a run, and removes its file if the run is done: who has opened that by now sees that it is."""
    if self.done(job):
      self._lock_of(job).unlink(missing_ok=True)
    lock.release()

  def _lock_of(self, job: Job) -> pathlib.Path:
    return result_path(self.results, job).with_suffix(".lock")

  def done(self, job: Job) -> bool:
    """Whether the job has a result."""
    return read_result(result_path(self.results, job), job) is not None


@dataclasses.dataclass(frozen=True)
class Progress:
  """How far the jobs are.

  Attributes:
    fractions: stem of each job under way -> how much of it is done, from 0 to 1.
    waiting: number of jobs that have not started.
    elsewhere: how many of these other commands run.
  """

  fractions: Mapping[str, float]
  waiting: int
  elsewhere: int = 0


@dataclasses.dataclass(frozen=True)
class FailedRun:
  """A run that left no result.

  Attributes:
    job: the run's job.
    sentence: why it failed, for the user.
  """

  job: Job
  sentence: str


class _Running:
  """One job's process."""

  def __init__(self, job: Job, lock: FileLock, folder: Folder, core: int | None):
    self.job = job
    self.core = core
    self._lock = lock
    self._folder = folder
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
        [sys.executable, "-m", _MODULE, *arguments],
        env={**os.environ, **_ENVIRONMENT, FAILURE_FILE: str(failure_file(self._run.logs, "run"))},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        # If this process is killed, nobody else runs the job before its own process has ended too.
        pass_fds=[lock.descriptor],
        # In a session of its own: Ctrl-C reaches this process alone, which ends its runs.
        start_new_session=True,
      )
    if core is not None:
      with contextlib.suppress(OSError):  # It may have ended.
        os.sched_setaffinity(self.process.pid, {core})  # Threads that it starts from here on inherit it.

  @property
  def log(self) -> pathlib.Path:
    return self._run.logs / "output"

  def fraction(self) -> float:
    """How much of the run is done, from 0 to 1, according to its status file."""
    try:
      steps = json.loads((self._work / "status.json").read_text())["environment_steps"]
    except (OSError, ValueError):
      return 0.0
    return min(1.0, float(steps) / self.job.config.environment_steps)

  def finish(self) -> str:
    """Why the run, which has ended, failed; "" if it succeeded, in which case all files but its result are removed."""
    try:
      return self._outcome()
    finally:
      self._folder.unlock(self.job, self._lock)

  def _outcome(self) -> str:
    if read_result(self._result, self.job) is not None:
      shutil.rmtree(self._work, ignore_errors=True)
      return ""
    failures = take_failures(self._run.logs)
    if failures:
      return f"{failures[0].sentence} (Log: {self.log})"
    return f"Its process ended with code {self.process.returncode} and without a result: see {self.log}."

  def kill(self) -> None:
    """Ends the process and removes its files, which are of no use from an unfinished run."""
    with contextlib.suppress(ProcessLookupError):
      self.process.kill()
    self.process.wait()
    shutil.rmtree(self._work, ignore_errors=True)
    self._folder.unlock(self.job, self._lock)


def run_jobs(
  jobs: Sequence[Job],
  folder: Folder,
  processes: int,
  stop: threading.Event,
  on_progress: Callable[[Progress], None],
  on_end: Callable[[Job, str], None],
) -> list[FailedRun]:
  """Runs `jobs`; if one fails, the others continue. What another command runs in the same folder is waited for.

  No process is left behind, however this function ends.

  Args:
    jobs: the jobs without a result, in the order in which they start.
    folder: for their results.
    processes: how many run at once.
    stop: ends all of them.
    on_progress: called a few times a second.
    on_end: called with every job that ended, and why it failed or "".

  Returns:
    The runs that failed.
  """
  folder.results.mkdir(parents=True, exist_ok=True)
  waiting = list(jobs)
  # A run whose threads share one core makes a sixth more steps a second: the server's threads and its own then wake up once for
  # several messages.
  cores: set[int | None] = set(os.sched_getaffinity(0))
  if processes > len(cores):
    cores = {None}
  running: list[_Running] = []
  failed: list[FailedRun] = []
  elsewhere = 0
  try:
    while (waiting or running) and not stop.is_set():
      for run in [run for run in running if run.process.poll() is not None]:
        running.remove(run)
        sentence = run.finish()
        if sentence:
          failed.append(FailedRun(run.job, sentence))
        on_end(run.job, sentence)
      while len(running) < processes:
        elsewhere, taken = _take_first(waiting, folder, on_end)
        if taken is None:
          break
        free = cores - {run.core for run in running}
        running.append(_Running(*taken, folder, _least_taken(free)))
      on_progress(Progress({run.job.stem: run.fraction() for run in running}, len(waiting), elsewhere))
      stop.wait(_POLL_SECONDS)
  finally:
    for run in running:
      run.kill()
    with contextlib.suppress(OSError):
      folder.work.rmdir()  # It is empty if nothing failed.
  return failed


def _take_first(
  waiting: list[Job], folder: Folder, on_end: Callable[[Job, str], None]
) -> tuple[int, tuple[Job, FileLock] | None]:
  """Takes the first job that no other command has done or runs from `waiting`, and those before it that are done.

  Returns:
    How many jobs before it other commands run; the job, with its lock, or None if there is none at present.
  """
  elsewhere = 0
  while elsewhere < len(waiting):
    lock = folder.lock(waiting[elsewhere])
    if lock is None:
      elsewhere += 1
      continue
    job = waiting.pop(elsewhere)
    if not folder.done(job):
      return elsewhere, (job, lock)
    folder.unlock(job, lock)
    on_end(job, "")
  return elsewhere, None


def _least_taken(cores: Set[int | None]) -> int | None:
  """Of these cores the one that the fewest runs have for their own, those of other commands included; None if there is none."""
  taken: collections.Counter[int | None] = collections.Counter()
  for process in psutil.process_iter():
    with contextlib.suppress(psutil.Error):
      if _MODULE in process.cmdline() and len(own := process.cpu_affinity()) == 1:
        taken[own[0]] += 1
  return min(cores, key=lambda core: (taken[core], core), default=None)
