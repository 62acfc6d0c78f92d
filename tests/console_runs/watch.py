"""Watches a run of 21 consoles, and kills some of it."""

import dataclasses
import os
import pathlib
import signal
import time
from typing import Any, Protocol

from tests.console_runs.local import CONSOLES
from tests.console_runs.readings import Process, Sample, memory_of, processes_of, read_polls
from tests.faults.fleet import CaseFailed

_LOOK_SECONDS = 2.0
_SAMPLE_SECONDS = 10.0
# Of a worker that has begun.
_PLAYED_TICKS = 50
# Until every worker has begun, beyond which the run is watched without them.
_BEGIN_SECONDS = 240.0
# Consoles of the first of these workers are killed, and the second ones themselves; the others are not touched.
KILLED_CONSOLES = range(5)
KILLED_WORKERS = range(5, 10)
OTHERS = range(10, CONSOLES - 1)


class Run(Protocol):
  """What is watched: `LocalRun`, or `HostsRun`."""

  name: str
  folder: pathlib.Path
  notes: pathlib.Path
  run_dir: pathlib.Path

  @property
  def stuck(self) -> str: ...

  def start(self) -> None: ...

  def processes(self) -> list[Process]: ...

  def poll(self, addresses: list[str], output: pathlib.Path, seconds: float) -> None: ...

  def status(self) -> dict[str, Any]: ...

  def stop(self) -> str: ...

  def kill(self) -> None: ...

  def left(self) -> list[str]: ...


@dataclasses.dataclass
class Record:
  """What was seen of a run.

  Attributes:
    began: UNIX time of the command.
    samples: by time.
    pids: process of a console -> its number, in all its lives; the last number is the evaluator's.
    addresses: of the consoles, by number.
    killed_at: UNIX time of the kills; 0 before.
    killed_consoles: processes.
    killed_workers: processes.
    published: UNIX time and version of policies, as they were first seen.
    status: the last one before the end.
    ended_at: UNIX time of the end of the watch.
    disorder: why the run did not end in good order; empty if it did.
  """

  began: float
  samples: list[Sample] = dataclasses.field(default_factory=list)
  pids: dict[int, int] = dataclasses.field(default_factory=dict)
  addresses: dict[int, str] = dataclasses.field(default_factory=dict)
  killed_at: float = 0.0
  killed_consoles: list[int] = dataclasses.field(default_factory=list)
  killed_workers: list[int] = dataclasses.field(default_factory=list)
  published: list[tuple[float, int]] = dataclasses.field(default_factory=list)
  status: dict[str, Any] = dataclasses.field(default_factory=dict)
  ended_at: float = 0.0
  disorder: str = ""

  def consoles(self, numbers: range) -> dict[int, int]:
    """Process -> number, of these consoles alone."""
    return {pid: number for pid, number in self.pids.items() if number in numbers}


def watch(run: Run, minutes: float) -> Record:
  """Starts a run, watches it for so long, kills five consoles and five workers at a third of that, and ends it.

  Nothing is killed before every worker plays, unless one takes some minutes.

  Raises:
    CaseFailed: it cannot go on.
  """
  record = Record(time.time())
  began = time.monotonic()
  run.start()
  sample_at = 0.0
  is_polled = False
  while (now := time.monotonic()) < began + 60 * minutes:
    if run.stuck:
      raise CaseFailed(run.stuck)
    processes = run.processes()
    _note_consoles(record, processes)
    status = run.status()
    version = int(status.get("policy_version", 0))
    if version and (not record.published or record.published[-1][1] != version):
      record.published.append((time.time(), version))
    if now >= sample_at:
      sample_at = now + _SAMPLE_SECONDS
      record.samples.append(_sample(processes, status))
    if not is_polled and len(record.addresses) == CONSOLES:
      is_polled = True
      run.poll([record.addresses[number] for number in range(CONSOLES)], polls_of(run), _LOOK_SECONDS)
    is_late = now > began + _BEGIN_SECONDS
    if not record.killed_at and now > began + 20 * minutes and (is_late or _all_play(record, run)):
      _kill(record, processes)
    time.sleep(max(0.0, _LOOK_SECONDS - (time.monotonic() - now)))
  record.status, record.ended_at = run.status(), time.time()
  record.disorder = run.stop()
  return record


def polls_of(run: Run) -> pathlib.Path:
  """The file of what the consoles told."""
  return run.folder / "polls.jsonl"


def _all_play(record: Record, run: Run) -> bool:
  """Whether every worker has played for some seconds."""
  readings = read_polls(polls_of(run))
  workers = [readings.get(record.addresses.get(number, ""), []) for number in range(CONSOLES - 1)]
  return all(told and told[-1].held and told[-1].tick > _PLAYED_TICKS for told in workers)


def _note_consoles(record: Record, processes: list[Process]) -> None:
  """Notes which process is which console: that at whose port a worker plays, or the evaluator."""
  for process in processes:
    address = process.flag("console")
    if address:
      number = CONSOLES - 1 if process.kind == "evaluator" else int(process.flag("index"))
      record.addresses[number] = address
  numbers = {address.rpartition(":")[2]: number for number, address in record.addresses.items()}
  for process in processes:
    if process.kind == "consoles" and process.flag("port") in numbers:
      record.pids[process.pid] = numbers[process.flag("port")]


def _sample(processes: list[Process], status: dict[str, Any]) -> Sample:
  keys = ("environment_steps", "gradient_steps", "policy_version", "dropped_episodes")
  rows, updates, version, dropped = (int(status.get(key, 0)) for key in keys)
  return Sample(time.time(), memory_of(processes), len(processes), rows, updates, version, dropped)


def _kill(record: Record, processes: list[Process]) -> None:
  """Kills by process id, and only what is still the process that it was."""
  record.killed_at = time.time()
  for process in processes:
    if process not in processes_of([process.pid]):
      continue
    if process.kind == "consoles" and record.pids.get(process.pid) in KILLED_CONSOLES:
      os.kill(process.pid, signal.SIGKILL)
      record.killed_consoles.append(process.pid)
    elif process.kind == "workers" and int(process.flag("index")) in KILLED_WORKERS:
      os.kill(process.pid, signal.SIGKILL)
      record.killed_workers.append(process.pid)
