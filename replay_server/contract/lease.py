"""How long a learner may go on without a word from the server, and the server without one from the learner."""

import threading
import time
from collections.abc import Callable

from replay_server.contract.status import RunStatus

# A role counts as dead, and a learner's lease may go to another one, after this long without a heartbeat. It sends one every
# second.
PATIENCE_SECONDS = 8.0
# A learner stops writing this long before its lease runs out, so that a write that has begun ends in time.
_MARGIN_SECONDS = 1.0


class HeldLease:
  """A learner's own view of its lease; safe for several threads.

  The server gives the lease to another learner once `PATIENCE_SECONDS` have passed since it heard the holder's last heartbeat.
  The status names that heartbeat, and the holder knows when it sent it, which was earlier. So by its own clock the lease is
  still its own for the rest of this time, whatever the network, a pause of the process or the server did meanwhile.

  Attributes:
    instance: of this process.
  """

  def __init__(self, instance: str, clock: Callable[[], float] = time.monotonic):
    """Holds nothing yet.

    Args:
      instance: of this process.
      clock: in seconds; it goes on while the process is paused.
    """
    self.instance = instance
    self._clock = clock
    self._lock = threading.Lock()
    self._sent: dict[int, float] = {}
    self._until = float("-inf")

  def note_sending(self, number: int) -> None:
    """Notes that heartbeat `number` is about to be sent."""
    with self._lock:
      self._sent[number] = self._clock()

  def note_status(self, status: RunStatus) -> None:
    """Takes in what the server says of the lease."""
    lease = status.lease
    with self._lock:
      if lease is None or lease.instance != self.instance or lease.beat not in self._sent:
        return
      self._until = max(self._until, self._sent[lease.beat] + PATIENCE_SECONDS - _MARGIN_SECONDS)
      self._sent = {number: sent for number, sent in self._sent.items() if number >= lease.beat}

  @property
  def is_held(self) -> bool:
    """Whether this process may write as the run's learner now."""
    with self._lock:
      return self._clock() < self._until
