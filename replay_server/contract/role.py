"""What every role of a run shows of itself, and the sign of life that is made of it."""

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
    """Of its process, unique in the run."""

  @property
  def kind(self) -> Kind:
    """What it is."""

  @property
  def state(self) -> str:
    """What it does or waits for, for people."""

  def metrics(self) -> Mapping[str, float]:
    """What its heartbeats carry, finite or not."""

  def run(self) -> None:
    """Does its work until it is stopped."""


def heartbeat_of(role: Role, ended: bool = False) -> Heartbeat:
  """The role's sign of life, from this process; `ended` makes it the last one."""
  return Heartbeat(
    name=role.name,
    role=role.kind,
    host=socket.gethostname(),
    pid=os.getpid(),
    state="ended" if ended else role.state,
    ended=ended,
    # JSON has no NaN, and a diverging learner is alive.
    metrics={name: value for name, value in role.metrics().items() if math.isfinite(value)},
  )
