"""The run of one machine, by the command that a user gives."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import psutil

from tests.console_runs.readings import Process, processes_of
from tests.console_runs.world import NOTES
from tests.faults.fleet import CaseFailed, environment, slipstream, spawn, wait_for
from tests.launch.processes import own_pid

CONSOLES = 21
# The slingshot with its small networks. Its rows stay on the server, so that they can be counted there: the preset keeps them in
# the learner's own memory. It has no weights, for which workers would send their histories there too. Workers would wait when the
# learner is 4,000 steps behind, and it may compile for longer than these 20 seconds; consoles at the real pace do not wait.
SETTINGS = (
  "--config=slingshot",
  "--config.environment.name=tests.console_runs.world:Noted",
  "--config.environment_steps=100000000",
  "--config.replay.sampling=server",
  "--config.learner.bias_correction=none",
  "--config.replay.insert_tolerance_steps=60000",
  "--config.replay.environment_steps_per_update=8",
  "--config.replay.checkpoint_period_seconds=86400",
)
_START_SECONDS = 180.0
_END_SECONDS = 240.0
_KILL_SECONDS = 20.0


def capacity_for(minutes: float) -> int:
  """`replay.capacity` with which the default table, which has .8 of it, evicts nothing in so many minutes."""
  return max(50_000, round(CONSOLES * 10 * 60 * (minutes + 3) / 0.8))


class LocalRun:
  """`slipstream train` with 21 consoles.

  Attributes:
    folder: of everything that it writes.
    notes: of what the worlds note.
    run_dir: the run directory; of no use before `start`.
    stuck: why the run cannot go on; empty if it can.
  """

  name = "one machine"

  def __init__(self, folder: pathlib.Path, minutes: float):
    """Starts nothing yet; the tables have room for `minutes`."""
    self.folder = folder
    self.notes = folder / "notes"
    self.notes.mkdir(parents=True)
    self.run_dir = folder
    self._capacity = capacity_for(minutes)
    self._log = folder / "train.log"
    self._process: subprocess.Popen[bytes] | None = None
    self._poller: subprocess.Popen[bytes] | None = None

  def start(self) -> None:
    """Starts everything.

    Raises:
      CaseFailed: there is no run directory after some minutes.
    """
    words = ["train", *SETTINGS, f"--config.consoles.count={CONSOLES}", f"--config.replay.capacity={self._capacity}"]
    with self._log.open("ab") as log:
      command = slipstream(*words, f"--run_root={self.folder / 'runs'}")
      self._process = spawn(command, environment(**{NOTES: str(self.notes)}), log)
    wait_for(lambda: self._found() or self.stuck, "the run directory", _START_SECONDS)
    if self.stuck:
      raise CaseFailed(self.stuck)
    self.run_dir = self._found()[0].parent

  def _found(self) -> list[pathlib.Path]:
    return list((self.folder / "runs").glob("*/*/config.json"))

  @property
  def stuck(self) -> str:
    """See the class."""
    if self._process is None or self._process.poll() is None:
      return ""
    return f"the run ended with {self._process.returncode}: {self._log.read_text(errors='replace')[-400:]}"

  def processes(self) -> list[Process]:
    """All processes of the run, parents included."""
    return processes_of([self._process.pid] if self._process else [])

  def poll(self, addresses: list[str], output: pathlib.Path, seconds: float) -> None:
    """Lets a process ask the consoles every so many seconds how they are; see `tests.console_runs.poll`."""
    command = [sys.executable, "-m", "tests.console_runs.poll", str(seconds), *addresses]
    with output.open("ab") as file:
      self._poller = spawn(command, environment(), file)

  def stop(self) -> str:
    """Ends the run by Ctrl-C, with a last snapshot; returns why that was not in good order, or "".

    Raises:
      CaseFailed: it does not end.
    """
    assert self._process is not None
    os.kill(own_pid(self._process.pid), signal.SIGINT)
    try:
      code = self._process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
      raise CaseFailed(f"the run has not ended {_END_SECONDS:.0f} s after Ctrl-C") from None
    return "" if code == 130 else f"slipstream train ended with {code} instead of 130"

  def marked(self) -> list[psutil.Process]:
    """Processes that got this run's environment: its own, wherever they hang."""
    return [process for process in psutil.process_iter() if self._is_marked(process)]

  def _is_marked(self, process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
      return bool(process.environ().get(NOTES) == str(self.notes) and process.status() != psutil.STATUS_ZOMBIE)
    return False

  def left(self) -> list[str]:
    """Processes that should not be there once everything has ended."""
    return [f"process {process.pid}" for process in self.marked()]

  def kill(self) -> None:
    """Ends whatever still runs, by force; may be called twice."""
    deadline = time.monotonic() + _KILL_SECONDS
    for started in (self._poller, self._process):
      if started is not None and started.poll() is None:
        with contextlib.suppress(ProcessLookupError):
          os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    while (left := self.marked()) and time.monotonic() < deadline:
      for process in left:
        with contextlib.suppress(psutil.Error):
          process.kill()
      time.sleep(0.1)

  def status(self) -> dict[str, object]:
    """The last one in the run directory; empty before the first."""
    return read_status(self.run_dir)


def read_status(run_dir: pathlib.Path) -> dict[str, object]:
  """The last status in a run directory; empty before the first."""
  try:
    status: dict[str, object] = json.loads((run_dir / "status.json").read_text())
  except (OSError, ValueError):
    return {}
  return status
