"""What is tried with the pods: a run from its first start to its end, mistakes, shared networks, and the other overlays."""

import dataclasses
import json
import pathlib
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from configs import load_config, override, to_json
from configs.exit_codes import ExitCode
from tests.kubernetes.manifests import FOLDER, ROOT, Manifest, flag_of, job_of, load
from tests.kubernetes.pods import SERVER, CaseFailed, Engine, Pod, pod_of, probe_commands, wait_until

# For a busy machine; what it took is in the figures.
START_SECONDS = 600.0
STEPS_SECONDS = 300.0
END_SECONDS = 300.0
MISTAKE_SECONDS = 300.0
_RUN = "/runs/three_rooms"
_STARTED = 100
_STRANGER_SECONDS = 10
_AWAY_SECONDS = 5.0
_PLACES = "/ /home/slipstream /opt /opt/venv /usr/local/bin /var/tmp /etc /worlds /tmp"
_LOOK = f"""
cat /proc/1/status
written=
for place in {_PLACES}; do touch $place/written 2>/dev/null && written="$written $place"; done
echo "written: $written"
[ -e /var/run/secrets/kubernetes.io ] && echo token: there || echo token: none
"""
_CERTIFICATES = ROOT / "docker" / "tls" / "certificates.sh"

Overlays = Mapping[str, Sequence[Manifest]]


@dataclasses.dataclass(frozen=True)
class Case:
  """One thing to try.

  Attributes:
    done: what is done, in words.
    run: does it and returns what was measured, in words; raises CaseFailed if something does not hold.
  """

  done: str
  run: Callable[[Engine, Overlays], str]


def small_config() -> str:
  """A config like the preset's in a small world, whose goal is any evaluation of a policy that has learned something."""
  changes = {
    "environment.arguments.room_size": "2",
    "environment.arguments.time_limit": "12",
    "network.hidden_sizes": "[8]",
    "replay.default.min_size": "200",
    "actor.random_steps": "200",
    "learner.updates_per_block": "8",
    "evaluator.solved_event": "",
    "evaluator.solved_return": "-1000",
    "evaluator.solved_evaluations": "24",
    "evaluator.period_seconds": "0.5",
  }
  return to_json(override(load_config("three_rooms"), changes))


def status_of(server: Pod) -> dict[str, Any]:
  """The run's status, as the server last wrote it; empty before the first."""
  done = server.run("cat", f"{_RUN}/status.json")
  found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
  return found


def wait_for_steps(server: Pod, more_than: int, seconds: float = STEPS_SECONDS) -> float:
  """Waits until the run has taken more steps than this; returns the seconds."""
  return wait_until(
    lambda: status_of(server).get("environment_steps", 0) > more_than,
    f"more than {more_than} environment steps",
    seconds,
  )


def wait_for_probe(pod: Pod, command: Sequence[str], seconds: float) -> float:
  """Waits until a probe's command succeeds; returns the seconds."""

  def succeeds() -> bool:
    if not pod.is_running():
      raise CaseFailed(f"{pod.name} has ended with {pod.exit_code(1.0)}: {pod.log()[-500:]}")
    return pod.run(*command).returncode == 0

  return wait_until(succeeds, f"{pod.name}: {' '.join(command)}", seconds)


