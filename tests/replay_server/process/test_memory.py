"""The memory that tables will take, and runs that do not fit."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from configs import UserError, override
from configs.free_memory import format_bytes
from replay_server.contract.layout import make_row_codec
from replay_server.process import memory
from tests.serving import CODEC, fill, make_config, make_spec, serving


def test_the_estimate_grows_with_every_tables_capacity_and_with_the_row() -> None:
  small = memory.estimate_bytes(make_config({"goal": 100}, [("goal", 5)], capacity=100), CODEC)
  assert small >= 200 * 4 * CODEC.width
  assert memory.estimate_bytes(make_config({"goal": 100}, [("goal", 5)], capacity=300), CODEC) == 2 * small
  assert memory.estimate_bytes(make_config({"goal": 300}, [("goal", 5)], capacity=100), CODEC) == 2 * small
  wide = make_row_codec(make_spec((1_003,)))
  more = memory.estimate_bytes(make_config({"goal": 100}, [("goal", 5)], capacity=100), wide) - small
  assert more == 200 * 2 * 1_000 * 4  # Observation and next observation.


def test_a_run_that_fits_gets_a_sentence_with_the_memory_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(memory, "available_bytes", lambda: 10**9)
  config = make_config(capacity=1_000)
  needed = format_bytes(memory.estimate_bytes(config, CODEC))
  sentence = memory.check_memory(config, CODEC)
  assert needed in sentence
  assert "1 GB are free" in sentence
  snapshot = format_bytes(memory.estimate_snapshot_bytes(config, CODEC))
  assert sentence.endswith(f", and each of {config.replay.snapshots_kept} snapshots up to {snapshot} of the disk.")


def test_a_snapshot_takes_what_is_said_and_hardly_less_where_rows_cannot_be_compressed(tmp_path: pathlib.Path) -> None:
  rng, rows = np.random.default_rng(0), 1_000
  config = make_config(capacity=rows)
  codec = make_row_codec(make_spec((50,)))
  with serving(config, tmp_path, make_spec((50,)), inline=True) as server:
    values = ({name: rng.random(50, np.float32) for name in ("observation", "next_observation")} for _ in range(rows))
    fill(server.connection, codec, "default", values)
    server.checkpoint()
  written = sum(path.stat().st_size for path in (tmp_path / "checkpoint" / "000001").rglob("*") if path.is_file())
  estimate = memory.estimate_snapshot_bytes(config, codec)
  assert 0.9 * estimate < written <= estimate


def test_a_run_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
  config = make_config(capacity=1_000)
  needed = memory.estimate_bytes(config, CODEC)
  monkeypatch.setattr(memory, "available_bytes", lambda: needed)
  memory.check_memory(config, CODEC)
  monkeypatch.setattr(memory, "available_bytes", lambda: needed - 1)
  with pytest.raises(UserError, match=r"lower replay\.capacity"):
    memory.check_memory(config, CODEC)


def test_a_table_whose_items_would_not_fit_into_one_message_is_refused_with_the_arithmetic(
  monkeypatch: pytest.MonkeyPatch,
) -> None:
  monkeypatch.setattr(memory, "available_bytes", lambda: 10**15)
  # Each item takes 65 bytes, 21 for the run's id and 4 for the table's name: 2^31 - 1 bytes hold 23,860,929.
  memory.check_memory(make_config({"goal": 23_860_929}, [("goal", 5)]), CODEC)
  sentence = (
    r"Table 'goal' has room for 23,860,930 items of up to 90 bytes each, so 2\.15 GB in one message .* at most 2 GiB .*: lower "
    r"its capacity to 23,860,929 or less "
  )
  with pytest.raises(UserError, match=sentence):
    memory.check_memory(make_config({"goal": 23_860_930}, [("goal", 5)]), CODEC)


@pytest.mark.parametrize("selector", ["uniform", "prioritized"])
def test_an_item_takes_no_more_of_a_snapshot_than_is_assumed(tmp_path: pathlib.Path, selector: str) -> None:
  config = override(make_config(capacity=500), {"replay.default.selector": selector})
  with serving(config, tmp_path, inline=True) as server:
    fill(server.connection, CODEC, "default", ({"step": step} for step in range(500)))
    for _ in range(40):
      server.connection.read_many("default", 100, "test")
    server.checkpoint()
  records = tf.data.TFRecordDataset(str(tmp_path / "checkpoint" / "000001" / "tables" / "tables.tfrecord"))
  largest = max(len(record) for record in records.as_numpy_iterator())
  # A message of five hundred items; what a table holds besides them takes some hundred bytes.
  item = memory.ITEM_BYTES + len("run/default")
  assert 0.75 * item < largest / 500 <= item + 2


def test_with_a_memory_of_its_own_for_the_learner_the_server_needs_room_for_unread_transitions_alone() -> None:
  config = make_config({"goal": 100}, [("goal", 5)], capacity=100)
  changes = {"replay.sampling": "memory", "replay.environment_steps_per_update": "1"}
  queue = memory.estimate_bytes(override(config, {**changes, "replay.insert_tolerance_steps": "50"}), CODEC)
  assert 4 * queue == memory.estimate_bytes(config, CODEC)
