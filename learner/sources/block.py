"""A block: the rows of several batches, in numpy."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class Block:
  """K batches, drawn at once.

  Attributes:
    rows: float32 [K, batch, width], packed; within a batch they are sorted by table, in layout order.
    tables: int64 [K, batch], the index of each row's table.
    handles: uint64 [K, batch], the source's identifier of each row: the key of its item on the server, or its slot in memory.
    probabilities: float64 [K, batch], the probability of each row within its table when it was drawn.
    table_sizes: int64 [K, batch], rows in each row's table when it was drawn.
    quotas: int64 [K, tables], number of rows that each batch has from each table.
    shares: float64 [tables], the tables' long-run shares of a batch; 0 for a table that is not ready.
    columns: what an algorithm reads for each row besides its fields (`Algorithm.INPUTS`), float32 [K, batch] each.
    least_ratios: float64 [tables], the least N P of each table's rows, where P is a row's probability and N the table's size,
      when the block was drawn; None where it is not asked for (`replay.priority.normalize`).
  """

  rows: npt.NDArray[np.float32]
  tables: npt.NDArray[np.int64]
  handles: npt.NDArray[np.uint64]
  probabilities: npt.NDArray[np.float64]
  table_sizes: npt.NDArray[np.int64]
  quotas: npt.NDArray[np.int64]
  shares: npt.NDArray[np.float64]
  columns: Mapping[str, npt.NDArray[np.float32]] = dataclasses.field(default_factory=dict)
  least_ratios: npt.NDArray[np.float64] | None = None
