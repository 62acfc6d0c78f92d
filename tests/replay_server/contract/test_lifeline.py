"""A role's lifeline: its heartbeats, and how it ends the role."""

import contextlib
import dataclasses
import pathlib
import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from replay_server.contract import lifeline as lifeline_module
from replay_server.contract.connection import Connection
from replay_server.contract.layout import HEARTBEATS, STATUS
from replay_server.contract.lifeline import Lifeline
from replay_server.contract.messages import Heartbeat
from replay_server.contract.role import Kind, Role
from replay_server.process.keeper import Keeper
from tests.serving import (
  adding,
  make_config,
  read_messages,
  run_episode,
  sampled_from,
  server_process,
  serving,
  size_of,
  wait_for,
)

CONFIG = make_config(environment_steps=5)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(lifeline_module, "PERIOD_SECONDS", 0.05)


@dataclasses.dataclass(frozen=True)
class _Thinker:
  """A role that does nothing but think."""

  measured: Mapping[str, float] = dataclasses.field(default_factory=dict)
  name: str = "learner"
  paused = False
  wait = None
  kind: Kind = "learner"
  state: str = "thinking"

  def metrics(self) -> Mapping[str, float]:
    return self.measured

  def run(self) -> None:
    raise AssertionError("a lifeline does not run its role")


@contextlib.contextmanager
def _living(
  address: str, role: Role, stop: threading.Event | None = None, lost: list[str] | None = None
) -> Iterator[Lifeline]:
  """A role with a lifeline on a connection of its own; afterwards no heartbeat can follow."""
  connection = Connection(address)
  others = set(_lifeline_threads())
  try:
    with Lifeline(connection, role, stop or threading.Event(), ([] if lost is None else lost).append) as lifeline:
      yield lifeline
    wait_for(lambda: others.issuperset(_lifeline_threads()))
  finally:
    connection.close()


def _lifeline_threads() -> list[threading.Thread]:
  return [thread for thread in threading.enumerate() if thread.name.startswith("lifeline")]


def test_heartbeats_carry_state_and_metrics_and_the_last_one_says_that_it_is_the_last(tmp_path: pathlib.Path) -> None:
  lost: list[str] = []
  with serving(CONFIG, tmp_path, inline=True) as server:
    with _living(server.address, _Thinker({"gradient_steps": 3.0}), lost=lost):
      wait_for(lambda: size_of(server.connection, HEARTBEATS) >= 3)
    beats = read_messages(server.connection, HEARTBEATS, Heartbeat)
  assert [beat.ended for beat in beats] == [False] * (len(beats) - 1) + [True]
  assert {(beat.name, beat.role) for beat in beats} == {("learner", "learner")}
  assert [beat.state for beat in beats] == ["thinking"] * (len(beats) - 1) + ["ended"]
  assert all(beat.metrics == {"gradient_steps": 3.0} for beat in beats)
  assert not lost


def test_a_role_whose_metrics_are_not_finite_still_lives(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    metrics = {"loss": float("nan"), "mean_q": float("inf"), "gradient_steps": 4.0}
    with _living(server.address, _Thinker(metrics)):
      wait_for(lambda: size_of(server.connection, HEARTBEATS) >= 2)
    beats = read_messages(server.connection, HEARTBEATS, Heartbeat)
  assert all(beat.metrics == {"gradient_steps": 4.0} for beat in beats)


def test_a_run_that_has_finished_stops_the_role(tmp_path: pathlib.Path) -> None:
  stop = threading.Event()
  with (
    serving(CONFIG, tmp_path, inline=True) as server,
    contextlib.closing(Keeper(server, tmp_path)) as keeper,
    _living(server.address, _Thinker(), stop),
  ):
    keeper.tick()
    # Before the second read it has acted on the first, which said that the run goes on.
    wait_for(lambda: sampled_from(server.connection, STATUS) >= 2)
    assert not stop.is_set()
    with adding(server) as (adder, _):
      run_episode(adder, CONFIG.environment_steps)
    assert keeper.tick().finished
    assert stop.wait(10)


def test_a_lost_server_is_reported_once_in_a_sentence_and_close_does_not_raise(tmp_path: pathlib.Path) -> None:
  stop = threading.Event()
  lost: list[str] = []
  with server_process(tmp_path) as (address, kill):
    connection = Connection(address)
    lifeline = Lifeline(connection, _Thinker(), stop, lost.append, lost_after=0.3)
    lifeline.start()
    wait_for(lambda: size_of(connection, HEARTBEATS) >= 2)
    assert not lost
    kill()
    gone = time.monotonic()
    wait_for(lambda: lost, seconds=15)
  assert time.monotonic() - gone < 15
  assert len(lost) == 1
  assert "has not answered for 0.3 s, so learner ends" in lost[0]
  assert not stop.is_set()  # Ending the role is left to `on_lost`.
  began = time.monotonic()
  lifeline.close()
  assert time.monotonic() - began < 10
  assert len(lost) == 1
