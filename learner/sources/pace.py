"""Takes the learner's part in the run's pace: one sample of the table `pace` for every block."""

import time

from replay_server.contract.activity import Wait
from replay_server.contract.connection import Connection
from replay_server.contract.layout import PACE, PaceShape
from replay_server.contract.reverb_api import Sampler

_SLOW_SECONDS = 1.0


class BlockPermits:
  """Asks the server whether the next block is due; for one thread at a time, except `close` and `describe_wait`.

  The server counts the samples of the table `pace`, whichever tables the rows of a block come from, and keeps the count in its
  checkpoints. So a learner that starts again neither waits for steps that were taken nor makes up for updates that it lost.
  """

  def __init__(self, connection: Connection, shape: PaceShape):
    """Asks for nothing yet.

    Args:
      connection: to the server.
      shape: of the run; if it enforces no ratio, every block is due at once.
    """
    self._connection = connection
    self._shape = shape
    self._sampler: Sampler | None = None
    self._asked: float | None = None
    self._closed = False

  def take(self) -> bool:
    """Waits until the workers have taken the environment steps for another block; False if it was closed meanwhile."""
    if not self._shape.steps_per_item:
      return True
    self._asked = time.monotonic()
    try:
      self._sampler = self._connection.open_sampler(PACE, samples=1, in_flight=1)
      if self._closed:
        return False
      self._sampler.next()
    except RuntimeError:
      if not self._closed:
        raise
      return False
    finally:
      self._asked = None
    return True

  @property
  def waits_since(self) -> float | None:
    """When it asked for the block that it waits for, in seconds of `time.monotonic`; None if it waits for none."""
    return self._asked

  def describe_wait(self) -> str:
    """What it is waiting for, in words for people; empty where it is not waiting."""
    asked = self._asked
    if asked is None or time.monotonic() - asked < _SLOW_SECONDS:
      return ""
    return (
      f"waiting for workers: {self._shape.environment_steps_per_update:g} environment steps for each update, and the learner "
      "is ahead"
    )

  def wait(self) -> Wait | None:
    """The present wait; None where it is not waiting."""
    asked = self._asked
    if asked is None or time.monotonic() - asked < _SLOW_SECONDS:
      return None
    steps = f"{self._shape.environment_steps_per_update:g}"
    return Wait("workers", f"they have taken {steps} steps for each update", time.monotonic() - asked)

  def close(self) -> None:
    """Interrupts a wait in another thread."""
    self._closed = True
    if self._sampler is not None:
      self._sampler.close()
