"""Processes that leave a run which goes on, servers that come back with `serve --run_dir`, and the requests to a server."""

import contextlib
import pathlib
import socket
import threading
from collections.abc import Iterator

import pytest

from configs.exit_codes import ExitCode
from launch import requests
from launch.attach import overall_exit_code
from launch.failures import RunFailed
from launch.run_directory import RunDirectory
from launch.server_place import ServerPlace, read_place
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.messages import Request
from replay_server.contract.run import read_manifest
from replay_server.contract.status import RunStatus
from replay_server.process.keeper import Keeper
from slipstream.main import run
from tests.launch.processes import (
  INTERRUPT,
  KILL,
  START_SECONDS,
  TERMINATE,
  assert_all_gone,
  cli,
  run_dir_of,
  status_of,
  wait_for,
)
from tests.launch.test_program import ENDLESS, WORLD, serving_port
from tests.serving import fill, make_config, read_messages, serving

pytestmark = pytest.mark.timeout(900)


def step_count(run_dir: pathlib.Path) -> int:
  return int(status_of(run_dir)["environment_steps"])


def put_rows(port: str, count: int) -> None:
  """Inserts steps, as a worker would."""
  connection = Connection(f"localhost:{port}")
  manifest = wait_for(lambda: read_manifest(connection), 60, "the manifest")
  fill(connection, manifest.codec, manifest.config.replay.default.name, [{"step": step} for step in range(count)])
  connection.close()


@contextlib.contextmanager
def served(tmp_path: pathlib.Path, name: str) -> Iterator[tuple]:
  """A server of always the same command line, and its port."""
  folder = tmp_path / "mine"
  with cli(tmp_path, name, "serve", *ENDLESS, f"--run_dir={folder}", "--port=0") as server:
    yield server, wait_for(lambda: serving_port(server), START_SECONDS, "the server")


def test_one_command_line_begins_a_run_starts_it_over_resumes_it_and_says_that_it_is_finished(tmp_path, capsys):
  run_dir = tmp_path / "mine"
  with served(tmp_path, "begins") as (server, port):
    assert run_dir_of(server) == run_dir
    put_rows(port, 30)
    wait_for(lambda: step_count(run_dir) == 30, 60, "the steps")
    first = status_of(run_dir)
    assert read_place(RunDirectory(run_dir)) == ServerPlace("mine", f"{socket.gethostname()}:{port}")
    server.send(KILL)  # Before its first checkpoint.
    server.wait(30)
  with served(tmp_path, "starts_over") as (server, port):
    again = wait_for(lambda: other_epoch(run_dir, first), 60, "its status")
    assert (again["run_id"], again["environment_steps"], again["lives"]["server"]) == ("mine", 0, 2)
    assert again["wall_seconds"] < first["wall_seconds"] + 30
    put_rows(port, 20)
    wait_for(lambda: step_count(run_dir) == 20, 60, "the steps")
    server.send(TERMINATE)
    assert server.wait(60) == 143, server.output()
  left = status_of(run_dir)
  assert (left["phase"], left["is_leaving"]) == ("running", True)
  assert read_place(RunDirectory(run_dir)) == ServerPlace("mine")
  with served(tmp_path, "resumes") as (server, port):
    again = wait_for(lambda: other_epoch(run_dir, left), 60, "its status")
    assert (again["run_id"], again["environment_steps"], again["is_leaving"]) == ("mine", 20, False)
    assert again["wall_seconds"] > left["wall_seconds"]
    with cli(tmp_path, "stop", "stop", f"--server=@{run_dir}") as stop:
      assert stop.wait(START_SECONDS) == 0, stop.output()
    assert server.wait(60) == 0, server.output()
  assert status_of(run_dir)["phase"] == "stopping"
  assert read_place(RunDirectory(run_dir)) == ServerPlace("mine", ended=True)
  capsys.readouterr()
  assert run(["serve", f"--run_dir={run_dir}", "--config.environment_steps=20", "--port=0", WORLD]) == 0
  assert capsys.readouterr().out.startswith("Run mine has taken 20 environment steps, and its budget is 20")


