"""Roles in threads of this process, each with an exporter, and what these answer."""

import contextlib
import pathlib
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

from launch.metrics.exporter import Exporter
from launch.metrics.probes import ServerProbe
from launch.process import RoleProcess, StopEvent
from replay_server.contract.progress import Progress
from replay_server.process.keeper import Keeper
from replay_server.process.server import ReplayServer


def get(exporter: Exporter, path: str) -> tuple[int, str]:
  """Status code and body of an answer."""
  try:
    with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}{path}", timeout=30) as answer:
      return answer.status, answer.read().decode()
  except urllib.error.HTTPError as error:
    with error:
      return error.code, error.read().decode()


@contextlib.contextmanager
def role_in_thread(
  role: str, name: str, body: Callable[[RoleProcess], None], patience_seconds: float = 60.0
) -> Iterator[Exporter]:
  """Runs a role's function of `launch.roles`, as its process does; at the end it is told to stop, and waited for."""
  stop = StopEvent()
  with Exporter(0, role, name, Progress(patience_seconds)) as exporter:
    thread = threading.Thread(target=body, args=(RoleProcess(name, stop, exporter=exporter),), name=name)
    thread.start()
    try:
      yield exporter
    finally:
      stop.set()
      thread.join()


@contextlib.contextmanager
def kept_in_thread(server: ReplayServer, keeper: Keeper, patience_seconds: float = 60.0) -> Iterator[Exporter]:
  """Runs a keeper's loop, as the server's process does; at the end the server leaves."""
  leave = threading.Event()
  with Exporter(0, "server", "server", Progress(patience_seconds)) as exporter:
    server.connection.progress = exporter.progress
    exporter.probe = ServerProbe(keeper, server.manifest)
    thread = threading.Thread(target=keeper.run, args=(leave,), name="keeper")
    thread.start()
    try:
      yield exporter
    finally:
      leave.set()
      thread.join()


def run_folder(folder: pathlib.Path) -> pathlib.Path:
  """A folder for a run directory."""
  (folder / "run").mkdir(exist_ok=True)
  return folder / "run"
