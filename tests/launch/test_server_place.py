"""A run directory says where the run's server is."""

import contextlib
import pathlib
import socket
import threading
from collections.abc import Iterator

import pytest

from configs import Stopped, UserError
from configs.errors import ServerAway
from configs.exit_codes import ExitCode
from launch import server_place
from launch.endpoint import Endpoint, connected
from launch.process import RoleProcess, StopEvent
from launch.run_directory import RunDirectory, begin_run_directory
from launch.server_place import ServerPlace, address_of, following, read_place, write_place
from slipstream.main import run as run_command
from tests.serving import make_config, serving, wait_for

_PATIENCE_SECONDS = 60.0


@pytest.fixture(name="run")
def _run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
  monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
  return begin_run_directory(make_config(), tmp_path / "run", "--run_dir")


def _port(address: str) -> int:
  return int(address.rpartition(":")[2])


@contextlib.contextmanager
def _deaf_port() -> Iterator[int]:
  """A port at which nobody answers."""
  with socket.socket() as bound:
    bound.bind(("localhost", 0))
    yield bound.getsockname()[1]


def _connect(run: RunDirectory, patience_seconds: float, stop: threading.Event | None = None) -> None:
  with connected(Endpoint(f"@{run.path}", patience_seconds), stop=stop):
    pass


def test_what_is_written_is_read_and_what_cannot_be_read_is_nothing(run, capsys):
  assert read_place(run) is None
  write_place(run, 8000)
  assert read_place(run) == ServerPlace("run", "localhost:8000")
  assert address_of(f"@{run.path}") == "localhost:8000"
  write_place(run, ended=True)
  assert read_place(run) == ServerPlace("run", "", ended=True)
  for damaged in ("", "{", "[1]", '{"run_id": "run", "port": 1}', '{"run_id": "run", "address": 8000}', "\0"):
    run.server.write_text(damaged)
    assert read_place(run) is None
  write_place(RunDirectory(run.path / "gone"), 8000)
  assert "cannot be written (No such file or directory)" in capsys.readouterr().out


def test_a_host_that_does_not_know_its_name_is_found_by_its_own_processes(run, monkeypatch, capsys):
  monkeypatch.setattr(socket, "gethostname", lambda: "no-such-host.invalid")
  write_place(run, 8000)
  assert address_of(f"@{run.path}") == "localhost:8000"
  assert "only processes on it find the server" in capsys.readouterr().out


def test_a_server_is_found_that_comes_up_elsewhere_while_it_is_waited_for(run, tmp_path):
  with _deaf_port() as port, serving(make_config(), tmp_path / "server") as server:
    write_place(run, port)  # Of a server that was killed.
    moves = threading.Timer(1.0, write_place, [run, _port(server.address)])
    moves.start()
    with connected(Endpoint(f"@{run.path}", _PATIENCE_SECONDS)) as connection:
      moves.join()
      assert (connection.address, connection.run_id) == (server.address, "run")


def test_a_server_of_another_run_that_took_the_port_is_not_the_runs(run, tmp_path):
  with serving(make_config(), tmp_path / "server", run_id="other") as server:
    write_place(run, _port(server.address))
    with pytest.raises(
      ServerAway, match=r"was at localhost:\d+, where it does not answer \(waited 1 s\): start it again"
    ):
      _connect(run, 1.0)


def test_a_wait_ends_when_it_is_told_to(run):
  stop = threading.Event()
  threading.Timer(0.3, stop.set).start()
  with pytest.raises(Stopped, match="Stopped while waiting for the server"):
    _connect(run, _PATIENCE_SECONDS, stop)


@pytest.mark.parametrize(
  ("case", "code", "sentence"),
  [
    ("no run", ExitCode.MISTAKE, "is not a run directory (waited 0.2 s): check the path, or begin a run there with"),
    ("no server yet", ExitCode.SERVER_LOST, "has no server (waited 0.2 s): start it with 'slipstream serve --run_dir="),
    ("left", ExitCode.SERVER_LOST, "has no server (waited 0.2 s): start it with 'slipstream serve --run_dir="),
    ("killed", ExitCode.SERVER_LOST, "where it does not answer (waited 0.2 s): start it again with"),
    ("ended", ExitCode.DONE, "Run run in"),
  ],
)
def test_a_role_without_a_server_ends_so_that_it_is_started_again_unless_that_is_no_use(
  run, capsys, case, code, sentence
):
  with _deaf_port() as port:
    if case == "no run":
      run.config.unlink()
    elif case != "no server yet":
      write_place(run, port if case == "killed" else 0, ended=case == "ended")

    def join() -> None:
      _connect(run, 0.2)

    assert RoleProcess("learner", StopEvent()).run(join) == code
  said = capsys.readouterr()
  assert sentence in said.out + said.err


def test_commands_say_that_a_run_has_ended(run, capsys, monkeypatch):
  monkeypatch.setattr(server_place, "ENDED_SECONDS", 0.0)
  write_place(run, ended=True)
  for command in ("status", "stop", "attach"):
    assert run_command([command, f"--server=@{run.path}"]) == ExitCode.DONE
    assert capsys.readouterr().out == f"Run run in {run.path} has ended.\n"


class _Process(RoleProcess):
  """Of a role; notes why its server was lost, and goes on."""

  def __init__(self) -> None:
    super().__init__("actor_0", StopEvent())
    self.reasons: list[str] = []

  def server_lost(self, sentence: str) -> None:
    self.reasons.append(sentence)


def test_a_role_learns_that_its_server_is_elsewhere_or_has_ended_the_run(run, monkeypatch):
  monkeypatch.setattr(server_place, "FOLLOW_SECONDS", 0.05)
  write_place(run, 8000)
  process = _Process()
  with following(f"@{run.path}", process):
    write_place(run)  # It leaves, and may come back where it was.
    write_place(run, 8001)
    wait_for(lambda: process.reasons)
  assert process.reasons == [
    "The server of run run was at localhost:8000 and is at localhost:8001 now: start this role again."
  ]
  assert not process.stop.is_set()
  with following(f"@{run.path}", process):
    write_place(run, ended=True)
    wait_for(process.stop.is_set)
  assert process.stop.exit_code == ExitCode.DONE
  with following("localhost:8000", process):
    assert len(process.reasons) == 1


def test_an_address_stays_as_it_is():
  assert address_of("somewhere:8000") == "somewhere:8000"
  with pytest.raises(UserError, match=r"--server=@ names no run directory"):
    address_of("@")
