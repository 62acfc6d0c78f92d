"""Updates per second through the server and through the learner's own memory, against updates on a fixed batch."""

import contextlib
import io
import pathlib
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from acme import specs

from benchmarks import server, workload
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from configs import RunConfig
from configs.run import Sampling
from learner.devices import choose_device
from learner.gradients.controls import BETA, LARGEST_RATIO, RATE_SCALE, REWARD_SCALE
from learner.learner import Learner, make_learner
from learner.updates import Updates, make_updates

# Of a run with ReF-ER, somewhere in its course.
_REFER_CONTROLS = {REWARD_SCALE: 1.0, BETA: 0.5, LARGEST_RATIO: 4.0, RATE_SCALE: 1.0}

OBSERVATION_SIZE = 3
ACTIONS = 4


def run(runs: int, quick: bool) -> Report:
  """Double-DQN updates per second of a whole learner, with seven tables, and of its update function alone."""
  size, seconds = (700, 0.2) if quick else (20_000, 2.0)
  config = workload.on_cpu(workload.make_config(workload.SHARES, size), quick)
  spec = workload.make_spec(OBSERVATION_SIZE, ACTIONS)
  figures = whole_learners(config, spec, seconds, runs, num_actions=ACTIONS)
  through_server, through_memory, fixed = figures
  learner = config.learner
  hidden = "x".join(str(size) for size in config.network.hidden_sizes)
  return Report(
    "learner",
    (
      f"Double DQN, {hidden} hidden units, observation {OBSERVATION_SIZE}, batches of {learner.batch_size}, "
      f"{learner.updates_per_block} updates a call, prefetching; the learner also publishes its weights every "
      f"{learner.publish_period_updates} updates.",
    ),
    figures,
    (
      Ratio.of("through the server / on a fixed batch", through_server, fixed, required=0.35, aim=0.5),
      Ratio.of("through the memory / on a fixed batch", through_memory, fixed, required=0.75, aim=0.9),
    ),
  )


def whole_learners(
  config: RunConfig,
  spec: specs.EnvironmentSpec,
  seconds: float,
  runs: int,
  samplings: Sequence[Sampling] = ("server", "memory"),
  num_actions: int = 0,
  name: str = "",
) -> tuple[Figure, ...]:
  """Updates per second of whole learners whose tables are full, through the server and through a memory, and of their algorithm.

  Args:
    config: of the run.
    spec: of its environment.
    seconds: length of a measured run.
    runs: number of runs of each contender.
    samplings: `replay.sampling` of the learners.
    num_actions: number of discrete actions; 0 for continuous ones.
    name: prefix of the figures' names.

  Returns:
    One for each of `samplings`, and one on a fixed block.
  """
  codec = workload.make_manifest(config, spec).codec
  batches, batch_size = config.learner.updates_per_block, config.learner.batch_size
  sizes = [config.replay.capacity_of(table) for table in config.replay.all_tables]
  events = workload.events_of(sizes)
  rows = workload.make_rows(codec, len(events), num_actions, events=events)
  with contextlib.ExitStack() as stack:
    stack.enter_context(contextlib.redirect_stdout(io.StringIO()))  # They print that they checkpointed.
    configs = {"server": config, "memory": workload.in_memory(config)}
    learners = {sampling: stack.enter_context(learning(configs[sampling], spec, rows)) for sampling in samplings}
    # On the learner's device: by default TensorFlow would take the first GPU of a machine that has one.
    device = choose_device(config.learner.device)
    with tf.device(device):
      updates = make_updates(config, codec, spec, 0)
    block = np.resize(rows, (batches, batch_size, codec.width))
    controls = _REFER_CONTROLS if config.learner.stores_behaviour else {}
    contenders: dict[str, Contender] = {
      **{f"{name}through the {sampling}": timed(each.step, batches, seconds) for sampling, each in learners.items()},
      f"{name}on a fixed batch": timed(lambda: update(updates, block, device, controls), batches, seconds),
    }
    measured = interleave(contenders, runs)
  return tuple(Figure(what, "updates/s", values["updates"]) for what, values in measured.items())


@contextlib.contextmanager
def learning(config: RunConfig, spec: specs.EnvironmentSpec, rows: workload.Rows) -> Iterator[Learner]:
  """A learner that has all the rows, and a server of its own.

  Args:
    config: of the run.
    spec: of its environment.
    rows: float32 [sum of the tables' capacities, width].
  """
  manifest = workload.make_manifest(config, spec)
  replay = config.replay
  sizes = {table.name: replay.capacity_of(table) for table in replay.all_tables}
  with server.ServerProcess(manifest) as process, tempfile.TemporaryDirectory() as folder:
    connection = process.connection
    if replay.sampling == "server":
      workload.fill(connection, rows, sizes)
    learner = make_learner(connection, manifest, 0, threading.Event(), pathlib.Path(folder))
    with contextlib.closing(learner):
      if replay.sampling == "memory":
        # In portions that the queue holds, each of which is read with the learner's blocks.
        portion = sizes[replay.default.name]
        for begin in range(0, len(rows), portion):
          part = rows[begin : begin + portion]
          workload.fill(connection, part, {replay.default.name: len(part)})
          while connection.info()[replay.default.name].current_size:
            learner.step()
      yield learner


def timed(step: Callable[[], None], updates: int, seconds: float) -> Contender:
  """A run that takes steps of `updates` updates for `seconds`."""

  def run() -> Mapping[str, float]:
    step()
    steps, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds or not steps:
      step()
      steps += 1
    return {"updates": steps * updates / elapsed}

  return run


def update(
  updates: Updates,
  block: npt.NDArray[np.float32],
  device: str,
  controls: Mapping[str, float] = types.MappingProxyType({}),
  tables: npt.NDArray[np.int64] | None = None,
) -> None:
  """Takes the updates of one block.

  Args:
    updates: the update function.
    block: float32 [K, batch, width].
    device: to compute on.
    controls: of the source.
    tables: int64 [K, batch], the index of each row's table; None for the first.
  """
  with tf.device(device):
    weights = np.ones(block.shape[:2], np.float32)
    tables = np.zeros(block.shape[:2], np.int64) if tables is None else tables
    columns = {name: np.zeros(block.shape[:2], np.float32) for name in updates.algorithm.INPUTS}
    updates.update_block(block, weights, tables, columns, updates.controls(0, controls))
