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
import tensorflow as tf
from acme import specs

from configs import LearnerConfig, NetworkConfig, RunConfig, TableSpec
from learner.learner import Learner, make_learner
from learner.optimizer import Optimizer
from replay_server.contract.codec import RowCodec
from replay_server.process.server import ReplayServer
from tests.serving import config_of, fill, make_spec, serving

SPEC = make_spec((2,))
TABLES = (TableSpec("default", 0.5, min_size=4), TableSpec("done", 0.5, capacity=50))
FIELDS = {"batch_size": 4, "updates_per_block": 2, "publish_period_updates": 6, "prefetch": False}


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


@pytest.fixture(autouse=True)
def _eager(request: pytest.FixtureRequest) -> Iterator[None]:
  """Has TensorFlow compute without compiling, but for tests with the mark `compiled`.

  To compile an update takes seconds, and most tests make few. Those with the mark make many, or ask what compiling changes.
  """
  tf.config.run_functions_eagerly(request.node.get_closest_marker("compiled") is None)
  yield
  tf.config.run_functions_eagerly(False)


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


@pytest.fixture(name="filled")
def _filled(make_config, serve) -> Filled:
  """A server with ten rows in its default table and five in another."""
  filled: Filled = serve(make_config(TABLES, **FIELDS))
  filled.fill("default", range(10))
  filled.fill("done", range(5))
  return filled


@pytest.fixture(name="learn")
def _learn(tmp_path: pathlib.Path) -> Iterator[Callable[..., Learner]]:
  """Makes learners of a filled server; by default they share one directory."""
  made: list[Learner] = []

  def learn(filled: Any, directory: str = "checkpoints", seed: int = 0) -> Learner:
    server = filled.server
    made.append(make_learner(server.connection, server.manifest, seed, filled.stop, tmp_path / directory))
    return made[-1]

  yield learn
  for learner in made:
    learner.parts.publisher.close()
    learner.parts.source.close()


def checkpointed(learner: Learner) -> dict[str, list[np.ndarray]]:
  """The networks' weights, and their optimisers' moments and counters."""
  updates = learner.parts.updates
  networks = {
    name: part
    for name in ("policy", "target", "critics")
    if (part := getattr(updates.algorithm, name, None)) is not None
  }
  optimizers = [module for module in updates.submodules if isinstance(module, Optimizer)]
  arrays = {name: [variable.numpy() for variable in part.variables] for name, part in networks.items()}
  return {**arrays, "optimizers": [variable.numpy() for optimizer in optimizers for variable in optimizer.state]}
