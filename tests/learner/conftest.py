"""A real replay server with tables that tests fill as they like."""

import contextlib
import dataclasses
import itertools
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from acme import specs

from configs import LearnerConfig, NetworkConfig, RunConfig, TableSpec
from replay_server.contract.codec import RowCodec
from replay_server.process.server import ReplayServer
from tests.serving import config_of, fill, make_spec, serving

SPEC = make_spec((2,))


@dataclasses.dataclass(frozen=True)
class Filled:
  """A running server, and a way to put rows into its tables.

  Attributes:
    server: that runs.
    config: of its run.
    codec: of its rows.
    spec: of the environment.
    stop: for the learner and its samplers; set when the test ends.
    directory: that its checkpoints are in.
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
    rows = (
      {
        "observation": np.array([step % 3, 1], np.float32),
        "next_observation": np.array([(step + 1) % 3, 1], np.float32),
        "action": step % 3,
        "reward": 0.5,
        "episode": episode,
        "step": step,
        "policy_version": 1,
        **values,
      }
      for step in steps
    )
    fill(self.server.connection, self.codec, table, rows)


@pytest.fixture(name="spec")
def _spec() -> specs.EnvironmentSpec:
  """Observations of two numbers, and three actions."""
  return SPEC


@pytest.fixture(name="make_config")
def _make_config() -> Callable[..., RunConfig]:
  """Makes a config of tables (the first is the default one) and learner fields."""

  def make(tables: Sequence[TableSpec], replay: dict | None = None, **learner: Any) -> RunConfig:
    return config_of(tables, None, replay, network=NetworkConfig(hidden_sizes=(8,)), learner=LearnerConfig(**learner))

  return make


@pytest.fixture(name="serve")
def _serve(tmp_path: pathlib.Path) -> Iterator[Callable[[RunConfig], Filled]]:
  """Starts servers, which end with the test."""
  with contextlib.ExitStack() as stack:
    started = itertools.count()

    def serve(
      config: RunConfig, run_id: str = "run", spec: specs.EnvironmentSpec = SPEC, directory: pathlib.Path | None = None
    ) -> Filled:
      directory = directory or tmp_path / f"replay_{next(started)}"
      server, stop = stack.enter_context(serving(config, directory, spec, run_id)), threading.Event()
      stack.callback(stop.set)  # Before its server ends.
      return Filled(server, config, server.manifest.codec, spec, stop, directory)

    yield serve
