"""Draws blocks in a separate thread, so that a wait for the server can be ended."""

import queue
import threading
from collections.abc import Callable

from configs import Stopped
from learner.sources.block import Block

_POLL_SECONDS = 0.2


class BackgroundDrawing:
  """A thread that draws a block when one is requested; with `prefetch`, `draw_ahead` requests the next one early."""

  def __init__(
    self,
    draw: Callable[[], Block],
    stop: threading.Event,
    prefetch: bool,
    check: Callable[[], None] = lambda: None,
  ):
    """Starts no thread yet.

    Args:
      draw: draws one block; called in the thread.
      stop: ends a wait for a block.
      prefetch: whether to draw the next block while the learner learns from the last one.
      check: called again and again while a block is waited for; what it raises ends the wait.
    """
    self._draw = draw
    self._check = check
    self._stop = stop
    self._prefetch = prefetch
    self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
    self._drawn: queue.SimpleQueue[Block | BaseException] = queue.SimpleQueue()
    self._is_requested = False
    self._closed = threading.Event()
    self._thread: threading.Thread | None = None

  def next_block(self, while_waiting: Callable[[], None] = lambda: None) -> Block:
    """The next block.

    Args:
      while_waiting: called like `check`; if it raises, the block is handed out by the next call.

    Raises:
      Stopped: stopped while waiting.
      BaseException: whatever `draw`, `check` or `while_waiting` raised.
    """
    if self._thread is None:
      self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
      self._thread.start()
    self._request()
    while True:
      try:
        drawn = self._drawn.get(timeout=_POLL_SECONDS)
        break
      except queue.Empty:
        if self._stop.is_set():
          raise Stopped("Stopped while waiting for transitions.") from None
        self._check()
        while_waiting()
    self._is_requested = False
    if isinstance(drawn, BaseException):
      raise drawn
    return drawn

  def draw_ahead(self) -> None:
    """Begins to draw the next block, with `prefetch`; see `Source.draw_ahead`."""
    if self._prefetch:
      self._request()

  def _request(self) -> None:
    if not self._is_requested:
      self._requests.put(True)
      self._is_requested = True

  def close(self, timeout_seconds: float) -> None:
    """Ends the thread; waits at most `timeout_seconds` for a draw under way, which the caller must have interrupted."""
    self._closed.set()
    self._requests.put(False)  # Wakes the thread.
    if self._thread is not None:
      self._thread.join(timeout_seconds)

  def _run(self) -> None:
    while self._requests.get() and not self._closed.is_set():
      try:
        self._drawn.put(self._draw())
      except BaseException as error:  # Raised by `next_block`.
        self._drawn.put(error)
