"""Pods as podman plays them, on a network and with volumes of their own.

A Job's template becomes a Pod, with what the Job's controller and the cluster would add: the index of an Indexed Job, and the
Service's name, which always stands for one address.
"""

import contextlib
import copy
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from tests.kubernetes.manifests import Manifest, container_of, job_of, of_kind

CONTAINER = "slipstream"
SERVER = "slipstream-server"
_PREFIX = "slipkube"
_SETTINGS = pathlib.Path(__file__).with_name("containers.conf")
_PROGRAMS = {
  "podman": "podman",
  "runc": "runc",
  "netavark": "netavark",
  "iptables": "iptables",
  "catatonit": "catatonit",
}
_PLACES = ("/usr/lib/podman", "/usr/libexec/podman", "/usr/local/lib/podman", "/usr/sbin", "/sbin")
_GROUP = 1000  # The fsGroup of the manifests.
_COMMAND_SECONDS = 120
_POLL_SECONDS = 0.5


class CaseFailed(AssertionError):
  """What a case waited for did not happen."""


def why_impossible() -> str:
  """Why no pod can be played here, as a sentence; empty if they can."""
  if os.geteuid() != 0:
    return "Pods need root: run 'sudo make test-kubernetes', or 'make test-kubernetes ARGS=render' without them."
  path = os.pathsep.join([os.environ.get("PATH", ""), *_PLACES])
  missing = [package for program, package in _PROGRAMS.items() if shutil.which(program, path=path) is None]
  if missing:
    return f"{', '.join(missing)} cannot be found: install Debian's packages {' '.join(_PROGRAMS.values())}."
  return ""


def wait_until(holds: Callable[[], bool], what: str, seconds: float) -> float:
  """Waits for a condition; returns how long it took, in seconds.

  Raises:
    CaseFailed: it does not hold in time.
  """
  began = time.monotonic()
  while not holds():
    if time.monotonic() - began > seconds:
      raise CaseFailed(f"{what}: not within {seconds:g} s")
    time.sleep(_POLL_SECONDS)
  print(f"  [{time.strftime('%H:%M:%S')}] {what}: after {time.monotonic() - began:.1f} s", flush=True)
  return time.monotonic() - began


