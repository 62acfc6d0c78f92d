"""Workers that join a running job from outside; the job notices nothing but their rows."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time

from launch.process import ATTACHED, stop_on_signals
from launch.program import ROLE_ENVIRONMENT
from launch.roles import join

_POLL_SECONDS = 0.5
_TERMINATION_SECONDS = 20.0


def attach(server: str, actors: int, pythonpath: str = "", verbose: bool = False) -> int:
  """Runs workers against a server until its run ends or this process is told to stop.

  Args:
    server: host:port of a running job.
    actors: number of worker processes.
    pythonpath: folders, as in PYTHONPATH, from which the run's environment and events can be imported.
    verbose: whether workers show the traceback of the user's own code, if that fails.

  Returns:
    The exit code of the first worker that failed, or 0; a worker that was killed does not count as failed.

  Raises:
    UserError: no server answers, or its run cannot be joined.
  """
  with stop_on_signals() as stop:
    _, manifest = join(server, stop)
    print(f"Adding {actors} worker(s); Ctrl-C removes them again.", flush=True)
    # The index determines a worker's seed and exploration. Nobody counts attached workers, so a random offset keeps the
    # indices of several `attach` commands apart.
    first = manifest.config.actor.workers + secrets.randbelow(2**20)
    workers = [_start(server, first + number, pythonpath, verbose) for number in range(actors)]
    try:
      return _wait(workers, stop)
    finally:
      _end(workers)


def _start(server: str, index: int, pythonpath: str, verbose: bool) -> "subprocess.Popen[bytes]":
  name = f"actor_{socket.gethostname()}_{index}"
  command = [sys.executable, "-m", "slipstream", "act", f"--server={server}", f"--name={name}", f"--index={index}"]
  if pythonpath:
    command.append(f"--pythonpath={pythonpath}")
  if verbose:
    command.append("--verbose")
  # In a session of its own: Ctrl-C reaches this process alone, which then asks each worker to stop.
  return subprocess.Popen(command, env={**os.environ, **ROLE_ENVIRONMENT, ATTACHED: "1"}, start_new_session=True)


def _wait(workers: "list[subprocess.Popen[bytes]]", stop: threading.Event) -> int:
  while not stop.wait(_POLL_SECONDS):
    codes = [worker.poll() for worker in workers]
    failed = [code for code in codes if code is not None and code > 0]
    if failed:
      return failed[0]
    if all(code is not None for code in codes):
      return 0
  return 0


def _end(workers: "list[subprocess.Popen[bytes]]") -> None:
  for worker in workers:
    if worker.poll() is None:
      worker.send_signal(signal.SIGTERM)
  deadline = time.monotonic() + _TERMINATION_SECONDS
  for worker in workers:
    try:
      worker.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
      worker.kill()
      worker.wait()
