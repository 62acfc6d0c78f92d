"""`Absence`: how to wait for a world that has lost its episodes."""

import time

from configs import EpisodesLost, UserError

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 8.0
_PATIENCE_SECONDS = 600.0


class Absence:
  """The pauses before a world that has lost its episodes is asked for new ones, each twice as long as the one before.

  Attributes:
    reason: why the world lost them; empty while it has some.
  """

  def __init__(self) -> None:
    """Begins with a world that has episodes."""
    self.reason = ""
    self._pause = _FIRST_PAUSE_SECONDS
    self._since = self._next_try = 0.0  # By the monotonic clock.

  @property
  def pause_seconds(self) -> float:
    """How long to wait until another try is worth it; 0 if it is now."""
    return max(0.0, self._next_try - time.monotonic()) if self.reason else 0.0

  def note(self, error: EpisodesLost) -> None:
    """Notes that the episodes were lost, or that a try has failed.

    Raises:
      UserError: the tries have failed for ten minutes.
    """
    now = time.monotonic()
    if not self.reason:
      self._since, self._pause = now, _FIRST_PAUSE_SECONDS
      print(f"{error} It goes on with new episodes.", flush=True)
    elif now - self._since > _PATIENCE_SECONDS:
      raise UserError(f"A world has given no episodes for {_PATIENCE_SECONDS:g} s, and is given up: {error}") from error
    self.reason = str(error)
    self._next_try = now + self._pause
    self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)

  def end(self) -> None:
    """Notes that the world has episodes."""
    self.reason = ""
