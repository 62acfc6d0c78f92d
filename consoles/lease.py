"""Who has the console: one worker at a time."""

import threading
import time
from collections.abc import Callable


class Held(Exception):
  """Another worker has the console; the message names it."""


class Lease:
  """The right to play, which ends when it is given back. Threads share it.

  Attributes:
    given: how many times it was taken.
  """

  def __init__(self) -> None:
    """Nobody has it."""
    self._lock = threading.Lock()
    self._holder = ""
    self._since = 0.0
    self._silent: Callable[[], float] = float
    self.given = 0

  def take(self, holder: str, silent_seconds: Callable[[], float]) -> None:
    """Gives it to `holder`.

    Args:
      holder: for people.
      silent_seconds: how long nothing was heard from it.

    Raises:
      Held: another one has it.
    """
    with self._lock:
      now = time.monotonic()
      if self._holder:
        raise Held(
          f"it is held by {self._holder} for {now - self._since:.0f} s, who was heard {self._silent():.1f} s ago"
        )
      self._holder = holder or "a worker without a name"
      self._since, self._silent = now, silent_seconds
      self.given += 1

  def give_back(self) -> None:
    """Nobody has it."""
    with self._lock:
      self._holder = ""

  def silent_seconds(self) -> float:
    """Since the holder was heard; 0 if nobody has it."""
    with self._lock:
      return self._silent() if self._holder else 0.0

  def describe(self) -> tuple[str, str]:
    """The holder, which may be empty, and words for people."""
    with self._lock:
      if not self._holder:
        return "", "free"
      return self._holder, f"held by {self._holder} for {time.monotonic() - self._since:.0f} s"