def check_confinement(pod: Pod, has_tmp: bool = True) -> None:
  """The container is what its securityContext says, as the kernel sees it.

  Args:
    pod: to look into.
    has_tmp: whether it may write to /tmp.

  Raises:
    CaseFailed: it is not.
  """
  said = pod.run("sh", "-c", _LOOK).stdout.splitlines()
  values = {name: value.split() for name, _, value in (line.partition(":") for line in said)}
  seen = {
    "user": values["Uid"] == ["1000"] * 4,
    "group": values["Gid"] == ["1000"] * 4,
    "no new privileges": values["NoNewPrivs"] == ["1"],
    "seccomp": values["Seccomp"] == ["2"],
    "capabilities": all(int(values[kind][0], 16) == 0 for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")),
    "read-only root": values["written"] == (["/tmp"] if has_tmp else []),
    "no token": values["token"] == ["none"],
  }
  wrong = [name for name, holds in seen.items() if not holds]
  if wrong:
    raise CaseFailed(f"{pod.name}: {', '.join(wrong)}: {said}")


def _expect_exit(pod: Pod, expected: int, seconds: float = END_SECONDS) -> None:
  code = pod.exit_code(seconds)
  if code != expected:
    raise CaseFailed(f"{pod.name} ended with {code}, and not {expected}: {pod.log()[-1_000:]}")


def _expect_start(pod: Pod, manifests: Sequence[Manifest], role: str) -> float:
  """Waits for every probe of a role; returns the seconds until the first one succeeded."""
  commands = probe_commands(manifests, role)
  seconds = wait_for_probe(pod, commands["startupProbe"], START_SECONDS)
  for name in ("livenessProbe", "readinessProbe"):
    wait_for_probe(pod, commands[name], START_SECONDS)
  check_confinement(pod)
  return seconds


def try_run(engine: Engine, overlays: Overlays) -> str:
  """A run whose server is drained, and which is solved after its next start."""
  manifests, config = overlays["cpu"], small_config()
  grace = job_of(manifests, "server")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]

  def play(role: str, index: int = 0, name: str = "") -> Pod:
    address = engine.server_address if role == "server" else ""
    return engine.play(name or f"{role}{index}", pod_of(manifests, role, config, index), address)

  # The clients first: each waits for its server.
  pods = {"learner": play("learner"), "actor": play("actor", 0), "actor 1": play("actor", 1), "server": play("server")}
  took = {name: _expect_start(pod, manifests, name.split()[0]) for name, pod in pods.items()}
  wait_for_steps(pods["server"], _STARTED)
  roles = {role["name"] for role in status_of(pods["server"])["roles"]}
  if roles != {"learner", "actor_0", "actor_1"}:
    raise CaseFailed(f"the server hears {sorted(roles)}")

  began = time.monotonic()
  pods["server"].stop(grace)
  drained = time.monotonic() - began
  _expect_exit(pods["server"], ExitCode.TERMINATED)
  gone = [name for name, pod in pods.items() if name != "server" and not pod.is_running()]
  if gone:
    raise CaseFailed(f"{', '.join(gone)} ended with the server")
  pods["server"].remove()
  pods["server"] = play("server", name="server-again")
  _expect_start(pods["server"], manifests, "server")
  wait_until(lambda: bool(status_of(pods["server"])), "the new server writes a status", STEPS_SECONDS)
  resumed = status_of(pods["server"])
  if not resumed["resumed_from"] or resumed["environment_steps"] < _STARTED:
    raise CaseFailed(f"the new server did not go on: {resumed['resumed_from']}, {resumed['environment_steps']} steps")
  again = wait_for_steps(pods["server"], resumed["environment_steps"])

  pods["evaluator"] = play("evaluator")
  took["evaluator"] = _expect_start(pods["evaluator"], manifests, "evaluator")
  for pod in pods.values():
    _expect_exit(pod, ExitCode.DONE)
  kept = _kept_files(engine)
  starts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in took.items())
  return (
    f"seconds until healthy: {starts}; server drained in {drained:.1f} s with 143; steps rose {again:.1f} s after its next "
    f"start; all ended with 0; {kept}"
  )


def _kept_files(engine: Engine) -> str:
  """Reads the volumes of the run through the pod of docker/kubernetes/results."""
  (manifest,) = load(FOLDER / "results" / "pod.yaml")
  pod = engine.play("results", [manifest])
  check_confinement(pod, has_tmp=False)
  for path in (
    "/runs/server/three_rooms/metrics.csv",
    "/runs/server/three_rooms/status.json",
    "/runs/learner/three_rooms/checkpoints/policy/latest.npz",
    "/runs/evaluator/three_rooms/checkpoints/policy/best.npz",
  ):
    if pod.run("test", "-s", path).returncode:
      raise CaseFailed(f"{path} is not there: {pod.run('find', '/runs', '-maxdepth', '4').stdout}")
  status = json.loads(pod.run("cat", "/runs/server/three_rooms/status.json").stdout)
  if status["phase"] != "solved":
    raise CaseFailed(f"the run is {status['phase']}")
  stopped = time.monotonic()
  pod.stop(30)
  if time.monotonic() - stopped > 10:
    raise CaseFailed("the results' pod does not end at SIGTERM")
  return f"solved after {status['environment_steps']:,} steps, all files on the three volumes"


