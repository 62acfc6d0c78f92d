"""A console's process: from its options to its exit code."""

import pathlib
import signal
import sys
import threading
import time
from types import FrameType

from configs.errors import UserError
from configs.exit_codes import ExitCode
from consoles.options import ConsoleOptions
from consoles.server import ConsoleServer

_CODES = {signal.SIGTERM: ExitCode.TERMINATED, signal.SIGHUP: ExitCode.TERMINATED, signal.SIGINT: ExitCode.INTERRUPTED}


def serve(options: ConsoleOptions) -> int:
  """Serves until a signal comes; returns the exit code.

  Raises:
    UserError: an option is wrong.
  """
  began = time.monotonic()
  _extend_path(options.pythonpath)
  told = threading.Event()
  code = ExitCode.DONE

  def leave(signum: int, _: FrameType | None) -> None:
    nonlocal code
    code = _CODES[signal.Signals(signum)]
    told.set()

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
      told.wait()
    finally:
      server.stop()
  finally:
    for signum, handler in before.items():
      signal.signal(signum, handler)
  return code


def _extend_path(folders: str) -> None:
  for folder in filter(None, folders.split(":")):
    path = pathlib.Path(folder).resolve()
    if not path.is_dir():
      raise UserError(f"--pythonpath names {folder}, which is not a folder: check the path.")
    sys.path.insert(0, str(path))
