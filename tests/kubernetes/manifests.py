"""The manifests in docker/kubernetes as kustomize renders them, and what a cluster would make of them."""

import pathlib
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import yaml

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "docker" / "kubernetes"
OVERLAYS = ("cpu", "gpu", "tls", "consoles")
ROLES = ("server", "learner", "evaluator", "actor")
COMPONENT = "app.kubernetes.io/component"
_RENDER_SECONDS = 60

Manifest: TypeAlias = Mapping[str, Any]


def load(path: pathlib.Path) -> list[Any]:
  """The documents of a YAML file."""
  return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


def render(kubectl: str, folder: pathlib.Path) -> list[Manifest]:
  """What `kubectl kustomize` makes of a folder.

  Raises:
    RuntimeError: it is refused.
  """
  done = subprocess.run(
    [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False, timeout=_RENDER_SECONDS
  )
  if done.returncode:
    raise RuntimeError(f"kubectl refuses {folder}: {done.stderr.strip()}")
  return list(yaml.safe_load_all(done.stdout))


def of_kind(manifests: Iterable[Manifest], kind: str) -> dict[str, Manifest]:
  """Name -> manifest, of those of one kind."""
  return {manifest["metadata"]["name"]: manifest for manifest in manifests if manifest["kind"] == kind}


def job_of(manifests: Iterable[Manifest], role: str) -> Manifest:
  """The Job of a role."""
  return of_kind(manifests, "Job")[f"slipstream-{role}"]


def labels_of(job: Manifest) -> Mapping[str, str]:
  """The labels of a Job's pods."""
  labels: Mapping[str, str] = job["spec"]["template"]["metadata"]["labels"]
  return labels


def container_of(job: Manifest) -> Manifest:
  """The one container of a Job's pods, besides their sidecars."""
  (container,) = job["spec"]["template"]["spec"]["containers"]
  found: Manifest = container
  return found


def sidecars_of(job: Manifest) -> list[Manifest]:
  """The containers that start before a role's, and run beside it."""
  return list(job["spec"]["template"]["spec"].get("initContainers", ()))


def flag_of(job: Manifest, name: str) -> str:
  """The value of a flag of a Job's command; "" if it is not given."""
  given = [argument.partition("=")[2] for argument in container_of(job)["args"] if argument.startswith(f"--{name}=")]
  return given[-1] if given else ""


def action_for(job: Manifest, exit_code: int, is_disrupted: bool = False) -> str:
  """What the Job's podFailurePolicy does with a pod that has ended with `exit_code`: FailJob, Ignore or Count.

  The first rule that matches decides, and what no rule matches is counted.

  Args:
    job: the Job.
    exit_code: of the role's container.
    is_disrupted: whether the pod has the condition DisruptionTarget.
  """
  for rule in job["spec"]["podFailurePolicy"]["rules"]:
    codes = rule.get("onExitCodes")
    if (
      codes is not None
      and codes["containerName"] == "slipstream"
      and (exit_code in codes["values"]) == (codes["operator"] == "In")
    ):
      return str(rule["action"])
    if is_disrupted and any(condition["type"] == "DisruptionTarget" for condition in rule.get("onPodConditions", ())):
      return str(rule["action"])
  return "Count"


def is_allowed(manifests: Sequence[Manifest], source: Mapping[str, str], target: Mapping[str, str], port: int) -> bool:
  """Whether the NetworkPolicies let a pod reach another one of the same namespace on a TCP port.

  As in a cluster: a pod that no policy of a direction selects is open in this direction, and policies add up.

  Args:
    manifests: with the policies.
    source: labels of the pod that connects.
    target: labels of the pod that is connected to.
    port: of the target.
  """
  policies = [policy["spec"] for policy in of_kind(manifests, "NetworkPolicy").values()]
  leaves = _passes(policies, ("Egress", "egress", "to"), source, target, port)
  return leaves and _passes(policies, ("Ingress", "ingress", "from"), target, source, port)


def _passes(
  policies: Iterable[Manifest],
  direction: tuple[str, str, str],
  pod: Mapping[str, str],
  peer: Mapping[str, str],
  port: int,
) -> bool:
  kind, rules, peers = direction
  selecting = [policy for policy in policies if kind in policy["policyTypes"] and selects(policy["podSelector"], pod)]
  return not selecting or any(
    _names_port(rule, port) and any(_is_peer(candidate, peer) for candidate in rule[peers])
    for policy in selecting
    for rule in policy.get(rules, ())
  )


def _names_port(rule: Manifest, port: int) -> bool:
  return any(allowed["port"] == port and allowed["protocol"] == "TCP" for allowed in rule["ports"])


def _is_peer(candidate: Manifest, labels: Mapping[str, str]) -> bool:
  # A peer of another namespace is none of this run's pods.
  return "namespaceSelector" not in candidate and selects(candidate["podSelector"], labels)


def selects(selector: Manifest, labels: Mapping[str, str]) -> bool:
  """Whether a selector matches a pod with these labels; it knows matchLabels and the operator In."""
  return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
    expression["operator"] == "In" and labels.get(expression["key"]) in expression["values"]
    for expression in selector.get("matchExpressions", ())
  )
