"""The Kubernetes manifests as text: `make test-kubernetes` also validates what is rendered, and runs the pods."""

import itertools
import re
import shutil
import textwrap

import pytest

from slipstream.commands import COMMANDS
from slipstream.main import run
from tests.kubernetes.manifests import (
  FOLDER,
  OVERLAYS,
  ROLES,
  ROOT,
  action_for,
  container_of,
  flag_of,
  is_allowed,
  job_of,
  load,
  of_kind,
  render,
  sidecars_of,
)
from tests.kubernetes.rendered import COMMAND_OF, faults_of

PAGE = ROOT / "docs" / "deploy_kubernetes.md"
FILES = sorted(FOLDER.glob("**/*.yaml"))


def _name(path):
  return str(path.relative_to(FOLDER))


def _base_arguments(role):
  (job,) = [document for document in load(FOLDER / "base" / f"{role}.yaml") if document["kind"] == "Job"]
  return job["spec"]["template"]["spec"]["containers"][0]["args"]


def _patched_arguments(*files):
  """What JSON patches add to a command."""
  patches = itertools.chain.from_iterable(document for file in files for document in load(FOLDER / "components" / file))
  return [patch["value"] for patch in patches]


@pytest.mark.parametrize("role", ROLES)
def test_every_command_is_one_that_slipstream_takes(role):
  command, *words = _base_arguments(role)
  assert command == COMMAND_OF[role]
  words += _patched_arguments("tls/flags.yaml")
  words += _patched_arguments("tls/server_flags.yaml") if role == "server" else []
  words += _patched_arguments("gpu/device.yaml") if role == "learner" else []
  words += _patched_arguments("consoles/flags.yaml") if role in ("actor", "evaluator") else []
  COMMANDS[command].parse(words)


def test_the_config_is_what_the_command_in_the_manifest_prints(capsys):
  (command,) = re.findall(r"# (slipstream \S.*--print_config)", (FOLDER / "base" / "kustomization.yaml").read_text())
  assert run(command.split()[1:]) == 0
  assert capsys.readouterr().out == (FOLDER / "base" / "config.json").read_text()


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "kustomization.yaml"], ids=_name)
def test_a_kustomization_names_files_that_exist(path):
  (kustomization,) = load(path)
  named = [*kustomization.get("resources", ()), *kustomization.get("components", ())]
  named += [patch["path"] for patch in kustomization.get("patches", ())]
  named += [file for made in kustomization.get("configMapGenerator", ()) for file in made["files"]]
  assert named
  assert [name for name in named if not (path.parent / name).exists()] == []


def test_no_file_is_left_out():
  used = {path for path in FILES if path.name == "kustomization.yaml"}
  for path in list(used):
    (kustomization,) = load(path)
    names = [*kustomization.get("resources", ()), *(patch["path"] for patch in kustomization.get("patches", ()))]
    used |= {path.parent / name for name in names}
  assert [_name(path) for path in FILES if path not in used] == []
  assert sorted(path.name for path in (FOLDER / "overlays").iterdir()) == sorted(OVERLAYS)


@pytest.mark.parametrize(
  ("exit_code", "is_disrupted", "action"),
  [
    (1, False, "Count"),
    (2, False, "FailJob"),
    (3, False, "FailJob"),
    (4, False, "Ignore"),
    (137, False, "Count"),
    (139, False, "Count"),
    (143, False, "Ignore"),
    (1, True, "Ignore"),
    (2, True, "FailJob"),
    (137, True, "Ignore"),
  ],
)
def test_a_job_treats_an_exit_code_as_the_usage_says(exit_code, is_disrupted, action):
  (role,) = load(FOLDER / "base" / "role.yaml")
  assert action_for(role, exit_code, is_disrupted) == action


def test_only_the_runs_roles_reach_the_server():
  def pod(component, name="slipstream"):
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/component": component}

  policies = load(FOLDER / "base" / "network.yaml")
  for role in ("learner", "evaluator", "actor"):
    assert is_allowed(policies, pod(role), pod("server"), 8000)
    assert not is_allowed(policies, pod(role), pod("server"), 9464)
    assert not is_allowed(policies, pod("server"), pod(role), 8000)
  assert not is_allowed(policies, pod("actor", "another"), pod("server"), 8000)
  assert not is_allowed(policies, pod("actor"), pod("server", "another"), 8000)
  assert is_allowed(policies, pod("actor", "another"), pod("server", "another"), 8000)


@pytest.fixture(name="kubectl")
def _kubectl():
  found = shutil.which("kubectl")
  if found is None:
    pytest.skip("there is no kubectl: make test-kubernetes brings one")
  return found


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_that_is_rendered_holds_what_it_promises(kubectl, overlay):
  assert faults_of(overlay, render(kubectl, FOLDER / "overlays" / overlay)) == []


def _blocks_of(text):
  return map(textwrap.dedent, re.findall(r"^ *```yaml\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL))


def test_the_page_says_how_a_console_gets_another_world(kubectl, tmp_path):
  shutil.copytree(FOLDER, tmp_path / "docker" / "kubernetes")
  folder = tmp_path / "my_run"
  folder.mkdir()
  (patches,) = _blocks_of(PAGE.read_text().partition("## Consoles")[2])
  (folder / "kustomization.yaml").write_text(f"resources: [../docker/kubernetes/overlays/consoles]\n{patches}")
  manifests = render(kubectl, folder)
  for role in ("evaluator", "actor"):
    (console,) = sidecars_of(job_of(manifests, role))
    command, *words = console["args"]
    flags = COMMANDS[command].parse(words).flags
    assert (flags.world, flags.pace) == ("slingshot", "real")
    assert flag_of(job_of(manifests, role), "console") == f"localhost:{flags.port}"


def test_the_pages_own_kustomization_renders_to_what_the_page_says(kubectl, tmp_path):
  shutil.copytree(FOLDER, tmp_path / "docker" / "kubernetes")
  folder = tmp_path / "my_run"
  folder.mkdir()
  (folder / "kustomization.yaml").write_text("".join(_blocks_of(PAGE.read_text().partition("## Consoles")[0])))
  (folder / "config.json").write_text("{}")
  manifests = render(kubectl, folder)
  assert {manifest["metadata"]["namespace"] for manifest in manifests} == {"my-run"}
  (config_map,) = of_kind(manifests, "ConfigMap").values()
  assert config_map["data"] == {"config.json": "{}", "run_id": "first"}
  for role in ROLES:
    container = container_of(job_of(manifests, role))
    assert container["image"] == "registry.example/me/slipstream:cpu"
    assert ("--allow_module=highway_env" in container["args"]) == (role in ("evaluator", "actor"))


def test_the_page_names_folders_that_exist():
  named = set(re.findall(r"docker/kubernetes/[\w/]+", PAGE.read_text()))
  assert {"docker/kubernetes/overlays/cpu", "docker/kubernetes/results"} <= named
  assert [folder for folder in sorted(named) if not (ROOT / folder / "kustomization.yaml").is_file()] == []
