"""A worker and a learner whose server is started again, on the same port and from its checkpoint."""

import contextlib
import dataclasses
import pathlib
import threading
from collections.abc import Callable, Iterator

import pytest

from actors.worker import RolloutWorker
from configs import RunConfig, ServerLost
from launch import roles
from launch.endpoint import Endpoint
from learner.learner import make_learner
from replay_server.contract.connection import Connection, OtherRun
from replay_server.contract.lifeline import Lifeline
from replay_server.contract.policy import PolicySource
from replay_server.process.keeper import Keeper
from replay_server.process.server import ReplayServer
from tests.actors.running import SPEC, make_run
from tests.serving import free_port, inserted_into, keeping, sampled_from, serving, wait_for


def _config(random_steps: int = 50) -> RunConfig:
  run = make_run(random_steps=random_steps)
  default = dataclasses.replace(run.replay.default, min_size=20)
  learner = dataclasses.replace(run.learner, batch_size=8, updates_per_block=4, publish_period_updates=4)
  return dataclasses.replace(
    run, environment_steps=10**9, learner=learner, replay=dataclasses.replace(run.replay, default=default)
  )


@contextlib.contextmanager
def _served(folder: pathlib.Path, port: int, run_id: str = "run") -> Iterator[ReplayServer]:
  """A server whose status is up to date; at its end it is gone, like one that was killed."""
  with serving(_config(), folder, SPEC, run_id, port=port) as server, keeping(server, folder):
    yield server


class _Background:
  """Something that runs in a thread until `stop` is set, as by a lifeline that lost the server."""

  def __init__(self, body: "Callable[[_Background], None]"):
    self.stop = threading.Event()
    self.error: BaseException | None = None
    self.lost = ""

    def run() -> None:
      try:
        body(self)
      except BaseException as error:
        self.error = error

    self.thread = threading.Thread(target=run, daemon=True)
    self.thread.start()

  def lose(self, sentence: str) -> None:
    self.lost = sentence
    self.stop.set()

  def end(self) -> None:
    self.stop.set()
    self.thread.join(20)
    assert not self.thread.is_alive()


def _worker(address: str) -> _Background:
  def act(own: _Background) -> None:
    with roles.join(Endpoint(address), own.stop) as (connection, manifest):
      worker = RolloutWorker(connection, manifest, "actor_0", 0, 1, own.stop)
      with Lifeline(connection, worker, own.stop, own.lose):
        worker.run()

  return _Background(act)


def _learner(address: str, folder: pathlib.Path) -> _Background:
  def learn(own: _Background) -> None:
    with (
      roles.join(Endpoint(address), own.stop) as (connection, manifest),
      Lifeline(connection, roles.LearnerCandidate(), own.stop, own.lose) as lifeline,
    ):
      roles.wait_for_lease(connection, manifest, own.stop)
      learner = make_learner(connection, manifest, 1, own.stop, folder)
      lifeline.role = learner
      learner.run()

  return _Background(learn)


@pytest.fixture(name="ended")
def _ended() -> Iterator[list[_Background]]:
  """What to end, whatever happens."""
  running: list[_Background] = []
  yield running
  for background in running:
    background.end()


def test_worker_and_learner_go_on_with_a_server_that_was_started_again(
  tmp_path: pathlib.Path, ended: list[_Background]
) -> None:
  port = free_port()
  with _served(tmp_path, port) as server:
    worker, learner = _worker(server.address), _learner(server.address, tmp_path / "learner")
    ended += [worker, learner]
    wait_for(lambda: sampled_from(server.connection, "default") > 100, 60)
    version = _version(server)
    server.checkpoint()
    first = server.epoch
  with _served(tmp_path, port) as again:
    assert again.restored
    assert again.epoch != first
    inserted, sampled = inserted_into(again.connection, "default"), sampled_from(again.connection, "default")
    wait_for(lambda: inserted_into(again.connection, "default") > inserted + 500, 60)
    wait_for(lambda: sampled_from(again.connection, "default") > sampled + 500, 60)
    wait_for(lambda: _version(again) > version, 20)  # The learner kept its own.
    for role in (worker, learner):
      assert role.error is None
      assert not role.lost
      role.end()


def _version(server: ReplayServer) -> int:
  published = PolicySource(server.connection, "default").fetch()
  return 0 if published is None else published.version


def test_worker_and_learner_end_when_another_run_has_their_address(
  tmp_path: pathlib.Path, ended: list[_Background]
) -> None:
  port = free_port()
  with _served(tmp_path / "first", port, "first") as server:
    worker, learner = _worker(server.address), _learner(server.address, tmp_path / "learner")
    ended += [worker, learner]
    wait_for(lambda: sampled_from(server.connection, "default") > 100, 60)
  with _served(tmp_path / "second", port, "second") as other:
    for role in (worker, learner):
      role.thread.join(40)
      # Its loop or its lifeline sees it first.
      assert isinstance(role.error, OtherRun) or "has run second, and not first" in role.lost
    info = other.connection.info()
  counts = [
    info[table].rate_limiter_info.insert_stats.completed for table in ("default", "policy", "episodes", "heartbeats")
  ]
  assert counts == [0, 0, 0, 0]


def test_a_worker_pauses_before_its_server_leaves_and_has_sent_everything(
  tmp_path: pathlib.Path, ended: list[_Background]
) -> None:
  with serving(_config(10**9), tmp_path, SPEC) as server, contextlib.closing(Keeper(server, tmp_path)) as keeper:
    status = keeper.tick()
    connection = Connection(server.address)
    stop = threading.Event()
    worker = RolloutWorker(connection, server.manifest, "actor_0", 0, 1, stop)
    connection.news.note_status(status)
    running = _Background(lambda _: worker.run())
    ended.append(running)
    wait_for(lambda: worker.environment_steps > 30)
    assert not worker.paused
    connection.news.note_status(dataclasses.replace(status, is_leaving=True))
    wait_for(lambda: worker.paused)
    taken = worker.environment_steps
    assert inserted_into(server.connection, "default") == taken
    connection.news.note_status(status)  # It stays after all.
    wait_for(lambda: worker.environment_steps > taken + 30)
    assert not worker.paused
    stop.set()
    running.end()
    assert not isinstance(running.error, ServerLost)
