"""Memories and rows for tests."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from configs import RunConfig
from replay_memory.memory import ReplayMemory
from replay_memory.plan import Plan, make_plan
from tests.replay_memory.oracle import Key, Row
from tests.serving import CODEC, make_config

_BLANK = {field.name: np.zeros(field.shape, field.dtype) for field in CODEC.fields}


def plan_of(config: RunConfig, open_episodes: int | None = None, **changes: Any) -> Plan:
  return dataclasses.replace(make_plan(config, CODEC.width, open_episodes), **changes)


def memory_of(
  tables: Mapping[str, int] | None = None, events: Sequence[tuple[str, int]] = (), capacity: int = 100, **changes: Any
) -> ReplayMemory:
  """A memory of tables with these capacities; see `tests.serving.make_config` for the arguments, and `Plan` for `changes`."""
  return ReplayMemory(plan_of(make_config(tables, events, capacity), **changes), CODEC)


def packed(rows: Iterable[Row]) -> np.ndarray:
  """Rows whose observation says what they are."""
  packer = CODEC.packer()
  made = [
    packer.pack(
      {
        **_BLANK,
        "observation": np.array([row.episode % 1024, row.step, row.events], np.float32),
        "steps": 1,
        "discount": 1.0,
        "episode": row.episode,
        "step": row.step,
        "events": row.events,
        "terminated": row.ended == "terminated",
        "truncated": row.ended == "truncated",
      }
    )
    for row in rows
  ]
  return np.array(made, np.float32).reshape(-1, CODEC.width)


def episode_rows(length: int, episode: int = 0, events: Mapping[int, int] | None = None, ended: str = "") -> list[Row]:
  """The rows of an episode: `events` is step -> mask, `ended` how its last row ends it."""
  return [Row(episode, t, (events or {}).get(t, 0), ended if t == length - 1 else "") for t in range(length)]


def keys_in(memory: ReplayMemory, slots: np.ndarray) -> list[Key]:
  """Episode and step of the rows in slots."""
  fields = CODEC.unpack(memory.take(slots))
  return list(zip(fields["episode"].tolist(), fields["step"].tolist(), strict=True))


def contents(memory: ReplayMemory) -> dict[str, list[Key]]:
  """Table -> its rows' episodes and steps, from the oldest to the newest."""
  return {name: keys_in(memory, memory.contents(table)) for table, name in enumerate(memory.table_names)}


def steps(memory: ReplayMemory) -> dict[str, list[int]]:
  """Table -> its rows' steps, from the oldest to the newest."""
  return {name: [step for _, step in keys] for name, keys in contents(memory).items()}
