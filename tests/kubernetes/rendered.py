"""What must hold of a rendered overlay, whatever the cluster. Each check raises AssertionError."""

import functools
import traceback
from collections.abc import Callable, Sequence

from configs import from_json, load_config
from configs.exit_codes import ExitCode, is_restarted
from slipstream.commands import COMMANDS
from tests.kubernetes.manifests import (
  COMPONENT,
  ROLES,
  Manifest,
  action_for,
  container_of,
  flag_of,
  is_allowed,
  job_of,
  labels_of,
  of_kind,
  selects,
  sidecars_of,
)

COMMAND_OF = {"server": "serve", "learner": "learn", "evaluator": "evaluate", "actor": "act"}
CLIENTS = ("learner", "evaluator", "actor")
# Of a million rows on two busy cores (docs/faults.md), and what a server waits for its roles before.
_SNAPSHOT_SECONDS_PER_ROW = 36e-6
# Tables up to this size need no other grace period.
_ROWS = 2_000_000
_PAUSE_SECONDS = 5


def check_jobs(manifests: Sequence[Manifest]) -> None:
  """Every role is a Job that ends with its run, and only the workers are many."""
  assert set(of_kind(manifests, "Job")) == {f"slipstream-{role}" for role in ROLES}
  assert not {manifest["kind"] for manifest in manifests} & {"Deployment", "StatefulSet", "ReplicaSet", "Pod"}
  for role in ROLES:
    spec = job_of(manifests, role)["spec"]
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    # Elastic Indexed Jobs take a new number only where both are equal.
    assert spec["completions"] == spec["parallelism"]
    assert (spec.get("completionMode") == "Indexed") == (role == "actor")
    assert ("backoffLimitPerIndex" in spec) == (role == "actor")
    assert spec["completions"] == 1 or role == "actor"


def check_exit_codes(manifests: Sequence[Manifest]) -> None:
  """The Jobs treat every exit code as docs/usage.md says, and no pod that was evicted counts."""
  for role in ROLES:
    job = job_of(manifests, role)
    for code in range(1, 256):
      action = action_for(job, code)
      if action == "FailJob":
        assert not is_restarted(code), code
      elif action == "Ignore":
        assert is_restarted(code), code
    assert {code for code in range(1, 256) if action_for(job, code) == "FailJob"} == {
      ExitCode.MISTAKE,
      ExitCode.UNSOLVED,
    }
    assert {code for code in range(1, 256) if action_for(job, code) == "Ignore"} == {
      ExitCode.SERVER_LOST,
      ExitCode.TERMINATED,
    }
    assert action_for(job, ExitCode.KILLED, is_disrupted=True) == "Ignore"
    assert action_for(job, ExitCode.MISTAKE, is_disrupted=True) == "FailJob"


def check_commands(manifests: Sequence[Manifest]) -> None:
  """Every command line is one that Slipstream takes, and names the address that the Service has."""
  ((service, address),) = of_kind(manifests, "Service").items()
  (port,) = address["spec"]["ports"]
  for role in ROLES:
    job = job_of(manifests, role)
    command, *words = container_of(job)["args"]
    assert command == COMMAND_OF[role]
    COMMANDS[command].parse(words)
    # Where an image of the user's own holds the world; only the learner plays in none.
    assert flag_of(job, "pythonpath") == ("" if role == "learner" else "/worlds")
    assert flag_of(job, "server") == ("" if role == "server" else f"{service}:{port['port']}")
    assert selects({"matchLabels": address["spec"]["selector"]}, labels_of(job)) == (role == "server")
  server = job_of(manifests, "server")
  ports = {named["name"]: named["containerPort"] for named in container_of(server)["ports"]}
  assert ports["replay"] == int(flag_of(server, "port")) == port["port"]
  assert port["targetPort"] == "replay"
  assert address["spec"].get("clusterIP") != "None"  # A client finds the next server at the old IP.
  assert address["spec"]["publishNotReadyAddresses"] is True


def check_config(manifests: Sequence[Manifest]) -> None:
  """The ConfigMap holds the preset that its name promises, with a hash in the name, and the server reads that one."""
  ((name, config_map),) = of_kind(manifests, "ConfigMap").items()
  assert name.startswith("slipstream-config-")
  assert from_json(config_map["data"]["config.json"]) == load_config("three_rooms")
  assert config_map["data"]["run_id"] == "three_rooms"
  server = job_of(manifests, "server")
  volumes = {volume["name"]: volume for volume in server["spec"]["template"]["spec"]["volumes"]}
  (mount,) = [mount for mount in container_of(server)["volumeMounts"] if mount["name"] == "config"]
  assert volumes["config"]["configMap"]["name"] == name
  assert flag_of(server, "config") == f"{mount['mountPath']}/config.json"


