"""Servers, configs and rows for the tests of the rooms that talk to a replay server."""

import contextlib
import dataclasses
import json
import pathlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import dm_env
import numpy as np
import pytest
from acme import specs

from actors.adder import EventTableAdder, references_needed
from actors.row_writer import RowWriter
from configs import DdqnConfig, EventSpec, LearnerConfig, ReplayConfig, RunConfig, TableSpec, to_dict
from configs.algorithms import ALGORITHMS
from environments.timestep import EventTimeStep
from replay_server.contract import layout
from replay_server.contract.codec import RowCodec
from replay_server.contract.connection import Connection
from replay_server.contract.layout import make_row_codec
from replay_server.contract.messages import encode_text
from replay_server.process.server import ReplayServer


def make_spec(shape: tuple[int, ...] = (3,), dtype: Any = np.float32) -> specs.EnvironmentSpec:
  """An environment with observations like that and three actions."""
  scalar = specs.Array((), np.float32)
  return specs.EnvironmentSpec(specs.Array(shape, dtype), specs.DiscreteArray(3), scalar, scalar)


SPEC = make_spec()
CODEC = make_row_codec(SPEC)


def make_config(
  tables: Mapping[str, int] | None = None,
  events: Sequence[tuple[str, int]] = (),
  capacity: int = 1_000,
  n_step: int = 1,
  discount: float = 0.9,
  **changes: Any,
) -> RunConfig:
  """A run whose tables are read from the oldest row on.

  Args:
    tables: name -> capacity of every event table.
    events: (table, tau) of every event, in the order of their bits.
    capacity: of the default table.
    n_step: of the rows.
    discount: of the rows.
    changes: of `RunConfig`'s fields.
  """
  tables = tables or {}
  share = 1 / (len(tables) + 1)
  return RunConfig(
    **{
      "events": tuple(
        EventSpec(f"event_{bit}", "environments.three_rooms:done", history, table)
        for bit, (table, history) in enumerate(events)
      ),
      "replay": ReplayConfig(
        default=TableSpec("default", share, capacity, selector="fifo"),
        tables=tuple(TableSpec(name, share, size, selector="fifo") for name, size in tables.items()),
        environment_steps_per_update=None,
      ),
      "learner": LearnerConfig(n_step=n_step, discount=discount),
      **changes,
    }
  )


@dataclasses.dataclass(frozen=True)
class _TellingConfig(DdqnConfig):
  """An algorithm whose rows hold two numbers of the behaviour besides."""

  NAME: ClassVar[str] = "telling"

  def row_fields(self, action_shape: tuple[int, ...]) -> Mapping[str, tuple[str, tuple[int, ...]]]:
    return {"behaviour": ("float32", (2,))}


def with_behaviour(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> RunConfig:
  """The run with a field `behaviour`, float32 [2], in its rows."""
  monkeypatch.setitem(ALGORITHMS, _TellingConfig.NAME, _TellingConfig)
  return dataclasses.replace(config, learner=dataclasses.replace(config.learner, algorithm=_TellingConfig()))


@contextlib.contextmanager
def serving(
  config: RunConfig, folder: pathlib.Path, spec: specs.EnvironmentSpec = SPEC, run_id: str = "run", **arguments: Any
) -> Iterator[ReplayServer]:
  """A server with a checkpoint directory in `folder`."""
  with ReplayServer(config, spec, run_id, folder / "checkpoint", **arguments) as server:
    yield server


def write_version_2(connection: Connection, config: RunConfig, run_id: str) -> None:
  """Puts the manifest into the run table that a server of layout version 2 would have written."""
  manifest = {"run_id": run_id, "config": to_dict(config), "codec": to_dict(CODEC), "inline": True, "layout_version": 2}
  connection.writer().write(layout.RUN, [encode_text(json.dumps({**manifest, "versions": {}}))])


@contextlib.contextmanager
def adding(
  server: ReplayServer, writer_id: int = 0, stop: threading.Event | None = None
) -> Iterator[tuple[EventTableAdder, RowWriter]]:
  """An adder and the writer below it, for the server's config."""
  config, codec = server.manifest.config, server.manifest.codec
  writer = RowWriter(server.connection, references_needed(config), stop or threading.Event())
  try:
    yield EventTableAdder(writer, codec, config, writer_id), writer
  finally:
    writer.close()


def size_of(connection: Connection, table: str) -> int:
  """Items in a table."""
  size: int = connection.info()[table].current_size
  return size


def _take_all(connection: Connection, table: str) -> list[tuple[float, np.ndarray]]:
  """Priority and row of every item of a table with the selector "fifo", from the oldest to the newest; takes them out."""

  def take() -> tuple[float, np.ndarray]:
    key, _, _, priority, (row,) = connection.open_sampler(table, samples=1, in_flight=1).next()
    connection.client.mutate_priorities(table, deletes=[key])
    return priority, row

  taken = [connection.call(take, "draining", 10) for _ in range(size_of(connection, table))]
  assert size_of(connection, table) == 0
  return taken


def drain(connection: Connection, table: str, codec: RowCodec = CODEC) -> list[dict[str, np.ndarray]]:
  """Takes every row out of a table with the selector "fifo"; from the oldest to the newest."""
  return [codec.unpack(row) for _, row in _take_all(connection, table)]


def drain_priorities(connection: Connection, table: str) -> list[float]:
  """Takes every row out of a table with the selector "fifo"; their priorities, from the oldest to the newest."""
  return [priority for priority, _ in _take_all(connection, table)]


def steps_in(connection: Connection, table: str) -> list[int]:
  """The numbers of the steps in a table, from the oldest to the newest; takes them out."""
  return [int(row["step"]) for row in drain(connection, table)]


def first(observation: Any = (0, 0, 0)) -> EventTimeStep:
  """The first time step of an episode."""
  return EventTimeStep(dm_env.StepType.FIRST, None, None, np.asarray(observation, np.float32))


def step(
  observation: Any = (0, 0, 0),
  reward: float = 0.0,
  events: int = 0,
  terminated: bool = False,
  truncated: bool = False,
  discount: float | None = None,
) -> EventTimeStep:
  """A later time step."""
  last = terminated or truncated
  return EventTimeStep(
    dm_env.StepType.LAST if last else dm_env.StepType.MID,
    np.float32(reward),
    np.float32(1 - terminated if discount is None else discount),
    np.asarray(observation, np.float32),
    events,
    terminated,
    truncated,
  )


ACTION = np.int32(1)


def run_episode(adder: EventTableAdder, length: int, events: Mapping[int, int] | None = None, episode: int = 0) -> None:
  """An episode whose step t leads from observation (episode, t, 0) to (episode, t + 1, 0).

  Args:
    adder: that takes it.
    length: in steps.
    events: step -> mask of the events that it fires.
    episode: for the observations.
  """
  adder.add_first(first((episode, 0, 0)))
  for t in range(length):
    mask = (events or {}).get(t, 0)
    adder.add(ACTION, step((episode, t + 1, 0), float(t), mask, terminated=t == length - 1), {"policy_version": 1})


def wait_for(condition: Callable[[], Any], seconds: float = 10.0) -> None:
  """Waits until `condition()` holds.

  Raises:
    AssertionError: it did not in time.
  """
  deadline = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < deadline, "waited in vain"
    time.sleep(0.01)
