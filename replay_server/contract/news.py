"""What a process has last heard of its server: the lifeline's threads write it, and the role's loop reads it."""

import threading
import time
from collections.abc import Callable

from configs import ServerLost
from replay_server.contract.lease import HeldLease
from replay_server.contract.role import is_gone
from replay_server.contract.status import RoleStatus, RunStatus

# A server that was silent for this long is waited for before anything else is tried.
SILENT_SECONDS = 3.0
# A role whose streams failed more often than this in this time ends.
MOST_FAILURES = 5
FAILURES_SECONDS = 120.0


class RepeatedFailures:
  """Ends a role whose streams fail again and again although the server answers; for one thread."""

  def __init__(self) -> None:
    self._times: list[float] = []

  def note(self, error: ServerLost) -> None:
    """Notes a failure.

    Raises:
      ServerLost: `error`, if there were more than `MOST_FAILURES` in the last `FAILURES_SECONDS`.
    """
    now = time.monotonic()
    self._times = [*(then for then in self._times if now - then < FAILURES_SECONDS), now]
    if len(self._times) > MOST_FAILURES:
      raise error


class ServerNews:
  """The last news of a server; safe for several threads. Without a lifeline, as in an inline run, there are none.

  Attributes:
    lease: of this process, if it is a learner's; None without a lifeline, and then nobody else learns.
    worker: name and instance of this process, if it is a worker's; None without a lifeline.
  """

  def __init__(self, clock: Callable[[], float] = time.monotonic):
    """Has heard nothing yet; `clock` is in seconds."""
    self.lease: HeldLease | None = None
    self.worker: tuple[str, str] | None = None
    self._clock = clock
    self._lock = threading.Lock()
    self._heard: float | None = None
    self._status: RunStatus | None = None
    self._restarts = 0
    self._rival: RoleStatus | None = None

  def note_answer(self) -> None:
    """Notes that the server has answered."""
    with self._lock:
      self._heard = self._clock()

  def note_status(self, status: RunStatus) -> None:
    """Takes in the run's status."""
    with self._lock:
      if self._status is not None and status.epoch != self._status.epoch:
        self._restarts += 1
      self._status = status
      self._rival = self._find_rival(status)
    if self.lease is not None:
      self.lease.note_status(status)

  def _find_rival(self, status: RunStatus) -> RoleStatus | None:
    if self.worker is None:
      return None
    name, instance = self.worker
    # Processes of one name are listed in the order in which the server heard of them first.
    alive = (role for role in status.roles if role.name == name and role.alive)
    first = next((role for role in alive if role.instance == instance or not is_gone(role)), None)
    return first if first is not None and first.instance != instance else None

  @property
  def rival(self) -> RoleStatus | None:
    """Another worker that had this one's name first, and is alive."""
    with self._lock:
      return self._rival

  @property
  def status(self) -> RunStatus | None:
    """The last status; None before the first."""
    with self._lock:
      return self._status

  @property
  def restarts(self) -> int:
    """How often the server was started again since this process joined it."""
    with self._lock:
      return self._restarts

  @property
  def silent_seconds(self) -> float | None:
    """Since the server last answered; None before the first answer."""
    with self._lock:
      return None if self._heard is None else self._clock() - self._heard

  @property
  def is_silent(self) -> bool:
    """Whether the server does not answer at present."""
    silent = self.silent_seconds
    return silent is not None and silent > SILENT_SECONDS

  @property
  def is_leaving(self) -> bool:
    """Whether the server asks that nobody writes, since it is about to be started again."""
    status = self.status
    return status is not None and status.is_leaving
