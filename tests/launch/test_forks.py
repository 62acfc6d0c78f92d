"""The fork server with real supervisors and real workers, which wait for a server that never comes: kills in every order."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

import psutil
import pytest

from launch import supervision
from launch.forks import ForkServer
from launch.supervisor import Restarts
from tests.launch.processes import ROOT, alive, assert_all_gone, wait_for
from tests.serving import free_port

pytestmark = pytest.mark.timeout(180)

FAST = {"most": 3, "window_seconds": 300.0, "first_delay": 0.01, "longest_delay": 0.01}
FORK_SECONDS = 120.0


class Launcher:
  """A process that keeps a fork server, as `train` does, until it is killed."""

  PROGRAM = """
import sys, time
from launch.forks import ForkServer
from launch.supervisor import Restarts
with ForkServer(restarts=Restarts(range(256), first_delay=0.01)) as forks:
  print(forks.path, flush=True)
  while True:
    forks.keep()
    time.sleep(0.05)
"""

  def __init__(self) -> None:
    self.process = subprocess.Popen([sys.executable, "-c", self.PROGRAM], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert self.process.stdout is not None
    self.path = self.process.stdout.readline().strip()

  @property
  def pid(self) -> int:
    """Process id of the fork server; 0 while there is none."""
    children = psutil.Process(self.process.pid).children()
    return next((child.pid for child in children if alive(child.pid)), 0)

  def kill(self) -> None:
    self.process.kill()
    self.process.wait()
    assert self.process.stdout is not None
    self.process.stdout.close()


@pytest.fixture(name="forks", scope="module")
def _forks() -> Iterator[Launcher]:
  launcher = Launcher()
  yield launcher
  launcher.kill()


class Supervised:
  """A supervisor of `slipstream act`, for a server that never comes."""

  def __init__(self, folder: pathlib.Path, fork_server: str, *words: str):
    self._log = folder / "log"
    given = words or ("act", f"--server=localhost:{free_port()}", "--server_timeout=0", "--index=7")
    command = supervision.supervisor_command("actor_7", list(given), folder / "failure.json", fork_server=fork_server)
    order = {**json.loads(command[-1]), "restarts": FAST, "restarted_codes": [1, 4, 137]}
    with self._log.open("a") as log:
      environment = {**os.environ, **supervision.role_environment(), "SLIPSTREAM_TEST": "given"}
      self.process = subprocess.Popen([*command[:-1], json.dumps(order)], stdout=log, stderr=log, env=environment)

  @property
  def log(self) -> str:
    return self._log.read_text()

  def end(self) -> None:
    self.process.kill()
    self.process.wait()


@pytest.fixture(name="supervise")
def _supervise(tmp_path: pathlib.Path) -> Iterator[Callable[..., Supervised]]:
  started: list[Supervised] = []

  def supervise(fork_server: str, *words: str) -> Supervised:
    started.append(Supervised(tmp_path, fork_server, *words))
    return started[-1]

  yield supervise
  for one in started:
    one.end()


def worker_of(parent: int, but: int = 0) -> psutil.Process:
  """The worker whose parent this is, once it runs; `but` is another one's process id."""

  def found() -> psutil.Process | None:
    children = [child for child in psutil.Process(parent).children() if child.pid != but]
    return next((child for child in children if is_at_work(child)), None)

  return wait_for(found, FORK_SECONDS, "the worker")


def is_at_work(process: psutil.Process) -> bool:
  """Whether it has a title of its own, and the handlers of signals of a role: the threads beside it come later."""
  return "act" in process.cmdline() and process.num_threads() > 1


def test_a_worker_is_forked_and_its_supervisor_hands_everything_on(forks: Launcher, supervise: Callable) -> None:
  supervisor = supervise(forks.path)
  worker = worker_of(forks.pid)
  assert worker.pid % 2 == 1
  assert worker.cmdline()[1:4] == ["-m", "slipstream", "act"]
  assert worker.cmdline()[-1] == "--index=7"
  assert "launch.fork_server" in psutil.Process(forks.pid).cmdline()
  assert os.getpgid(worker.pid) == worker.pid
  # It shares what is imported: of some 200 MB.
  assert worker.memory_full_info().uss < 60e6

  worker.kill()
  again = worker_of(forks.pid, but=worker.pid)
  assert "actor_7 was ended by signal 9 after" in supervisor.log
  supervisor.process.terminate()
  assert supervisor.process.wait(60) == 143
  assert_all_gone([again.pid])
  assert "Traceback" not in supervisor.log


