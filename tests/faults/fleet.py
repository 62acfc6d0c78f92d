"""A run as an orchestrator keeps it: roles as `slipstream` commands, on one host or on several, started again when they die."""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psutil

from configs import (
  ActorConfig,
  DdqnConfig,
  EnvironmentConfig,
  EvaluatorConfig,
  EventSpec,
  LearnerConfig,
  NetworkConfig,
  ReplayConfig,
  RunConfig,
  TableSpec,
  to_json,
)
from configs.exit_codes import is_restarted
from tests.faults.lab import Host
from tests.faults.ledger import Count, Episode, Step, compare, read_ledgers, read_rows
from tests.faults.world import LEDGER
from tests.launch.processes import own_pid
from tests.serving import free_port

ROOT = pathlib.Path(__file__).parents[2]
POLL_SECONDS = 0.2
START_SECONDS = 180.0
COMMAND_SECONDS = 120.0
# What a role did last may show in the status for so long after its end.
LAST_NEWS_SECONDS = 2.0
_BACK_OFF_SECONDS = 1.0
_END_SECONDS = 30.0
_CAPACITY = 400_000
# The world is named by the run's config.
ALLOW = "--allow_module=tests"


class CaseFailed(AssertionError):
  """What a case waited for did not happen."""


def make_config(workers: int, **replay: Any) -> RunConfig:
  """A run in the counted world that goes on for longer than any case, and whose tables evict nothing.

  Args:
    workers: how many.
    replay: changes of `ReplayConfig`.
  """
  return RunConfig(
    name="faults",
    environment_steps=100_000_000,
    environment=EnvironmentConfig("tests.faults.world:Counted"),
    events=(EventSpec("at_goal", "tests.faults.world:at_goal", history=10, table="goal"),),
    replay=dataclasses.replace(
      ReplayConfig(
        capacity=2 * _CAPACITY,
        # With a larger min_size the last rows of a table could not be read.
        default=TableSpec("default", probability=0.5, min_size=1),
        tables=(TableSpec("goal", probability=0.5),),
        environment_steps_per_update=5,
        checkpoint_period_seconds=60.0,
      ),
      **replay,
    ),
    network=NetworkConfig(hidden_sizes=(16,)),
    actor=ActorConfig(workers=workers, random_steps=200),
    learner=LearnerConfig(
      algorithm=DdqnConfig(epsilon=0.3),
      updates_per_block=8,
      publish_period_updates=16,
      threads=1,
      checkpoint_period_seconds=20.0,
    ),
    evaluator=EvaluatorConfig(period_seconds=5.0, solved_event="at_goal", solved_evaluations=0),
  )


@dataclasses.dataclass
class Role:
  """One process of the fleet, in all its lives.

  Attributes:
    name: such as "actor_0".
    command: its `slipstream` command line.
    host: where it runs; None for this machine itself.
    env: its environment variables.
    log: its output, of all lives.
    process: of its present or last life; None before the first.
    exits: exit codes of the lives that ended, as a shell shows them.
    wanted: whether it is started again.
  """

  name: str
  command: list[str]
  host: Host | None
  env: dict[str, str]
  log: pathlib.Path
  process: "subprocess.Popen[bytes] | None" = None
  exits: list[int] = dataclasses.field(default_factory=list)
  wanted: bool = True

  def start(self) -> None:
    """Begins a life."""
    with self.log.open("ab") as log:
      if self.host is not None:
        self.process = self.host.popen(self.command, self.env, log)
        return
      self.process = spawn(self.command, self.env, log)

  @property
  def is_running(self) -> bool:
    """Whether its process runs."""
    return self.process is not None and self.process.poll() is None

  @property
  def pid(self) -> int:
    """Of its process.

    Raises:
      CaseFailed: it does not run.
    """
    if self.process is None or self.process.poll() is not None:
      raise CaseFailed(f"{self.name} does not run")
    return own_pid(self.process.pid)

  def end(self) -> None:
    """Asks its process to leave, and ends it by force if it has not left in time."""
    if self.process is None:
      return
    with contextlib.suppress(ProcessLookupError):
      os.kill(own_pid(self.process.pid), signal.SIGCONT)
      self.process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
      self.process.wait(_END_SECONDS)
    self.process.kill()
    self.process.wait()

  def last_words(self) -> str:
    """The end of its log."""
    return self.log.read_text(errors="replace")[-400:] if self.log.exists() else ""


