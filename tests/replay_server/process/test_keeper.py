"""What the keeper writes, and how it ends a run."""

import contextlib
import dataclasses
import errno
import json
import pathlib
import threading
import time

import pytest

from configs import ServerLost, UserError, override
from replay_server.contract import layout
from replay_server.contract.lease import PATIENCE_SECONDS
from replay_server.contract.messages import EpisodeSummary, EvaluationSummary, Heartbeat, Request, encode
from replay_server.contract.run import read_live_status
from replay_server.contract.status import RunStatus
from replay_server.process import keeper as keeper_module
from replay_server.process.keeper import Keeper, read_status
from replay_server.process.recorder import METRICS_FILE, read_metrics
from replay_server.process.server import CheckpointFailed, ReplayServer, has_checkpoint
from tests.serving import adding, make_config, run_episode, serving, size_of, wait_for

CONFIG = make_config({"goal": 20}, [("goal", 5)], capacity=30, environment_steps=200)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(keeper_module, "TICK_SECONDS", 0.05)
  monkeypatch.setattr(keeper_module, "GOODBYE_SECONDS", 1.0)


def _beat(ended: bool = False) -> Heartbeat:
  return Heartbeat(
    "learner",
    "learner",
    "box",
    7,
    "ended" if ended else "running",
    ended,
    {"gradient_steps": 5.0, "policy_version": 2.0},
  )


def _keeping(server: ReplayServer, run_dir: pathlib.Path) -> contextlib.closing[Keeper]:
  return contextlib.closing(Keeper(server, run_dir))


def _published(server: ReplayServer) -> RunStatus:
  status = read_live_status(server.connection)
  assert status is not None
  return status