def test_a_forked_workers_mistake_is_its_supervisors_exit_code(forks: Launcher, supervise: Callable, tmp_path) -> None:
  supervisor = supervise(forks.path, "act", "--server=nowhere")
  assert supervisor.process.wait(FORK_SECONDS) == 2
  wait_for(lambda: not psutil.Process(forks.pid).children(), 10, "the end")
  assert "nowhere" in json.loads((tmp_path / "failure.json").read_text())["sentence"]
  assert "does not fork" not in supervisor.log


def test_a_worker_leaves_when_its_supervisor_is_killed_and_the_next_one_begins_after_it(
  forks: Launcher, supervise: Callable
) -> None:
  first = supervise(forks.path)
  worker = worker_of(forks.pid)
  worker.suspend()  # So that it cannot leave yet.
  first.end()
  second = supervise(forks.path)
  wait_for(lambda: "The supervisor of actor_7 is gone" in first.log, 30, "the order to leave")
  assert [child.pid for child in psutil.Process(forks.pid).children()] == [worker.pid]
  worker.resume()
  successor = worker_of(forks.pid, but=worker.pid)
  assert not alive(worker.pid)
  second.process.terminate()
  assert second.process.wait(60) == 143
  assert_all_gone([successor.pid])


def test_a_worker_whose_supervisor_was_gone_before_the_fork_leaves_at_once(tmp_path: pathlib.Path) -> None:
  words = ["act", f"--server=localhost:{free_port()}", "--server_timeout=0", "--index=7"]
  order = {"role": "actor_7", "words": words, "environment": {**os.environ}, "parity": 1, "grace_seconds": 1_000.0}
  launcher, log = Launcher(), tmp_path / "log"
  try:
    with socket.socket(socket.AF_UNIX) as connection, log.open("w") as output:
      connection.connect(launcher.path)  # The order waits until the fork server has imported what it needs.
      socket.send_fds(connection, [b" "], [output.fileno()] * 2)
      connection.sendall(json.dumps({**order, "supervisor": os.getpid()}).encode() + b"\n")
    wait_for(lambda: "The supervisor of actor_7 is gone" in log.read_text(), FORK_SECONDS, "the order to leave")
    wait_for(lambda: not psutil.Process(launcher.pid).children(), 10, "the worker's end")
  finally:
    psutil.Process(launcher.pid).kill()  # Its worker, if there is one, ends with it.
    launcher.kill()


def test_workers_come_back_with_the_fork_server_after_it_was_killed(forks: Launcher, supervise: Callable) -> None:
  supervisor = supervise(forks.path)
  before = forks.pid
  worker = worker_of(before)
  os.kill(before, signal.SIGKILL)
  assert_all_gone([worker.pid])
  wait_for(lambda: forks.pid not in (0, before), 30, "the next fork server")
  again = worker_of(forks.pid)
  assert "The fork server is gone, and this role with it." in supervisor.log
  assert psutil.Process(supervisor.process.pid).children() == []
  supervisor.process.terminate()
  assert supervisor.process.wait(60) == 143
  assert_all_gone([again.pid])


def test_a_supervisor_starts_its_worker_itself_once_the_fork_server_is_given_up(
  supervise: Callable, tmp_path: pathlib.Path
) -> None:
  with ForkServer(tmp_path / "forks", restarts=Restarts([])) as forks:
    supervisor = supervise(forks.path, "act", "--server=nowhere")
    os.kill(forks.pid, signal.SIGKILL)
    assert_all_gone([forks.pid])
    forks.keep()
    assert supervisor.process.wait(60) == 2
  assert "The fork server does not fork actor_7, which starts by itself." in supervisor.log
  assert "nowhere" in json.loads((tmp_path / "failure.json").read_text())["sentence"]


def test_a_run_needs_no_fork_server(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  folder = tmp_path / ("x" * 100)  # A socket's path has room for 107 characters.
  folder.mkdir()
  monkeypatch.setattr(tempfile, "tempdir", str(folder))
  with ForkServer() as forks:
    forks.keep()
    assert (forks.path, forks.pid) == ("", 0)
  assert "so each role starts by itself" in capsys.readouterr().err
  assert not list(folder.iterdir())


def test_nothing_is_left_when_launcher_and_supervisor_are_killed(forks: Launcher, supervise: Callable) -> None:
  supervisor = supervise(forks.path)
  pid = forks.pid
  worker = worker_of(pid)
  forks.kill()
  assert alive(pid)  # It has a role.
  supervisor.end()
  assert_all_gone([worker.pid, pid], timeout=30)
  assert not pathlib.Path(forks.path).parent.exists()
