"""The server: its port, its checkpoints and its manifest."""

import contextlib
import dataclasses
import pathlib
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import reverb
from acme import specs
from reverb.platform.checkpointers_lib import DefaultCheckpointer

from actors.row_writer import RowWriter
from configs import RunConfig, UserError, from_json, override
from configs.files import FileLock
from configs.sealed_folder import PARTIAL, SEAL_FILE, verify
from configs.versions import library_versions
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest
from replay_server.contract.policy import PolicyPublisher, PolicySnapshot, PolicySource
from replay_server.contract.run import read_manifest, read_stored_manifest, write_manifest
from replay_server.contract.status import RunStatus, status_json
from replay_server.process import tables
from replay_server.process.server import CheckpointFailed, ReplayServer, check_port, has_checkpoint
from tests.damage import DAMAGES, files_in
from tests.serving import (
  CODEC,
  SPEC,
  adding,
  checkpoint_version_2,
  drain,
  free_port,
  make_config,
  make_spec,
  python_module,
  run_episode,
  server_process,
  serving,
  size_of,
  wait_for,
  write_former_checkpoint,
)

ROOT = pathlib.Path(__file__).parents[3]
CONFIG = make_config({"goal": 20}, [("goal", 5)], capacity=30)


_STATUS = status_json(
  RunStatus(
    run_id="run",
    name="run",
    phase="running",
    wall_seconds=1.0,
    environment_steps=40,
    environment_steps_budget=100,
    gradient_steps=0,
    policy_version=0,
    environment_steps_per_second=0.0,
    gradient_steps_per_second=0.0,
    episodes=4,
    recent_return=None,
    recent_length=None,
    evaluations=(),
    solved_streak=0,
    solved_evaluations=0,
    tables=(),
    roles=(),
    learner={},
  )
)


def test_a_port_that_is_taken_is_one_sentence(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path / "first", inline=True) as server:
    port = int(server.address.rpartition(":")[2])
    with pytest.raises(UserError, match=f"Port {port} is in use"):
      ReplayServer(CONFIG, SPEC, "other", tmp_path / "second", port=port)
  with socket.socket(socket.AF_INET) as taken:
    taken.bind(("0.0.0.0", 0))
    taken.listen()
    with pytest.raises(UserError, match="in use"):
      check_port(taken.getsockname()[1])


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_does_not_exist_is_one_sentence(port: int) -> None:
  with pytest.raises(UserError, match="does not exist"):
    check_port(port)


def test_a_server_can_be_reached_at_a_given_port(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path / "first", inline=True) as server:
    port = int(server.address.rpartition(":")[2])
  with serving(CONFIG, tmp_path / "second", inline=True, port=port):
    assert size_of(Connection(f"localhost:{port}"), layout.RUN) == 1


def _fill(server: ReplayServer) -> None:
  with adding(server) as (adder, _):
    for episode in range(4):
      run_episode(adder, 10, {9: 1}, episode)
  weights = np.arange(4, dtype=np.float32)
  PolicyPublisher(server.connection).publish(PolicySnapshot(7, 700, weights))


