"""Rows for algorithms, and their updates."""

from typing import Any

import numpy as np
import tensorflow as tf

from learner.algorithm import Algorithm
from replay_server.contract.layout import make_row_codec


def pack(spec: Any, **columns: Any) -> np.ndarray:
  """Rows of these columns, float32 [rows, width]; what is not given is 0."""
  codec = make_row_codec(spec)
  packer = codec.packer()
  count = len(columns["action"])
  columns = {name: np.asarray(column) for name, column in columns.items()}
  return np.stack(
    [
      packer.pack(
        {
          field.name: np.asarray(columns[field.name][row], field.dtype)
          if field.name in columns
          else np.zeros(field.shape, field.dtype)
          for field in codec.fields
        }
      )
      for row in range(count)
    ]
  )


def update(
  algorithm: Algorithm,
  rows: np.ndarray,
  weights: np.ndarray | None = None,
  tables: np.ndarray | None = None,
  cagrad: float = 0.0,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
  """One update for each of rows [K, batch, width]; by default of weight 1 and from the default table.

  Returns:
    (metric -> [K], td_errors [K, batch]).
  """
  shape = rows.shape[:2]
  metrics, td_errors = algorithm.update_block(
    tf.constant(rows),
    tf.constant(np.ones(shape) if weights is None else weights, tf.float32),
    tf.constant(np.zeros(shape) if tables is None else tables, tf.int64),
    tf.constant(cagrad, tf.float32),
  )
  return dict(zip(algorithm.METRICS, metrics.numpy().T, strict=True)), td_errors.numpy()
