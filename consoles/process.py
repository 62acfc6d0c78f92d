"""A console's process: from its options to its exit code."""

import contextlib
import faulthandler
import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

from configs.errors import UserError
from configs.exit_codes import ExitCode
from consoles.options import ConsoleOptions
from consoles.server import ConsoleServer

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 10.0
_CODES = {signal.SIGTERM: ExitCode.TERMINATED, signal.SIGHUP: ExitCode.TERMINATED, signal.SIGINT: ExitCode.INTERRUPTED}


def serve(options: ConsoleOptions) -> int:
  """Serves until a signal comes; returns the exit code.

  Raises:
    UserError: an option is wrong.
  """
  began = time.monotonic()
  _extend_path(options.pythonpath)
  codes: list[ExitCode] = []

  def leave(signum: int, _: FrameType | None) -> None:
    codes.append(_CODES[signal.Signals(signum)])

  before = {signum: signal.signal(signum, leave) for signum in _CODES}
  try:
    server = ConsoleServer(options)
    server.start()
    try:
      server.prepare()
      print(
        f"The console of {options.world!r} is ready at {server.address} after {time.monotonic() - began:.1f} s: "
        f"{1 / server.control_seconds:g} Hz, pace {options.pace}.",
        flush=True,
      )
      while not codes:  # Not an Event: a handler that sets one can meet the lock that this thread holds in `wait`.
        time.sleep(_POLL_SECONDS)
    finally:
      with _ending_within(_GRACE_SECONDS, options.world, codes[-1] if codes else ExitCode.FAILED):
        server.stop()
  finally:
    for signum, handler in before.items():
      signal.signal(signum, handler)
  return codes[-1]


@contextlib.contextmanager
def _ending_within(seconds: float, world: str, code: ExitCode) -> Iterator[None]:
  """Ends the process if the body takes longer, and says where it was: a call that hangs cannot be cancelled."""

  def end() -> None:
    faulthandler.dump_traceback(2)
    print(
      f"The console of {world!r} leaves, and its world has not closed within {seconds:g} s, so the console ends without that.",
      file=sys.stderr,
      flush=True,
    )
    os._exit(code)

  timer = threading.Timer(seconds, end)
  timer.daemon = True
  timer.start()
  faulthandler.dump_traceback_later(seconds + 3, exit=True, file=2)  # A call that holds the GIL also stops the timer.
  try:
    yield
  finally:
    timer.cancel()
    faulthandler.cancel_dump_traceback_later()


def _extend_path(folders: str) -> None:
  for folder in filter(None, folders.split(":")):
    path = pathlib.Path(folder).resolve()
    if not path.is_dir():
      raise UserError(f"--pythonpath names {folder}, which is not a folder: check the path.")
    sys.path.insert(0, str(path))
