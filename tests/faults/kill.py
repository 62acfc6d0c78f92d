"""Faults of processes on one machine: killed, terminated, paused, doubled, poisoned."""

import contextlib
import functools
import json
import pathlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import psutil

from configs import to_json
from tests.faults.case import WORKER_SECONDS, Case, Outcome, Row, chosen, try_cases
from tests.faults.fleet import (
  ALLOW,
  LAST_NEWS_SECONDS,
  START_SECONDS,
  CaseFailed,
  Fleet,
  Role,
  environment,
  make_config,
  processes_with,
  slipstream,
  spawn,
  wait_for,
  wrong_clock,
)
from tests.faults.fleet import (
  run as run_to_end,
)
from tests.faults.ledger import read_rows
from tests.faults.world import LEDGER

_PAUSE_SECONDS = 60.0
_CYCLES = 20
_CLOCK_SECONDS = 20.0
_POISON_SECONDS = 90.0


def run(folder: pathlib.Path, only: str = "") -> list[Row]:
  """Tries the `chosen` cases on one run."""
  return try_cases(chosen(CASES, only), Fleet(folder / "fleet"))


def _kill(fleet: Fleet, names: Sequence[str], number: int = signal.SIGKILL, code: int = 137) -> Outcome:
  """Ends roles by a signal; the supervisor starts them again. A dead server loses what came after its snapshot."""
  is_server_killed = "server" in names and number == signal.SIGKILL
  safe = fleet.snapshot() if is_server_killed else float("inf")
  fleet.signal(number, *names)
  ended = {name: fleet.wait_ended(name) for name in names}
  since = time.time()
  wrong = {name: got for name, got in ended.items() if got != code}
  if wrong:
    raise CaseFailed(f"ended with {wrong} instead of {code}")
  workers = [name for name in names if name in fleet.workers]
  if {"server", "learner"} & set(names):
    time.sleep(LAST_NEWS_SECONDS)
  steps, updates = fleet.recovery(since, workers=workers)
  wait_for(lambda: all(fleet.roles[name].is_running for name in names), "started again")
  return Outcome(steps, updates, fleet.judge.count(before=safe), f"exit code {code}")


class _Versions:
  """Watches that the policy's version never falls."""

  def __init__(self, fleet: Fleet):
    """Begins with the next reading."""
    self.falls: list[tuple[int, int]] = []
    self._fleet = fleet
    self._ended = threading.Event()
    self._thread = threading.Thread(target=self._watch, daemon=True)
    self._thread.start()

  def _watch(self) -> None:
    before = 0
    while not self._ended.wait(0.1):
      version = int(self._fleet.status().get("policy_version", before))
      if version < before:
        self.falls.append((before, version))
      before = max(before, version)

  def close(self) -> None:
    """Ends the watch.

    Raises:
      CaseFailed: a version has fallen.
    """
    self._ended.set()
    self._thread.join()
    if self.falls:
      raise CaseFailed(f"policy versions fell: {self.falls[:5]}")


def _second_learner(fleet: Fleet, name: str) -> Role:
  command = slipstream("learn", f"--server={fleet.address}", f"--run_dir={fleet.folder / name}")
  return Role(name, command, None, environment(), fleet.folder / f"{name}.log")


@contextlib.contextmanager
def _started(role: Role) -> Iterator[Role]:
  """The role runs until the end of the `with` statement."""
  role.start()
  try:
    yield role
  finally:
    role.end()


def _pause_learner(fleet: Fleet) -> Outcome:
  versions = _Versions(fleet)
  with fleet.unsupervised("learner"):
    fleet.signal(signal.SIGSTOP, "learner")
    since = time.time()
    with _started(_second_learner(fleet, "learner_2")):
      steps, updates = fleet.recovery(since)
      time.sleep(max(0.0, since + _PAUSE_SECONDS - time.time()))
      fleet.signal(signal.SIGCONT, "learner")
      code = fleet.wait_ended("learner", 30)
      words = fleet.roles["learner"].last_words().strip().splitlines()[-1]
      fleet.recovery(time.time())
  versions.close()
  fleet.recovery(time.time())
  return Outcome(
    steps, updates, fleet.judge.count(), f"the paused one ended with {code}: {words[:160]}; versions only rose"
  )


def _two_learners(fleet: Fleet) -> Outcome:
  with fleet.unsupervised("learner"):
    fleet.signal(signal.SIGKILL, "learner")
    fleet.wait_ended("learner")
    versions = _Versions(fleet)
    since = time.time()
    with _started(_second_learner(fleet, "learner_3")) as one, _started(_second_learner(fleet, "learner_4")) as two:
      time.sleep(LAST_NEWS_SECONDS)
      steps, updates = fleet.recovery(since)
      wait_for(lambda: one.is_running != two.is_running, "one of two learners ends")
      fleet.recovery(time.time())
    versions.close()
  fleet.recovery(time.time())
  return Outcome(steps, updates, fleet.judge.count(), "one of them ended; versions only rose")


