"""The interface of every role of a run, and the heartbeat that is made from it."""

import math
import os
import socket
from collections.abc import Mapping
from typing import Literal, Protocol

from replay_server.contract.messages import Heartbeat

Kind = Literal["learner", "actor", "evaluator"]


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

  def metrics(self) -> Mapping[str, float]:
    """The metrics of its heartbeats; values need not be finite."""

  def run(self) -> None:
    """Does its work until it is stopped."""


def heartbeat_of(role: Role, ended: bool = False) -> Heartbeat:
  """A heartbeat of a role of this process; `ended` marks the last one."""
  return Heartbeat(
    name=role.name,
    role=role.kind,
    host=socket.gethostname(),
    pid=os.getpid(),
    state="ended" if ended else role.state,
    ended=ended,
    # JSON has no NaN, and a diverging learner is still alive.
    metrics={name: value for name, value in role.metrics().items() if math.isfinite(value)},
  )
