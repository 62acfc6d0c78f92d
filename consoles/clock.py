"""When ticks are due at the real pace."""

import math
import time


class Clock:
  """A tick every `seconds`, as long as it runs. One that comes too late for the next one leaves out those in between.

  Attributes:
    due: when the next tick is due, by the monotonic clock; infinite while the clock stands.
    late: ticks that were left out.
  """

  def __init__(self, seconds: float):
    """Takes the time from one tick to the next; the clock stands."""
    self._seconds = seconds
    self.due = math.inf
    self.late = 0

  @property
  def runs(self) -> bool:
    """Whether ticks are due."""
    return self.due < math.inf

  def start(self) -> None:
    """Makes the next tick due in `seconds`."""
    self.due = time.monotonic() + self._seconds

  def stop(self) -> None:
    """Makes no tick due."""
    self.due = math.inf

  def advance(self) -> None:
    """Goes on to the next tick that is not past."""
    behind = max(0, math.floor((time.monotonic() - self.due) / self._seconds))
    self.late += behind
    self.due += (behind + 1) * self._seconds
