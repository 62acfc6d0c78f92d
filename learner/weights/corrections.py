"""Corrections for the bias that event tables cause in stochastic worlds (SSET, line 19 of Algorithm 1, and Lemma 2).

In batches the outcomes that lead to events are more frequent than in the world. Each correction weighs the rows' losses.
tests/learner/weights/test_corrections.py works out by hand how well each one does, and checks it on a real server.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from configs import UserError
from configs.learning import BiasCorrection as Kind
from learner.sources.block import Block
from learner.weights.contents import TableContents
from replay_server.contract.codec import RowCodec

MAX_PAIRS = 1_000_000
_KEY_BYTES = 16


def count_weights(
  in_events: npt.NDArray[np.bool_], outside: npt.NDArray[np.float64], event_share: float
) -> npt.NDArray[np.float64]:
  """Lemma 2 as printed: 1 - eta P(not in B_nu | s, a) in the event tables, 1 / (1 - eta) outside.

  It is not exact: an exact correction depends on the outcome; see `balance_weights`.

  Args:
    in_events: bool [...], whether an event table holds the transition.
    outside: float [...], P(not in B_nu | s, a) for the transition's state and action.
    event_share: eta, the event tables' share of a batch.

  Returns:
    float64 [...].
  """
  return np.where(in_events, 1.0 - event_share * outside, 1.0 / (1.0 - event_share))


def priority_sum_weights(
  in_events: npt.NDArray[np.bool_], event_fraction: float, event_share: float
) -> npt.NDArray[np.float64]:
  """The paper's form for continuous states: the inverse of a priority that is 1 + eta in the event tables, 1 - eta outside.

  Args:
    in_events: bool [...], whether an event table holds the transition.
    event_fraction: fraction of the default table's transitions that an event table also holds.
    event_share: eta, the event tables' share of a batch.

  Returns:
    float64 [...]; the default table's mean priority divided by the transition's own.
  """
  mean = event_fraction * (1.0 + event_share) + (1.0 - event_fraction) * (1.0 - event_share)
  return np.where(in_events, mean / (1.0 + event_share), mean / (1.0 - event_share))


def balance_weights(
  holds: npt.NDArray[np.bool_], shares: npt.NDArray[np.float64], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
  """The exact ratio of uniform replay from the default table to the mixture: (1 / N_0) / sum_i eta_i 1[in table i] / N_i.

  A transition that the default table has evicted has no part in uniform replay: its weight is 0.

  Args:
    holds: bool [..., tables], which tables hold the transition, the default table first.
    shares: float [tables], eta_i.
    sizes: int [tables], N_i, at least 1 where eta_i is above 0.

  Returns:
    float64 [...], with a mean of 1 over the mixture.
  """
  density = holds @ (shares / np.maximum(sizes, 1))
  return np.divide(holds[..., 0] / sizes[0], density, out=np.zeros(density.shape), where=density > 0)


class BiasCorrection:
  """Weighs the rows of a block by which tables hold them."""

  def __init__(self, contents: TableContents, kind: Kind, codec: RowCodec):
    """Reads nothing yet.

    Args:
      contents: of the tables.
      kind: `learner.bias_correction`, not "none".
      codec: of the rows.
    """
    self._kind = kind
    self._contents = contents
    self._codec = codec
    # Hash of (state, action) -> its draws from the default table, and how many of those no event table held at the time.
    self._pairs: dict[bytes, tuple[int, int]] = {}

  def weights(self, block: Block, updates: int) -> npt.NDArray[np.float32]:
    """Weights of a block's rows, float32 [K, batch]; there is no schedule, so `updates` is not used.

    Raises:
      UserError: `counts`, in a world with too many pairs of state and action.
    """
    del updates
    self._contents.refresh()
    # A row is in the table that it was drawn from, even if that has not been reported yet.
    tables = self._contents.tables_of(block) | 1 << block.tables
    event_share = 1.0 - block.shares[0]
    in_events = tables > 1
    if self._kind == "balance":
      holds = (tables[..., None] >> np.arange(len(block.shares)) & 1).astype(bool)
      return balance_weights(holds, block.shares, self._contents.sizes(block)).astype(np.float32)
    if self._kind == "priority_sum":
      return priority_sum_weights(in_events, self._contents.event_fraction, event_share).astype(np.float32)
    outside = self._count(block, self._codec.unpack(block.rows), in_events)
    return count_weights(in_events, outside, event_share).astype(np.float32)

  def state(self) -> Mapping[str, npt.NDArray[Any]]:
    """What is known of the tables' contents, and the counts of pairs."""
    keys = np.frombuffer(b"".join(self._pairs), np.uint8).reshape(-1, _KEY_BYTES)
    counts = np.array(list(self._pairs.values()), np.int64).reshape(-1, 2)
    return {"pairs": keys, "pair_counts": counts, **self._contents.state()}

  def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
    """Restores what `state` returned, except steps that the server has lost since.

    Raises:
      ServerLost: the server does not answer.
    """
    self._contents.restore(state)
    pairs = zip(state["pairs"], state["pair_counts"].tolist(), strict=True)
    self._pairs = {key.tobytes(): (drawn, outside) for key, (drawn, outside) in pairs}

  def _count(
    self, block: Block, fields: dict[str, npt.NDArray[Any]], in_events: npt.NDArray[np.bool_]
  ) -> npt.NDArray[np.float64]:
    """P(not in B_nu | s, a) of every row, from its pair's draws from the default table, those of this block included."""
    batch_shape = block.tables.shape
    pairs = np.concatenate(
      [
        np.ascontiguousarray(fields[name]).reshape(in_events.size, -1).view(np.uint8)
        for name in ("observation", "action")
      ],
      axis=1,
    )
    # Hashes, as an observation can be an image.
    keys = [hashlib.blake2b(pair.tobytes(), digest_size=_KEY_BYTES).digest() for pair in pairs]
    for key, table, member in zip(keys, block.tables.ravel().tolist(), in_events.ravel().tolist(), strict=True):
      if table == 0:
        drawn, outside = self._pairs.get(key, (0, 0))
        self._pairs[key] = (drawn + 1, outside + (not member))
    if len(self._pairs) > MAX_PAIRS:
      raise UserError(
        f"learner.bias_correction is 'counts', and this world has more than {MAX_PAIRS} pairs of state and action: use "
        "'balance' or 'priority_sum'."
      )
    # A pair that was only drawn from event tables so far counts as always held by one.
    found = [self._pairs.get(key, (0, 0)) for key in keys]
    return np.array([out / max(1, drawn) for drawn, out in found]).reshape(batch_shape)