@dataclasses.dataclass(frozen=True)
class Pod:
  """A pod that is played.

  Attributes:
    engine: that plays it.
    name: of the pod.
    container: name of the container in it that is asked.
  """

  engine: "Engine"
  name: str
  container: str = CONTAINER

  @property
  def _full_name(self) -> str:
    return f"{self.name}-{self.container}"

  def inspect(self) -> Mapping[str, Any]:
    """What podman knows of the container."""
    (found,) = json.loads(self.engine.podman("container", "inspect", self._full_name))
    known: Mapping[str, Any] = found
    return known

  def is_running(self) -> bool:
    """Whether the container runs."""
    return bool(self.inspect()["State"]["Running"])

  def exit_code(self, seconds: float) -> int:
    """Waits for the container's end.

    Raises:
      CaseFailed: it goes on.
    """
    wait_until(lambda: not self.is_running(), f"{self._full_name} ends", seconds)
    return int(self.inspect()["State"]["ExitCode"])

  def log(self) -> str:
    """What the container has printed."""
    return self.engine.podman("logs", self._full_name, merge=True)

  def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command in the container."""
    return self.engine.try_podman("exec", self._full_name, *command)

  def stop(self, seconds: int) -> None:
    """Sends SIGTERM, and SIGKILL after `seconds`, as a cluster does; the container stays as it ended."""
    self.engine.podman("stop", "--time", str(seconds), self._full_name, timeout=seconds + _COMMAND_SECONDS)

  def kill(self) -> None:
    """Kills the container, which then stays as it ended: nobody starts it again."""
    self.engine.podman("kill", self._full_name)

  def start_again(self) -> None:
    """Starts the container that has ended, as a kubelet does with a sidecar."""
    self.engine.podman("start", self._full_name)

  def remove(self) -> None:
    """Ends the pod; its volumes stay."""
    self.engine.podman("pod", "rm", "--force", "--time", "1", self.name)


class Engine:
  """Plays pods; everything that it makes has its prefix in the name, and is gone after `close`.

  Attributes:
    folder: for files of its pods.
    server_address: the IP address for the server's pods, for which the Service's name stands.
  """

  def __init__(self, folder: pathlib.Path, image: str):
    """Makes the network.

    Args:
      folder: for the files of pods, and their hosts' files.
      image: that stands for all images of the manifests.

    Raises:
      CaseFailed: podman cannot make it.
    """
    self.folder, self._image = folder, image
    self._name = f"{_PREFIX}-{os.getpid()}"
    sweep()
    self.podman("network", "create", self._name)
    (network,) = json.loads(self.podman("network", "inspect", self._name))
    subnet = network["subnets"][0]["subnet"]
    self.server_address = re.sub(r"\.\d+/\d+$", ".100", subnet)

  def logs(self) -> str:
    """The last lines of every container of every pod, for a case that has failed."""
    listed = self.try_podman("ps", "--all", "--format", "{{.Names}}").stdout.split()
    names = [name for name in listed if name.startswith(f"{self._name}-") and not name.endswith("-infra")]
    return "".join(f"--- {name}\n{self._tail(name)}\n" for name in names)

  def _tail(self, name: str) -> str:
    done = self.try_podman("logs", "--tail", "20", name)
    return (done.stdout + done.stderr).strip()

  def close(self) -> None:
    """Removes pods, volumes and network."""
    remove(self._name)

  def try_podman(self, *arguments: str, timeout: float = _COMMAND_SECONDS) -> "subprocess.CompletedProcess[str]":
    """Runs podman."""
    return _podman(*arguments, timeout=timeout)

  def podman(self, *arguments: str, timeout: float = _COMMAND_SECONDS, merge: bool = False) -> str:
    """Runs podman; returns its output, with standard error behind it if `merge` says so.

    Raises:
      CaseFailed: it fails.
    """
    done = self.try_podman(*arguments, timeout=timeout)
    if done.returncode:
      raise CaseFailed(f"podman {' '.join(arguments[:3])}: {done.stderr.strip()[-500:]}")
    return done.stdout + done.stderr if merge else done.stdout

  def play(self, name: str, manifests: Sequence[Manifest], address: str = "") -> Pod:
    """Plays one Pod and what belongs to it.

    Args:
      name: of the pod, without the engine's prefix.
      manifests: the Pod and its ConfigMaps and claims.
      address: its IP address; empty takes any.

    Raises:
      CaseFailed: podman refuses it.
    """
    full = f"{self._name}-{name}"
    made = [self._adapted(manifest, full) for manifest in manifests if not self._is_bound(manifest)]
    path = self.folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump_all(made))
    place = ["--ip", address] if address else []
    began = time.monotonic()
    self.podman("kube", "play", "--network", self._name, *place, str(path))
    print(f"  [{time.strftime('%H:%M:%S')}] {name} is played ({time.monotonic() - began:.1f} s)", flush=True)
    return Pod(self, full)

  def _is_bound(self, manifest: Manifest) -> bool:
    """Whether this is a claim that has its volume already, which podman would refuse."""
    if manifest["kind"] != "PersistentVolumeClaim":
      return False
    return self.try_podman("volume", "exists", self.volume(manifest["metadata"]["name"])).returncode == 0

  def _adapted(self, manifest: Manifest, pod: str) -> dict[str, Any]:
    """With names and images of this engine: podman has one place for all volumes, and knows neither Secrets nor sidecars."""
    made: dict[str, Any] = copy.deepcopy(dict(manifest))
    if made["kind"] == "PersistentVolumeClaim":
      made["metadata"]["name"] = self.volume(made["metadata"]["name"])
    if made["kind"] == "ConfigMap":
      made["metadata"]["name"] = f"{pod}-{made['metadata']['name']}"
    if made["kind"] == "Pod":
      made["metadata"]["name"] = pod
      made["spec"].setdefault("hostAliases", [{"ip": self.server_address, "hostnames": [SERVER]}])
      made["spec"]["containers"] = [*_sidecars_of(made), *made["spec"]["containers"]]
      for container in made["spec"]["containers"]:
        container["image"] = self._image
        container.pop("ports", None)  # Podman would take them on this host.
        for mount in container.get("volumeMounts", ()):
          mount["name"] = f"{pod}-{mount['name']}"
      for volume in made["spec"].get("volumes", ()):
        self._adapt_volume(volume, pod)
    return made

  def _adapt_volume(self, volume: dict[str, Any], pod: str) -> None:
    volume["name"] = f"{pod}-{volume['name']}"
    if "persistentVolumeClaim" in volume:
      claim = volume["persistentVolumeClaim"]
      claim["claimName"] = self.volume(claim["claimName"])
    if "configMap" in volume:
      volume["configMap"]["name"] = f"{pod}-{volume['configMap']['name']}"
    if "secret" in volume:
      volume["hostPath"] = {"path": str(self._secret(volume.pop("secret"))), "type": "Directory"}

  def files_in(self, claim: str) -> list[str]:
    """What lies on a claim's volume, without what is in its folders."""
    place = self.podman("volume", "inspect", "--format", "{{.Mountpoint}}", self.volume(claim)).strip()
    return sorted(path.name for path in pathlib.Path(place).iterdir())

  def add_secret(self, name: str, files: Mapping[str, pathlib.Path]) -> None:
    """Gives pods a Secret: key -> file with its value."""
    folder = self.folder / "secrets" / name
    folder.mkdir(parents=True, exist_ok=True)
    for key, file in files.items():
      shutil.copy(file, folder / key)

  def _secret(self, secret: Manifest) -> pathlib.Path:
    """The folder of a Secret's files, with the owner and the rights that a kubelet gives them for the group 1000."""
    folder: pathlib.Path = self.folder / "secrets" / secret["secretName"]
    for file in folder.iterdir():
      os.chown(file, 0, _GROUP)
      file.chmod(secret["defaultMode"])
    for place in (folder, folder.parent, self.folder):
      place.chmod(0o755)
    return folder

  def volume(self, claim: str) -> str:
    """The name of the volume for a claim."""
    return f"{self._name}-{claim}"


