"""A run has one learner."""

import contextlib
import pathlib
import threading

import pytest

from configs import Stopped, UserError
from launch import roles
from replay_server.contract import layout
from replay_server.contract.messages import Heartbeat, encode
from replay_server.process import monitor
from replay_server.process.keeper import Keeper
from replay_server.process.server import ReplayServer
from tests.serving import make_config, serving


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(roles, "DEAD_AFTER_SECONDS", 0.6)
  monkeypatch.setattr(monitor, "DEAD_AFTER_SECONDS", 0.6)


def _beat(server: ReplayServer, role: str, ended: bool = False) -> None:
  beat = Heartbeat(role, role, "box", 7, "running", ended, {})
  server.connection.writer().write(layout.HEARTBEATS, [encode(beat)])


def _refuse(server: ReplayServer, stop: threading.Event | None = None) -> None:
  roles.refuse_second_learner(server.connection, server.manifest, stop or threading.Event())


def test_a_second_learner_is_refused_and_one_after_the_first_is_not(tmp_path: pathlib.Path) -> None:
  with serving(make_config(), tmp_path) as server, contextlib.closing(Keeper(server, tmp_path)) as keeper:
    _refuse(server)  # Before the first status.
    _beat(server, "actor")
    keeper.tick()
    _refuse(server)
    _beat(server, "learner")
    keeper.tick()
    with pytest.raises(UserError, match=r"has a learner \(process 7 on box\).*stop that one first"):
      _refuse(server)
    _beat(server, "learner", ended=True)
    keeper.tick()
    _refuse(server)


def test_a_learner_that_was_killed_is_waited_for(tmp_path: pathlib.Path) -> None:
  with serving(make_config(), tmp_path) as server, contextlib.closing(Keeper(server, tmp_path)) as keeper:
    _beat(server, "learner")
    assert [role.alive for role in keeper.tick().roles] == [True]
    done = threading.Event()
    ticking = threading.Thread(target=_tick_until, args=(keeper, done))
    ticking.start()
    try:
      _refuse(server)
    finally:
      done.set()
      ticking.join()
    assert [role.alive for role in keeper.tick().roles] == [False]


def _tick_until(keeper: Keeper, done: threading.Event) -> None:
  while not done.wait(0.1):
    keeper.tick()


def test_the_wait_ends_when_stop_is_set(tmp_path: pathlib.Path) -> None:
  stop = threading.Event()
  stop.set()
  with serving(make_config(), tmp_path) as server, contextlib.closing(Keeper(server, tmp_path)) as keeper:
    _beat(server, "learner")
    keeper.tick()
    with pytest.raises(Stopped):
      _refuse(server, stop)