def _new_seeds(fleet: Fleet) -> Outcome:
  """The worlds of a worker that is started again differ from its first ones."""
  lives = {episode.life for episode in fleet.episodes("actor_0")}
  outcome = _kill(fleet, ["actor_0"])
  lives_after = {episode.life for episode in fleet.episodes("actor_0")}
  if len(lives_after) <= len(lives):
    raise CaseFailed("the worker's second life has the first one's world")
  return outcome


def _cycle_attached(fleet: Fleet) -> Outcome:
  codes = []
  for cycle in range(_CYCLES):
    log = fleet.folder / "attach.log"
    with log.open("ab") as output:
      process = spawn(slipstream("attach", f"--server={fleet.address}", "--actors=1", ALLOW), environment(), output)
    try:
      wait_for(functools.partial(_has_guest, fleet, process.pid), f"worker {cycle} has joined")
      process.send_signal(signal.SIGINT)
      codes.append(process.wait(30))
    finally:
      if process.poll() is None:
        process.kill()
        process.wait()
  steps, updates = fleet.recovery(time.time())
  return Outcome(steps, updates, fleet.judge.count(), f"exit codes {sorted(set(codes))}")


def _has_guest(fleet: Fleet, parent: int) -> bool:
  with contextlib.suppress(psutil.Error):
    children = {child.pid for child in psutil.Process(parent).children(recursive=True)}
    return any(
      role["pid"] in children and role["state"].startswith("running") for role in fleet.status().get("roles", ())
    )
  return False


def _kill_attached(fleet: Fleet) -> Outcome:
  """The command's workers are killed; they come back, and the command's exit code says what ended it."""
  command = slipstream("attach", f"--server={fleet.address}", "--actors=2", ALLOW)
  process = spawn(command, environment(), subprocess.DEVNULL)
  try:
    wait_for(lambda: len(_roles_below(process.pid)) == 2, "both workers have started")
    wait_for(functools.partial(_has_guest, fleet, process.pid), "a worker has joined")
    victims = _roles_below(process.pid)
    for victim in victims:
      victim.kill()
    wait_for(lambda: len(_roles_below(process.pid) - victims) == 2, "both workers come back")
    process.send_signal(signal.SIGTERM)
    code = process.wait(30)
  finally:
    process.kill()
    process.wait()
  if code != 143:
    raise CaseFailed(f"the command ended with {code} after SIGTERM, and not with 143")
  return Outcome(notes=f"{len(victims)} killed, came back; the command ended with {code} after SIGTERM")


def _roles_below(parent: int) -> set[psutil.Process]:
  """The workers that a process has started, without their supervisors."""
  found = set()
  for child in psutil.Process(parent).children(recursive=True):
    with contextlib.suppress(psutil.Error):
      if "act" in child.cmdline():
        found.add(child)
  return found


def _poison(fleet: Fleet) -> Outcome:
  since = time.time()
  done = run_to_end([*slipstream()[:1], "-m", "tests.faults.poison", fleet.address])
  if done.returncode:
    raise CaseFailed(f"the poison was not written: {done.stdout[-400:]}")
  # Rows that the server takes are the learner's to pass over, once it draws them.
  wait_for(lambda: bool(_total(fleet, "unusable_rows")), "the learner passes over a poisoned row", _POISON_SECONDS)
  steps, updates = fleet.recovery(max(since, time.time()))
  refused = sum(line.startswith("Refused") for line in done.stdout.splitlines())
  notes = (
    f"{_total(fleet, 'dropped_messages')} messages dropped, {refused} writes refused, some rows drawn and passed over"
  )
  return Outcome(steps, updates, fleet.judge.count(), notes)


def _total(fleet: Fleet, name: str) -> int:
  return sum(fleet.status().get(name, {}).values())


def _shift_clock(fleet: Fleet, seconds: int) -> Outcome:
  """Server, learner and a worker are started again with a wrong clock, and later with the right one."""
  names = ("server", "learner", "actor_0")
  plain = {name: fleet.roles[name].command for name in names}
  try:
    since = _start_again(fleet, {name: wrong_clock(seconds, command) for name, command in plain.items()})
    # The notes of the shifted worker's world carry its own clock, so nobody knows which of them are older than a snapshot.
    others = [name for name in fleet.workers if name != "actor_0"]
    steps, updates = fleet.recovery(since, workers=others)
    time.sleep(_CLOCK_SECONDS)
    count = fleet.judge.count(workers=others)
  finally:
    since = _start_again(fleet, plain)
  back = fleet.recovery(since, workers=others)
  return Outcome(
    steps, updates, count, f"with the right clock again steps after {back[0]:.1f} s, updates {back[1]:.1f} s"
  )


