"""Where a learner's batches come from, as the learner sees it, and the small parts that a source is composed of."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from learner.sources.block import Block

# Named arrays, which lie in the learner's checkpoint.
State = Mapping[str, npt.NDArray[Any]]


class Source(Protocol):
  """Gives blocks, weighs their rows, and takes back what was learned from them.

  The learner's loop is `block = next_block(); weights(block, updates); ...; feed_back(block, outputs)`.
  """

  @property
  def table_names(self) -> Sequence[str]:
    """Names of the tables, in layout order."""
    ...

  def next_block(self) -> Block:
    """The next K batches; waits until there are enough rows.

    Raises:
      Stopped: told to stop while waiting.
      ServerLost: the server does not answer.
    """
    ...

  def weights(self, block: Block, updates: int) -> npt.NDArray[np.float32]:
    """The weight of each row's loss, float32 [K, batch].

    Args:
      block: as drawn.
      updates: gradient steps before it, for schedules; within the block they stay.
    """
    ...

  def feed_back(self, block: Block, outputs: Mapping[str, npt.NDArray[np.float32]]) -> None:
    """Takes what an algorithm made of the rows.

    Args:
      block: as drawn.
      outputs: `Algorithm.OUTPUTS`, float32 [K, batch] each.

    Raises:
      ServerLost: the server does not answer.
    """
    ...

  @property
  def new_item_priorities(self) -> tuple[float, ...]:
    """The priority that a new item of each table gets, in layout order."""
    ...

  def describe_wait(self) -> str:
    """What the source waits for, for people; empty where it does not."""
    ...

  def metrics(self) -> Mapping[str, float]:
    """What the learner's heartbeats carry of it."""
    ...

  def state(self) -> State:
    """What a checkpoint must hold for `restore`."""
    ...

  def restore(self, state: State) -> None:
    """Takes what `state` returned, before the first block.

    Raises:
      ServerLost: the server does not answer.
    """
    ...

  def close(self) -> None:
    """Ends what the source has running; may be called twice."""
    ...


class Weighting(Protocol):
  """One factor of the rows' weights."""

  def weights(self, block: Block, updates: int) -> npt.NDArray[np.float32]:
    """As `Source.weights`."""
    ...

  def state(self) -> State:
    """As `Source.state`."""
    ...

  def restore(self, state: State) -> None:
    """As `Source.restore`."""
    ...
