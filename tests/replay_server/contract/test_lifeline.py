"""A role's lifeline: its heartbeats, and how it ends the role."""

import dataclasses
import pathlib
import threading
import time
from collections.abc import Mapping

import pytest

from replay_server.contract import lifeline as lifeline_module
from replay_server.contract.connection import Connection
from replay_server.contract.layout import HEARTBEATS
from replay_server.contract.lifeline import Lifeline
from replay_server.contract.messages import Heartbeat, decode
from replay_server.contract.role import Kind, Role
from replay_server.process.keeper import Keeper
from replay_server.process.server import ReplayServer
from tests.served import served
from tests.serving import make_config, serving, size_of, wait_for

CONFIG = make_config()


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(lifeline_module, "PERIOD_SECONDS", 0.05)
  monkeypatch.setattr(lifeline_module, "LOST_AFTER_SECONDS", 0.3)


@dataclasses.dataclass(frozen=True)
class _Thinker:
  """A role that does nothing but think."""

  measured: Mapping[str, float] = dataclasses.field(default_factory=dict)
  name: str = "learner"
  kind: Kind = "learner"
  state: str = "thinking"

  def metrics(self) -> Mapping[str, float]:
    return self.measured

  def run(self) -> None:
    raise AssertionError("a lifeline does not run its role")


def _lifeline(server: ReplayServer, stop: threading.Event, lost: list[str], role: Role | None = None) -> Lifeline:
  return Lifeline(Connection(server.address), role or _Thinker(), stop, lost.append)


def _beats(server: ReplayServer) -> list[Heartbeat]:
  return [decode(columns[0], Heartbeat) for columns in server.connection.read_many(HEARTBEATS, 1_000, "test")]


def test_heartbeats_tell_state_and_metrics_and_the_last_one_that_it_is_the_last(tmp_path: pathlib.Path) -> None:
  lost: list[str] = []
  with serving(CONFIG, tmp_path, inline=True) as server:
    lifeline = _lifeline(server, threading.Event(), lost, _Thinker({"gradient_steps": 3.0}))
    with lifeline:
      wait_for(lambda: size_of(server.connection, HEARTBEATS) >= 3)
    time.sleep(0.3)
    beats = _beats(server)
    lifeline._connection.close()
  assert [beat.ended for beat in beats] == [False] * (len(beats) - 1) + [True]
  assert {(beat.name, beat.role) for beat in beats} == {("learner", "learner")}
  assert [beat.state for beat in beats] == ["thinking"] * (len(beats) - 1) + ["ended"]
  assert all(beat.metrics == {"gradient_steps": 3.0} for beat in beats)
  assert not lost


def test_a_role_whose_metrics_are_not_finite_still_lives(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    metrics = {"loss": float("nan"), "mean_q": float("inf"), "gradient_steps": 4.0}
    lifeline = _lifeline(server, threading.Event(), [], _Thinker(metrics))
    with lifeline:
      wait_for(lambda: size_of(server.connection, HEARTBEATS) >= 2)
    assert all(beat.metrics == {"gradient_steps": 4.0} for beat in _beats(server))
    lifeline._connection.close()


def test_a_run_that_has_finished_stops_the_role(tmp_path: pathlib.Path) -> None:
  stop = threading.Event()
  with serving(CONFIG, tmp_path, inline=True) as server:
    keeper = Keeper(server, tmp_path)
    lifeline = _lifeline(server, stop, [])
    with lifeline:
      keeper.tick()
      time.sleep(0.3)
      assert not stop.is_set()
      keeper._monitor.stop()
      keeper.tick()
      assert stop.wait(10)
    keeper.close()
    lifeline._connection.close()


def test_a_server_that_is_gone_is_told_once_in_a_sentence_and_close_does_not_raise(tmp_path: pathlib.Path) -> None:
  stop = threading.Event()
  lost: list[str] = []
  with served(tmp_path) as (address, kill):
    lifeline = Lifeline(Connection(address), _Thinker(), stop, lost.append)
    lifeline.start()
    wait_for(lambda: size_of(lifeline._connection, HEARTBEATS) >= 2)
    assert not lost
    kill()
    gone = time.monotonic()
    wait_for(lambda: lost, seconds=15)
  assert time.monotonic() - gone < 15
  assert len(lost) == 1
  assert "has not answered for 0.3 s, so learner ends" in lost[0]
  assert not stop.is_set()  # That is for whoever was told.
  began = time.monotonic()
  lifeline.close()
  assert time.monotonic() - began < 10
  assert len(lost) == 1
