"""Several hosts on this one machine: network namespaces on a bridge of their own. Needs root and Linux.

The bridge lies in a namespace of its own, so no firewall rule of the machine touches the traffic. Everything that a lab makes is
removed at its end; what a killed one left is removed by the next.
"""

import atexit
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_PREFIX = "slipfaults"
_NETWORK = "10.77.0"
_COMMAND_SECONDS = 30
_KILL_SECONDS = 10.0


def why_impossible() -> str:
  """Why this machine can have no lab, as a sentence; empty if it can."""
  if os.geteuid() != 0:
    return "Network namespaces need root: run 'sudo make test-faults', or 'make test-faults ARGS=kill' without them."
  if shutil.which("ip") is None:
    return "There is no command 'ip': install the package iproute2."
  probe = f"{_PREFIX}-{os.getpid()}-probe"
  made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, timeout=_COMMAND_SECONDS)
  if made.returncode:
    return f"This machine makes no network namespaces ({made.stderr.strip()}): use one where root may do so."
  subprocess.run(["ip", "netns", "del", probe], check=True, timeout=_COMMAND_SECONDS)
  return ""


def _ip(*arguments: str) -> None:
  done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=_COMMAND_SECONDS)
  if done.returncode:
    raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


class Host:
  """One host of a lab.

  Attributes:
    index: from 1.
    address: IPv4.
    namespace: its network namespace.
  """

  def __init__(self, lab: str, index: int):
    """Makes the host and connects it; `lab` is the lab's name."""
    self.index = index
    self.address = f"{_NETWORK}.{index}"
    self.namespace = f"{lab}-h{index}"
    self._switch = f"{lab}-sw"
    self._port = f"p{index}"
    self._connect()

  def _connect(self) -> None:
    # The same hardware address after a loss of power, as with a real machine: the others' ARP entries stay right.
    mac = f"02:53:4c:00:00:{self.index:02x}"
    _ip("netns", "add", self.namespace)
    _ip(
      *("link", "add", "eth0", "address", mac, "netns", self.namespace),
      *("type", "veth", "peer", "name", self._port, "netns", self._switch),
    )
    _ip("-n", self._switch, "link", "set", self._port, "master", "br0", "up")
    _ip("-n", self.namespace, "link", "set", "lo", "up")
    _ip("-n", self.namespace, "addr", "add", f"{self.address}/24", "dev", "eth0")
    _ip("-n", self.namespace, "link", "set", "eth0", "up")

  def command(self, command: Sequence[str]) -> list[str]:
    """`command`, as it is run on this host."""
    return ["ip", "netns", "exec", self.namespace, *command]

  def popen(self, command: Sequence[str], env: Mapping[str, str], log: Any) -> "subprocess.Popen[bytes]":
    """Starts a process on this host in a session of its own, whose output goes to the file `log`."""
    return subprocess.Popen(
      self.command(command),
      env=dict(env),
      stdout=log,
      stderr=subprocess.STDOUT,
      stdin=subprocess.DEVNULL,
      start_new_session=True,
    )

  def cut(self) -> None:
    """Pulls the cable: both ends see that the carrier is lost."""
    _ip("-n", self._switch, "link", "set", self._port, "down")

  def join(self) -> None:
    """Plugs the cable in again."""
    _ip("-n", self._switch, "link", "set", self._port, "up")

  def hole(self) -> None:
    """Silence: the carrier stays, and no frame passes in either direction."""
    _ip("-n", self._switch, "link", "set", self._port, "nomaster")

  def unhole(self) -> None:
    """Ends the silence."""
    _ip("-n", self._switch, "link", "set", self._port, "master", "br0")

  def lose_power(self) -> None:
    """The host is gone at once, without a packet to anyone; `gain_power` makes it anew."""
    self.hole()
    self.kill_all()
    _ip("netns", "del", self.namespace)
    # Connections of killed processes keep the namespace for minutes, but not its cable.
    with contextlib.suppress(OSError):
      _ip("-n", self._switch, "link", "del", self._port)
    deadline = time.monotonic() + _KILL_SECONDS
    while self._port in _links(self._switch) and time.monotonic() < deadline:
      time.sleep(0.02)

  def gain_power(self) -> None:
    """The host is back with the same addresses, and runs nothing."""
    self._connect()

  def pids(self) -> list[int]:
    """Of the processes on this host."""
    found = subprocess.run(
      ["ip", "netns", "pids", self.namespace], capture_output=True, text=True, timeout=_COMMAND_SECONDS
    )
    return [int(pid) for pid in found.stdout.split()]

  def kill_all(self) -> None:
    """Kills every process on this host."""
    deadline = time.monotonic() + _KILL_SECONDS
    while (pids := self.pids()) and time.monotonic() < deadline:
      for pid in pids:
        with contextlib.suppress(ProcessLookupError):
          os.kill(pid, signal.SIGKILL)
      time.sleep(0.05)


def _links(namespace: str) -> str:
  return subprocess.run(
    ["ip", "-n", namespace, "-o", "link"], capture_output=True, text=True, timeout=_COMMAND_SECONDS
  ).stdout


class Lab:
  """Hosts 10.77.0.1, 10.77.0.2, ... on one switch.

  Attributes:
    hosts: in the order of their addresses.
  """

  def __init__(self, count: int):
    """Makes the switch and `count` hosts; `close` or the `with` statement of `lab` removes them.

    Raises:
      OSError: a namespace or a device cannot be made.
    """
    self._name = f"{_PREFIX}-{os.getpid()}"
    self._switch = f"{self._name}-sw"
    self.hosts: list[Host] = []
    atexit.register(self.close)
    sweep()
    try:
      _ip("netns", "add", self._switch)
      _ip("-n", self._switch, "link", "set", "lo", "up")
      _ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
      _ip("-n", self._switch, "link", "set", "br0", "up")
      for index in range(1, count + 1):
        self.hosts.append(Host(self._name, index))
    except BaseException:
      self.close()
      raise

  def close(self) -> None:
    """Kills what runs on the hosts and removes everything; may be called twice."""
    atexit.unregister(self.close)
    _remove(self._name)

  def left(self) -> list[int]:
    """Processes that still run on the hosts."""
    return [pid for host in self.hosts for pid in host.pids()]


@contextlib.contextmanager
def lab(count: int) -> Iterator[Lab]:
  """A lab of `count` hosts, which ends with the `with` statement."""
  with contextlib.closing(Lab(count)) as made:
    yield made


def sweep() -> None:
  """Removes the labs of processes that are gone."""
  owners = {int(found.group(1)) for name in _namespaces() if (found := re.match(rf"{_PREFIX}-(\d+)-", name))}
  for owner in owners:
    if owner != os.getpid() and not pathlib.Path(f"/proc/{owner}").exists():
      _remove(f"{_PREFIX}-{owner}")


def _namespaces() -> list[str]:
  listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, timeout=_COMMAND_SECONDS).stdout
  return [line.split()[0] for line in listed.splitlines() if line]


def _remove(name: str) -> None:
  for namespace in _namespaces():
    if not namespace.startswith(f"{name}-"):
      continue
    pids = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, timeout=_COMMAND_SECONDS)
    for pid in pids.stdout.split():
      with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", namespace], capture_output=True, timeout=_COMMAND_SECONDS)