def check_probes(manifests: Sequence[Manifest]) -> None:
  """Every probe asks the port that the role's flag names, and none ends a role that only waits for its server."""
  for role in ROLES:
    job = job_of(manifests, role)
    container = container_of(job)
    port = flag_of(job, "metrics_port")
    assert {named["name"]: named["containerPort"] for named in container["ports"]}["metrics"] == int(port)
    for probe, page in (("startupProbe", []), ("livenessProbe", []), ("readinessProbe", ["readyz"])):
      assert container[probe]["exec"]["command"] == ["slipstream-health", port, *page]
      assert container[probe]["timeoutSeconds"] > 2  # The command itself gives up after 2 s.
    startup = container["startupProbe"]["periodSeconds"] * container["startupProbe"]["failureThreshold"]
    assert startup > 60 + float(flag_of(job, "server_timeout") or 0)
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def check_security(manifests: Sequence[Manifest]) -> None:
  """Pods satisfy the restricted standard, write to volumes alone and hold no credentials of the cluster."""
  for role in ROLES:
    pod = job_of(manifests, role)["spec"]["template"]["spec"]
    container = container_of(job_of(manifests, role))
    assert pod["securityContext"] == {
      "runAsNonRoot": True,
      "runAsUser": 1000,
      "runAsGroup": 1000,
      "fsGroup": 1000,
      "fsGroupChangePolicy": "OnRootMismatch",
      "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
      "allowPrivilegeEscalation": False,
      "readOnlyRootFilesystem": True,
      "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert not any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))
    kinds = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
    assert kinds <= {"emptyDir", "configMap", "persistentVolumeClaim", "secret"}
    assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}


def check_resources(manifests: Sequence[Manifest]) -> None:
  """Every container asks for what it needs and has a limit; without one TensorFlow takes half of a node's cores."""
  for role in ROLES:
    resources = container_of(job_of(manifests, role))["resources"]
    assert {"cpu", "memory"} <= set(resources["requests"])
    assert {"cpu", "memory"} <= set(resources["limits"])
    assert resources["requests"]["memory"] == resources["limits"]["memory"]


def check_volumes(manifests: Sequence[Manifest]) -> None:
  """Every role that keeps something has a volume of its own, so no two need one node."""
  claims = of_kind(manifests, "PersistentVolumeClaim")
  assert set(claims) == {f"slipstream-{role}" for role in ("server", "learner", "evaluator")}
  for role in ROLES:
    job = job_of(manifests, role)
    mounts = {mount["name"]: mount["mountPath"] for mount in container_of(job)["volumeMounts"]}
    volumes = job["spec"]["template"]["spec"]["volumes"]
    claimed = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in volumes if _is_claim(volume)}
    if role == "actor":
      assert not claimed
    else:
      assert claimed == {"runs": f"slipstream-{role}"}
      # A folder below the mount point: a new file system is not empty.
      assert flag_of(job, "run_dir") == f"{mounts['runs']}/$(RUN_ID)"


def _is_claim(volume: Manifest) -> bool:
  return "persistentVolumeClaim" in volume


def check_grace(manifests: Sequence[Manifest]) -> None:
  """A server that is told to leave has the time for its snapshot, twice over."""
  (config_map,) = of_kind(manifests, "ConfigMap").values()
  replay = from_json(config_map["data"]["config.json"]).replay
  rows = sum(replay.capacity_of(table) for table in replay.all_tables)
  grace = {role: job_of(manifests, role)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] for role in ROLES}
  assert grace["server"] >= _PAUSE_SECONDS + 2 * max(rows, _ROWS) * _SNAPSHOT_SECONDS_PER_ROW
  assert min(grace.values()) >= 30


def check_network(manifests: Sequence[Manifest]) -> None:
  """Only the run's own roles reach the server, at its one port, and nobody reaches anybody else."""
  pods = {role: labels_of(job_of(manifests, role)) for role in ROLES}
  ((_, service),) = of_kind(manifests, "Service").items()
  port = service["spec"]["ports"][0]["port"]
  others = {"stranger": {"app.kubernetes.io/name": "stranger"}, "results": {**pods["actor"], COMPONENT: "results"}}
  for source, labels in (pods | others).items():
    for role in ROLES:
      reaches = is_allowed(manifests, labels, pods[role], port)
      assert reaches == (source in CLIENTS and role == "server"), (source, role)
      for other in (port - 1, port + 1, 22, 9464, 40_000):
        assert not is_allowed(manifests, labels, pods[role], other), (source, role, other)