class Fleet:
  """A server, a learner, an evaluator and workers of one run, with a supervisor that starts again what dies.

  Attributes:
    folder: of everything that it writes.
    run_dir: the run directory.
    config: of the run.
    roles: name -> role; "server", "learner", "evaluator", "actor_0", ...
    address: of the server.
    config_file: with the config.
  """

  def __init__(
    self,
    folder: pathlib.Path,
    workers: int = 5,
    hosts: Sequence[Host] = (),
    config: RunConfig | None = None,
    **replay: Any,
  ):
    """Writes the config; `start` starts the processes.

    Args:
      folder: for everything.
      workers: how many.
      hosts: the server's, the learner's, the evaluator's, and then the workers'; empty for this machine itself.
      config: of the run; None for that of `make_config`.
      replay: changes of the config's `replay`.
    """
    self.folder = folder
    self.run_dir = folder / "run"
    self.config = config or make_config(workers, **replay)
    self.port = free_port() if not hosts else 8000
    self.address = f"{hosts[0].address if hosts else 'localhost'}:{self.port}"
    self.judge = Judge(self)
    self._hosts = hosts
    self.config_file = folder / "config.json"
    self._closing = threading.Event()
    self._lock = threading.Lock()
    self._due: dict[str, float] = {}
    folder.mkdir(parents=True, exist_ok=True)
    self.config_file.write_text(to_json(self.config))
    self.roles = {role.name: role for role in self.make_roles(workers)}
    self._supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

  def make_roles(self, workers: int) -> Iterator[Role]:
    """The roles, in the order in which they start."""
    server = f"--server={self.address}"
    yield self._role("server", 0, *self.serve_command(self.run_dir))
    yield self._role("learner", 1, "learn", server, f"--run_dir={self.folder / 'learner'}")
    yield self._role("evaluator", 2, "evaluate", server, ALLOW, f"--run_dir={self.folder / 'evaluator'}")
    for index in range(workers):
      yield self._role(f"actor_{index}", 3 + index, "act", server, ALLOW, f"--index={index}")

  def serve_command(self, run_dir: pathlib.Path, port: int = 0) -> list[str]:
    """The arguments of `slipstream` that serve a run directory, the first time and every later one."""
    return ["serve", f"--config={self.config_file}", f"--run_dir={run_dir}", f"--port={port or self.port}"]

  def _role(self, name: str, host: int, *arguments: str) -> Role:
    where = None
    if self._hosts:
      where = self._hosts[host] if host < 3 else self._hosts[3 + (host - 3) % (len(self._hosts) - 3)]
    ledger = self.folder / "ledger" / name
    is_worker = name.startswith("actor")
    if is_worker:
      ledger.mkdir(parents=True, exist_ok=True)
    env = environment(**({LEDGER: str(ledger)} if is_worker else {}))
    return Role(name, slipstream(*arguments), where, env, self.folder / f"{name}.log")

  @property
  def workers(self) -> list[str]:
    """Their names."""
    return [name for name in self.roles if name.startswith("actor")]

  def start(self) -> None:
    """Starts everything, and waits until the run learns.

    Raises:
      CaseFailed: it does not.
    """
    self.begin()
    self.settle(START_SECONDS)

  def begin(self) -> None:
    """Starts everything, and waits for nothing."""
    for role in self.roles.values():
      role.start()
    self._supervisor.start()

  def _supervise(self) -> None:
    while not self._closing.wait(POLL_SECONDS):
      with self._lock:
        for role in self.roles.values():
          self._look_after(role)

  def _look_after(self, role: Role) -> None:
    if role.is_running or role.process is None:
      return
    due = self._due.get(role.name)
    if due is None:
      code = role.process.returncode
      role.exits.append(128 - code if code < 0 else code)
      self._due[role.name] = due = time.monotonic() + _BACK_OFF_SECONDS
    if role.wanted and is_restarted(role.exits[-1]) and time.monotonic() >= due:
      del self._due[role.name]
      role.start()

  @contextlib.contextmanager
  def unsupervised(self, *names: str) -> Iterator[None]:
    """Meanwhile these roles are not started again; afterwards those that ended are."""
    for name in names:
      self.roles[name].wanted = False
    try:
      yield
    finally:
      with self._lock:
        for name in names:
          self.roles[name].wanted = True
          if not self.roles[name].is_running:
            self._due.pop(name, None)
            self.roles[name].start()

  def signal(self, number: int, *names: str) -> None:
    """Sends a signal to the processes of these roles."""
    for name in names:
      os.kill(self.roles[name].pid, number)

  def wait_ended(self, name: str, seconds: float = _END_SECONDS) -> int:
    """Waits until a role's present life has ended; returns its exit code.

    Raises:
      CaseFailed: it has not.
    """
    process = self.roles[name].process
    assert process is not None
    try:
      code = process.wait(seconds)
    except subprocess.TimeoutExpired:
      raise CaseFailed(f"{name} has not ended within {seconds:g} s") from None
    return 128 - code if code < 0 else code

  def status(self) -> Mapping[str, Any]:
    """The last status of the run directory; empty before the first."""
    try:
      status: Mapping[str, Any] = json.loads((self.run_dir / "status.json").read_text())
    except (OSError, ValueError):
      return {}
    return status

  def gradient_steps(self) -> int:
    """Of the learner, as the server knows them."""
    return int(self.status().get("gradient_steps", 0))

  def episodes(self, *names: str) -> list[Episode]:
    """What the worlds of these workers noted, of all if none is named; by time."""
    episodes = [episode for name in names or self.workers for episode in read_ledgers(self.folder / "ledger" / name)]
    return sorted(episodes, key=lambda episode: episode.confirmed_at)

  def settle(self, seconds: float = START_SECONDS) -> None:
    """Waits until every worker's steps and the gradient steps rise.

    Raises:
      CaseFailed: they do not.
    """
    self.recovery(time.time(), seconds)

  def recovery(self, since: float, seconds: float = 60.0, workers: Sequence[str] = ()) -> tuple[float, float]:
    """Seconds after the UNIX time `since` until the steps of each of these workers rise, and until gradient steps do.

    Args:
      since: usually when the fault ended.
      seconds: to wait at most.
      workers: their names; empty for all.

    Raises:
      CaseFailed: they do not rise in time; the message says whose.
    """
    waiting, steps, updates = set(workers or self.workers), 0.0, 0.0
    lowest = self.gradient_steps()
    while waiting or not updates:
      for name in sorted(waiting):
        # A note from the future is one of a world whose clock was wrong.
        later = [one.confirmed_at for one in self.episodes(name) if since < one.confirmed_at <= time.time()]
        if later:
          waiting.remove(name)
          steps = max(steps, later[0] - since)
      now = self.gradient_steps()
      if not updates and time.time() > since and now > lowest:
        updates = max(time.time() - since, 0.001)
      lowest = min(lowest, now)  # A server that came back may know of fewer at first.
      if time.time() > since + seconds:
        stuck = [*sorted(waiting), *([] if updates else ["learner"])]
        words = "; ".join(f"{name}: {self.roles[name].last_words()[-200:]!r}" for name in stuck)
        raise CaseFailed(f"after {seconds:g} s there is no progress of {', '.join(stuck)} ({words})")
      time.sleep(POLL_SECONDS)
    return steps, updates

  def snapshot(self) -> float:
    """Lets the server write a snapshot; returns the UNIX time before which all confirmed rows are in it.

    Raises:
      CaseFailed: it was not written.
    """
    began = time.time()
    done = self.run_command("snapshot", f"--server={self.address}")
    if done.returncode:
      raise CaseFailed(f"slipstream snapshot ended with {done.returncode}: {done.stdout[-400:]}")
    return began

  def run_command(
    self, *arguments: str, host: int = 0, seconds: float = COMMAND_SECONDS, env: Mapping[str, str] | None = None
  ) -> "subprocess.CompletedProcess[str]":
    """Runs a `slipstream` command to its end, on one of the hosts; its output is in `stdout`.

    Raises:
      CaseFailed: it does not end.
    """
    command = slipstream(*arguments)
    if self._hosts:
      command = self._hosts[host].command(command)
    return run(command, seconds, env)

  def left(self) -> list[str]:
    """Processes, ports and files that should not be there once everything has ended."""
    processes = [f"process {process.pid}" for process in processes_with(str(self.folder))]
    processes += [f"process {role.pid} of {role.name}" for role in self.roles.values() if role.is_running]
    ports = [] if self._hosts or not is_listening(self.port) else [f"port {self.port}"]
    files = [str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if is_left_over(path)]
    return [*processes, *ports, *files]

  def leave_alone(self) -> None:
    """From now on nothing is started again."""
    self._closing.set()
    if self._supervisor.is_alive():
      self._supervisor.join()
    for role in self.roles.values():
      role.wanted = False

  def close(self) -> None:
    """Ends the run as a user does, and then whatever still runs, by force."""
    self.leave_alone()
    with contextlib.suppress(CaseFailed):
      self.run_command("stop", f"--server={self.address}", "--yes")
    deadline = time.monotonic() + _END_SECONDS
    for role in self.roles.values():
      if role.process is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
          role.process.wait(max(0.1, deadline - time.monotonic()))

  def kill(self) -> None:
    """Ends whatever still runs, by force; may be called twice."""
    self._closing.set()
    for role in self.roles.values():
      if role.process is not None and role.process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
          os.kill(role.process.pid, signal.SIGCONT)
          os.killpg(role.process.pid, signal.SIGKILL)
        role.process.wait()
    for process in processes_with(str(self.folder)):
      with contextlib.suppress(psutil.Error):
        process.kill()


