"""Workers that join a running job from outside; the job notices nothing but their rows."""

import os
import secrets
import signal
import socket
import subprocess
import threading
import time
import types
from collections.abc import Mapping, Sequence
from typing import Any

from configs import UserError
from configs.consoles import check_addresses
from configs.exit_codes import ExitCode
from environments.trust import Trust
from launch.endpoint import Endpoint
from launch.forks import ForkServer
from launch.process import stop_on_signals
from launch.roles import join, with_own_arguments
from launch.supervision import RESTARTED_CODES, role_environment, supervisor_command

_POLL_SECONDS = 0.5
_GRACE_SECONDS = 15.0
_TERMINATION_SECONDS = 20.0
# A worker that has lost its server has waited for it already.
_RESTARTED_CODES = [code for code in RESTARTED_CODES if code != ExitCode.SERVER_LOST]


def attach(
  endpoint: Endpoint,
  actors: int,
  trust: Trust,
  verbose: bool = False,
  arguments: Mapping[str, Any] = types.MappingProxyType({}),
  consoles: Sequence[str] = (),
) -> int:
  """Runs workers against a server until its run ends or this process is told to stop.

  A worker that is killed or fails unexpectedly is started again. One that ends for a mistake ends alone, and says why.

  Args:
    endpoint: of a running job's server.
    actors: number of worker processes.
    trust: what of the run's environment and events may be imported.
    verbose: whether workers show the traceback of the user's own code, if that fails.
    arguments: of these workers' environments, as JSON values, in place of the config's.
    consoles: address of the console of each worker; empty if they make their environments themselves.

  Returns:
    0 if the run has ended; 2 if a mistake ended every worker; otherwise 4 if the server was lost, or the exit code of a worker
    that was started again too often; 130 or 143 if a signal ended this process.

  Raises:
    UserError: no server answers, its run cannot be joined, or its config names code that may not be imported; there are more or
      fewer consoles than workers, or an address is none.
  """
  _check_consoles(consoles, actors)
  with stop_on_signals() as stop:
    with join(endpoint, stop, trust) as (_, manifest):  # The workers have connections of their own.
      for console in consoles or [""]:
        with_own_arguments(manifest, "actor", arguments, trust, console)
    print(f"Adding {actors} worker(s); Ctrl-C removes them again.", flush=True)
    # The index determines a worker's seed and exploration. Nobody counts attached workers, so a random offset keeps the
    # indices of several `attach` commands apart.
    first = manifest.config.worker_count + secrets.randbelow(2**20)
    flags = endpoint.words
    flags += [f"--pythonpath={os.pathsep.join(trust.folders)}"] if trust.folders else []
    flags += [f"--allow_module={','.join(trust.packages)}"] if trust.packages else []
    flags += ["--verbose"] if verbose else []
    flags += argument_words(arguments)
    with ForkServer(sees_gpu=True) as fork_server:
      supervisors = [
        _start(first + number, [*flags, *words], fork_server.path)
        for number, words in enumerate([[f"--console={console}"] for console in consoles] or [[]] * actors)
      ]
      try:
        codes = _wait(supervisors, stop, fork_server)
      finally:
        _end(supervisors)
    return stop.exit_code if stop.is_set() else overall_exit_code(codes)


def _check_consoles(consoles: Sequence[str], actors: int) -> None:
  check_addresses("--consoles", consoles)
  if consoles and len(consoles) != actors:
    raise UserError(
      f"--actors is {actors}, and --consoles names {len(consoles)}: name one console for each worker, separated by commas."
    )


def argument_words(arguments: Mapping[str, Any]) -> list[str]:
  """The words that give a worker's command arguments of its environments, which are JSON values."""
  return [f"--environment.{name}={value!r}" for name, value in arguments.items()]  # It reads Python's literals.


def _start(index: int, flags: list[str], fork_server: str) -> "subprocess.Popen[bytes]":
  name = f"actor_{socket.gethostname()}_{index}"
  command = supervisor_command(
    name,
    ["act", f"--name={name}", f"--index={index}", *flags],
    grace_seconds=_GRACE_SECONDS,
    restarted_codes=_RESTARTED_CODES,
    fork_server=fork_server,
  )
  # In a session of its own: Ctrl-C reaches this process alone, which then asks each supervisor to stop.
  return subprocess.Popen(command, env={**os.environ, **role_environment(sees_gpu=True)}, start_new_session=True)


def _wait(supervisors: "list[subprocess.Popen[bytes]]", stop: threading.Event, fork_server: ForkServer) -> list[int]:
  """Waits until all have ended, or until `stop` is set; the exit codes of those that have ended."""
  while True:
    fork_server.keep()
    codes = [supervisor.poll() for supervisor in supervisors]
    ended = [code for code in codes if code is not None]
    if len(ended) == len(codes) or stop.wait(_POLL_SECONDS):
      return [128 - code if code < 0 else code for code in ended]


def overall_exit_code(codes: list[int]) -> int:
  """The exit code of a command whose workers have ended with `codes`; see `attach`."""
  if ExitCode.DONE in codes:
    return ExitCode.DONE
  others = [code for code in codes if code != ExitCode.MISTAKE]
  if not others:
    return ExitCode.MISTAKE
  return ExitCode.SERVER_LOST if ExitCode.SERVER_LOST in others else others[0]


def _end(supervisors: "list[subprocess.Popen[bytes]]") -> None:
  for supervisor in supervisors:
    if supervisor.poll() is None:
      supervisor.send_signal(signal.SIGTERM)
  deadline = time.monotonic() + _TERMINATION_SECONDS
  for supervisor in supervisors:
    try:
      supervisor.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
      supervisor.kill()
      supervisor.wait()
