"""What a role does or waits for: on whom, since when, and what would end it."""

import dataclasses
import time
from collections.abc import Callable
from typing import Literal

Whom = Literal["server", "learner", "workers", "world"]


@dataclasses.dataclass(frozen=True)
class Wait:
  """A wait of a role.

  Attributes:
    whom: it waits on: "server", "learner", "workers", or "world" (its own environment).
    until: what would end the wait, as the words after "until".
    seconds: since it began.
  """

  whom: str
  until: str
  seconds: float = 0.0


class Activity:
  """What a role does at present; the role's thread says it, and any thread may ask."""

  def __init__(self, clock: Callable[[], float] = time.monotonic):
    """Begins with "starting"; `clock` is in seconds."""
    self._clock = clock
    self._present: tuple[str, Wait | None, float] = ("starting", None, 0.0)

  def does(self, state: str) -> None:
    """The role does something.

    Args:
      state: what, in words.
    """
    self._present = (state, None, 0.0)

  def waits(self, state: str, whom: Whom, until: str) -> None:
    """The role waits; if it waited on the same one before, that wait goes on.

    Args:
      state: for what, in words.
      whom: see `Wait`.
      until: see `Wait`.
    """
    _, wait, began = self._present
    goes_on = wait is not None and wait.whom == whom
    self._present = (state, Wait(whom, until), began if goes_on else self._clock())

  @property
  def state(self) -> str:
    """What the role does or waits for, in words."""
    return self._present[0]

  @property
  def wait(self) -> Wait | None:
    """The present wait; None if the role does not wait."""
    _, wait, began = self._present
    return None if wait is None else dataclasses.replace(wait, seconds=self._clock() - began)