def test_a_tick_reads_what_roles_sent_and_writes_the_status_everywhere(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    with adding(server) as (adder, _):
      run_episode(adder, 40, {39: 1})
    writer = server.connection.writer()
    writer.write(layout.HEARTBEATS, [encode(_beat())])
    writer.write(layout.EPISODES, [encode(EpisodeSummary("actor_0", -1.5, 40, 1, 2))])
    writer.write(layout.EPISODES, [encode(EvaluationSummary(2, 5, 0.5, 20.0, False))])
    status = keeper.tick()
    assert _published(server) == read_status(tmp_path) == status
    assert size_of(server.connection, layout.HEARTBEATS) == size_of(server.connection, layout.EPISODES) == 0
    again = keeper.tick()
    assert (again.episodes, len(again.evaluations)) == (1, 1)  # Nothing is counted twice.
  assert (status.environment_steps, status.gradient_steps, status.policy_version) == (40, 5, 2)
  assert (status.episodes, status.recent_return, status.evaluations[0].environment_steps) == (1, -1.5, 40)
  assert [role.name for role in status.roles] == ["learner"]
  assert [(table.name, table.size) for table in status.tables] == [("default", 30), ("goal", 5)]
  rows = read_metrics(tmp_path / METRICS_FILE)
  assert [row["eval_return"] for row in rows if row["eval_return"] is not None] == [0.5]


def test_beats_of_this_process_need_no_table(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    status = keeper.tick([_beat()])
  assert status.gradient_steps == 5


def test_finish_waits_for_the_last_heartbeat_of_every_role_and_writes_a_checkpoint(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    keeper.tick([_beat()])
    writer = server.connection.writer()

    def leave() -> None:
      writer.write(layout.EPISODES, [encode(EvaluationSummary(2, 5, 0.5, 20.0, False))])
      writer.write(layout.HEARTBEATS, [encode(_beat(ended=True))])

    threading.Timer(0.3, leave).start()
    began = time.monotonic()
    status = keeper.finish()
    assert 0.25 < time.monotonic() - began < 10
    assert status.phase == "stopping"
    assert len(status.evaluations) == 1
    assert [role.state for role in status.roles] == ["ended"]
    assert has_checkpoint(tmp_path / "checkpoint")


def test_finish_does_not_wait_forever(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(keeper_module, "GOODBYE_SECONDS", 0.2)
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    keeper.tick([_beat()])
    status = keeper.finish()
  assert status.roles[0].alive
  assert has_checkpoint(tmp_path / "checkpoint")


def test_run_ends_at_the_budget_and_publishes_the_end(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    statuses: list[RunStatus] = []
    thread = threading.Thread(target=lambda: statuses.append(keeper.run(threading.Event())))
    thread.start()
    with adding(server) as (adder, _):
      run_episode(adder, 199)
      wait_for(lambda: (status := read_status(tmp_path)) and status.environment_steps == 199)
      assert _published(server).phase == "running"
      assert thread.is_alive()
      run_episode(adder, 1)
    thread.join(10)
    (status,) = statuses
    assert status.phase == "exhausted"
    published = _published(server)
    assert published.finished
    assert (published.snapshot, published.is_snapshotting) == (1, False)
  assert read_status(tmp_path) == published


def test_run_checkpoints_by_the_clock_and_leaves_when_told_while_the_run_goes_on(tmp_path: pathlib.Path) -> None:
  config = override(CONFIG, {"replay.checkpoint_period_seconds": "0.1"})
  with serving(config, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    stop = threading.Event()
    statuses: list[RunStatus] = []
    thread = threading.Thread(target=lambda: statuses.append(keeper.run(stop)))
    thread.start()
    wait_for(lambda: has_checkpoint(tmp_path / "checkpoint"))
    stop.set()
    thread.join(10)
  assert statuses[0].phase == "running"
  assert statuses[0].is_leaving


def test_a_server_that_leaves_waits_until_no_role_writes_and_its_checkpoint_does_not_say_that_it_leaves(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(keeper_module, "PAUSE_SECONDS", 60.0)
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    keeper.tick([_beat()])
    statuses: list[RunStatus] = []
    thread = threading.Thread(target=lambda: statuses.append(keeper.leave()))
    thread.start()
    wait_for(lambda: _published(server).is_leaving)
    assert not has_checkpoint(tmp_path / "checkpoint")
    paused = dataclasses.replace(_beat(), paused=True)
    server.connection.writer().write(layout.HEARTBEATS, [encode(paused)])
    thread.join(20)
    assert statuses[0].phase == "running"
    assert _published(server).is_leaving  # For roles that have not noticed yet.
  with serving(CONFIG, tmp_path, inline=True) as server:
    assert server.restored
    assert read_live_status(server.connection) is None
    with _keeping(server, tmp_path) as keeper:
      assert not keeper.tick().is_leaving


def test_a_server_does_not_wait_for_ever_for_roles_to_pause(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(keeper_module, "PAUSE_SECONDS", 0.2)
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    keeper.tick([_beat()])
    assert keeper.leave().phase == "running"
  assert has_checkpoint(tmp_path / "checkpoint")


def test_a_run_that_is_asked_to_stop_ends(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    server.connection.writer().write(layout.HEARTBEATS, [encode(Request("stop", "a test"))])
    assert keeper.run(threading.Event()).phase == "stopping"


def _full(*_: object) -> None:
  raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_reported_once_and_the_server_goes_on_until_there_is_room(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    keeper.tick()
    with monkeypatch.context() as patch:
      patch.setattr(keeper_module, "replace_text", _full)
      with adding(server) as (adder, _):
        run_episode(adder, 40)
      for _ in range(3):
        assert keeper.tick().environment_steps == 40
      assert _published(server).environment_steps == 40  # Roles still get the status.
    assert capsys.readouterr().out.count("are not written ([Errno 28] No space left on device)") == 1
    status = keeper.tick()
    assert "written again" in capsys.readouterr().out
  assert read_status(tmp_path) == status
  assert read_metrics(tmp_path / METRICS_FILE)[-1]["environment_steps"] == 40


def test_a_log_on_the_full_disk_ends_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    for name in ("replace_text", "print"):
      monkeypatch.setattr(keeper_module, name, lambda *_, **__: _full(), raising=False)
    assert keeper.finish().phase == "stopping"
    assert has_checkpoint(tmp_path / "checkpoint")


def test_a_checkpoint_that_fails_is_reported_and_tried_again(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  monkeypatch.setattr(keeper_module, "RETRY_CHECKPOINT_SECONDS", 0.1)
  monkeypatch.setattr(keeper_module, "FIRST_CHECKPOINT_SECONDS", 0.0)
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    client, calls = server.connection.client, []

    def checkpoint() -> str:
      calls.append(True)
      if len(calls) < 3:
        raise RuntimeError("No space left\nand more")
      return str(type(client).checkpoint(client))

    monkeypatch.setattr(client, "checkpoint", checkpoint)
    stop = threading.Event()
    thread = threading.Thread(target=keeper.run, args=(stop,))
    thread.start()
    wait_for(lambda: has_checkpoint(tmp_path / "checkpoint"))
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
  printed = capsys.readouterr().out
  assert printed.count("could not be checkpointed") == printed.count("The snapshots are written again.") == 1
  assert "(No space left)" in printed


def test_a_last_checkpoint_that_fails_does_not_delay_the_end(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    monkeypatch.setattr(server.connection.client, "checkpoint", _full)
    assert keeper.finish().phase == "stopping"
  assert "No space left on device" in capsys.readouterr().out


def test_the_keeper_waits_for_a_slow_server_as_long_as_roles_do(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  monkeypatch.setattr(keeper_module, "LOST_AFTER_SECONDS", 1.0)
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    info, slow_until = server.connection.info, [time.monotonic() + 0.5]
    failed: list[float] = []

    def slow() -> object:
      if time.monotonic() < slow_until[0]:
        failed.append(time.monotonic())
        raise ServerLost("It does not answer.")
      return info()

    monkeypatch.setattr(server.connection, "info", slow)
    raised: list[BaseException] = []

    def run() -> None:
      try:
        keeper.run(threading.Event())
      except ServerLost as error:
        raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: (tmp_path / "status.json").is_file())
    assert capsys.readouterr().out.count("does not answer") == 1
    # The server was slow only for a part of this time, so the keeper goes on.
    wait_for(lambda: time.monotonic() > failed[0] + 1.0)
    assert not raised
    assert thread.is_alive()
    slow_until[0] = float("inf")
    began = time.monotonic()
    thread.join(10)
    assert len(raised) == 1
    assert time.monotonic() - began > 0.9


def test_a_keeper_continues_from_the_status_that_it_finds(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    server.connection.writer().write(layout.EPISODES, [encode(EpisodeSummary("actor_0", 1.0, 9, 0, 1))])
    keeper.tick([_beat()])
    before = keeper.finish([_beat(ended=True)])
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    status = keeper.tick()
  assert (status.episodes, status.gradient_steps, status.phase) == (1, 5, "running")
  assert status.wall_seconds >= before.wall_seconds


@pytest.mark.parametrize("text", ["", "{", "{}", json.dumps({"run_id": 3})])
def test_a_status_that_cannot_be_read_is_one_sentence(tmp_path: pathlib.Path, text: str) -> None:
  assert read_status(tmp_path) is None
  (tmp_path / "status.json").write_text(text)
  with pytest.raises(UserError, match=r"status\.json cannot be read"):
    read_status(tmp_path)


def test_a_role_that_joins_a_resumed_server_early_does_not_read_that_the_run_has_ended(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path) as server, _keeping(server, tmp_path) as keeper:
    assert keeper.finish().finished
    assert _published(server).finished  # For roles that have not ended yet.
  with serving(CONFIG, tmp_path) as server:
    assert server.restored
    assert read_live_status(server.connection) is None
    with _keeping(server, tmp_path) as keeper:
      keeper.tick()
    assert not _published(server).finished


def _slow_checkpoint(server: ReplayServer, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
  """Lets the next snapshots set the first event when Reverb would write its tables, and wait for the second."""
  client, begun, go_on = server.connection.client, threading.Event(), threading.Event()

  def checkpoint() -> str:
    begun.set()
    assert go_on.wait(20)
    return str(type(client).checkpoint(client))

  monkeypatch.setattr(client, "checkpoint", checkpoint)
  return begun, go_on


def test_a_snapshot_is_announced_and_the_status_goes_on_meanwhile(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    status = keeper.tick()
    assert (status.snapshot, status.is_snapshotting, status.resumed_from) == (0, False, 0)
    _, go_on = _slow_checkpoint(server, monkeypatch)
    thread = threading.Thread(target=keeper.checkpoint)
    thread.start()
    wait_for(lambda: _published(server).is_snapshotting)
    assert _published(server).snapshot == 1
    with adding(server) as (adder, _):
      run_episode(adder, 40)
    wait_for(lambda: _published(server).environment_steps == 40)
    assert _published(server).is_snapshotting
    go_on.set()
    thread.join(10)
    assert not thread.is_alive()
    published = _published(server)
    assert (published.snapshot, published.is_snapshotting, keeper.snapshot) == (1, False, 1)
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    status = keeper.tick()
    assert (status.snapshot, status.is_snapshotting, status.resumed_from) == (1, False, 1)


def test_a_server_that_does_not_answer_while_it_snapshots_is_not_lost(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  monkeypatch.setattr(keeper_module, "LOST_AFTER_SECONDS", 0.1)
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    keeper.tick()
    begun, go_on = _slow_checkpoint(server, monkeypatch)
    silent = []

    def silence() -> object:
      silent.append(time.monotonic())
      raise ServerLost("It does not answer.")

    thread = threading.Thread(target=keeper.checkpoint)
    thread.start()
    assert begun.wait(20)
    with monkeypatch.context() as patch:
      patch.setattr(server.connection, "info", silence)
      wait_for(lambda: len(silent) > 1 and silent[-1] - silent[0] > 0.5)
    go_on.set()
    thread.join(10)
    assert not thread.is_alive()
    assert keeper.tick().snapshot == 1
  assert "does not answer" not in capsys.readouterr().out


def test_a_snapshot_that_takes_too_long_counts_as_failed_and_no_second_one_begins(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  monkeypatch.setattr(keeper_module, "SNAPSHOT_SECONDS", 0.1)
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    keeper.tick()
    _, go_on = _slow_checkpoint(server, monkeypatch)
    keeper.checkpoint()
    assert "not written within 0.1 s" in capsys.readouterr().out
    assert not _published(server).is_snapshotting
    with pytest.raises(CheckpointFailed, match="still being written"):
      server.checkpoint()
    go_on.set()
    wait_for(lambda: server.snapshot)


def test_nobody_counts_as_dead_for_the_time_in_which_the_server_heard_nobody(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    assert keeper.tick([_beat()]).roles[0].alive
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 3 * PATIENCE_SECONDS)
    status = keeper.tick()
    assert status.roles[0].alive
    assert status.lease is not None


def test_roles_get_the_time_to_read_the_announcement_only_of_large_tables(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    with adding(server) as (adder, _):
      run_episode(adder, 20)
    keeper.tick()
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    keeper.checkpoint()
    assert keeper_module.ANNOUNCE_SECONDS not in waited
    monkeypatch.setattr(keeper_module, "ANNOUNCED_ITEMS", 19)
    keeper.checkpoint()
    assert keeper_module.ANNOUNCE_SECONDS in waited


def test_a_snapshot_is_written_on_request(tmp_path: pathlib.Path) -> None:
  config = override(CONFIG, {"replay.checkpoint_period_seconds": "1000"})
  with serving(config, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    stop = threading.Event()
    thread = threading.Thread(target=keeper.run, args=(stop,))
    thread.start()
    wait_for(lambda: (tmp_path / "status.json").is_file())
    server.connection.writer().write(layout.HEARTBEATS, [encode(Request("snapshot", "a test"))])
    wait_for(lambda: keeper.snapshot == 1)
    stop.set()
    thread.join(10)


def test_the_counts_of_a_resumed_run_fit_its_tables_and_its_processes_are_the_latest(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path) as server, _keeping(server, tmp_path) as keeper:
    writer = server.connection.writer()
    writer.write(layout.EPISODES, [encode(EpisodeSummary("actor_0", 1.0, 9, 0, 1))])
    keeper.tick([dataclasses.replace(_beat(), instance="one")])
    keeper.checkpoint()
    writer.write(layout.EPISODES, [encode(EpisodeSummary("actor_0", 1.0, 9, 0, 1))])
    # Another life of the learner, which the snapshot does not know.
    keeper.tick([dataclasses.replace(_beat(ended=True), instance="one")])
    later = keeper.tick([dataclasses.replace(_beat(), instance="two", metrics={"gradient_steps": 9.0})])
    assert (later.episodes, later.gradient_steps, later.lives) == (2, 9, {"server": 1, "learner": 2})
  with serving(CONFIG, tmp_path) as server, _keeping(server, tmp_path) as keeper:
    status = keeper.tick()
  assert (status.episodes, status.gradient_steps, status.lives) == (1, 5, {"server": 2, "learner": 2})
  assert status.wall_seconds >= later.wall_seconds
  assert status.lease == later.lease


def test_a_run_that_died_before_its_first_snapshot_counts_from_the_start(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    server.connection.writer().write(layout.EPISODES, [encode(EpisodeSummary("actor_0", 1.0, 9, 0, 1))])
    assert keeper.tick([_beat()]).episodes == 1
  with serving(CONFIG, tmp_path, inline=True) as server, _keeping(server, tmp_path) as keeper:
    status = keeper.tick()
  assert (status.episodes, status.gradient_steps, status.lives) == (0, 0, {"server": 2, "learner": 1})
