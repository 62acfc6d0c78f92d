"""Runs the command line as a user does, in processes that always end."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psutil

T = TypeVar("T")

ROOT = pathlib.Path(__file__).parents[2]
# Several imports of TensorFlow at once are slow on two busy cores.
START_SECONDS = 240.0


class Cli:
  """One running command, its output in a file."""

  def __init__(self, process: subprocess.Popen, output: pathlib.Path):
    self.process = process
    self._output = output

  @property
  def pid(self) -> int:
    return own_pid(self.process.pid)

  def output(self) -> str:
    return self._output.read_text()

  def wait(self, timeout: float) -> int:
    return self.process.wait(timeout)

  def send(self, signum: int) -> None:
    if self.process.poll() is None:  # A stopped process passes nothing on.
      os.kill(self.pid if signum in (signal.SIGSTOP, signal.SIGCONT) else self.process.pid, signum)

  def children(self) -> list[psutil.Process]:
    children: list[psutil.Process] = psutil.Process(self.pid).children(recursive=True)
    return children

  def result(self) -> dict[str, Any]:
    line = next(line for line in reversed(self.output().splitlines()) if line.startswith("RESULT "))
    result: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return result


def own_pid(pid: int) -> int:
  """Of the process in which a command of this process id goes on; see `launch.process_id`."""
  with contextlib.suppress(psutil.NoSuchProcess):
    process = psutil.Process(pid)
    for child in process.children():
      with contextlib.suppress(psutil.NoSuchProcess):
        if child.cmdline() == process.cmdline():
          return int(child.pid)
  return pid


@contextlib.contextmanager
def cli(
  folder: pathlib.Path, name: str, *arguments: str, cwd: pathlib.Path = ROOT, shadowing: pathlib.Path | None = None
) -> Iterator[Cli]:
  """Starts `slipstream ARGUMENTS`; kills it and its children at the end.

  Args:
    folder: for the file of its output.
    name: of that file.
    *arguments: of the command line.
    cwd: the folder in which it starts.
    shadowing: a folder whose packages are imported before any others.
  """
  path = os.pathsep.join(map(str, [ROOT] if shadowing is None else [shadowing, ROOT]))
  output = folder / f"{name}.log"
  with output.open("w") as file:
    process = subprocess.Popen(
      [sys.executable, "-m", "slipstream", *arguments],
      cwd=cwd,
      stdout=file,
      stderr=subprocess.STDOUT,
      start_new_session=True,
      env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
    )
  try:
    yield Cli(process, output)
  except BaseException:
    _print_logs(process.pid, folder)
    raise
  finally:
    with contextlib.suppress(psutil.NoSuchProcess):
      for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
          child.kill()
    process.kill()
    process.wait(30)


def _print_logs(pid: int, folder: pathlib.Path) -> None:
  """Prints the end of every log below `folder`, to which each role that still runs first adds its threads' stacks."""
  with contextlib.suppress(psutil.NoSuchProcess):
    for child in psutil.Process(pid).children(recursive=True):
      with contextlib.suppress(psutil.NoSuchProcess):
        child.send_signal(signal.SIGUSR1)
  time.sleep(1.0)  # For the roles to write; there is nothing to wait for, as some may be gone.
  for log in sorted([*folder.rglob("*.log"), *folder.rglob("logs/*/*")]):
    print(f"--- the end of {log.relative_to(folder)}:\n{log.read_text(errors='replace')[-4_000:]}")


def wait_for(condition: Callable[[], T | None], timeout: float, what: str) -> T:
  """Waits until `condition` returns something true, and returns that.

  Raises:
    AssertionError: it did not in time.
  """
  deadline = time.monotonic() + timeout
  while time.monotonic() < deadline:
    with contextlib.suppress(StopIteration, FileNotFoundError, psutil.NoSuchProcess):
      found = condition()
      if found:
        return found
    time.sleep(0.25)
  raise AssertionError(f"timed out after {timeout:g} s waiting for {what}")


def address_of(run: Cli) -> str:
  """The address that a `train` printed."""
  return wait_for(lambda: _find(r"Server at (localhost:\d+)", run.output()), START_SECONDS, "an address")


def run_dir_of(run: Cli) -> pathlib.Path:
  """The run directory that a `train` or `serve` printed."""
  pattern = r"(?:Run \S+ in |Run directory: )(\S+)"
  return pathlib.Path(wait_for(lambda: _find(pattern, run.output()), START_SECONDS, "a run directory"))


def _find(pattern: str, text: str) -> str | None:
  match = re.search(pattern, text)
  return match.group(1) if match else None


def status_of(run_dir: pathlib.Path) -> dict[str, Any]:
  """The run's last status, from its directory."""
  status: dict[str, Any] = json.loads((run_dir / "status.json").read_text())
  return status


def alive(pid: int) -> bool:
  """Whether a process runs (and is not just waiting to be reaped)."""
  with contextlib.suppress(psutil.NoSuchProcess):
    return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
  return False


def assert_all_gone(pids: list[int], timeout: float = 5.0) -> None:
  wait_for(lambda: not any(alive(pid) for pid in pids), timeout, f"the end of {pids}")


KILL = signal.SIGKILL
INTERRUPT = signal.SIGINT
TERMINATE = signal.SIGTERM