def try_mistakes(engine: Engine, overlays: Overlays) -> str:
  """A ConfigMap that holds no config ends the server at once, and with it the Job."""
  manifests = overlays["cpu"]
  changed = json.loads(small_config())
  changed["replay"]["capacityy"] = 3
  told = []
  mistakes = (
    ('{"name": ', "config.json is not JSON"),
    (json.dumps(changed), "'replay.capacityy'"),
    ("[]", "config.json"),
  )
  for number, (config, expected) in enumerate(mistakes):
    began = time.monotonic()
    pod = engine.play(f"mistake{number}", pod_of(manifests, "server", config))
    _expect_exit(pod, ExitCode.MISTAKE, MISTAKE_SECONDS)
    seconds, log = time.monotonic() - began, pod.log().strip().splitlines()
    if pod.inspect()["RestartCount"] != 0:
      raise CaseFailed(f"podman started {pod.name} again")
    if expected not in log[-1] or "Traceback" in pod.log():
      raise CaseFailed(f"{pod.name} said {log}")
    told.append(f"{seconds:.1f} s: {log[-1]}")
  left = engine.files_in(SERVER)
  if left:
    raise CaseFailed(f"the mistakes left {left} on the server's volume")
  pod = engine.play("mistake-index", _with_index(pod_of(manifests, "actor"), "first"))
  _expect_exit(pod, ExitCode.MISTAKE, MISTAKE_SECONDS)
  return f"all with 2, started once: {told[1]}"


def _with_index(documents: list[Manifest], value: str) -> list[Manifest]:
  for variable in documents[-1]["spec"]["containers"][0]["env"]:
    variable["value"] = value
  return documents


def try_shared_network(engine: Engine, overlays: Overlays) -> str:
  """A server and a worker in one pod: one network, where both have the same process ids of their own, over loopback."""
  manifests, config = overlays["cpu"], small_config()
  documents = pod_of(manifests, "server", config)
  spec = documents[-1]["spec"]
  worker = pod_of(manifests, "actor", config)[-1]["spec"]["containers"][0]
  port = flag_of(job_of(manifests, "actor"), "metrics_port")
  worker |= {
    "name": "worker",
    "args": [word.replace(SERVER, "localhost").replace(port, "9465") for word in worker["args"]],
    "ports": [],
  }
  for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
    del worker[probe]
  spec["containers"].append(worker)
  server = engine.play("shared", documents)
  beside = dataclasses.replace(server, container="worker")
  seconds = wait_for_steps(server, _STARTED, START_SECONDS)
  if not beside.is_running():
    raise CaseFailed(f"the worker ended with {beside.exit_code(1.0)}")
  pids = [_pids_of(pod) for pod in (server, beside)]
  return f"{_STARTED} steps after {seconds:.1f} s; processes {pids[0]} and {pids[1]}"


def _pids_of(pod: Pod) -> list[int]:
  """The process ids of a role, in its container; the first one is its init."""
  found = pod.run("sh", "-c", "grep --files-with-matches --no-messages metrics_port /proc/[0-9]*/cmdline").stdout
  return sorted(int(path.split("/")[2]) for path in found.split())


def try_gpu(engine: Engine, overlays: Overlays) -> str:
  """The learner's pod of the overlay `gpu`, where there is no GPU: it says so and ends."""
  manifests, config = overlays["gpu"], small_config()
  server = engine.play("gpu-server", pod_of(manifests, "server", config), engine.server_address)
  wait_for_probe(server, probe_commands(manifests, "server")["startupProbe"], START_SECONDS)
  learner = engine.play("gpu-learner", pod_of(manifests, "learner", config))
  _expect_exit(learner, ExitCode.MISTAKE)
  sentence = learner.log().strip().splitlines()[-1]
  if "GPU:0" not in sentence:
    raise CaseFailed(f"the learner said: {sentence}")
  return f"2: {sentence}"


def _add_certificates(engine: Engine, folder: pathlib.Path) -> None:
  """Makes the Secrets as docs/deploy_kubernetes.md does, and those of another CA for a stranger."""
  folder.mkdir()
  for made in (folder / "ours", folder / "theirs"):
    for words in (["ca", str(made)], ["server", str(made), SERVER], ["role", str(made), "client"]):
      subprocess.run([_CERTIFICATES, *words], check=True, capture_output=True, timeout=60)
  ours, theirs = folder / "ours", folder / "theirs"
  engine.add_secret(f"{SERVER}-tls", _files(ours, "server") | {"crl.pem": ours / "crl.pem"})
  engine.add_secret("slipstream-client-tls", _files(ours, "client"))
  engine.add_secret("stranger-tls", _files(theirs, "client"))


