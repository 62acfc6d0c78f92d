"""The Dockerfiles and what they are built from, as text; `make test-docker` builds and runs them."""

import re
import shlex
import subprocess

import pytest
import tomli

from tests.docker.texts import DOCKER, ROOT

PROJECT = tomli.loads((ROOT / "pyproject.toml").read_text())
ROOMS = [pattern.removesuffix("*") for pattern in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]
DOCKERFILE = DOCKER / "Dockerfile"
ALLOWED = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]


def _instructions(path):
  """(instruction, its words) in order."""
  lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
  for line in "\n".join(lines).replace("\\\n", " ").splitlines():
    if line.strip():
      name, _, rest = line.partition(" ")
      yield name, rest


def _copied(path):
  """What a Dockerfile copies from its context."""
  for name, rest in _instructions(path):
    words = shlex.split(rest)
    if name == "COPY" and not words[0].startswith("--from"):
      yield from words[:-1]


def _lock(name):
  """Package -> (version, hashes)."""
  return _entries((ROOT / name).read_text())


def _entries(text):
  """As `_lock`, of the text of a lock."""
  entries = {}
  for block in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]:
    name, _, version = block.split()[0].partition("==")
    entries[name] = (version, frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", block)))
  return entries


def test_what_is_copied_exists_and_is_not_ignored():
  for path in _copied(DOCKERFILE):
    assert (ROOT / path).exists()
    assert path == "./" or path == "." or path in ALLOWED


def test_what_may_be_copied_exists():
  assert [path for path in ALLOWED if not (ROOT / path).exists()] == []


def test_every_room_may_be_copied():
  assert set(ROOMS) <= set(ALLOWED)


def test_what_the_corridor_copies_exists():
  folder = ROOT / "examples" / "corridor"
  assert {"config.py", "corridor.py"} == set(_copied(folder / "Dockerfile"))
  assert all((folder / path).is_file() for path in _copied(folder / "Dockerfile"))


def test_scripts_may_be_executed():
  for name in ("healthcheck.py", "sbom.sh"):
    assert (DOCKER / name).stat().st_mode & 0o111 == 0o111


def test_both_targets_exist_and_cpu_is_the_default():
  stages = [rest.split() for name, rest in _instructions(DOCKERFILE) if name == "FROM"]
  assert {"cpu", "gpu"} <= {words[-1] for words in stages}
  assert stages[-1] == ["cpu"]


def test_images_carry_the_version_of_the_package():
  versions = [rest for name, rest in _instructions(DOCKERFILE) if name == "ARG" and rest.startswith("VERSION")]
  assert versions == [f"VERSION={PROJECT['project']['version']}"] * 2


def test_roles_run_as_a_user_of_their_own_below_an_init():
  instructions = list(_instructions(DOCKERFILE))
  assert ("USER", "1000:1000") in instructions
  assert ("ENTRYPOINT", '["/usr/bin/tini", "--", "slipstream"]') in instructions


@pytest.mark.parametrize("name", ["image", "cpu", "sbom", "console"])
def test_locks_hold_hashes_and_no_place(name):
  assert all(hashes for _, hashes in _lock(f"requirements-{name}.lock").values())
  text = (ROOT / f"requirements-{name}.lock").read_text()
  assert re.findall(r"\w+://\S*|--(?:index|extra-index|find-links)\S*|(?<![\w.])/\w\S*", text) == []


def test_an_image_has_the_versions_of_the_lock():
  image, whole = _lock("requirements-image.lock"), _lock("requirements.lock")
  assert {name: pin for name, pin in image.items() if whole.get(name) != pin} == {}


def _names(requirements):
  return {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in requirements}


def test_an_image_has_the_worlds_and_no_tools_of_developers():
  extras = PROJECT["project"]["optional-dependencies"]
  image = set(_lock("requirements-image.lock"))
  assert _names(PROJECT["project"]["dependencies"]) | _names(extras["worlds"]) == {"tensorflow"} | (
    image & (_names(PROJECT["project"]["dependencies"]) | _names(extras["worlds"]))
  )
  assert image & (_names(extras["dev"]) | {"rliable"}) == set()


def test_tensorflow_without_cuda_is_of_the_same_version():
  assert _lock("requirements-cpu.lock").keys() == {"tensorflow-cpu"}
  assert _lock("requirements-cpu.lock")["tensorflow-cpu"][0] == _lock("requirements.lock")["tensorflow"][0]


def test_the_dockerfile_takes_whole_entries_out_of_the_locks():
  """The two `sed` commands: an entry without its hashes would not be installed."""
  commands = re.findall(r"sed -n (?:-E )?'[^']*' \S+", DOCKERFILE.read_text())
  assert len(commands) == 2
  found: dict[str, tuple[str, frozenset]] = {}
  for command in commands:
    found |= _entries(subprocess.run(shlex.split(command), cwd=ROOT, capture_output=True, text=True, check=True).stdout)
  whole = _lock("requirements.lock")
  assert found == {name: whole[name] for name in ("setuptools", "wheel", "tensorflow")}


def test_sbom_script_says_what_it_needs():
  done = subprocess.run(["sh", DOCKER / "sbom.sh"], capture_output=True, text=True, check=False)
  assert done.returncode != 0
  assert "the folder to write to" in done.stderr
