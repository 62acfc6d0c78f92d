"""A learner's checkpoints: damaged ones, those of the server's snapshots, which is restored, and what a restored one repeats."""

import dataclasses
import json
import pathlib
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from acme import specs

from configs import CagradConfig, TableSpec, UserError, override
from configs.algorithms import ALGORITHMS
from configs.sealed_folder import SEAL_FILE, read_seal
from learner.checkpoint import Counters, LearnerCheckpoints, Moment
from learner.learner import Learner
from replay_server.contract.policy import PolicySnapshot
from replay_server.contract.run import read_live_status
from replay_server.contract.status import RunStatus
from replay_server.process.keeper import Keeper
from tests.damage import DAMAGES, files_in
from tests.learner.conftest import FIELDS, SPEC, checkpointed
from tests.serving import wait_for

CONTINUOUS_SPEC = SPEC._replace(actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0, "action"))
Learn = Callable[..., Learner]


def _folder(tmp_path: pathlib.Path) -> pathlib.Path:
  return tmp_path / "checkpoints" / "learner"


def _kill(learner: Learner) -> None:
  """Leaves what a killed learner leaves."""
  learner.parts.source.close()
  learner.parts.checkpoints.close()


def _save_at(learner: Learner, steps: int) -> None:
  while learner.gradient_steps < steps:
    learner.step()
  learner.save()


def test_a_checkpoint_is_sealed_with_its_run(filled: Any, learn: Learn, tmp_path: pathlib.Path) -> None:
  _save_at(learn(filled), 4)
  folder = _folder(tmp_path) / "checkpoint_1"
  seal = read_seal(folder)
  assert (seal.run_id, seal.number, seal.snapshot) == ("run", 1, 0)
  assert seal.layout_version == filled.server.manifest.layout_version
  assert {"counters.json", "source.npz", "policy.npz", "networks.index"} < set(seal.files)
  assert json.loads((folder / "counters.json").read_text()) == {
    "run_id": "run",
    "gradient_steps": 4,
    "policy_version": 1,
  }


_FILES = ("counters.json", "source.npz", "policy.npz", "networks.index", "networks.data-00000-of-00001", SEAL_FILE)


