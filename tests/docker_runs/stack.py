"""A run of docker/compose.yaml."""

import functools
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tests.docker_runs.engine import CaseFailed, compose_command, docker, inspect, last_lines, logs, run, wait_for

ROLES = ("server", "learner", "evaluator", "actor")
_START_SECONDS = 600.0
# In which the engine has to answer docker-compose 1.29, which gives up after 60 s otherwise, although the engine is only busy.
_ENGINE = {"COMPOSE_HTTP_TIMEOUT": "300"}


class Stack:
  """The containers of one project of compose.

  Attributes:
    project: its name.
    run_id: of the run, which is its folder's name.
  """

  def __init__(self, project: str, image: str, files: Sequence[str] = ("compose.yaml",), **variables: str):
    """Starts nothing yet.

    Args:
      project: a name of its own.
      image: for all containers.
      files: in docker/.
      variables: of the compose files.
    """
    self.project = project
    self.run_id = "first"
    self.variables = {"SLIPSTREAM_IMAGE": image, "SLIPSTREAM_RUN": self.run_id, "TENSORBOARD_PORT": "0", **variables}
    self._files = [word for name in files for word in ("-f", f"docker/{name}")]

  def compose(self, *words: str, seconds: float = _START_SECONDS) -> "subprocess.CompletedProcess[str]":
    """Runs compose; never fails."""
    command = [*compose_command(), "-p", self.project, *self._files, *words]
    return run(command, seconds, env={**os.environ, **_ENGINE, **self.variables})

  def up(self, *words: str) -> None:
    """`compose up`; returns when everything is started.

    Raises:
      CaseFailed: it does not come up.
    """
    done = self.compose("up", "--detach", *words)
    if done.returncode:
      raise CaseFailed(f"compose up ended with {done.returncode}: {last_lines(done.stderr)}")

  def containers(self, service: str) -> list[str]:
    """Ids of a service's containers, those that have ended included."""
    words = (
      f"--filter=label=com.docker.compose.project={self.project}",
      f"--filter=label=com.docker.compose.service={service}",
    )
    return docker("ps", "--all", "--quiet", *words).split()

  def container(self, service: str) -> str:
    """The id of a service's only container."""
    (container,) = self.containers(service)
    return container

  def status(self) -> Mapping[str, Any]:
    """What the server last wrote; empty before the first time, and while it is away."""
    done = run(["docker", "exec", self.container("server"), "cat", f"/runs/{self.run_id}/status.json"])
    try:
      status: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
      return {}
    return status

  def progress(self) -> tuple[int, int]:
    """Environment steps and gradient steps."""
    status = self.status()
    return int(status.get("environment_steps", 0)), int(status.get("gradient_steps", 0))

  def recovery(self, seconds: float) -> tuple[float, float]:
    """Seconds until environment steps rise, and until gradient steps do too.

    Raises:
      CaseFailed: they do not.
    """
    wait_for(lambda: self.progress() != (0, 0), "the server tells its status", seconds)
    steps, updates = self.progress()
    first = wait_for(lambda: self.progress()[0] > steps, "environment steps rise", seconds)
    return first, first + wait_for(lambda: self.progress()[1] > updates, "gradient steps rise", seconds)

  def workers(self) -> list[str]:
    """Names of the workers that are alive, as the server knows them."""
    return sorted(role["name"] for role in self.status().get("roles", ()) if role["role"] == "actor" and role["alive"])

  def wait_for_workers(self, count: int, seconds: float = _START_SECONDS) -> float:
    """Waits until the server knows this many; returns the seconds that took."""
    return wait_for(functools.partial(self._has_workers, count), f"{count} workers are alive", seconds)

  def _has_workers(self, count: int) -> bool:
    return len(self.workers()) == count

  def exit_codes(self) -> dict[str, int]:
    """Of every role's container, which have ended."""
    return {
      f"{role}_{number}": int(inspect(container, ".State.ExitCode"))
      for role in ROLES
      for number, container in enumerate(self.containers(role))
    }

  def wait_ended(self, seconds: float) -> float:
    """Waits until every role has ended; returns the seconds that took."""
    return wait_for(lambda: not self._running(), "all roles end", seconds)

  def _running(self) -> list[str]:
    return [
      one
      for role in ROLES
      for one in self.containers(role)
      if inspect(one, ".State.Status") in ("running", "restarting")
    ]

  def last_words(self) -> str:
    """The end of every container's log, for a case that failed."""
    return "\n".join(
      f"  {service} {one}: {last_lines(logs(one), 4)}"
      for service in (*ROLES, "tensorboard")
      for one in self.containers(service)
    )

  def down(self) -> None:
    """Removes everything of the project, its volumes too; never fails."""
    self.compose("down", "--volumes", "--remove-orphans", "--timeout", "30")
