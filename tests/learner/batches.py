"""Rows for algorithms, and their updates."""

from typing import Any

import numpy as np

from learner.optimizer import Optimizer
from learner.updates import Updates
from replay_server.contract.layout import make_row_codec


def pack(spec: Any, **columns: Any) -> np.ndarray:
  """Rows of these columns, float32 [rows, width]; other columns are 0."""
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


def part(updates: Updates, name: str) -> Any:
  """A network (or variable) of the algorithm."""
  return getattr(updates.algorithm, name)


def optimizer_of(updates: Updates, network: Any) -> Optimizer:
  """The optimiser of a network's parameters."""
  first = network.trainable_variables[0]
  (found,) = (
    module for module in updates.submodules if isinstance(module, Optimizer) and module.parameters[0] is first
  )
  return found


def update(
  updates: Updates,
  rows: np.ndarray,
  weights: np.ndarray | None = None,
  tables: np.ndarray | None = None,
  cagrad: float | None = None,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
  """One update for each batch of rows [K, batch, width]; by default with weights 1 and from the default table.

  Returns:
    (metric -> [K], td_errors [K, batch]).
  """
  shape = rows.shape[:2]
  controls = updates.controls(0)
  if cagrad is not None:  # Rules other than CAGrad have no such control.
    controls = dict.fromkeys(controls, cagrad)
  metrics, outputs = updates.update_block(
    rows,
    np.asarray(np.ones(shape) if weights is None else weights, np.float32),
    np.asarray(np.zeros(shape) if tables is None else tables, np.int64),
    {},
    controls,
  )
  return dict(zip(updates.algorithm.METRICS, metrics.T, strict=True)), outputs["td_error"]