class Judge:
  """Counts a fleet's rows again after every fault; what an earlier fault cost is not counted twice."""

  def __init__(self, fleet: Fleet):
    """Takes the fleet whose rows are counted."""
    self._fleet = fleet
    self._forgiven: set[tuple[int, int]] = set()
    self._duplicates = 0

  def count(
    self, rows: Sequence[Step] | None = None, before: float = float("inf"), workers: Sequence[str] = ()
  ) -> Count:
    """Rows lost and doubled by the last fault.

    Args:
      rows: of the default table; None lets the server write a snapshot and reads that one.
      before: UNIX time; what was confirmed later may be missing.
      workers: whose rows; empty for all.
    """
    if rows is None:
      before = min(before, self._fleet.snapshot())
      rows = read_rows(self._fleet.run_dir)
    noted = [
      episode for episode in self._fleet.episodes(*workers) if (episode.life, episode.number) not in self._forgiven
    ]
    count = compare([episode for episode in noted if episode.confirmed_at < before], rows)
    held = set(rows)
    self._forgiven.update(
      (episode.life, episode.number)
      for episode in noted
      if any((episode.life, episode.number, step) not in held for step in range(episode.steps))
    )
    before_it, self._duplicates = self._duplicates, count.duplicates
    return dataclasses.replace(count, duplicates=max(0, count.duplicates - before_it))


