"""Finds what is wrong with this machine, or with an address, and what to do about it."""

import dataclasses
import importlib.metadata
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import psutil

from configs import ServerLost, UserError
from configs.processors import usable_cores
from configs.versions import installed_version, library_versions
from launch import gpu

if TYPE_CHECKING:
  from launch.endpoint import Endpoint
  from replay_server.contract.connection import Connection

State = Literal["ok", "note", "wrong"]

_REACH_SECONDS = 5.0
# At the first start on a new GPU, the driver translates TensorFlow's kernels.
_CALCULATION_SECONDS = 600.0
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)$")
_HOW_TO_INSTALL = "run 'make gpu', which installs the wheels of the dependency group gpu"


@dataclasses.dataclass(frozen=True)
class Finding:
  """The result of one check.

  Attributes:
    name: what was checked.
    state: "wrong" if it keeps a run from working, "note" if it is only worth knowing.
    text: what was found, and what to do about it.
  """

  name: str
  state: State
  text: str


def examine_machine() -> list[Finding]:
  """Checks the machine, Python, and the packages that are pinned to one version."""
  machine = f"{platform.system()} on {platform.machine()}"
  is_supported = sys.platform == "linux" and platform.machine() == "x86_64"
  python = platform.python_version()
  memory = psutil.virtual_memory()
  return [
    Finding("platform", "ok", machine)
    if is_supported
    else Finding("platform", "wrong", f"{machine}: Reverb and Launchpad run only on Linux on x86-64."),
    Finding("Python", "ok", python)
    if sys.version_info[:2] == (3, 10)
    else Finding("Python", "wrong", f"{python}: Slipstream needs 3.10: run make env, which makes a .venv with it."),
    Finding("processors", "ok", _processors()),
    Finding("memory", "ok", f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"),
    *examine_packages(importlib.metadata.requires("slipstream") or ()),
  ]


def _processors() -> str:
  cores, allowed = usable_cores(), len(os.sched_getaffinity(0))
  if cores == allowed:
    return f"{allowed} cores for this process"
  return f"{cores:.3g} cores for this process, by the CPU quota of its control group; it may run on {allowed}"


def examine_packages(requirements: Iterable[str]) -> list[Finding]:
  """Checks the installed version of each requirement that is pinned to one version; the others are skipped."""
  findings = []
  for requirement in requirements:
    pinned = _PINNED.match(requirement)
    if pinned is None:
      continue
    name, wanted = pinned.groups()
    try:
      found = installed_version(name)
    except importlib.metadata.PackageNotFoundError:
      findings.append(Finding(name, "wrong", f"not installed, but {wanted} is needed: run make env."))
      continue
    if found == wanted:
      findings.append(Finding(name, "ok", found))
    else:
      findings.append(Finding(name, "wrong", f"{found} is installed, but {wanted} is needed: run make env."))
  return findings


def examine_gpu() -> list[Finding]:
  """Checks the driver, the CUDA libraries, and whether TensorFlow sees a GPU."""
  driver = gpu.load_driver()
  if driver.problem:
    return [Finding("GPU", "note", "no NVIDIA driver on this machine: learners use the CPU.")]
  findings = [Finding("NVIDIA driver", "ok", driver.name)]
  libraries = gpu.load_libraries()
  for library in libraries:
    if not library.problem:
      findings.append(Finding(library.name, "ok", library.place))
    elif library.place:
      findings.append(Finding(library.name, "wrong", f"{library.place} cannot be loaded ({library.problem})."))
    else:
      findings.append(Finding(library.name, "wrong", f"not found: {_HOW_TO_INSTALL}."))
  return [*findings, _examine_devices(all_loaded=not any(library.problem for library in libraries))]


def _examine_devices(all_loaded: bool) -> Finding:
  import tensorflow as tf

  devices = tf.config.list_physical_devices("GPU")
  if devices:
    names = [tf.config.experimental.get_device_details(device).get("device_name", "unnamed") for device in devices]
    seen = f"sees {', '.join(f'GPU:{index} ({name})' for index, name in enumerate(names))}"
    problem = problem_of([sys.executable, "-m", "launch.first_calculation"])
    if problem:
      return Finding("TensorFlow", "wrong", f"{seen}, but a calculation there {problem}.")
    return Finding("TensorFlow", "ok", f"{seen} and computes there")
  if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
    return Finding("TensorFlow", "note", "sees no GPU, because CUDA_VISIBLE_DEVICES hides all of them.")
  why = "although all libraries were loaded: see TensorFlow's log." if all_loaded else "because libraries are missing."
  return Finding("TensorFlow", "wrong", f"sees no GPU, {why}")


def problem_of(command: Sequence[str], timeout_seconds: float = _CALCULATION_SECONDS) -> str:
  """What went wrong in a process, as the end of a sentence; empty if it ended with 0."""
  try:
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout_seconds)
  except subprocess.TimeoutExpired:
    return f"took longer than {timeout_seconds:g} s"
  if ended.returncode == 0:
    return ""
  last = next((line.strip() for line in reversed(ended.stderr.splitlines()) if line.strip()), "it said nothing")
  return f"failed, exit code {ended.returncode} ({last})"


def examine_server(endpoint: "Endpoint") -> list[Finding]:
  """Checks what answers at a server's address, step by step: the name, the port, the server, and its run.

  Raises:
    UserError: the TLS tunnel cannot be started, or no run directory names the server.
  """
  from launch.endpoint import connected
  from launch.server_place import address_of
  from replay_server.contract.probes import split_address

  endpoint = dataclasses.replace(endpoint, address=address_of(endpoint.address))
  host, port = split_address(endpoint.address)
  try:
    socket.create_connection((host, port), timeout=_REACH_SECONDS).close()
  except socket.gaierror:
    return [Finding("address", "wrong", f"the name {host!r} is unknown here: check it, or write an IP address.")]
  except ConnectionRefusedError:
    return [
      Finding(
        "address",
        "wrong",
        f"{host} is reachable, but nobody listens on port {port}: start a server, or check the port.",
      )
    ]
  except OSError as error:
    return [
      Finding("address", "wrong", f"{host}:{port} cannot be reached ({error}): check the network and the firewall.")
    ]
  with connected(endpoint) as connection:
    return [Finding("address", "ok", f"something listens on {endpoint.address}"), *_examine_run(connection)]


def _examine_run(connection: "Connection") -> list[Finding]:
  from replay_server.contract.run import read_live_status, read_manifest

  try:
    connection.info()
    manifest = read_manifest(connection)
  except ServerLost as error:
    return [Finding("server", "wrong", connection.refusal() or str(error))]
  except UserError as error:
    return [Finding("server", "wrong", str(error))]
  if manifest is None:
    sentence = "the replay server starts, or writes a checkpoint: try again in a minute, and then see its log."
    return [Finding("server", "wrong", sentence)]
  findings = [Finding("server", "ok", f"run {manifest.run_id} ({manifest.config.name})")]
  others = {name: theirs for name, theirs in manifest.versions.items() if library_versions().get(name) != theirs}
  if others:
    named = ", ".join(f"{name} {version}" for name, version in others.items())
    findings.append(Finding("versions", "wrong", f"the server has {named}: use the same release on both sides."))
  else:
    findings.append(Finding("versions", "ok", "the server and this machine have the same versions"))
  status = read_live_status(connection)
  if status is None:
    findings.append(Finding("status", "wrong", "the server has written no status: see its log."))
  else:
    findings.append(Finding("status", "ok", f"{status.phase}, {status.environment_steps:,} environment steps"))
  return findings
