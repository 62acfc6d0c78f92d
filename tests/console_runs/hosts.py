"""The run on several hosts: each role a command of its own, consoles on some hosts and their workers on others."""

import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from configs import load_config, override
from tests.console_runs.local import CONSOLES, SETTINGS, capacity_for, read_status
from tests.console_runs.readings import Process, processes_of
from tests.console_runs.world import NOTES
from tests.faults.fleet import ALLOW, Fleet, Role, environment, slipstream
from tests.faults.lab import Host

# The server, the learner and the evaluator are on the first; consoles on two, workers on two.
HOSTS = 5
_FIRST_PORT = 9_000
_END_SECONDS = 120.0


class HostsRun(Fleet):
  """Server, learner and evaluator on one host, consoles on two, workers on two; what dies is started again on its host.

  Attributes:
    notes: of what the worlds note.
    stuck: empty; what ends is started again.
  """

  name = "five hosts"
  stuck = ""

  def __init__(self, folder: pathlib.Path, hosts: Sequence[Host], minutes: float):
    """Starts nothing yet; the tables have room for `minutes`."""
    self.notes = folder / "notes"
    self.notes.mkdir(parents=True)
    self._all = hosts
    self._addresses = [f"{self._console_host(n).address}:{_FIRST_PORT + n}" for n in range(CONSOLES)]
    self._poller: subprocess.Popen[bytes] | None = None
    changes = dict(setting.removeprefix("--config.").split("=", 1) for setting in SETTINGS[1:])
    changes |= {"replay.capacity": str(capacity_for(minutes)), "consoles.addresses": json.dumps(self._addresses)}
    config = override(load_config("slingshot"), changes)
    super().__init__(folder, CONSOLES - 1, hosts, config)

  def _console_host(self, number: int) -> Host:
    return self._all[1 + number % 2]

  def make_roles(self, workers: int) -> Iterator[Role]:
    """See `Fleet`."""
    server, first = f"--server={self.address}", self._all[0]
    yield self._new("server", first, *self.serve_command(self.run_dir))
    yield self._new("learner", first, "learn", server, f"--run_dir={self.folder / 'learner'}")
    world = self.config.environment.name
    for number, address in enumerate(self._addresses):
      host, _, port = address.rpartition(":")
      words = ("console", f"--world={world}", f"--host={host}", f"--port={port}", "--pace=real")
      yield self._new(f"console_{number}", self._console_host(number), *words)
    for index in range(workers):
      words = ("act", server, ALLOW, f"--index={index}", f"--console={self._addresses[index]}")
      yield self._new(f"actor_{index}", self._all[3 + index % 2], *words)
    evaluator = ("evaluate", server, ALLOW, f"--run_dir={self.folder / 'evaluator'}")
    yield self._new("evaluator", first, *evaluator, f"--console={self._addresses[-1]}")

  def _new(self, name: str, host: Host, *words: str) -> Role:
    return Role(name, slipstream(*words), host, environment(**{NOTES: str(self.notes)}), self.folder / f"{name}.log")

  def start(self) -> None:
    """Starts everything."""
    self.begin()

  def processes(self) -> list[Process]:
    """All processes of the run."""
    return processes_of(role.process.pid for role in self.roles.values() if role.process is not None)

  def poll(self, addresses: list[str], output: pathlib.Path, seconds: float) -> None:
    """As `LocalRun`'s, from the first host."""
    command = [sys.executable, "-m", "tests.console_runs.poll", str(seconds), *addresses]
    with output.open("ab") as file:
      self._poller = self._all[0].popen(command, environment(), file)

  def status(self) -> dict[str, Any]:
    """The last one in the server's run directory; empty before the first."""
    return read_status(self.run_dir)

  def stop(self) -> str:
    """Ends the run by `slipstream stop`, and then the consoles; returns why that was not in good order, or ""."""
    self.leave_alone()
    done = self.run_command("stop", f"--server={self.address}", "--yes")
    deadline = time.monotonic() + _END_SECONDS
    codes: dict[str, int | None] = {}
    for name, role in self.roles.items():
      if role.process is None:
        continue
      if name.startswith("console"):
        role.process.terminate()
      try:
        codes[name] = role.process.wait(max(0.1, deadline - time.monotonic()))
      except subprocess.TimeoutExpired:
        codes[name] = None
    wrong = {name: code for name, code in codes.items() if code not in (0, 143)}
    return f"slipstream stop: {done.returncode}; {wrong}" if wrong or done.returncode else ""

  def kill(self) -> None:
    """See `Fleet`."""
    if self._poller is not None and self._poller.poll() is None:
      self._poller.kill()
      self._poller.wait()
    super().kill()
