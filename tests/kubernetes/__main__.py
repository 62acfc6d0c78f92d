"""`make test-kubernetes`: the manifests of docker/kubernetes, rendered, validated, and their pods run.

make test-kubernetes                        everything
make test-kubernetes ARGS=render            without pods: no root, no podman
make test-kubernetes ARGS="pods --only=gpu" the cases whose words contain this
make test-kubernetes ARGS=--image=NAME      with this image, instead of one that is built
"""

import argparse
import copy
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from typing import NoReturn

import yaml

from tests.kubernetes import pods
from tests.kubernetes.cases import CASES, Case
from tests.kubernetes.manifests import FOLDER, OVERLAYS, ROOT, Manifest, job_of, render
from tests.kubernetes.rendered import faults_of
from tests.kubernetes.tools import Missing, Toolbox

# The oldest that the page names, and the newest that the validator knows.
_VERSIONS = ("1.31", "1.37")
_BUILD_SECONDS = 1_800
_IMAGE = "localhost/slipstream:cpu"


def main() -> int:
  """Runs the parts that are asked for; returns 1 if something does not hold, 2 if something is missing."""
  arguments = _arguments()
  signal.signal(signal.SIGTERM, _end)
  began = time.monotonic()
  folder = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-kubernetes-"))
  parts = arguments.parts or ["render", "pods"]
  try:
    toolbox = Toolbox()
    overlays = {overlay: render(toolbox.kubectl(), FOLDER / "overlays" / overlay) for overlay in OVERLAYS}
    faults = _check(toolbox, overlays, folder) if "render" in parts else 0
    if "pods" in parts:
      faults += _play(overlays, folder, arguments.image, arguments.only)
  except Missing as error:
    print(error, file=sys.stderr)
    return 2
  except RuntimeError as error:
    print(error, file=sys.stderr)
    return 1
  finally:
    shutil.rmtree(folder, ignore_errors=True)
  print(f"\n{faults} of these did not hold, {time.monotonic() - began:.0f} s", flush=True)
  return int(faults > 0)


def _arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="make test-kubernetes", description=(__doc__ or "").splitlines()[0])
  parser.add_argument("parts", nargs="*", choices=[[], "render", "pods"], help="parts; all if none is named")
  parser.add_argument("--only", default="", help="the cases whose words contain this")
  parser.add_argument("--image", default="", help="an image of podman's; without it docker/Dockerfile is built")
  return parser.parse_args()


def _check(toolbox: Toolbox, overlays: dict[str, list[Manifest]], folder: pathlib.Path) -> int:
  """Validates and checks what is rendered; returns the number of faults."""
  results = render(toolbox.kubectl(), FOLDER / "results")
  count = _check_validator(toolbox, overlays["cpu"], folder)
  for name, manifests in {**overlays, "results": results}.items():
    faults = [] if name == "results" else faults_of(name, manifests)
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    for version in _VERSIONS:
      found = toolbox.validate(path, version)
      faults += [f"Kubernetes {version}: {found}"] if found else []
    print(f"{name}: {len(manifests)} objects, valid in {' and '.join(_VERSIONS)}" if not faults else f"{name}: FAILED")
    for fault in faults:
      print(f"  {fault}")
    count += len(faults)
  return count


def _check_validator(toolbox: Toolbox, manifests: list[Manifest], folder: pathlib.Path) -> int:
  """Whether the validator refuses a field that Kubernetes does not know; returns the number of versions in which it does not."""
  spoiled = copy.deepcopy(manifests)
  job_of(spoiled, "actor")["spec"]["completion"] = 4
  path = folder / "spoiled.yaml"
  path.write_text(yaml.safe_dump_all(spoiled))
  blind = [version for version in _VERSIONS if "completion" not in toolbox.validate(path, version)]
  for version in blind:
    print(f"kubernetes-validate takes an unknown field for one of {version}: FAILED")
  return len(blind)


def _play(overlays: dict[str, list[Manifest]], folder: pathlib.Path, image: str, only: str) -> int:
  """Plays the pods; returns the number of cases that did not hold.

  Raises:
    Missing: podman or the image is not here.
  """
  reason = pods.why_impossible()
  if reason:
    raise Missing(reason)
  image = image or _build()
  chosen = [case for case in CASES if only in case.done]
  return sum(not _try(case, overlays, folder, image) for case in chosen)


def _try(case: Case, overlays: dict[str, list[Manifest]], folder: pathlib.Path, image: str) -> bool:
  print(f"\n[{time.strftime('%H:%M:%S')}] {case.done}", flush=True)
  began = time.monotonic()
  with pods.engine(folder, image) as engine:
    try:
      said = case.run(engine, overlays)
    except Exception as error:
      if not isinstance(error, pods.CaseFailed):
        traceback.print_exc()
      print(f"  FAILED after {time.monotonic() - began:.0f} s: {error}\n{engine.logs()}", flush=True)
      return False
  print(f"  held ({time.monotonic() - began:.0f} s): {said}", flush=True)
  return True


def _build() -> str:
  """Builds the image; returns its name.

  Raises:
    Missing: it cannot be built.
  """
  if not (ROOT / "docker" / "Dockerfile").exists():
    raise Missing("There is no docker/Dockerfile: name an image with ARGS=--image=NAME.")
  print("Building the image ...", flush=True)
  began = time.monotonic()
  done = subprocess.run(
    ["podman", "build", "--quiet", "--file=docker/Dockerfile", "--target=cpu", f"--tag={_IMAGE}", "."],
    cwd=ROOT,
    env=pods.environment(),
    capture_output=True,
    text=True,
    timeout=_BUILD_SECONDS,
    check=False,
  )
  if done.returncode:
    said = done.stderr.strip().splitlines()[-1:] or [""]
    raise Missing(
      f"docker/Dockerfile cannot be built ({said[0]}): see 'podman build --file=docker/Dockerfile --target=cpu .', or name an "
      "image with ARGS=--image=NAME."
    )
  print(f"  built in {time.monotonic() - began:.0f} s", flush=True)
  return _IMAGE


def _end(number: int, frame: object) -> NoReturn:
  """Lets every `finally` run."""
  del frame
  raise SystemExit(128 + number)


if __name__ == "__main__":
  sys.exit(main())
