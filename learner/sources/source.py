"""The interfaces of a source of batches and of its weightings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from learner.sources.block import Block
from replay_server.contract.activity import Wait

# Named arrays, kept in the learner's checkpoint.
State = Mapping[str, npt.NDArray[Any]]


class Model(Protocol):
  """The learner's networks, for sources that keep what they say of stored rows."""

  def evaluate(self, rows: npt.NDArray[np.float32]) -> Mapping[str, npt.NDArray[np.float32]]:
    """The algorithm's outputs for rows without learning from them, float32 [n] each, for float32 [n, width]."""
    ...

  def normalize(self, rows: npt.NDArray[np.float32]) -> None:
    """Sets the normalisation of observations to the moments of these rows' observations, float32 [n, width]."""
    ...


class Source(Protocol):
  """Supplies blocks, weighs their rows, and receives what was learned from them.

  The learner's loop is `block = next_block(); weights(block, updates); draw_ahead(); ...; feed_back(block, outputs)`.
  """

  @property
  def table_names(self) -> Sequence[str]:
    """Names of the tables, in layout order."""
    ...

  def use(self, model: Model) -> None:
    """Takes the learner's networks; called once, before `restore`."""
    ...

  def is_ready(self) -> bool:
    """Whether `next_block` would find enough rows in the default table; an inline run asks before it calls that."""
    ...

  def controls(self) -> Mapping[str, float]:
    """Numbers for the updates of the block that was drawn last (`Batch.controls`); their names never change."""
    ...

  def next_block(self, while_waiting: Callable[[], None] = lambda: None) -> Block:
    """The next K batches; waits until there are enough rows.

    Args:
      while_waiting: called again and again. What it raises ends the wait; the block is then handed out by the next call.

    Raises:
      Stopped: stopped while waiting.
      ServerLost: the server does not answer.
    """
    ...

  def draw_ahead(self) -> None:
    """Begins to draw the next block, where the source draws ahead; called when the learner is about to compute.

    TensorFlow computes without the interpreter's lock. Before, the two threads would only take that from each other.
    """
    ...

  def weights(self, block: Block, updates: int) -> npt.NDArray[np.float32]:
    """The weight of each row's loss, float32 [K, batch].

    Args:
      block: as drawn.
      updates: gradient steps taken before the block, for schedules.
    """
    ...

  def feed_back(self, block: Block, outputs: Mapping[str, npt.NDArray[np.float32]]) -> None:
    """Receives what an algorithm computed for the rows; a source that draws ahead may use it only from the block after the next.

    Args:
      block: as drawn.
      outputs: the columns `Algorithm.OUTPUTS`, float32 [K, batch] each.

    Raises:
      ServerLost: the server does not answer.
    """
    ...

  @property
  def new_item_priorities(self) -> tuple[float, ...]:
    """The priority that a new item of each table gets, in layout order."""
    ...

  def describe_wait(self) -> str:
    """What the source is waiting for, in words for people; empty where it is not waiting."""
    ...

  def wait(self) -> Wait | None:
    """The source's present wait; None where it is not waiting."""
    ...

  def metrics(self) -> Mapping[str, float]:
    """The source's metrics in the learner's heartbeats."""
    ...

  def state(self) -> State:
    """What `restore` needs, for the learner's checkpoint."""
    ...

  def restore(self, state: State) -> None:
    """Restores what `state` returned; called once, before the first block, with an empty state if there is no checkpoint.

    Raises:
      ServerLost: the server does not answer.
    """
    ...

  def forget_all_but(self, states: Iterable[State]) -> None:
    """Removes what the source has on the disk that neither it nor any of these states, those of the kept checkpoints, needs."""
    ...

  def reopen(self) -> None:
    """Opens whatever it has open to a server anew; blocks drawn ahead are dropped.

    Raises:
      ServerLost: the server does not answer.
    """
    ...

  def close(self) -> None:
    """Ends everything that the source has running; may be called twice."""
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
