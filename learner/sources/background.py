"""Draws blocks in a thread of its own, so that a wait for the server can be told to end."""

import queue
import threading
from collections.abc import Callable

from configs import Stopped
from learner.sources.block import Block

_POLL_SECONDS = 0.2


class BackgroundDrawing:
  """One thread that draws a block whenever one is asked for; with `prefetch` the next one as soon as a block is taken."""

  def __init__(self, draw: Callable[[], Block], stop: threading.Event, prefetch: bool):
    """Starts nothing yet.

    Args:
      draw: makes one block; called in the thread.
      stop: ends a wait for a block.
      prefetch: whether to draw the next block while the last one is learned from.
    """
    self._draw = draw
    self._stop = stop
    self._prefetch = prefetch
    self._requests: queue.Queue[bool] = queue.Queue()
    self._blocks: queue.Queue[Block | BaseException] = queue.Queue()
    self._is_requested = False
    self._closed = threading.Event()
    self._thread: threading.Thread | None = None

  def next_block(self) -> Block:
    """The next block.

    Raises:
      Stopped: told to stop while waiting.
      BaseException: what `draw` raised.
    """
    if self._thread is None:
      self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
      self._thread.start()
    self._request()
    while True:
      try:
        block = self._blocks.get(timeout=_POLL_SECONDS)
        break
      except queue.Empty:
        if self._stop.is_set():
          raise Stopped("Stopped while waiting for transitions.") from None
    self._is_requested = False
    if isinstance(block, BaseException):
      raise block
    if self._prefetch:
      self._request()
    return block

  def _request(self) -> None:
    if not self._is_requested:
      self._requests.put(True)
      self._is_requested = True

  def close(self, timeout_seconds: float) -> None:
    """Ends the thread; waits so long for a draw that is under way, which its caller has told to end."""
    self._closed.set()
    self._requests.put(False)  # Which wakes it up.
    if self._thread is not None:
      self._thread.join(timeout_seconds)

  def _run(self) -> None:
    while self._requests.get() and not self._closed.is_set():
      try:
        self._blocks.put(self._draw())
      except BaseException as error:  # Handed to whoever asked for the block.
        self._blocks.put(error)
