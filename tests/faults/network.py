"""Faults of the network and of machines: several hosts, joined by a switch that the case cuts, silences or robs of power."""

import contextlib
import functools
import pathlib
import signal
import time

from tests.faults.case import Case, Outcome, Row, chosen, try_cases
from tests.faults.fleet import CaseFailed, Fleet, Role, environment, slipstream, wait_for
from tests.faults.lab import Host, lab
from tests.faults.ledger import read_rows

_POWER_SECONDS = 2.4


def run(folder: pathlib.Path, only: str = "") -> list[Row]:
  """Tries the `chosen` cases on one run of seven hosts."""
  with lab(7) as hosts:
    return try_cases(chosen(CASES, only), Fleet(folder, hosts=hosts.hosts))


def _host(fleet: Fleet, role: str) -> Host:
  host = fleet.roles[role].host
  assert host is not None
  return host


def _disturb(fleet: Fleet, role: str, kind: str, seconds: float) -> Outcome:
  """Cuts or silences the host of a role for so long."""
  host = _host(fleet, role)
  begin, end = (host.cut, host.join) if kind == "cut" else (host.hole, host.unhole)
  exits = {name: len(one.exits) for name, one in fleet.roles.items()}
  begin()
  try:
    time.sleep(seconds)
  finally:
    end()
  steps, updates = fleet.recovery(time.time())
  restarted = [name for name, one in fleet.roles.items() if len(one.exits) > exits[name]]
  notes = f"started again: {', '.join(restarted)}" if restarted else "nothing was started again"
  return Outcome(steps, updates, fleet.judge.count(), notes)


def _lose_power(fleet: Fleet) -> float:
  """The server's host is off for 2.4 s, and the server is then started again; returns when all confirmed rows were safe."""
  safe = fleet.snapshot()
  host = _host(fleet, "server")
  with fleet.unsupervised("server"):
    host.lose_power()
    time.sleep(_POWER_SECONDS)
    host.gain_power()
  return safe


def _lose_power_busy(fleet: Fleet) -> Outcome:
  safe = _lose_power(fleet)
  steps, updates = fleet.recovery(time.time())
  return Outcome(steps, updates, fleet.judge.count(before=safe))


def _lose_power_waiting(fleet: Fleet) -> Outcome:
  """The learner waits for rows, since all workers are dead; they come back only when the server does."""
  with fleet.unsupervised(*fleet.workers):
    fleet.signal(signal.SIGKILL, *fleet.workers)
    wait_for(functools.partial(_is_idle, fleet), "the learner waits for rows")
    safe = _lose_power(fleet)
    began = time.time()
  steps, updates = fleet.recovery(began)
  return Outcome(steps, updates, fleet.judge.count(before=safe))


def _is_idle(fleet: Fleet, seconds: float = 4.0) -> bool:
  before = fleet.gradient_steps()
  time.sleep(seconds)
  return fleet.gradient_steps() == before


def _serve_another(fleet: Fleet) -> Outcome:
  """Another run at the server's address; nothing of the old run may reach it."""
  safe = fleet.snapshot()
  other = fleet.folder / "other"
  with fleet.unsupervised(*fleet.roles):
    fleet.signal(signal.SIGKILL, "server")
    fleet.wait_ended("server")
    time.sleep(_POWER_SECONDS)
    role = Role(
      "other",
      slipstream(*fleet.serve_command(other)),
      _host(fleet, "server"),
      environment(),
      fleet.folder / "other.log",
    )
    role.start()
    try:
      ended = [fleet.wait_ended(name, 90) for name in ("learner", "evaluator", *fleet.workers)]
      words = fleet.roles["learner"].last_words()
      done = fleet.run_command("snapshot", f"--server={fleet.address}")
      if done.returncode:
        raise CaseFailed(f"the other run's server writes no snapshot: {done.stdout[-300:]}")
      foreign = len(read_rows(other))
    finally:
      role.end()
  if foreign:
    raise CaseFailed(f"{foreign} rows of the old run are in the other one")
  if set(ended) != {4}:
    raise CaseFailed(f"roles of the old run ended with {ended}; the learner's last words: {words!r}")
  steps, updates = fleet.recovery(time.time())
  return Outcome(steps, updates, fleet.judge.count(before=safe), "0 rows in the other run; all old roles ended with 4")


def _leave_a_host_dead(fleet: Fleet) -> Outcome:
  """A worker's machine loses power for good; the run goes on, and the machine's replacement joins."""
  host = _host(fleet, fleet.workers[-1])
  on_it = [name for name in fleet.workers if fleet.roles[name].host is host]
  others = [name for name in fleet.workers if name not in on_it]
  with contextlib.ExitStack() as stack:
    stack.enter_context(fleet.unsupervised(*on_it))
    host.lose_power()
    steps, updates = fleet.recovery(time.time(), workers=others)
    host.gain_power()
  fleet.recovery(time.time())
  return Outcome(steps, updates, fleet.judge.count())


CASES = [
  *(
    Case(
      "network",
      f"{'cable of the server cut' if kind == 'cut' else 'silence of the server'} for {seconds} s",
      functools.partial(_disturb, role="server", kind=kind, seconds=seconds),
    )
    for kind in ("cut", "hole")
    for seconds in (5, 20, 90)
  ),
  Case(
    "network", "silence of the learner for 20 s", functools.partial(_disturb, role="learner", kind="hole", seconds=20)
  ),
  Case(
    "network", "cable of two workers cut for 20 s", functools.partial(_disturb, role="actor_0", kind="cut", seconds=20)
  ),
  Case("network", "the server's host loses power for 2.4 s while the run is busy", _lose_power_busy),
  Case("network", "the server's host loses power for 2.4 s while the learner waits for rows", _lose_power_waiting),
  Case("network", "a worker's host loses power, and a new one takes its place", _leave_a_host_dead),
  Case("network", "another run is served at the address 2.4 s after the server was killed", _serve_another),
]