def other_epoch(run_dir: pathlib.Path, old: dict) -> dict | None:
  status = status_of(run_dir)
  return status if status["epoch"] != old["epoch"] else None


def test_roles_that_get_a_signal_leave_a_run_that_goes_on_and_an_attached_worker_comes_back(tmp_path):
  run_dir = tmp_path / "mine"
  with served(tmp_path, "serve") as (server, _), contextlib.ExitStack() as stack:
    address = f"--server=@{run_dir}"
    roles = {}
    for role in ("learn", "act", "evaluate"):
      arguments = [] if role == "act" else [f"--run_dir={run_dir}"]
      roles[role] = stack.enter_context(cli(tmp_path, role, role, address, WORLD, *arguments))
    attach = stack.enter_context(cli(tmp_path, "attach", "attach", address, WORLD))
    wait_for(lambda: status_of(run_dir)["policy_version"] > 0, START_SECONDS, "a policy")
    worker = wait_for(lambda: attached(run_dir), START_SECONDS, "the attached worker")
    children = [child.pid for child in attach.children()]
    for child in attach.children():
      if child.pid == worker["pid"]:
        child.kill()
    again = wait_for(lambda: attached(run_dir, worker["pid"]), START_SECONDS, "the worker again")
    assert again["name"] == worker["name"]
    for role, signum, code in (("evaluate", INTERRUPT, 130), ("act", TERMINATE, 143), ("learn", TERMINATE, 143)):
      roles[role].send(signum)
      assert roles[role].wait(60) == code, roles[role].output()
    children += [child.pid for child in attach.children()]
    attach.send(INTERRUPT)
    assert attach.wait(60) == 130, attach.output()
    assert_all_gone(children)
    assert list((run_dir / "checkpoints" / "learner").glob("checkpoint_*"))
    assert status_of(run_dir)["phase"] == "running"
    server.send(TERMINATE)
    assert server.wait(60) == 143, server.output()


def attached(run_dir: pathlib.Path, other_than: int = 0) -> dict | None:
  roles = status_of(run_dir)["roles"]
  return next(
    (
      role
      for role in roles
      if role["role"] == "actor" and role["alive"] and role["name"] != "actor_0" and role["pid"] != other_than
    ),
    None,
  )


@pytest.mark.parametrize(
  ("codes", "code"),
  [
    ([0, 2], 0),
    ([2, 2], ExitCode.MISTAKE),
    ([2, 4, 137], ExitCode.SERVER_LOST),
    ([2, 137], ExitCode.KILLED),
    ([1], ExitCode.FAILED),
  ],
  ids=str,
)
def test_what_attach_makes_of_its_workers_ends(codes, code):
  assert overall_exit_code(codes) == code


def test_a_request_that_nobody_obeys_ends_with_a_sentence(tmp_path, monkeypatch):
  monkeypatch.setattr(requests, "STOP_SECONDS", 0.3)
  monkeypatch.setattr(requests, "SNAPSHOT_SECONDS", 0.3)
  with serving(make_config(), tmp_path) as server, contextlib.closing(Keeper(server, tmp_path)) as keeper:
    status = keeper.tick()  # And never again.
    with pytest.raises(RunFailed, match=r"was asked to stop its run, and did not within 0\.3 s: see its log"):
      requests.stop_run(server.connection)
    with pytest.raises(RunFailed, match=r"has written no snapshot for 0\.3 s: see its log"):
      requests.take_snapshot(server.connection, status)
    asked = read_messages(server.connection, layout.HEARTBEATS, Request)
  assert [request.what for request in asked] == ["stop", "snapshot"]


def test_stop_returns_when_the_run_has_ended(tmp_path):
  with serving(make_config(), tmp_path) as server, contextlib.closing(Keeper(server, tmp_path)) as keeper:
    statuses: list[RunStatus] = []
    keeping = threading.Thread(target=lambda: statuses.append(keeper.run(threading.Event())))
    keeping.start()
    wait_for((tmp_path / "status.json").is_file, 60, "a status")
    requests.stop_run(server.connection)
    keeping.join(60)
  assert statuses[0].phase == "stopping"
