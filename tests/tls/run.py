"""A run over TLS on several hosts, each with a name of its own."""

import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import psutil

from configs import to_json
from tests.certificates import Authority, make_expired
from tests.faults.fleet import (
  ALLOW,
  CaseFailed,
  Role,
  environment,
  make_config,
  processes_with,
  run,
  slipstream,
  wait_for,
)
from tests.faults.lab import Host

START_SECONDS = 240.0
_PORT = 8000
_WORKERS = 2
_TRY = """
import sys
from replay_server.contract.probes import is_reachable_without_tls
print(is_reachable_without_tls(sys.argv[1]))
"""


class TlsRun:
  """A server on the first host, a learner and an evaluator on the second, workers on the third; the fourth is an intruder's.

  Attributes:
    folder: of everything that is written.
    ours: the run's CA.
    theirs: another one.
    address: of the server.
    server_host: its host.
    roles: name -> role.
    run_dir: the server's.
  """

  def __init__(self, folder: pathlib.Path, hosts: Sequence[Host]):
    """Makes the certificates and the config; `start` starts the roles."""
    self.folder = folder
    self.run_dir = folder / "run"
    self._hosts = hosts
    self._temporary = folder / "tmp"
    self._temporary.mkdir()
    self.server_host = hosts[0]
    self.address = f"{hosts[0].address}:{_PORT}"
    self.ours, self.theirs = Authority(folder / "ours"), Authority(folder / "theirs")
    self.ours.run("server", hosts[0].address)
    self.ours.run("role", "learner", "evaluator", "alice", "former", *(f"actor-{index}" for index in range(_WORKERS)))
    self.ours.run("revoke", "former")
    make_expired(self.ours)
    self.theirs.run("role", "mallory")
    config = folder / "config.json"
    config.write_text(to_json(make_config(_WORKERS)))
    self._serve = ["serve", f"--config={config}", f"--run_dir={self.run_dir}", f"--port={_PORT}"]
    self._serve += [*self.ours.flags("server"), f"--tls_crl={self.ours.crl}"]
    # Nobody starts again what has lost its server, and a server that is started again may take long on a busy machine.
    at = f"--server={self.address} --server_timeout={START_SECONDS:g}".split()
    self.roles = {"server": self._role("server", 0, self._serve)}
    self._add("learner", 1, ["learn", *at, f"--run_dir={folder / 'learner'}"])
    self._add("evaluator", 1, ["evaluate", *at, ALLOW])
    for index in range(_WORKERS):
      self._add(f"actor-{index}", 2, ["act", *at, ALLOW, f"--index={index}"])

  def _add(self, name: str, host: int, words: list[str]) -> None:
    self.roles[name] = self._role(name, host, [*words, *self.ours.flags(name)])

  def _role(self, name: str, host: int, words: list[str]) -> Role:
    # A network namespace has its machine's host name, by which the status would name all hosts alike.
    command = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', f"host-{host + 1}", *slipstream(*words)]
    return Role(name, command, self._hosts[host], self._environment(), self.folder / f"{name}.log")

  def _environment(self) -> dict[str, str]:
    return environment(TMPDIR=str(self._temporary))

  def serve_again(self, *flags: str) -> Role:
    """Starts the server again, with further flags."""
    role = self.roles["server"] = self._role("server", 0, [*self._serve, *flags])
    role.start()
    return role

  def status(self) -> Mapping[str, Any]:
    """The last one in the run directory; empty before the first."""
    try:
      status: Mapping[str, Any] = json.loads((self.run_dir / "status.json").read_text())
    except (OSError, ValueError):
      return {}
    return status

  def wait_for_progress(self) -> float:
    """Waits until environment steps and gradient steps rise; returns the seconds that it took.

    Raises:
      CaseFailed: they do not.
    """
    keys = ("environment_steps", "gradient_steps")
    before = [self.status().get(key, 0) for key in keys]

    def rises() -> bool:
      return all(self.status().get(key, 0) > was for key, was in zip(keys, before, strict=True))

    try:
      return wait_for(rises, "steps and gradient steps rise", START_SECONDS)
    except CaseFailed as error:
      words = "; ".join(f"{name}: {role.last_words()[-300:]!r}" for name, role in self.roles.items())
      raise CaseFailed(f"{error} ({words})") from None

  def wait_for_word(self, role: str, text: str, seconds: float = 90.0) -> float:
    """Waits until the log of a role holds `text`; returns the seconds that it took."""
    log = self.roles[role].log
    return wait_for(lambda: text in log.read_text(errors="replace"), f"the log of {role} says {text!r}", seconds)

  def wait_for_end(self, role: str, seconds: float = 120.0) -> int:
    """Waits until the process of a role ends; returns its exit code."""
    process = self.roles[role].process
    assert process is not None
    try:
      return process.wait(seconds)
    except subprocess.TimeoutExpired:
      raise CaseFailed(f"{role} has not ended within {seconds:g} s: {self.roles[role].last_words()!r}") from None

  def command(self, *words: str, host: int = 3, seconds: float = START_SECONDS) -> "subprocess.CompletedProcess[str]":
    """Runs a `slipstream` command on a host, by default the intruder's."""
    return run(self._hosts[host].command(slipstream(*words)), seconds, self._environment())

  def knock(self, *pair: pathlib.Path) -> str:
    """What the server answers to a client on the intruder's host that does not check its own certificate."""
    words = [sys.executable, "-m", "tests.tls.intruder", self.address, str(self.ours.ca), *map(str, pair)]
    return run(self._hosts[3].command(words), START_SECONDS, self._environment()).stdout.strip()

  def try_without_tls(self, place: str) -> str:
    """What the intruder's host finds at "host:port": "True" if it reaches tables there without TLS, else "False"."""
    words = [sys.executable, "-c", _TRY, place]
    return run(self._hosts[3].command(words), START_SECONDS, self._environment()).stdout.strip()

  def stunnel_of(self, role: str) -> psutil.Process:
    """The stunnel of a role."""
    return next(child for child in psutil.Process(self.roles[role].pid).children() if "stunnel" in child.name())

  def on_server(self, *command: str) -> None:
    """Runs a command of the system on the server's host."""
    subprocess.run(self.server_host.command(command), check=True, timeout=30, capture_output=True)

  def left(self) -> list[str]:
    """Processes and files that should not be there once everything has ended."""
    processes = [f"process {process.pid}" for process in processes_with(str(self.folder))]
    processes += [f"process {pid} on {host.address}" for host in self._hosts for pid in host.pids()]
    return [*processes, *(str(path) for path in self._temporary.iterdir() if path.is_socket())]

  def kill(self) -> None:
    """Ends whatever still runs."""
    for role in self.roles.values():
      if role.process is not None:
        with contextlib.suppress(ProcessLookupError):
          role.process.kill()
        role.process.wait()
    for host in self._hosts:
      host.kill_all()