def test_a_checkpoint_brings_back_tables_counts_manifest_and_policy(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    assert not server.restored
    _fill(server)
    assert server.checkpoint() > 0
  with serving(CONFIG, tmp_path, inline=True) as server:
    assert server.restored
    info = server.connection.info()
    assert (info["default"].current_size, info["goal"].current_size) == (30, 20)
    assert info["default"].rate_limiter_info.insert_stats.completed == 40
    assert read_manifest(server.connection) == server.manifest
    source = PolicySource(server.connection, "default")
    snapshot = source.fetch()
    assert snapshot is not None
    assert (snapshot.version, snapshot.learner_steps, snapshot.weights.tolist()) == (7, 700, [0, 1, 2, 3])
    assert source.environment_steps == 40
    with adding(server, writer_id=1) as (adder, _):
      run_episode(adder, 2, {1: 1}, episode=9)
    rows = drain(server.connection, "default")
    goals = drain(server.connection, "goal")
  observed = [(int(row["observation"][0]), int(row["observation"][1])) for row in rows]
  assert observed == [*[(e, t) for e in range(1, 4) for t in range(10)][2:], (9, 0), (9, 1)]
  observed = [(int(row["observation"][0]), int(row["observation"][1])) for row in goals]
  assert observed == [*[(e, t) for e in range(4) for t in range(5, 10)][2:], (9, 0), (9, 1)]


@pytest.fixture
def checkpointed(tmp_path: pathlib.Path) -> pathlib.Path:
  """A folder with the checkpoint of run "run"."""
  with serving(CONFIG, tmp_path, inline=True) as server:
    _fill(server)
    server.checkpoint()
  return tmp_path


def _refused(folder: pathlib.Path, sentence: str, config: RunConfig = CONFIG, run_id: str = "run") -> None:
  before = files_in(folder)
  assert before
  with pytest.raises(UserError, match=sentence), serving(config, folder, run_id=run_id, inline=True):
    pass
  assert files_in(folder) == before


def test_another_runs_checkpoint_is_refused_and_left_alone(checkpointed: pathlib.Path) -> None:
  _refused(checkpointed, "belongs to run run, not to other", run_id="other")


def test_tables_of_other_names_are_refused_and_the_checkpoint_is_left_alone(checkpointed: pathlib.Path) -> None:
  _refused(checkpointed, "cannot start .*new run directory", make_config({"gaol": 20}, [("gaol", 5)], capacity=30))


def test_rows_of_another_environment_are_refused_and_the_checkpoint_is_left_alone(checkpointed: pathlib.Path) -> None:
  before = files_in(checkpointed)
  with pytest.raises(UserError, match=re.escape("gives observation as ('float32', (4,))")):
    ReplayServer(CONFIG, make_spec((4,)), "run", checkpointed / "checkpoint", inline=True)
  assert files_in(checkpointed) == before


def test_a_resumed_run_may_have_another_budget_which_its_manifest_has(checkpointed: pathlib.Path) -> None:
  longer = dataclasses.replace(CONFIG, environment_steps=123)
  with serving(longer, checkpointed, inline=True) as server:
    manifest = read_manifest(server.connection)
  assert manifest is not None
  assert manifest.config.environment_steps == 123


def test_a_role_that_reads_at_once_never_gets_the_config_of_the_checkpoint(tmp_path: pathlib.Path) -> None:
  rates = [0.001 * (start + 1) for start in range(21)]
  command = python_module("tests.replay_server.process.eager_role")
  with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as role:
    assert role.stdin is not None
    assert role.stdout is not None
    try:
      assert role.stdout.readline() == "ready\n"
      read = []
      for rate in rates:
        port = free_port()
        print(f"localhost:{port}", file=role.stdin, flush=True)
        config = override(CONFIG, {"learner.learning_rate": str(rate)})
        with serving(config, tmp_path, inline=True, port=port) as server:
          read.append(float(role.stdout.readline()))
          server.checkpoint()
          # While it runs, whoever joins after a checkpoint gets the manifest, too.
          assert read_manifest(server.connection) == server.manifest
      assert read == rates
    finally:
      role.kill()


def test_no_checkpoint_holds_a_manifest_for_roles(checkpointed: pathlib.Path) -> None:
  # Reverb alone, as it answers before a server of this project has looked at what was restored.
  stored = checkpointed / "checkpoint" / "000001" / "tables"
  restored = DefaultCheckpointer(str(checkpointed / "empty"), fallback_checkpoint_path=str(stored))
  server = reverb.Server(tables.make_tables("run", CONFIG, CODEC, inline=True), checkpointer=restored)
  try:
    connection = Connection(f"localhost:{server.port}")
    assert size_of(connection, layout.RUN) == 1
    assert read_manifest(connection) is None
    assert read_stored_manifest(connection) == dataclasses.replace(
      Manifest.of("run", CONFIG, SPEC, inline=True), settled=False
    )
  finally:
    server.stop()


def test_a_checkpoint_that_fails_leaves_the_manifest_to_roles(checkpointed: pathlib.Path) -> None:
  folder = checkpointed / "checkpoint"
  with serving(CONFIG, checkpointed, inline=True) as server:
    shutil.rmtree(folder)
    folder.write_text("")
    with pytest.raises(CheckpointFailed):
      server.checkpoint()
    assert read_manifest(server.connection) == server.manifest


def test_a_checkpoint_that_cannot_be_written_is_one_sentence(checkpointed: pathlib.Path) -> None:
  folder = checkpointed / "checkpoint"
  with serving(CONFIG, checkpointed, inline=True) as server:
    shutil.rmtree(folder)
    folder.write_text("")
    with pytest.raises(CheckpointFailed, match=r"could not be checkpointed .*check whether the disk is full"):
      server.checkpoint()


@pytest.mark.parametrize("kind", [RuntimeError, IndexError, ValueError])
def test_whatever_reverb_raises_when_it_cannot_write_is_one_sentence(
  kind: type[Exception], checkpointed: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  def fail() -> str:
    raise kind("tables.tfrecord; No space left on device")

  with serving(CONFIG, checkpointed, inline=True) as server:
    monkeypatch.setattr(server.connection.client, "checkpoint", fail)
    with pytest.raises(
      CheckpointFailed, match=r"could not be checkpointed .*\(tables.tfrecord; No space left on device\)"
    ):
      server.checkpoint()


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
  """A folder with a file system of 256 kB."""
  folder = tmp_path / "small"
  folder.mkdir()
  if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True).returncode:
    pytest.skip("a small file system can be mounted by root alone")
  try:
    yield folder
  finally:
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("left", [0, 8_192])
def test_a_full_disk_costs_no_row_and_the_next_checkpoint_is_whole(small_disk: pathlib.Path, left: int) -> None:
  config = make_config(capacity=400)
  with serving(config, small_disk, inline=True) as server:
    with adding(server) as (adder, _):
      run_episode(adder, 300)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
      with contextlib.suppress(OSError):
        while file.write(b"\0" * 1_024) == 1_024:
          pass
      file.truncate(max(0, file.tell() - left))
    with pytest.raises(CheckpointFailed, match="No space left on device"):
      server.checkpoint()
    filler.unlink()
    server.checkpoint()
  with serving(config, small_disk, inline=True) as server:
    assert size_of(server.connection, "default") == 300


def _names(folder: pathlib.Path) -> list[str]:
  """Of what stays when no server runs."""
  return sorted(path.name for path in folder.iterdir() if path.name != f"staging{PARTIAL}")


def test_the_newest_snapshots_are_kept_and_numbers_only_rise(tmp_path: pathlib.Path) -> None:
  folder = tmp_path / "checkpoint"
  with serving(override(CONFIG, {"replay.snapshots_kept": "3"}), tmp_path, inline=True) as server:
    assert (server.snapshot, server.next_snapshot, server.resumed_from) == (0, 1, 0)
    for number in range(1, 6):
      server.checkpoint()
      assert server.snapshot == number
    assert _names(folder) == ["000003", "000004", "000005"]
  assert [path.name for path in sorted(folder.iterdir())] == ["000003", "000004", "000005"]
  with serving(CONFIG, tmp_path, inline=True) as server:
    assert (server.snapshot, server.next_snapshot, server.resumed_from) == (5, 6, 5)
    server.checkpoint()
    assert _names(folder) == ["000005", "000006"]


def test_a_snapshot_holds_tables_config_and_status_and_says_when_it_was_written(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    server.checkpoint("{}")
    epoch = server.epoch
  seal = verify(tmp_path / "checkpoint" / "000001")
  assert (seal.run_id, seal.number, seal.snapshot, seal.epoch) == ("run", 1, 1, epoch)
  assert seal.layout_version == layout.LAYOUT_VERSION
  assert {"config.json", "status.json", "tables/DONE", "tables/tables.tfrecord", "tables/chunks.tfrecord"} <= set(
    seal.files
  )
  stored = (tmp_path / "checkpoint" / "000001" / "config.json").read_text()
  assert from_json(stored) == CONFIG


def test_two_starts_of_a_server_have_different_epochs(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    first = server.epoch
  with serving(CONFIG, tmp_path, inline=True) as server:
    assert server.epoch != first != ""


def test_what_a_killed_server_left_half_written_is_removed_and_does_not_count(checkpointed: pathlib.Path) -> None:
  folder = checkpointed / "checkpoint"
  shutil.copytree(folder / "000001", folder / f"000002{PARTIAL}")
  (folder / f"staging{PARTIAL}" / "2026-01-01T00:00:00+00:00").mkdir(parents=True)
  with serving(CONFIG, checkpointed, inline=True) as server:
    assert server.resumed_from == 1
    assert server.connection.info()["default"].current_size == 30
    assert _names(folder) == ["000001"]
  shutil.rmtree(folder / "000001")
  (folder / f"000002{PARTIAL}").mkdir()
  assert not has_checkpoint(folder)
  with serving(CONFIG, checkpointed, inline=True) as server:
    assert not server.restored
    assert server.connection.info()["default"].current_size == 0


_DAMAGED = (
  ("tables/tables.tfrecord", "cut"),
  ("tables/tables.tfrecord", "flipped"),
  ("tables/chunks.tfrecord", "cut"),
  ("tables/chunks.tfrecord", "flipped"),
  ("tables/DONE", "removed"),  # It is empty.
  ("config.json", "flipped"),
  ("status.json", "cut"),
  (SEAL_FILE, "flipped"),
)


@pytest.mark.parametrize(("name", "how"), _DAMAGED)
def test_a_damaged_snapshot_is_named_passed_over_and_left_alone(
  tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], name: str, how: str
) -> None:
  folder = tmp_path / "checkpoint"
  with serving(CONFIG, tmp_path, inline=True) as server:
    _fill(server)
    server.checkpoint(_STATUS)
    with adding(server, writer_id=1) as (adder, _):
      run_episode(adder, 2)
    server.checkpoint(_STATUS)
  DAMAGES[how](folder / "000002" / name)
  before = files_in(folder / "000002")
  with serving(CONFIG, tmp_path, inline=True) as server:
    assert server.resumed_from == 1
    assert server.connection.info()["default"].rate_limiter_info.insert_stats.completed == 40
    printed = capsys.readouterr().out
    assert re.search(
      rf"Snapshot 2 in .* is damaged \({re.escape(name)} .*\), so the run continues from snapshot 1", printed
    )
    # It is never counted among those that are kept.
    for _ in range(3):
      server.checkpoint(_STATUS)
    assert _names(folder) == ["000002", "000004", "000005"]
  assert files_in(folder / "000002") == before
  with serving(CONFIG, tmp_path, inline=True) as server:
    assert server.resumed_from == 5
    assert "damaged" not in capsys.readouterr().out


def test_a_run_without_a_whole_snapshot_is_refused_by_one_sentence_and_left_alone(checkpointed: pathlib.Path) -> None:
  with serving(CONFIG, checkpointed, inline=True) as server:
    server.checkpoint()
  folder = checkpointed / "checkpoint"
  for name, file in (("000001", "config.json"), ("000002", "tables/chunks.tfrecord")):
    DAMAGES["flipped"](folder / name / file)
  _refused(
    checkpointed,
    r"No snapshot in .* is whole \(000002: tables/chunks.tfrecord has another SHA-256 .*; 000001: config.json has another ",
  )


def test_a_checkpoint_of_an_earlier_release_is_refused_and_left_alone(tmp_path: pathlib.Path) -> None:
  write_former_checkpoint(tmp_path / "checkpoint")
  assert has_checkpoint(tmp_path / "checkpoint")
  before = sorted(tmp_path.rglob("*"))
  with pytest.raises(UserError, match=r"has an earlier layout version, .*: resume the run with the release that began"):
    ReplayServer(CONFIG, SPEC, "run", tmp_path / "checkpoint")
  assert sorted(path for path in tmp_path.rglob("*") if path.suffix != ".lock") == before


def test_what_has_changed_in_the_config_is_shown(
  checkpointed: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  with serving(CONFIG, checkpointed, inline=True):
    said = capsys.readouterr().out
    assert "Resumed from snapshot 1 of " in said
    assert "changed" not in said
  with serving(override(CONFIG, {"learner.learning_rate": "0.5"}), checkpointed, inline=True):
    said = capsys.readouterr().out
  assert f"  learner.learning_rate: {CONFIG.learner.learning_rate} -> 0.5\n" in said


def test_messages_to_the_server_of_the_snapshot_are_not_read_by_the_next_one(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    for table in (layout.STATUS, layout.HEARTBEATS, layout.EPISODES):
      server.connection.writer().write(table, [np.array(b"x", object)])
    server.checkpoint()
  with serving(CONFIG, tmp_path, inline=True) as server:
    sizes = [size_of(server.connection, table) for table in (layout.STATUS, layout.HEARTBEATS, layout.EPISODES)]
  assert sizes == [0, 0, 1]


def test_a_server_killed_while_it_writes_a_snapshot_leaves_the_one_before(tmp_path: pathlib.Path) -> None:
  folder = tmp_path / "checkpoint"
  with server_process(tmp_path, snapshots=True) as (address, kill):
    with contextlib.closing(RowWriter(Connection(address), 1, threading.Event())) as writer:
      for _ in range(2_000):
        writer.create_item("default", writer.append(np.zeros(CODEC.width, np.float32)))
      writer.flush()
    # It writes one after the other, so it is killed within one.
    wait_for(lambda: (folder / "000003").is_dir() and list(folder.glob(f"0*{PARTIAL}")))
    kill()
  numbers = [int(path.name) for path in folder.iterdir() if not path.name.endswith(PARTIAL)]
  for number in numbers:
    verify(folder / f"{number:06d}")
  with serving(make_config(), tmp_path, inline=True) as server:
    assert server.resumed_from == max(numbers) >= 3
    assert _names(folder) == [f"{number:06d}" for number in sorted(numbers)]
    server.checkpoint()
    assert len(_names(folder)) == 2


# A run whose server ties sampling to inserting.
TIED = dataclasses.replace(CONFIG, replay=dataclasses.replace(CONFIG.replay, environment_steps_per_update=8.0))


@pytest.mark.parametrize(
  ("overrides", "sentence"),
  [
    (
      {"replay.environment_steps_per_update": "4"},
      "'pace' has environment steps per update 8 .* asks for 4 .*steps_per_update",
    ),
    ({"learner.updates_per_block": "16"}, "'pace' has updates per block 32 .* asks for 16 .*learner.updates_per_block"),
    ({"replay.insert_tolerance_steps": "9000"}, "'pace' has a tolerance in steps of 2000 .* asks for 9000 "),
    ({"replay.tables.goal.capacity": "21"}, "'goal' has the capacity 20 and this config asks for 21 "),
    ({"replay.default.min_size": "5"}, "'default' has the min_size 1 and this config asks for 5 "),
    ({"replay.default.selector": "uniform"}, "'default' has the selector fifo and this config asks for uniform "),
    ({"replay.tables.goal.selector": "prioritized"}, "'goal' has the selector fifo .* asks for prioritized "),
  ],
)
def test_tables_that_differ_from_those_of_the_checkpoint_are_refused(
  tmp_path: pathlib.Path, overrides: dict[str, str], sentence: str
) -> None:
  with serving(TIED, tmp_path) as server:
    server.checkpoint()
  before = files_in(tmp_path)
  with pytest.raises(UserError, match=sentence), serving(override(TIED, overrides), tmp_path):
    pass
  assert files_in(tmp_path) == before


def test_another_exponent_is_refused_if_a_table_is_prioritised(tmp_path: pathlib.Path) -> None:
  config = override(CONFIG, {"replay.tables.goal.selector": "prioritized"})
  with serving(config, tmp_path, inline=True) as server:
    server.checkpoint()
  flat = override(config, {"replay.priority.exponent": "0.5"})
  with pytest.raises(UserError, match=r"'goal' has the priority exponent 0\.65 .* asks for 0\.5 "):
    ReplayServer(flat, SPEC, "run", tmp_path / "checkpoint", inline=True)


def test_a_run_whose_server_ties_sampling_to_inserting_cannot_be_resumed_inline_nor_the_other_way_round(
  tmp_path: pathlib.Path,
) -> None:
  for inline, sentence in (
    (True, "has no environment steps per update and this config asks for 8 "),
    (False, "per update 8 .* none "),
  ):
    folder = tmp_path / str(inline)
    with serving(TIED, folder, inline=inline) as server:
      server.checkpoint()
    with pytest.raises(UserError, match=sentence), serving(TIED, folder, inline=not inline):
      pass


def test_fields_that_shape_no_table_may_be_overridden_and_an_unlimited_run_may_become_inline(
  tmp_path: pathlib.Path,
) -> None:
  with serving(CONFIG, tmp_path) as server:
    server.checkpoint()
  changes = {
    "learner.learning_rate": "0.5",
    "learner.updates_per_block": "16",  # Nothing is tied to it here.
    "replay.tables.goal.min_size": "7",  # Only the learner waits for it.
    "replay.priority.exponent": "0.1",  # No table is prioritised.
    "replay.checkpoint_period_seconds": "5",
    "evaluator.enabled": "false",
  }
  with serving(override(CONFIG, changes), tmp_path, inline=True) as server:
    assert server.restored


def test_a_server_stops_at_once_when_nobody_writes(tmp_path: pathlib.Path) -> None:
  server = ReplayServer(CONFIG, SPEC, "run", tmp_path / "checkpoint", inline=True)
  server.connection.writer().write(layout.STATUS, [np.array(b"x", object)])
  kept = server.connection.writer()
  kept.write(layout.STATUS, [np.array(b"x", object)])
  stopper = threading.Thread(target=server.stop)
  stopper.start()
  stopper.join(3)  # Reverb waits 5 s for a writer that is open.
  assert not stopper.is_alive()


def test_two_servers_do_not_serve_one_run(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True):
    with pytest.raises(UserError, match=re.escape(f"serves the run of {tmp_path / 'checkpoint'}: wait for its end")):
      ReplayServer(CONFIG, SPEC, "run", tmp_path / "checkpoint")
    ReplayServer(CONFIG, SPEC, "other", tmp_path / "another").stop()
  with serving(CONFIG, tmp_path, inline=True):
    pass


def test_a_killed_server_no_longer_holds_its_run(tmp_path: pathlib.Path) -> None:
  with server_process(tmp_path) as (_, kill):
    with pytest.raises(UserError, match="Another process serves the run"), serving(make_config(), tmp_path):
      pass
    kill()
    wait_for(lambda: _is_free(tmp_path / "checkpoint.lock"))
  with serving(make_config(), tmp_path):
    pass


def _is_free(path: pathlib.Path) -> bool:
  try:
    FileLock(path, "taken").release()
  except UserError:
    return False
  return True


def test_a_server_publishes_the_manifest_of_its_run(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    manifest = read_manifest(Connection(server.address))
  assert manifest == Manifest.of("run", CONFIG, SPEC, inline=True)
  assert manifest.versions == library_versions()
  assert manifest.layout_version == layout.LAYOUT_VERSION
  assert Manifest.from_json(manifest.to_json()) == manifest


def test_a_server_without_a_manifest_reads_as_none(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    server.connection.clear(layout.RUN)
    assert read_manifest(server.connection) is None
    write_manifest(server.connection, server.manifest)
    assert read_manifest(server.connection) == server.manifest


def test_a_server_of_another_layout_version_is_refused() -> None:
  old = dataclasses.replace(Manifest.of("run", CONFIG, SPEC), layout_version=2)
  with pytest.raises(UserError, match="layout version 2 and this installation writes 6: use the same release"):
    Manifest.from_json(old.to_json())


def test_a_checkpoint_of_layout_version_2_is_refused_and_left_alone(checkpointed: pathlib.Path) -> None:
  with serving(CONFIG, checkpointed, inline=True) as server:
    checkpoint_version_2(server)
  _refused(
    checkpointed, "has layout version 2, .* writes 6: resume the run with the release that began it, or start a new"
  )


def test_an_environment_that_is_not_the_runs_is_refused_by_field() -> None:
  manifest = Manifest.of("run", CONFIG, SPEC)
  manifest.check_spec(make_spec())
  with pytest.raises(UserError, match=re.escape("observation as ('uint8', (3,))")):
    manifest.check_spec(make_spec((3,), np.uint8))
  # A fourth action does not change the row, but no policy of the run would ever choose it.
  with pytest.raises(UserError, match=r"gives action as DiscreteArray\(.*num_values=4\).* stores .*num_values=3\)"):
    manifest.check_spec(SPEC._replace(actions=specs.DiscreteArray(4)))


def test_only_a_distributed_run_ties_collecting_to_learning(tmp_path: pathlib.Path) -> None:
  # Blocks of 32 updates, 8 steps for each. An item stands for 32 steps, and the tolerance of 2,000 is 7.8 blocks.
  shape = layout.pace_shape(TIED, inline=False)
  assert (shape.steps_per_item, shape.samples_per_insert, shape.error_buffer) == (32, 32 / 256, 2_000 / 256)
  # At least three blocks, and in small runs an item for every step.
  small = override(TIED, {"learner.updates_per_block": "2", "replay.insert_tolerance_steps": "1"})
  shape = layout.pace_shape(small, inline=False)
  assert (shape.tolerance_steps, shape.steps_per_item, shape.error_buffer) == (48, 1, 3)
  for config, inline, ratio in ((TIED, True, 1.0), (CONFIG, False, 1.0), (TIED, False, 1 / 8)):
    with serving(config, tmp_path / f"{inline} {ratio}", inline=inline) as server:
      info = server.connection.info()
      assert info["pace"].rate_limiter_info.samples_per_insert == pytest.approx(ratio)
      # No table of transitions holds a writer back.
      assert info["default"].rate_limiter_info.max_diff == info["goal"].rate_limiter_info.max_diff > 1e300


def test_a_full_message_table_never_holds_a_writer_back_and_drops_its_oldest(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(tables, "MOST_MESSAGES", 5)
  with serving(CONFIG, tmp_path, inline=True) as server:
    writer = server.connection.writer()
    for number in range(9):
      writer.write(layout.EPISODES, [np.array(str(number).encode(), object)])
    items = server.connection.read_many(layout.EPISODES, 100, "test")
  assert [columns[0].item() for columns in items] == [b"4", b"5", b"6", b"7", b"8"]


def test_the_server_keeps_every_bit_of_a_row(tmp_path: pathlib.Path) -> None:
  bits = np.random.default_rng(0).integers(2**32, size=CODEC.width, dtype=np.uint32)
  with serving(CONFIG, tmp_path, inline=True) as server:
    writer = RowWriter(server.connection, 2, threading.Event())
    writer.create_item("default", writer.append(bits.view(np.float32)))
    writer.flush()
    writer.close()
    server.checkpoint()
  with serving(CONFIG, tmp_path, inline=True) as server:
    columns = server.connection.read("default", "test")
  assert columns is not None
  assert columns[0].view(np.uint32).tolist() == bits.tolist()
