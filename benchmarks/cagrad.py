"""Updates per second with conflict-averse gradients against those along the average gradient."""

import dataclasses

import numpy as np
import tensorflow as tf

from benchmarks import workload
from benchmarks.learner import ACTIONS, OBSERVATION_SIZE, timed, update
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from configs import CagradConfig, RunConfig
from learner.devices import choose_device
from learner.updates import make_updates

_COEFFICIENTS = {"along the average gradient": 0.0, "conflict-averse": 0.5}


def run(runs: int, quick: bool) -> Report:
  """Double-DQN updates on a fixed block whose rows come from seven tables."""
  rows, seconds = (700, 0.1) if quick else (20_000, 2.0)
  config = workload.on_cpu(workload.make_config(workload.SHARES, rows), quick)
  measured = interleave({what: _contender(config, c, rows, seconds) for what, c in _COEFFICIENTS.items()}, runs)
  plain, averse = (Figure(what, "updates/s", values["updates"]) for what, values in measured.items())
  learner = config.learner
  hidden = "x".join(str(size) for size in config.network.hidden_sizes)
  return Report(
    "cagrad",
    (
      f"Double DQN, {hidden} hidden units, observation {OBSERVATION_SIZE}, batches of {learner.batch_size} from seven tables, "
      f"{learner.updates_per_block} updates a call, one thread.",
    ),
    (plain, averse),
    (Ratio.of("conflict-averse / along the average gradient", averse, plain, required=0.3, aim=0.5),),
  )


def _contender(config: RunConfig, coefficient: float, rows: int, seconds: float) -> Contender:
  config = dataclasses.replace(config, learner=dataclasses.replace(config.learner, cagrad=CagradConfig(coefficient)))
  spec = workload.make_spec(OBSERVATION_SIZE, ACTIONS)
  codec = workload.make_manifest(config, spec).codec
  device = choose_device(config.learner.device)
  with tf.device(device):
    updates = make_updates(config, codec, spec, 0)
  shape = (config.learner.updates_per_block, config.learner.batch_size)
  block = np.resize(workload.make_rows(codec, rows, ACTIONS), (*shape, codec.width))
  # Every batch has the rows from each table that the table's share gives, up to rounding.
  places = (np.arange(shape[1]) + 0.5) / shape[1]
  tables = np.broadcast_to(np.searchsorted(np.cumsum(workload.SHARES), places), shape).astype(np.int64)
  return timed(lambda: update(updates, block, device, tables=tables), shape[0], seconds)
