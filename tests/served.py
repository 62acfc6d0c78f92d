"""Runs a server of `make_config()` in a process of its own until it is killed: `python -m tests.served FOLDER`."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from tests.serving import make_config, serving


@contextlib.contextmanager
def served(folder: pathlib.Path) -> Iterator[tuple[str, Callable[[], None]]]:
  """The address of such a server, and a function that kills it."""
  command = [sys.executable, "-m", "tests.served", str(folder)]
  with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
    assert process.stdout is not None
    try:
      yield process.stdout.readline().strip(), lambda: os.kill(process.pid, signal.SIGKILL)
    finally:
      process.kill()


if __name__ == "__main__":
  with serving(make_config(), pathlib.Path(sys.argv[1]), inline=True) as server:
    print(server.address, flush=True)
    time.sleep(120)