def pod_of(manifests: Sequence[Manifest], role: str, config: str = "", index: int = 0) -> list[Manifest]:
  """A Pod from a role's template, with the ConfigMaps and claims of the run.

  Args:
    manifests: a rendered overlay.
    role: of the Job.
    config: the text of the config in the ConfigMap; empty leaves the overlay's.
    index: of the pod in an Indexed Job.
  """
  job = job_of(manifests, role)
  template = copy.deepcopy(job["spec"]["template"])
  pod = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {**template["metadata"], "name": role},
    "spec": template["spec"],
  }
  config_maps = [copy.deepcopy(dict(found)) for found in of_kind(manifests, "ConfigMap").values()]
  for config_map in config_maps:
    config_map["data"] = {**config_map["data"], **({"config.json": config} if config else {})}
  container = pod["spec"]["containers"][0]
  variables = {variable["name"]: _value_of(variable, config_maps) for variable in container.get("env", ())}
  container["args"] = [_expanded(word, variables) for word in container["args"]]
  if job["spec"].get("completionMode") == "Indexed":
    variables["JOB_COMPLETION_INDEX"] = str(index)
  container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
  claims = [
    claim
    for name, claim in of_kind(manifests, "PersistentVolumeClaim").items()
    if any(volume.get("persistentVolumeClaim", {}).get("claimName") == name for volume in pod["spec"]["volumes"])
  ]
  return [*config_maps, *claims, pod]


def _sidecars_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
  """Takes a Pod's sidecars out of it, as containers: podman would wait for their end."""
  sidecars = pod["spec"].pop("initContainers", [])
  return [{key: value for key, value in sidecar.items() if key != "restartPolicy"} for sidecar in sidecars]


def _value_of(variable: Manifest, config_maps: Sequence[Manifest]) -> str:
  """The value of an environment variable of a container."""
  if "value" in variable:
    return str(variable["value"])
  source = variable["valueFrom"]["configMapKeyRef"]
  (found,) = [config_map for config_map in config_maps if config_map["metadata"]["name"] == source["name"]]
  return str(found["data"][source["key"]])


def _expanded(word: str, variables: Mapping[str, str]) -> str:
  """An argument, with the variables that it names as $(NAME): podman leaves that to the kubelet."""
  return re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word)


def probe_commands(manifests: Sequence[Manifest], role: str) -> dict[str, list[str]]:
  """Probe -> command, of a role's container."""
  container = container_of(job_of(manifests, role))
  return {name: container[name]["exec"]["command"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}


@contextlib.contextmanager
def engine(folder: pathlib.Path, image: str) -> Iterator[Engine]:
  """An engine that ends with the `with` statement."""
  with contextlib.closing(Engine(folder, image)) as made:
    yield made


def sweep() -> None:
  """Removes what engines of processes that are gone have left."""
  for kind in ("pod", "network", "volume"):
    listed = _podman(kind, "ls", "--format", "{{.Name}}").stdout
    for owner in {int(found) for found in re.findall(rf"^{_PREFIX}-(\d+)", listed, re.MULTILINE)}:
      if owner != os.getpid() and not pathlib.Path(f"/proc/{owner}").exists():
        remove(f"{_PREFIX}-{owner}")


def remove(prefix: str) -> None:
  """Removes all pods, networks and volumes with this prefix."""
  for kind, force in (("pod", ["--force", "--time", "1"]), ("network", ["--force"]), ("volume", ["--force"])):
    names = [
      name
      for name in _podman(kind, "ls", "--format", "{{.Name}}").stdout.split()
      if name == prefix or name.startswith(f"{prefix}-")
    ]
    if names:
      _podman(kind, "rm", *force, *names)


def environment() -> dict[str, str]:
  """Of podman."""
  return {**os.environ, "CONTAINERS_CONF": str(_SETTINGS)}


def _podman(*arguments: str, timeout: float = _COMMAND_SECONDS) -> "subprocess.CompletedProcess[str]":
  return subprocess.run(
    ["podman", *arguments],
    env=environment(),
    capture_output=True,
    text=True,
    timeout=timeout,
    check=False,
  )
