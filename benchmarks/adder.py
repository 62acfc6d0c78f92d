"""The event-table adder against Reverb's public trajectory writer."""

import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from actors import row_writer
from actors.adder import EventTableAdder, references_needed
from actors.row_writer import RowWriter
from benchmarks import server, workload
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from configs import RunConfig
from replay_server.contract.codec import RowCodec
from replay_server.contract.connection import Connection

_EVENT_RATE = 0.02
_HISTORY = 200
_SHARES = (0.5, 0.2, 0.3)


def run(runs: int, quick: bool) -> Report:
  """Rows and items per second of one writer; nothing on the server holds it back."""
  steps, capacity = (1_000, 4_000) if quick else (10_000, 40_000)
  config = make_config(capacity)
  manifest = workload.make_manifest(config, workload.make_spec())
  codec = manifest.codec
  episodes = make_episodes(config, steps)
  rows = workload.make_rows(codec, steps)
  fields = codec.unpack(rows)
  columns = [{name: fields[name][index] for name in server.COLUMN_FIELDS} for index in range(steps)]
  with server.ServerProcess(manifest) as process:
    connection = process.connection
    contenders: dict[str, Contender] = {
      "adder": lambda: run_adder(connection, config, codec, episodes),
      "bare writer, packed row": lambda: _run_bare(connection, server.UNIFORM, rows, references=1),
      "bare writer, packed row, the adder's references": lambda: _run_bare(
        connection, server.UNIFORM, rows, references_needed(config)
      ),
      "bare writer, five columns": lambda: _run_bare(connection, server.COLUMNS, columns, references=1),
    }
    measured = interleave(contenders, runs)
  items = {name: Figure(name, "items/s", values["items"]) for name, values in measured.items()}
  rows_per_second = {name: Figure(name, "rows/s", values["rows"]) for name, values in measured.items()}
  ours = items["adder"]
  (per_row,) = {round(i / r, 2) for i, r in zip(ours.values, rows_per_second["adder"].values, strict=True)}
  bare, same_references, five = list(items)[1:]
  return Report(
    "adder",
    (
      f"One writer; observation {workload.OBSERVATION_SIZE}, action {workload.ACTION_SIZE} float32, two event tables, "
      f"histories of {_HISTORY}, events on {_EVENT_RATE:.0%} of the steps: {per_row} items a row.",
      f"Every writer waits after {row_writer.FLUSH_AFTER_ITEMS} items until at most {row_writer.PENDING_ITEMS} are "
      "unconfirmed; a bare one makes an item a row.",
      "Required: 20,000 items/s on an idle core, or .70 of the bare writer's items.",
    ),
    (*(items[name] for name in items), *(rows_per_second[name] for name in list(items)[:1])),
    (
      Ratio.of(f"items: adder / {bare}", ours, items[bare], required=0.7, aim=0.9),
      Ratio.of(f"items: adder / {same_references}", ours, items[same_references]),
      Ratio.of(f"items: adder / {five}", ours, items[five]),
      Ratio.of(f"rows: adder / {five}", rows_per_second["adder"], rows_per_second[five]),
    ),
  )


def make_config(capacity: int) -> RunConfig:
  """A run with two event tables; `capacity` is that of all its tables together, in transitions."""
  return workload.make_config(_SHARES, capacity, history=_HISTORY)


def make_episodes(config: RunConfig, steps: int) -> list[workload.Episode]:
  """Episodes of `steps` transitions in all."""
  return workload.make_episodes(steps, events=len(config.events), event_rate=_EVENT_RATE)


def run_adder(
  connection: Connection, config: RunConfig, codec: RowCodec, episodes: list[workload.Episode]
) -> Mapping[str, float]:
  """Writes the episodes; returns items and rows a second."""
  tables = [table.name for table in config.replay.all_tables]
  before = _inserted(connection, tables)
  writer = RowWriter(connection, references_needed(config), threading.Event())
  adder = EventTableAdder(writer, codec, config, writer_id=1)
  extras = {"policy_version": 1}
  began = time.perf_counter()
  for episode in episodes:
    adder.add_first(episode.steps[0])
    for action, step in zip(episode.actions, episode.steps[1:], strict=True):
      adder.add(action, step, extras)
  writer.flush()
  seconds = time.perf_counter() - began
  writer.close()
  rows = sum(len(episode.actions) for episode in episodes)
  return {"items": (_inserted(connection, tables) - before) / seconds, "rows": rows / seconds}


def _inserted(connection: Connection, tables: list[str]) -> int:
  info = connection.info()
  return sum(int(info[name].rate_limiter_info.insert_stats.completed) for name in tables)


def _run_bare(
  connection: Connection,
  table: str,
  steps: npt.NDArray[np.float32] | list[dict[str, npt.NDArray[Any]]],
  references: int,
) -> Mapping[str, float]:
  with connection.client.trajectory_writer(references) as writer:
    # Chunks of one row, as the adder writes them: a single item would keep the whole of a longer one in memory.
    for path in [(name,) for name in steps[0]] if isinstance(steps, list) else [()]:
      writer.configure(path, num_keep_alive_refs=references, max_chunk_length=1)
    began = time.perf_counter()
    for index, step in enumerate(steps, start=1):
      writer.append(step)
      history = writer.history
      latest = {name: column[-1] for name, column in history.items()} if isinstance(step, dict) else history[-1]
      writer.create_item(connection.wire_name(table), 1.0, latest)
      if index % row_writer.FLUSH_AFTER_ITEMS == 0:
        writer.flush(row_writer.PENDING_ITEMS)
      if index % workload.EPISODE_STEPS == 0:
        writer.end_episode()
    writer.flush()
    seconds = time.perf_counter() - began
  return {"items": len(steps) / seconds, "rows": len(steps) / seconds}
