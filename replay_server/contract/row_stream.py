"""A table's rows as a TensorFlow data set, drawn ahead by threads of its own."""

import reverb
import tensorflow as tf


def make_row_stream(
  target: str, table: str, width: int, portion: int, workers: int, timeout_ms: int
) -> tf.data.Dataset:
  """A data set whose elements are `reverb.ReplaySample`s of `portion` rows each, with their keys, probabilities and table sizes.

  Args:
    target: the server, as `Connection.target`.
    table: to draw from.
    width: of its rows.
    portion: rows that the stream returns at once.
    workers: threads that draw; each draws one portion ahead.
    timeout_ms: the stream ends when it has waited this long for a sample.
  """
  with tf.device("CPU:0"):
    dataset = reverb.TrajectoryDataset(
      target,
      table,
      dtypes={"row": tf.float32},
      shapes={"row": tf.TensorShape([width])},
      # A worker fetches no more than one draw takes: a sample's probability should not be older than necessary.
      max_in_flight_samples_per_worker=portion,
      num_workers_per_iterator=workers,
      rate_limiter_timeout_ms=timeout_ms,
    ).batch(portion)
  options = tf.data.Options()
  options.autotune.enabled = False
  options.threading.private_threadpool_size = 1
  options.threading.max_intra_op_parallelism = 1
  return dataset.with_options(options)
