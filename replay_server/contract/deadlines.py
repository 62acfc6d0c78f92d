"""Calls that may hang for good, with a deadline."""

import concurrent.futures
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.2


class DeadlineCaller:
  """Runs every call in an idle daemon thread, and starts one if none is idle; a thread that hangs is abandoned."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._idle: list[_DaemonThread] = []

  def call(self, function: Callable[[], T], timeout_seconds: float, check: Callable[[], None] | None) -> T:
    """Calls `function()` and returns its result, or raises what it raises.

    Args:
      function: which may hang.
      timeout_seconds: after which it is abandoned.
      check: called again and again meanwhile; what it raises abandons the call too.

    Raises:
      concurrent.futures.TimeoutError: it did not return in time.
    """
    with self._lock:
      worker = self._idle.pop() if self._idle else _DaemonThread()
    future = worker.submit(function)
    try:
      return future.result(timeout_seconds) if check is None else _result(future, timeout_seconds, check)
    finally:
      if future.done():  # Otherwise the call hangs, and its thread must not be used again.
        with self._lock:
          self._idle.append(worker)


def _result(future: "concurrent.futures.Future[T]", timeout_seconds: float, check: Callable[[], None]) -> T:
  deadline = time.monotonic() + timeout_seconds
  while True:
    try:
      return future.result(max(0.0, min(_POLL_SECONDS, deadline - time.monotonic())))
    except concurrent.futures.TimeoutError:
      if time.monotonic() > deadline:
        raise
      check()


class _DaemonThread:
  """A thread that runs submitted functions; unlike an executor's, it does not delay the end of the process."""

  def __init__(self) -> None:
    self._wake = threading.Semaphore(0)
    self._work: list[tuple[concurrent.futures.Future[Any], Callable[[], Any]]] = []
    threading.Thread(target=self._run, name="server-call", daemon=True).start()

  def submit(self, function: Callable[[], T]) -> concurrent.futures.Future[T]:
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    self._work.append((future, function))
    self._wake.release()
    return future

  def _run(self) -> None:
    while self._wake.acquire():
      future, function = self._work.pop()
      try:
        future.set_result(function())
      except BaseException as error:
        future.set_exception(error)
      # The result may be large, or a writer: this thread must not keep it alive until its next call.
      del future, function
