"""Updates per second through the server against updates on a batch in memory."""

import contextlib
import io
import pathlib
import tempfile
import threading
import time
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from acme import specs

from benchmarks import server, workload
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from configs import RunConfig
from learner.devices import choose_device
from learner.learner import make_learner
from learner.updates import Updates, make_updates

OBSERVATION_SIZE = 3
ACTIONS = 4


def run(runs: int, quick: bool) -> Report:
  """Double-DQN updates per second of a whole learner, with seven tables, and of its update function alone."""
  size, seconds = (700, 0.2) if quick else (20_000, 2.0)
  config = workload.make_config(workload.SHARES, size)
  spec = workload.make_spec(OBSERVATION_SIZE, ACTIONS)
  ours, theirs = through_the_server(config, spec, seconds, runs, ACTIONS)
  learner = config.learner
  hidden = "x".join(str(size) for size in config.network.hidden_sizes)
  return Report(
    "learner",
    (
      f"Double DQN, {hidden} hidden units, observation {OBSERVATION_SIZE}, batches of {learner.batch_size}, "
      f"{learner.updates_per_block} updates a call, prefetching; the learner also publishes its weights every "
      f"{learner.publish_period_updates} updates.",
    ),
    (ours, theirs),
    (Ratio.of("through the server / on a fixed batch", ours, theirs, required=0.35, aim=0.5),),
  )


def through_the_server(
  config: RunConfig, spec: specs.EnvironmentSpec, seconds: float, runs: int, num_actions: int = 0, name: str = ""
) -> tuple[Figure, Figure]:
  """Updates per second of a whole learner whose tables are full, and of its algorithm on a block in memory.

  Args:
    config: of the run.
    spec: of its environment.
    seconds: length of a measured run.
    runs: number of runs of each contender.
    num_actions: number of discrete actions; 0 for continuous ones.
    name: prefix of the figures' names.
  """
  manifest = workload.make_manifest(config, spec)
  codec = manifest.codec
  sizes = {table.name: config.replay.capacity_of(table) for table in config.replay.all_tables}
  batches, batch_size = config.learner.updates_per_block, config.learner.batch_size
  rows = workload.make_rows(codec, max(sum(sizes.values()), batches * batch_size), num_actions)
  with contextlib.ExitStack() as stack:
    process = stack.enter_context(server.ServerProcess(manifest))
    workload.fill(process.connection, rows, sizes)
    directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    learner = make_learner(process.connection, manifest, 0, threading.Event(), directory)
    stack.enter_context(contextlib.redirect_stdout(io.StringIO()))  # It prints that it checkpointed.
    stack.callback(learner.close)
    # On the learner's device: by default TensorFlow would take the first GPU of a machine that has one.
    device = choose_device(config.learner.device)
    with tf.device(device):
      updates = make_updates(config, codec, spec, 0)
    block = rows[: batches * batch_size].reshape(batches, batch_size, codec.width)
    contenders: dict[str, Contender] = {
      f"{name}through the server": timed(learner.step, batches, seconds),
      f"{name}on a fixed batch": timed(lambda: _update(updates, block, device), batches, seconds),
    }
    measured = interleave(contenders, runs)
  ours, theirs = (Figure(what, "updates/s", values["updates"]) for what, values in measured.items())
  return ours, theirs


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


def _update(updates: Updates, block: npt.NDArray[np.float32], device: str) -> None:
  with tf.device(device):
    weights, tables = tf.ones(block.shape[:2]), tf.zeros(block.shape[:2], tf.int64)
    metrics, outputs = updates.update_block(tf.constant(block), weights, tables, {}, updates.controls(0))
    for tensor in (metrics, *outputs.values()):
      tensor.numpy()
