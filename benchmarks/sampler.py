"""The stratified sampler against Reverb's own data set."""

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import reverb
import tensorflow as tf

from benchmarks import server, workload
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from configs import RunConfig
from learner.sources.server import make_server_source
from replay_server.contract.codec import RowCodec
from replay_server.contract.connection import Connection

_BATCH_SIZES = (32, 256)
# Drawn before the clock starts, so that blocks prefetched before the run count less.
_WARM_UP_BLOCKS = 2


def run(runs: int, quick: bool) -> Report:
  """Transitions per second over seven tables, and from one table with the same rows."""
  size, seconds = (700, 0.1) if quick else (20_000, 1.5)
  shared = workload.make_config(workload.SHARES, size)
  sizes = {table.name: shared.replay.capacity_of(table) for table in shared.replay.all_tables}
  figures, ratios = [], []
  manifest = workload.make_manifest(shared, workload.make_spec())
  codec = manifest.codec
  with server.ServerProcess(manifest) as process:
    connection = process.connection
    workload.fill(
      connection, workload.make_rows(codec, sum(sizes.values())), sizes, {server.UNIFORM: sum(sizes.values())}
    )
    for batch_size in _BATCH_SIZES:
      seven = workload.make_config(workload.SHARES, size, batch_size)
      one = workload.make_config((1.0,), size, batch_size, default=server.UNIFORM)
      with OpenSampler(connection, seven) as over_seven, OpenSampler(connection, one) as over_one:
        dataset = iter(_dataset(connection, codec, batch_size))
        contenders: dict[str, Contender] = {
          f"batch {batch_size}: sampler, seven tables": timed(over_seven.draw, over_seven.block, seconds),
          f"batch {batch_size}: sampler, one table": timed(over_one.draw, over_one.block, seconds),
          f"batch {batch_size}: Reverb's data set, one table": timed(
            functools.partial(_next_batch, dataset), batch_size, seconds
          ),
        }
        measured = interleave(contenders, runs)
        del dataset
      ours, same, theirs = (Figure(name, "transitions/s", v["transitions"]) for name, v in measured.items())
      figures += [ours, same, theirs]
      ratios += [
        Ratio.of(f"batch {batch_size}: seven tables / data set", ours, theirs, required=0.75, aim=0.95),
        Ratio.of(f"batch {batch_size}: seven tables / one table", ours, same),
      ]
  notes = (
    f"Blocks of {seven.learner.updates_per_block} batches over tables with the shares "
    f"{', '.join(f'{share:g}' for share in workload.SHARES)}; {sum(sizes.values()):,} rows of {codec.width} words.",
    "The data set: TrajectoryDataset(...).batch(B), two workers as the sampler has, B samples in flight each.",
  )
  return Report("sampler", notes, tuple(figures), tuple(ratios))


class OpenSampler:
  """A learner's source on the server, which the `with` statement closes.

  Attributes:
    block: rows of a block.
  """

  def __init__(self, connection: Connection, config: RunConfig):
    """Draws nothing yet."""
    self.block = config.learner.batch_size * config.learner.updates_per_block
    self._sampler = make_server_source(
      connection, workload.make_manifest(config, workload.make_spec()), threading.Event()
    )

  def draw(self) -> None:
    """Draws a block."""
    self._sampler.next_block()

  def __enter__(self) -> "OpenSampler":
    return self

  def __exit__(self, *_: object) -> None:
    self._sampler.close()


def timed(draw: Callable[[], object], rows: int, seconds: float) -> Contender:
  """A run that draws for `seconds`, `rows` transitions at a time."""

  def run() -> Mapping[str, float]:
    for _ in range(_WARM_UP_BLOCKS):
      draw()
    draws, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds or not draws:
      draw()
      draws += 1
    return {"transitions": draws * rows / elapsed}

  return run


def _dataset(connection: Connection, codec: RowCodec, batch_size: int) -> tf.data.Dataset:
  return reverb.TrajectoryDataset(
    connection.address,
    connection.wire_name(server.UNIFORM),
    dtypes=tf.float32,
    shapes=tf.TensorShape([codec.width]),
    max_in_flight_samples_per_worker=batch_size,
    num_workers_per_iterator=2,
  ).batch(batch_size)


def _next_batch(batches: Iterator[reverb.ReplaySample]) -> npt.NDArray[np.float32]:
  """The next batch's rows; reads their keys and probabilities too, which a block of the sampler also holds."""
  sample = next(batches)
  rows: npt.NDArray[np.float32] = sample.data.numpy()
  sample.info.key.numpy()
  sample.info.probability.numpy()
  return rows