def _files(folder: pathlib.Path, name: str) -> dict[str, pathlib.Path]:
  return {"ca.crt": folder / "ca.crt", "tls.crt": folder / f"{name}.crt", "tls.key": folder / f"{name}.key"}


def try_tls(engine: Engine, overlays: Overlays) -> str:
  """The overlay `tls`: the run's roles join, and a worker without a certificate of the run's CA does not."""
  manifests, config = overlays["tls"], small_config()
  _add_certificates(engine, engine.folder / "certificates")
  pods = {"server": engine.play("tls-server", pod_of(manifests, "server", config), engine.server_address)}
  for role in ("learner", "actor"):
    pods[role] = engine.play(f"tls-{role}", pod_of(manifests, role, config))
  wait_for_steps(pods["server"], _STARTED, START_SECONDS)
  strangers: dict[str, Pod] = {}
  for name, overlay, secret in (("no certificate", "cpu", ""), ("another CA", "tls", "stranger-tls")):
    documents = pod_of(overlays[overlay], "actor", config, index=7)
    spec = documents[-1]["spec"]
    spec["containers"][0]["args"].append(f"--server_timeout={_STRANGER_SECONDS}")
    for volume in spec["volumes"]:
      if secret and "secret" in volume:
        volume["secret"]["secretName"] = secret
    strangers[name] = engine.play(f"tls-{len(strangers)}", documents)
  told = []
  for name, pod in strangers.items():
    _expect_exit(pod, ExitCode.MISTAKE)
    told.append(f"{name}: {pod.log().strip().splitlines()[-1]}")
  if {role["name"] for role in status_of(pods["server"])["roles"]} != {"learner", "actor_0"}:
    raise CaseFailed("a stranger has joined")
  # Only now, as the run ends with its second evaluation.
  pods["evaluator"] = engine.play("tls-evaluator", pod_of(manifests, "evaluator", config))
  for pod in pods.values():
    _expect_exit(pod, ExitCode.DONE)
  return f"all roles ended with 0; {'; '.join(told)}"


def try_consoles(engine: Engine, overlays: Overlays) -> str:
  """The overlay `consoles`: who plays has a console in its pod. A console is killed, comes back, and the run is solved."""
  manifests, config = overlays["consoles"], small_config()
  server = engine.play("consoles-server", pod_of(manifests, "server", config), engine.server_address)
  pods = {role: engine.play(f"consoles-{role}", pod_of(manifests, role, config)) for role in ("learner", "actor")}
  console = dataclasses.replace(pods["actor"], container="console")
  steps = wait_for_steps(server, _STARTED, START_SECONDS)
  check_confinement(console)
  if console.inspect()["State"]["Pid"] == pods["actor"].inspect()["State"]["Pid"]:
    raise CaseFailed("the console and its worker are one container")

  console.kill()
  wait_until(lambda: status_of(server)["dropped_episodes"] > 0, "the lost episode is counted", STEPS_SECONDS)
  before = status_of(server)
  time.sleep(_AWAY_SECONDS)  # The worker's pauses grow meanwhile.
  if status_of(server)["environment_steps"] > before["environment_steps"]:
    raise CaseFailed("the worker has gone on without its console")
  console.start_again()
  back = wait_for_steps(server, before["environment_steps"])

  # Only now, as the run ends with its evaluations.
  pods["evaluator"] = engine.play("consoles-evaluator", pod_of(manifests, "evaluator", config))
  for pod in (*pods.values(), server):
    _expect_exit(pod, ExitCode.DONE)
  for player in ("actor", "evaluator"):
    beside = dataclasses.replace(pods[player], container="console")
    if not beside.is_running():
      raise CaseFailed(f"the {player}'s console did not outlive it: {beside.log()[-500:]}")
    beside.stop(30)  # As a kubelet ends a sidecar.
    _expect_exit(beside, ExitCode.TERMINATED)
  return (
    f"{_STARTED} steps after {steps:.1f} s; without its console the worker waited, {before['dropped_episodes']} episode dropped; "
    f"steps rose {back:.1f} s after its next start; consoles ended with 143; {_kept_files(engine)}"
  )


CASES = (
  Case("a run of four roles, whose server is drained; then it is solved", try_run),
  Case("an invalid ConfigMap, an invalid index", try_mistakes),
  Case("server and worker in one pod", try_shared_network),
  Case("the overlay gpu, without a GPU", try_gpu),
  Case("the overlay consoles, and one that is killed", try_consoles),
  Case("the overlay tls, and workers that may not join", try_tls),
)
