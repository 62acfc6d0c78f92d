"""A real replay server with tables that tests fill as they like."""

import dataclasses
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from acme import specs

from actors.row_writer import RowWriter
from configs import EventSpec, LearnerConfig, NetworkConfig, ReplayConfig, RunConfig, TableSpec
from replay_server.contract.codec import RowCodec
from replay_server.process.server import ReplayServer

_SCALAR = specs.Array((), np.float32)
SPEC = specs.EnvironmentSpec(
  specs.Array((2,), np.float32), specs.DiscreteArray(3, np.int32, "action"), _SCALAR, _SCALAR
)


@dataclasses.dataclass(frozen=True)
class Filled:
  """A running server, and a way to put rows into its tables.

  Attributes:
    server: that runs.
    config: of its run.
    codec: of its rows.
    spec: of the environment.
    stop: for whoever waits for it.
    directory: of its checkpoints.
  """

  server: ReplayServer
  config: RunConfig
  codec: RowCodec
  spec: specs.EnvironmentSpec
  stop: threading.Event
  directory: pathlib.Path

  def fill(self, table: str, steps: Sequence[int], **values: object) -> None:
    """Puts one row per step into `table` alone; its index among the tables is the row's episode, its step the row's step.

    Args:
      table: to fill.
      steps: of the rows, in turn.
      **values: of other fields, the same in every row.
    """
    episode = [spec.name for spec in self.config.replay.all_tables].index(table)
    packer = self.codec.packer()
    writer = RowWriter(self.server.connection, 1, threading.Event())
    for step in steps:
      row = {
        "observation": np.array([step % 3, 1], np.float32),
        "next_observation": np.array([(step + 1) % 3, 1], np.float32),
        "action": step % 3,
        "reward": 0.5,
        "discount": 1.0,
        "steps": 1,
        "terminated": False,
        "truncated": False,
        "events": 0,
        "episode": episode,
        "step": step,
        "policy_version": 1,
      }
      writer.create_item(table, writer.append(packer.pack({**row, **values})))
    writer.flush()
    writer.close()


@pytest.fixture(name="spec")
def _spec() -> specs.EnvironmentSpec:
  """Two numbers to see and three actions."""
  return SPEC


@pytest.fixture(name="make_config")
def _make_config() -> Callable[..., RunConfig]:
  """Makes a config of tables (the first is the default one) and learner fields."""

  def make(tables: Sequence[TableSpec], replay: dict | None = None, **learner: object) -> RunConfig:
    default, *others = tables
    return RunConfig(
      events=tuple(EventSpec(table.name, "environments.three_rooms:done", history=1) for table in others),
      replay=ReplayConfig(
        default=default, tables=tuple(others), **{"environment_steps_per_update": None, **(replay or {})}
      ),
      network=NetworkConfig(hidden_sizes=(8,)),
      learner=LearnerConfig(**learner),  # type: ignore[arg-type]
    )

  return make


@pytest.fixture(name="serve")
def _serve(tmp_path: pathlib.Path) -> Iterator[Callable[[RunConfig], Filled]]:
  """Starts servers, which end with the test."""
  started: list[Filled] = []

  def serve(
    config: RunConfig, run_id: str = "run", spec: specs.EnvironmentSpec = SPEC, directory: pathlib.Path | None = None
  ) -> Filled:
    directory = directory or tmp_path / f"replay_{len(started)}"
    server = ReplayServer(config, spec, run_id, directory)
    started.append(Filled(server, config, server.manifest.codec, spec, threading.Event(), directory))
    return started[-1]

  yield serve
  for filled in started:
    filled.stop.set()
    filled.server.stop()
