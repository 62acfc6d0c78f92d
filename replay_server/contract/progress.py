"""Whether a role's loop moves, for whoever decides to start the role again."""

import time
from collections.abc import Callable

# A loop that has not gone round for so long hangs: every call to the server has a deadline below this, and every loop that waits
# goes round within seconds.
HUNG_AFTER_SECONDS = 60.0
# Until a role's loop begins: importing TensorFlow, reading a large snapshot, translating kernels for a new GPU.
START_SECONDS = 600.0


class Progress:
  """When a role's loop last went round; the role's thread notes it, and any thread may ask.

  A loop that waits, for rows, for its lease or for its server, goes round as well: it looks again and again.

  Attributes:
    patience_seconds: that one round may take, unless `note` says otherwise.
  """

  def __init__(self, patience_seconds: float = HUNG_AFTER_SECONDS, clock: Callable[[], float] = time.monotonic):
    """Begins with a round that has just ended; `clock` is in seconds."""
    self.patience_seconds = patience_seconds
    self._clock = clock
    self._round = (clock(), patience_seconds)

  def note(self, allowed_seconds: float = 0.0) -> None:
    """Notes that the loop has gone round, and that the next round may take `allowed_seconds` if that is more than usual."""
    self._round = (self._clock(), max(self.patience_seconds, allowed_seconds))

  @property
  def age_seconds(self) -> float:
    """Since the loop last went round."""
    return self._clock() - self._round[0]

  @property
  def allowed_seconds(self) -> float:
    """That the present round may take."""
    return self._round[1]