@pytest.mark.parametrize("name", _FILES)
def test_a_damaged_checkpoint_is_named_passed_over_and_left_alone(
  filled: Any, learn: Learn, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
  learner = learn(filled)
  _save_at(learner, 2)
  good = checkpointed(learner)
  _save_at(learner, 4)
  _kill(learner)
  damaged = _folder(tmp_path) / "checkpoint_2"
  for how, damage in DAMAGES.items():
    original = files_in(damaged)
    damage(damaged / name)
    before = files_in(damaged)
    restored = learn(filled, seed=1)
    assert restored.gradient_steps == 2
    said = capsys.readouterr().out
    finding = (
      rf"The learner's checkpoint_2 is damaged: {re.escape(name)} (is|has) .*, so it continues from checkpoint_1\."
    )
    assert re.search(finding, said), (how, said)
    for part, arrays in checkpointed(restored).items():
      for ours, theirs in zip(arrays, good[part], strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=part)
    if how == "removed":
      for _ in range(3):
        restored.save()
      assert sorted(path.name for path in _folder(tmp_path).iterdir()) == [
        "checkpoint_2",
        "checkpoint_4",
        "checkpoint_5",
      ]
    assert files_in(damaged) == before
    _kill(restored)
    for path, content in original.items():
      (damaged / path).write_bytes(content)


def test_without_a_whole_checkpoint_a_learner_is_refused_by_one_sentence(
  filled: Any, learn: Learn, tmp_path: pathlib.Path
) -> None:
  learner = learn(filled)
  _save_at(learner, 2)
  _save_at(learner, 4)
  _kill(learner)
  DAMAGES["cut"](_folder(tmp_path) / "checkpoint_1" / "networks.data-00000-of-00001")
  (_folder(tmp_path) / "checkpoint_2" / SEAL_FILE).unlink()
  before = files_in(tmp_path / "checkpoints")
  sentence = (
    r"No checkpoint of the learner in .* is whole \(checkpoint_2 is damaged: snapshot.json is missing; checkpoint_1 is damaged: "
    r"networks.data-00000-of-00001 has [\d,]+ bytes and had [\d,]+\): put a copy of one there, or start a new run; nothing was"
  )
  with pytest.raises(UserError, match=sentence):
    learn(filled)
  assert files_in(tmp_path / "checkpoints") == before


@pytest.fixture(name="write")
def _write(filled: Any, learn: Learn, tmp_path: pathlib.Path) -> Callable[..., LearnerCheckpoints]:
  """Writes a checkpoint for each moment, and counts its gradient steps 1, 2, ..."""
  learner = learn(filled, "other")
  parts, manifest = learner.parts, filled.server.manifest

  def write(*moments: Moment, kept: int = 2) -> LearnerCheckpoints:
    checkpoints = LearnerCheckpoints(tmp_path / "checkpoints")
    config = override(manifest.config, {"replay.snapshots_kept": str(kept)})
    for number, moment in enumerate(moments, start=1):
      policy = PolicySnapshot(number, number, learner.get_variables([])[0])
      checkpoints.write(
        Counters("run", number, number),
        parts.updates,
        parts.source,
        policy,
        dataclasses.replace(manifest, config=config),
        moment,
      )
    checkpoints.close()
    return LearnerCheckpoints(tmp_path / "checkpoints")

  return write


@pytest.mark.parametrize(
  ("server", "expected"),
  [
    (Moment("now", 0), 5),
    (Moment("now", 7), 5),  # The newest of the epoch, whatever the others belong to.
    (Moment("second", 0), 3),
    (Moment("later", 7), 2),  # The server came back from snapshot 7.
    (Moment("later", 8), 3),
    (Moment("later", 6), 5),  # The learner was not there then, or it is long ago.
    (Moment("later", 0), 5),
    (Moment("", 7), 2),
    (Moment("", 0), 5),
  ],
)
def test_the_checkpoint_that_fits_the_servers_tables_is_restored(
  filled: Any, learn: Learn, write: Callable[..., LearnerCheckpoints], server: Moment, expected: int
) -> None:
  moments = (Moment("first", 7), Moment("first", 7), Moment("second", 8), Moment("now", 0), Moment("now", 0))
  checkpoints = write(*moments, kept=9)
  parts = learn(filled, "third").parts
  counters = checkpoints.restore("run", parts.updates, parts.source, server)
  assert counters is not None
  assert counters.gradient_steps == expected
  checkpoints.close()


def test_the_newest_checkpoints_and_those_of_the_servers_snapshots_are_kept(
  write: Callable[..., LearnerCheckpoints], tmp_path: pathlib.Path
) -> None:
  write(*(Moment("epoch", snapshot) for snapshot in (0, 1, 1, 0, 2, 0, 3, 0, 0, 0, 0))).close()
  # Of the snapshots 2 and 3, which the server has, and the last two.
  kept = sorted(int(path.name.removeprefix("checkpoint_")) for path in _folder(tmp_path).iterdir())
  assert kept == [5, 7, 10, 11]


def _status(filled: Any, tmp_path: pathlib.Path, **changes: Any) -> RunStatus:
  keeper = Keeper(filled.server, tmp_path / "run")
  status = keeper.tick()
  keeper.close()
  return dataclasses.replace(status, **changes)


def test_a_checkpoint_is_written_for_every_snapshot_that_the_server_announces(
  filled: Any, learn: Learn, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  (tmp_path / "run").mkdir()
  status = _status(filled, tmp_path)
  learner = learn(filled)

  def saved() -> list[tuple[int, str]]:
    seals = [read_seal(path) for path in _folder(tmp_path).glob("checkpoint_*")]
    return [(seal.snapshot, seal.epoch) for seal in sorted(seals, key=lambda seal: seal.number)]

  def learn_a_block() -> None:
    with monkeypatch.context() as patch:
      patch.setattr(learner, "close", lambda: None)  # `run` closes it.
      learner.run(1)

  learner.note_status(dataclasses.replace(status, snapshot=1, is_snapshotting=True))
  learner.note_status(dataclasses.replace(status, snapshot=1))
  learn_a_block()
  learn_a_block()
  epoch = filled.server.epoch
  assert saved() == [(1, epoch)]
  learner.note_status(dataclasses.replace(status, snapshot=3))
  learn_a_block()
  assert saved() == [(1, epoch), (3, epoch)]
  # The server came back from snapshot 1 and writes another snapshot 2.
  again = dataclasses.replace(status, snapshot=1, resumed_from=1, epoch="next")
  learner.note_status(again)
  learn_a_block()
  assert saved() == [(1, epoch), (3, epoch)]
  learner.note_status(dataclasses.replace(again, snapshot=2))
  learn_a_block()
  assert saved()[-1] == (2, "next")
  learner.save()
  assert saved()[-1] == (0, "next")


def test_a_learner_that_waits_for_rows_writes_its_part_of_a_snapshot_and_then_learns(
  make_config: Any, serve: Any, learn: Learn, tmp_path: pathlib.Path
) -> None:
  filled = serve(make_config((TableSpec("default", 1.0, min_size=4),)))
  learner = learn(filled)
  thread = threading.Thread(target=learner.run, args=(1,))
  thread.start()
  wait_for(lambda: "waiting" in learner.state)
  learner.note_snapshot(2)
  wait_for(lambda: (_folder(tmp_path) / "checkpoint_1").is_dir())
  assert read_seal(_folder(tmp_path) / "checkpoint_1").snapshot == 2
  filled.fill("default", range(10))
  thread.join(20)
  assert not thread.is_alive()
  assert learner.gradient_steps > 0


def test_a_learner_asks_the_server_which_checkpoint_fits(filled: Any, learn: Learn, tmp_path: pathlib.Path) -> None:
  (tmp_path / "run").mkdir()
  _status(filled, tmp_path)
  learner = learn(filled)
  published = read_live_status(filled.server.connection)
  assert published is not None
  learner.note_snapshot(1)
  _save_at(learner, 2)
  _save_at(learner, 4)
  _kill(learner)
  restored = learn(filled)
  assert restored.gradient_steps == 4  # Of the same epoch.
  restored.save()
  assert read_seal(_folder(tmp_path) / "checkpoint_3").epoch == published.epoch


DETERMINISTIC = (
  TableSpec("default", 0.7, min_size=4, selector="fifo"),
  TableSpec("done", 0.3, capacity=50, selector="fifo"),
)


@pytest.mark.parametrize(
  ("algorithm", "fields"),
  [
    ("sac", {"policy_dropout": 0.3}),
    ("ddqn", {}),
  ],
)
def test_a_restored_learner_makes_the_same_updates_bit_for_bit(
  make_config, serve, learn: Learn, tmp_path: pathlib.Path, algorithm: str, fields: dict[str, Any]
) -> None:
  config = make_config(
    DETERMINISTIC, algorithm=ALGORITHMS[algorithm](**fields), cagrad=CagradConfig(0.5), **{**FIELDS, "batch_size": 7}
  )
  continuous = algorithm != "ddqn"
  filled = serve(config, spec=CONTINUOUS_SPEC if continuous else SPEC)
  action = {"action": np.array([0.5, -0.5], np.float32)} if continuous else {}
  filled.fill("default", range(10), **action)
  filled.fill("done", range(5), reward=2.0, **action)
  whole = learn(filled, "whole", seed=3)
  for _ in range(6):
    whole.step()
  begun = learn(filled, "begun", seed=3)
  for _ in range(3):
    begun.step()
  begun.save()
  _kill(begun)
  resumed = learn(filled, "begun", seed=4)
  for _ in range(3):
    resumed.step()
  assert resumed.gradient_steps == whole.gradient_steps == 12
  ours, theirs = checkpointed(resumed), checkpointed(whole)
  for part, arrays in theirs.items():
    for left, right in zip(ours[part], arrays, strict=True):
      np.testing.assert_array_equal(left, right, err_msg=part)
  for key, array in whole.parts.source.state().items():
    np.testing.assert_array_equal(resumed.parts.source.state()[key], array, err_msg=key)
  if continuous:
    states = [each.parts.updates.algorithm.noise.state.numpy().tolist() for each in (whole, resumed, begun)]
    assert states[0] == states[1] != states[2]