def _start_again(fleet: Fleet, commands: Mapping[str, list[str]]) -> float:
  """Terminates roles and starts them with other commands; returns the UNIX time at which they had ended."""
  with fleet.unsupervised(*commands):
    for name in commands:
      with contextlib.suppress(CaseFailed):  # It has ended already.
        fleet.signal(signal.SIGTERM, name)
    for name, command in commands.items():
      fleet.wait_ended(name)
      fleet.roles[name].command = command
    return time.time()


def _train(fleet: Fleet) -> Outcome:
  """A local run: each of its processes is killed once, and the run then ends as asked."""
  folder = fleet.folder.parent / "train"
  folder.mkdir()
  config = folder / "config.json"
  config.write_text(to_json(make_config(workers=2)))
  ledger = folder / "ledger"
  ledger.mkdir()
  command = slipstream("train", f"--config={config}", f"--run_root={folder / 'runs'}")
  with (folder / "log").open("wb") as log:
    process = spawn(command, environment(**{LEDGER: str(ledger)}), log)
  try:
    return _kill_each(folder, process)
  finally:
    if process.poll() is None:
      process.kill()
      process.wait()
    for left in processes_with(str(folder)):
      with contextlib.suppress(psutil.Error):
        left.kill()


def _kill_each(folder: pathlib.Path, process: "subprocess.Popen[bytes]") -> Outcome:
  def status() -> dict[str, object]:
    try:
      found: dict[str, object] = json.loads(next((folder / "runs").glob("*/*/status.json")).read_text())
    except (StopIteration, OSError, ValueError):
      return {}
    return found

  def updates() -> int:
    return int(str(status().get("gradient_steps", 0)))

  wait_for(lambda: updates() > 0, "the local run learns", START_SECONDS)
  times = []
  for command in ("act", "evaluate", "learn", "serve", "launch.fork_server"):
    victims = [
      child
      for child in psutil.Process(process.pid).children(recursive=True)
      if command in child.cmdline() and child.cmdline()[1:2] == ["-m"]  # No supervisor.
    ]
    if not victims:
      raise CaseFailed(f"the local run has no process of '{command}'")
    victims[0].kill()
    time.sleep(1)
    before = updates()
    rises = functools.partial(_differs, updates, before)
    times.append(wait_for(rises, f"gradient steps rise after the end of '{command}'"))
    if process.poll() is not None:
      raise CaseFailed(f"the run ended with {process.returncode} when '{command}' was killed")
  process.send_signal(signal.SIGINT)
  code = process.wait(60)
  last = status()
  left = [str(one.pid) for one in processes_with(str(folder))]
  if left:
    raise CaseFailed(f"processes are left: {', '.join(left)}")
  run_dir = next((folder / "runs").glob("*/*/status.json")).parent
  rows = len(read_rows(run_dir))
  return Outcome(
    None, max(times), None, f"lives {last.get('lives')}, exit code {code}, {rows:,} rows in the last snapshot"
  )


def _differs(value: Callable[[], int], before: int) -> bool:
  return value() != before


CASES = [
  Case("kill", "SIGKILL of a worker", _new_seeds, WORKER_SECONDS),
  Case("kill", "SIGKILL of all workers", lambda fleet: _kill(fleet, fleet.workers)),
  Case("kill", "SIGKILL of the evaluator", lambda fleet: _kill(fleet, ["evaluator"])),
  Case("kill", "SIGKILL of the learner", lambda fleet: _kill(fleet, ["learner"])),
  Case("kill", "SIGKILL of the server", lambda fleet: _kill(fleet, ["server"])),
  Case("kill", "SIGTERM to the server", lambda fleet: _kill(fleet, ["server"], signal.SIGTERM, 143)),
  Case("kill", "SIGTERM to a worker", lambda fleet: _kill(fleet, ["actor_1"], signal.SIGTERM, 143), WORKER_SECONDS),
  Case("kill", "SIGTERM to the learner", lambda fleet: _kill(fleet, ["learner"], signal.SIGTERM, 143)),
  Case("kill", "the learner is paused for 60 s, a second one starts, the first goes on", _pause_learner),
  Case("kill", "two learners start in one second", _two_learners),
  Case(
    "kill",
    "messages of a newer release, rows of NaN, of another shape and layout, and with a priority of 1e30",
    _poison,
  ),
  Case("kill", "the clocks of server, learner and a worker are an hour ahead", lambda fleet: _shift_clock(fleet, 3600)),
  Case(
    "kill", "the clocks of server, learner and a worker are an hour behind", lambda fleet: _shift_clock(fleet, -3600)
  ),
  Case("kill", "20 times a worker is attached and leaves", _cycle_attached),
  Case("kill", "all workers of `attach` are killed", _kill_attached),
  Case("kill", "a local run, each of whose processes is killed once, the fork server too", _train),
]