CHECKS: Sequence[Callable[[Sequence[Manifest]], None]] = (
  check_jobs,
  check_exit_codes,
  check_commands,
  check_config,
  check_probes,
  check_security,
  check_resources,
  check_volumes,
  check_grace,
  check_network,
)


def check_images(overlay: str, manifests: Sequence[Manifest]) -> None:
  """Everything runs the CPU's image, but for the learner of the overlay `gpu`, which asks for a GPU."""
  for role in ROLES:
    job = job_of(manifests, role)
    has_gpu = overlay == "gpu" and role == "learner"
    assert container_of(job)["image"] == ("slipstream:gpu" if has_gpu else "slipstream:cpu")
    assert container_of(job)["resources"]["limits"].get("nvidia.com/gpu") == ("1" if has_gpu else None)
    assert flag_of(job, "device") == ("GPU:0" if has_gpu else "")


def check_certificates(overlay: str, manifests: Sequence[Manifest]) -> None:
  """Under the overlay `tls` every role has its certificate from a Secret that others cannot read; else nobody has one."""
  for role in ROLES:
    job = job_of(manifests, role)
    files = {flag_of(job, f"tls_{kind}") for kind in ("cert", "key", "ca")}
    volumes = [volume for volume in job["spec"]["template"]["spec"]["volumes"] if "secret" in volume]
    if overlay != "tls":
      assert files == {""}
      assert not volumes
      continue
    (volume,) = volumes
    (mount,) = [mount for mount in container_of(job)["volumeMounts"] if mount["name"] == volume["name"]]
    assert mount["readOnly"] is True
    assert files == {f"{mount['mountPath']}/{name}" for name in ("tls.crt", "tls.key", "ca.crt")}
    owner = "server" if role == "server" else "client"
    assert volume["secret"] == {"secretName": f"slipstream-{owner}-tls", "defaultMode": 0o440}
    assert ("--tls_only" in container_of(job)["args"]) == (role == "server")
    assert flag_of(job, "tls_crl") == (f"{mount['mountPath']}/crl.pem" if role == "server" else "")


def check_consoles(overlay: str, manifests: Sequence[Manifest]) -> None:
  """Under the overlay `consoles` who plays has a console in its own pod, of the config's world; else nobody has one."""
  (config_map,) = of_kind(manifests, "ConfigMap").values()
  world = from_json(config_map["data"]["config.json"]).environment.name
  for role in ROLES:
    job = job_of(manifests, role)
    if overlay != "consoles" or role not in ("actor", "evaluator"):
      assert not sidecars_of(job)
      assert flag_of(job, "console") == ""
      continue
    (sidecar,) = sidecars_of(job)
    own = container_of(job)
    # As a plain container it would go on when the role has ended, and its Job would never be complete.
    assert sidecar["restartPolicy"] == "Always"
    command, *words = sidecar["args"]
    flags = COMMANDS[command].parse(words).flags
    assert (command, flags.world) == ("console", world)
    assert flag_of(job, "console") == f"localhost:{flags.port}"
    assert flags.host == "127.0.0.1"
    assert str(flags.port) != flag_of(job, "metrics_port")
    for part in ("image", "securityContext", "terminationMessagePolicy"):
      assert sidecar[part] == own[part]
    resources = sidecar["resources"]
    assert {"cpu", "memory"} <= set(resources["requests"]) & set(resources["limits"])
    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    assert "/tmp" in {mount["mountPath"] for mount in sidecar["volumeMounts"]}


def faults_of(overlay: str, manifests: Sequence[Manifest]) -> list[str]:
  """Runs every check on a rendered overlay; returns what does not hold."""
  named = [functools.partial(check, overlay) for check in (check_images, check_certificates, check_consoles)]
  checks: list[Callable[[Sequence[Manifest]], None]] = [*CHECKS, *named]
  return [fault for check in checks if (fault := _fault_of(functools.partial(check, manifests)))]


def _fault_of(check: Callable[[], None]) -> str:
  """Where a check fails and why; empty if it holds."""
  try:
    check()
  except Exception as error:  # Whatever is missing, such as a key, is a fault too.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]
    return f"{frames[-1].name}, line {frames[-1].lineno}: {frames[-1].line} ({type(error).__name__}: {error})"
  return ""
