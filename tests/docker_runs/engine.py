"""A Docker engine, by its own command line: what the cases of this suite need of it, and the removal of all that they make."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
# On everything that this process makes.
LABEL = f"slipstream-test={os.getpid()}"
# How docs/deploy.md says that a container may be run.
HARDENED = (
  "--read-only",
  "--cap-drop=ALL",
  "--security-opt=no-new-privileges",
  "--tmpfs=/tmp:size=256m",
)
_COMMAND_SECONDS = 120.0
_POLL_SECONDS = 0.5


class CaseFailed(AssertionError):
  """What a case waited for did not happen."""


def run(
  command: Sequence[str], seconds: float = _COMMAND_SECONDS, **options: Any
) -> "subprocess.CompletedProcess[str]":
  """Runs a command to its end, in the project's folder.

  Raises:
    CaseFailed: it takes too long.
  """
  try:
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, cwd=ROOT, check=False, **options)
  except subprocess.TimeoutExpired:
    raise CaseFailed(f"{' '.join(command)} has not ended within {seconds:g} s") from None


def docker(*words: str, seconds: float = _COMMAND_SECONDS, env: Mapping[str, str] | None = None) -> str:
  """The output of `docker WORDS`.

  Raises:
    CaseFailed: it fails.
  """
  done = run(["docker", *words], seconds, env=None if env is None else {**os.environ, **env})
  if done.returncode:
    raise CaseFailed(f"docker {' '.join(words)} ended with {done.returncode}: {last_lines(done.stdout + done.stderr)}")
  return done.stdout.strip()


def last_lines(text: str, count: int = 6) -> str:
  """The end of a log, on one line."""
  return " / ".join(text.strip().splitlines()[-count:])


def inspect(thing: str, template: str) -> Any:
  """A part of what the engine knows of a container, an image or a volume; `template` is Go's, such as ".State.ExitCode"."""
  return json.loads(docker("inspect", "--format", f"{{{{json {template}}}}}", thing))


def compose_command() -> list[str]:
  """Of Compose 2, or of docker-compose 1.29; empty without either."""
  if shutil.which("docker") and run(["docker", "compose", "version"]).returncode == 0:
    return ["docker", "compose"]
  return ["docker-compose"] if shutil.which("docker-compose") else []


def why_impossible() -> str:
  """Why there is nothing to run on, as a sentence; empty if there is."""
  if shutil.which("docker") is None:
    return "There is no command 'docker': install Docker, or its client and set DOCKER_HOST."
  if not compose_command():
    return "There is neither 'docker compose' nor 'docker-compose': install Compose 2, or docker-compose 1.29."
  probe = run(["docker", "version", "--format", "{{.Server.Version}}"])
  if probe.returncode:
    where = os.environ.get("DOCKER_HOST", "its usual socket")
    return f"No Docker engine answers at {where} ({last_lines(probe.stderr, 1)}): start one, or set DOCKER_HOST."
  return ""


def wait_for(condition: Callable[[], Any], words: str, seconds: float) -> float:
  """Waits until `condition()` is true; returns the seconds that took.

  Raises:
    CaseFailed: it is not, after `seconds`.
  """
  began = time.monotonic()
  while not condition():
    if time.monotonic() - began > seconds:
      raise CaseFailed(f"not within {seconds:g} s: {words}")
    time.sleep(_POLL_SECONDS)
  return time.monotonic() - began


def start(*words: str) -> str:
  """Starts a container in the background; its id. `remove_all` removes it."""
  return docker("run", "--detach", f"--label={LABEL}", *words)


def wait_ended(container: str, seconds: float) -> int:
  """Waits until a container has ended; its exit code."""
  wait_for(lambda: not inspect(container, ".State.Running"), f"{container[:12]} ends", seconds)
  return int(inspect(container, ".State.ExitCode"))


def logs(container: str) -> str:
  """Everything that a container printed."""
  done = run(["docker", "logs", container])
  return done.stdout + done.stderr


def left(project: str) -> list[str]:
  """What this process made and is still there."""
  kinds = (("container", "ls", "--all"), ("network", "ls"), ("volume", "ls"), ("image", "ls"))
  found = []
  for kind in kinds:
    for label in (LABEL, f"com.docker.compose.project={project}"):
      names = docker(*kind, "--quiet", f"--filter=label={label}").split()
      found += [f"{kind[0]} {name}" for name in names]
  return found


def remove_all() -> None:
  """Removes the containers and images of this process; never raises."""
  for kind, command in (("container", ("rm", "--force", "--volumes")), ("image", ("rmi", "--force"))):
    listed = run(
      ["docker", kind, "ls", *(("--all",) if kind == "container" else ()), "--quiet", f"--filter=label={LABEL}"]
    )
    for name in dict.fromkeys(listed.stdout.split()):
      removed = run(["docker", *command, name])
      if removed.returncode:
        print(f"{kind} {name} was not removed: {last_lines(removed.stderr)}", file=sys.stderr)
