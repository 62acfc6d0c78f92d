"""A run has one learner, and one worker of each name."""

import contextlib
import pathlib
import socket
import threading
from collections.abc import Iterator

import pytest

from actors.worker import RolloutWorker
from configs import Stopped, UserError
from launch import roles
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.lifeline import Lifeline
from replay_server.contract.messages import Heartbeat, encode
from replay_server.contract.news import ServerNews
from replay_server.contract.run import read_live_status
from replay_server.process import monitor
from replay_server.process.server import ReplayServer
from tests.serving import keeping, make_config, serving, wait_for


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(roles, "_GRACE_SECONDS", 1.0)


@contextlib.contextmanager
def _kept(folder: pathlib.Path) -> Iterator[ReplayServer]:
  """A server whose status is up to date."""
  with serving(make_config(), folder) as server, keeping(server, folder):
    yield server


@contextlib.contextmanager
def _candidate(server: ReplayServer) -> Iterator[tuple[Connection, Lifeline]]:
  connection = Connection(server.address)
  with Lifeline(connection, roles.LearnerCandidate(), threading.Event(), pytest.fail) as lifeline:
    yield connection, lifeline
  connection.close()


def _wait(server: ReplayServer, connection: Connection, stop: threading.Event | None = None) -> None:
  roles.wait_for_lease(connection, server.manifest, stop or threading.Event())


def test_a_second_learner_is_refused_and_one_after_the_first_is_not(tmp_path: pathlib.Path) -> None:
  with _kept(tmp_path) as server:
    with _candidate(server) as (first, _):
      _wait(server, first)
      with (
        _candidate(server) as (second, _),
        pytest.raises(UserError, match=r"has a learner \(process.*stop that one first"),
      ):
        _wait(server, second)
      assert first.news.lease is not None
      assert first.news.lease.is_held
    with _candidate(server) as (third, _):
      _wait(server, third)


def test_two_learners_that_start_together_never_both_hold_the_lease(tmp_path: pathlib.Path) -> None:
  with _kept(tmp_path) as server, _candidate(server) as (first, _), _candidate(server) as (second, _):
    leases = [connection.news.lease for connection in (first, second)]
    wait_for(lambda: any(lease is not None and lease.is_held for lease in leases))
    for connection in (first, second):
      with contextlib.suppress(UserError):
        _wait(server, connection)
      assert [lease is not None and lease.is_held for lease in leases].count(True) == 1


def test_the_lease_of_a_learner_that_falls_silent_is_taken_over(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(monitor, "PATIENCE_SECONDS", 1.0)
  with _kept(tmp_path) as server:
    beat = Heartbeat("learner", "learner", "box", 7, "learning", False, {}, "killed", 1)
    server.connection.writer().write(layout.HEARTBEATS, [encode(beat)])
    with _candidate(server) as (connection, lifeline):
      _wait(server, connection)
      status = connection.news.status
      assert status is not None
      assert status.lease is not None
      assert status.lease.instance == lifeline.instance


def test_the_wait_ends_when_stop_is_set(tmp_path: pathlib.Path) -> None:
  stop = threading.Event()
  stop.set()
  with _kept(tmp_path) as server, _candidate(server) as (first, _):
    _wait(server, first)
    with _candidate(server) as (second, _), pytest.raises(Stopped):
      _wait(server, second, stop)


def _claim(server: ReplayServer, name: str) -> int:
  return roles.claim_name(server.connection, server.manifest, name, threading.Event())


def _act(server: ReplayServer, host: str, pid: int, instance: str = "one") -> None:
  beat = Heartbeat("actor_3", "actor", host, pid, "running", False, {}, instance, 1)
  server.connection.writer().write(layout.HEARTBEATS, [encode(beat)])
  wait_for(lambda: _listed(server, instance))


def _listed(server: ReplayServer, instance: str) -> bool:
  status = read_live_status(server.connection)
  return status is not None and any(role.instance == instance for role in status.roles)


@contextlib.contextmanager
def _acting(server: ReplayServer) -> Iterator[None]:
  """A worker actor_3 on another host lives."""
  done = threading.Event()

  def live() -> None:
    while not done.wait(0.3):
      _act(server, "another host", 1)

  _act(server, "another host", 1)
  living = threading.Thread(target=live)
  living.start()
  try:
    yield
  finally:
    done.set()
    living.join()


def test_a_worker_whose_name_is_taken_is_refused(tmp_path: pathlib.Path) -> None:
  with _kept(tmp_path) as server:
    assert _claim(server, "actor_3") == 0
    with _acting(server):
      assert _claim(server, "actor_4") == 0
      with pytest.raises(
        UserError, match=r"has a worker actor_3 \(process 1 on another host\): give this one another "
      ):
        _claim(server, "actor_3")


def test_of_two_workers_that_began_with_one_name_in_the_same_second_the_later_one_ends(tmp_path: pathlib.Path) -> None:
  with _kept(tmp_path) as server, _acting(server):
    # To this one the server had said that the name is free.
    connection, stop = Connection(server.address), threading.Event()
    worker = RolloutWorker(connection, server.manifest, "actor_3", 3, 1, stop)
    with (
      Lifeline(connection, worker, stop, pytest.fail),
      pytest.raises(UserError, match=r"has a worker actor_3 \(process 1 on another host\)"),
    ):
      worker.run()
    connection.close()


def test_the_worker_that_had_its_name_first_goes_on(tmp_path: pathlib.Path) -> None:
  with _kept(tmp_path) as server:
    _act(server, "this host", 2, "own")
    _act(server, "another host", 1, "later")
    status = read_live_status(server.connection)
    assert status is not None
    for instance, rival in (("own", None), ("later", 2)):
      news = ServerNews()
      news.worker = ("actor_3", instance)
      news.note_status(status)
      assert (news.rival and news.rival.pid) == rival


def test_a_worker_that_was_killed_on_this_host_is_replaced_at_once_and_its_lives_are_counted(
  tmp_path: pathlib.Path,
) -> None:
  with _kept(tmp_path) as server:
    for life in range(3):
      _act(server, socket.gethostname(), 2**22 + 1, f"life {life}")  # No process has this number.
      assert _claim(server, "actor_3") == life + 1
