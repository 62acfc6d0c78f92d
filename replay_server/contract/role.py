"""The interface of every role of a run, and the heartbeat that is made from it."""

import math
import os
import pathlib
import secrets
import socket
from collections.abc import Mapping
from typing import Literal, Protocol

from configs import UserError
from replay_server.contract.activity import Wait
from replay_server.contract.messages import Heartbeat
from replay_server.contract.status import RoleStatus

Kind = Literal["learner", "actor", "evaluator"]


def new_instance() -> str:
  """A name for one life of a role, which no other one has."""
  return secrets.token_hex(8)


def is_gone(role: RoleStatus) -> bool:
  """Whether a role's process ran on this host and has ended."""
  if role.host != socket.gethostname():
    return False
  # In a container, the process that is started again has its predecessor's number.
  return role.pid == os.getpid() or not pathlib.Path(f"/proc/{role.pid}").exists()


def name_taken(run_id: str, rival: RoleStatus) -> UserError:
  """The error of a worker whose name a living one has."""
  return UserError(
    f"Run {run_id} has a worker {rival.name} (process {rival.pid} on {rival.host}): give this one another --index, or stop that "
    "one first."
  )


class Role(Protocol):
  """A learner, a rollout worker or an evaluator."""

  @property
  def name(self) -> str:
    """Name of its process, unique in the run."""

  @property
  def kind(self) -> Kind:
    """Which of the three it is."""

  @property
  def state(self) -> str:
    """What it does or waits for, in words."""

  @property
  def wait(self) -> Wait | None:
    """What it waits for; None if it does not wait."""

  @property
  def paused(self) -> bool:
    """Whether it has paused because the server asked for it, and has sent all that it had."""

  def metrics(self) -> Mapping[str, float]:
    """The metrics of its heartbeats; values need not be finite."""

  def run(self) -> None:
    """Does its work until it is stopped."""


def heartbeat_of(role: Role, instance: str, number: int = 0, ended: bool = False) -> Heartbeat:
  """A heartbeat of a role of this process; see `Heartbeat` for the arguments."""
  return Heartbeat(
    name=role.name,
    role=role.kind,
    host=socket.gethostname(),
    pid=os.getpid(),
    state="ended" if ended else role.state,
    ended=ended,
    # JSON has no NaN, and a diverging learner is still alive.
    metrics={name: value for name, value in role.metrics().items() if math.isfinite(value)},
    instance=instance,
    number=number,
    paused=role.paused,
    wait=None if ended else role.wait,
  )