def slipstream(*arguments: str) -> list[str]:
  """The command line of a `slipstream` command."""
  return [sys.executable, "-m", "slipstream", *arguments]


def wrong_clock(seconds: int, command: Sequence[str]) -> list[str]:
  """The command line of a `slipstream` command whose wall clock is wrong by so much."""
  python, _, _, *arguments = command
  return [python, "-m", "tests.faults.clock", str(seconds), *arguments]


def environment(**variables: str) -> dict[str, str]:
  """The environment variables of a role."""
  quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "1", "PYTHONUNBUFFERED": "1"}
  return {**os.environ, **quiet, "PYTHONPATH": str(ROOT), **variables}


def spawn(command: Sequence[str], env: Mapping[str, str], log: Any) -> "subprocess.Popen[bytes]":
  """Starts a command in a session of its own, whose output goes to the file `log`."""
  return subprocess.Popen(
    list(command),
    env=dict(env),
    cwd=ROOT,
    stdin=subprocess.DEVNULL,
    stdout=log,
    stderr=subprocess.STDOUT,
    start_new_session=True,
  )


def run(
  command: Sequence[str], seconds: float = COMMAND_SECONDS, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
  """Runs a command to its end; what it prints, errors too, is in `stdout`.

  Raises:
    CaseFailed: it does not end.
  """
  try:
    return subprocess.run(
      list(command),
      cwd=ROOT,
      env=dict(env or environment()),
      stdin=subprocess.DEVNULL,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
      timeout=seconds,
    )
  except subprocess.TimeoutExpired:
    raise CaseFailed(f"'{' '.join(command[-4:])}' has not ended within {seconds:g} s") from None


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> float:
  """Waits until `condition()` holds; returns the seconds that it took.

  Raises:
    CaseFailed: it did not hold in time.
  """
  began = time.monotonic()
  while not condition():
    if time.monotonic() - began > seconds:
      raise CaseFailed(f"{what}: not within {seconds:g} s")
    time.sleep(POLL_SECONDS)
  return time.monotonic() - began


def processes_with(text: str) -> list[psutil.Process]:
  """Processes other than this one whose command line has `text`."""
  found = []
  for process in psutil.process_iter():
    with contextlib.suppress(psutil.Error):
      if process.pid != os.getpid() and any(text in part for part in process.cmdline()):
        found.append(process)
  return found


def is_listening(port: int) -> bool:
  """Whether a process of this machine listens on a TCP port."""
  return any(link.laddr.port == port and link.status == psutil.CONN_LISTEN for link in psutil.net_connections("tcp"))


def is_left_over(path: pathlib.Path) -> bool:
  """Whether a file or folder is one that was being written."""
  return path.name.endswith((".partial", ".tmp", ".partial.npz"))
