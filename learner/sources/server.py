"""The source that draws from the server's tables."""

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from configs import RunConfig, UserError
from learner.mixup.mixup import Mixup, make_mixup
from learner.sources.background import BackgroundDrawing
from learner.sources.block import Block
from learner.sources.priorities import TablePriorities
from learner.sources.sampler import CLOSE_TIMEOUT_SECONDS, StratifiedSampler
from learner.sources.source import Model, State, Weighting
from learner.sources.stall import StallCheck
from learner.sources.usable_rows import UsableRows
from learner.weights.factors import make_weightings, product
from learner.weights.membership import ReportedContents
from replay_server.contract.activity import Wait
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest


class _HasState(Protocol):
  """A part whose state belongs to a checkpoint."""

  def state(self) -> State: ...

  def restore(self, state: State) -> None: ...


class ServerSource:
  """Draws stratified blocks from the server and sends it new priorities."""

  def __init__(
    self,
    open_streams: Callable[[], tuple[StratifiedSampler, BackgroundDrawing]],
    usable_rows: UsableRows,
    weightings: Mapping[str, Weighting],
    priorities: TablePriorities,
    mixup: Mixup | None = None,
  ):
    """Composes the source from its parts.

    Args:
      open_streams: makes what draws the blocks, and the thread in which it draws.
      usable_rows: replaces rows that cannot be learned from.
      weightings: the factors of the rows' weights, by the names under which a checkpoint keeps their states.
      priorities: receives the TD errors.
      mixup: changes the rows that are handed out; None for no change.
    """
    self._open_streams = open_streams
    self._sampler, self._drawing = open_streams()
    self._usable_rows = usable_rows
    self._weightings = weightings
    self._priorities = priorities
    self._mixup = mixup
    self._handed_out = np.zeros(len(self._sampler.table_names), np.int64)

  @property
  def table_names(self) -> Sequence[str]:
    """Names of the tables, in layout order."""
    return self._sampler.table_names

  def use(self, model: Model) -> None:
    """Needs no networks."""
    del model

  def is_ready(self) -> bool:
    """Always: an inline loop counts steps as the server does."""
    return True

  def controls(self) -> Mapping[str, float]:
    """None."""
    return {}

  def next_block(self, while_waiting: Callable[[], None] = lambda: None) -> Block:
    """The next K batches, of rows that can be learned from; waits until the tables hold enough.

    Args:
      while_waiting: see `Source.next_block`.

    Raises:
      Stopped: stopped while waiting.
      ServerLost: the server does not answer.
      UserError: too many of the rows drawn lately cannot be learned from.
    """
    while True:
      drawn = self._drawing.next_block(while_waiting)
      self._handed_out += drawn.quotas.sum(axis=0)
      block = self._usable_rows.replace(drawn)
      if block is not None:
        mixup = self._mixup
        return block if mixup is None else dataclasses.replace(block, rows=mixup.apply(block.rows))

  def draw_ahead(self) -> None:
    """Begins to draw the next block, if the learner prefetches."""
    self._drawing.draw_ahead()

  def weights(self, block: Block, updates: int) -> npt.NDArray[np.float32]:
    """The product of all factors, float32 [K, batch]; 1 where there are none."""
    return product(self._weightings, block, updates)

  def feed_back(self, block: Block, outputs: Mapping[str, npt.NDArray[np.float32]]) -> None:
    """Sends the priorities that follow from the output `td_error`.

    Raises:
      ServerLost: the server does not answer.
    """
    self._priorities.update(block, outputs["td_error"])

  @property
  def new_item_priorities(self) -> tuple[float, ...]:
    """The priority that a new item of each table gets, in layout order; 1 until one of the table's rows was updated."""
    return self._priorities.for_new_items

  def describe_wait(self) -> str:
    """What the sampler is waiting for, in words for people; empty where it is not waiting."""
    return self._sampler.describe_wait()

  def wait(self) -> Wait | None:
    """The sampler's present wait; None where it is not waiting."""
    return self._sampler.wait()

  def drawn_ahead(self) -> dict[str, int]:
    """Table -> upper bound on the rows that were drawn and are not yet in a block handed out.

    Their probabilities date from when they were drawn. All are 0 with `prefetch=False`.
    """
    ahead = self._sampler.most_drawn - self._handed_out
    return dict(zip(self.table_names, ahead.tolist(), strict=True))

  def metrics(self) -> Mapping[str, float]:
    """Rows drawn ahead, unusable rows if any were drawn, and priorities refused where any table is prioritised."""
    metrics = {"drawn_ahead": float(sum(self.drawn_ahead().values())), **self._usable_rows.metrics()}
    if self._mixup is not None:
      metrics |= self._mixup.metrics()
    if self._priorities.in_use:
      metrics["refused_priorities"] = float(self._priorities.refused)
    return metrics

  def state(self) -> State:
    """The priorities of new items, and the states of the parts that have one."""
    state: dict[str, npt.NDArray[Any]] = {"new_item_priorities": self._priorities.of_new_items}
    for name, part in self._parts().items():
      state.update({f"{name}/{key}": value for key, value in part.state().items()})
    return state

  def _parts(self) -> Mapping[str, _HasState]:
    mixup = {} if self._mixup is None else {"mixup": self._mixup}
    return {"quotas": self._sampler, "usable_rows": self._usable_rows, **self._weightings, **mixup}

  def restore(self, state: State) -> None:
    """Restores what `state` returned; an empty one changes nothing.

    Raises:
      UserError: the state is of another number of tables.
      ServerLost: the server does not answer.
    """
    if not state:
      return
    priorities = state["new_item_priorities"]
    if len(priorities) != len(self.table_names):
      raise UserError(
        f"The learner's checkpoint is of {len(priorities)} tables, and the config has {len(self.table_names)}: resume with the "
        "tables that the run had."
      )
    self._priorities.of_new_items = priorities
    for name, part in self._parts().items():
      prefix = f"{name}/"
      own = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
      if own:  # A correction that was only switched on when the run was resumed has no state yet.
        part.restore(own)

  def forget_all_but(self, states: Iterable[State]) -> None:
    """Removes nothing: the source has nothing on the disk."""
    del states

  def reopen(self) -> None:
    """Opens the streams anew, after the server was started again or has lost one; blocks drawn ahead are dropped.

    A thread that hangs in a call to a dead stream is left behind.
    """
    # Not waited for: this may be called because a draw hangs.
    self._sampler.close()
    self._drawing.close(timeout_seconds=0.0)
    state = self._sampler.state()
    self._sampler, self._drawing = self._open_streams()
    self._sampler.restore(state)
    self._handed_out[:] = 0

  def close(self) -> None:
    """Ends the drawing; waits a few seconds for a draw that is under way."""
    self._sampler.close()
    self._drawing.close(CLOSE_TIMEOUT_SECONDS)


def make_server_source(
  connection: Connection, manifest: Manifest, stop: threading.Event, seed: int = 0
) -> ServerSource:
  """Makes the source of a run whose learner draws from the server.

  Args:
    connection: to the server.
    manifest: of the run.
    stop: ends a wait for transitions.
    seed: of what is done to the rows; the draws are the server's.
  """
  config = manifest.config
  # An inline run fixes the order of steps and updates, so a block is drawn only when it is due.
  prefetch = config.learner.prefetch and not manifest.inline

  def open_streams() -> tuple[StratifiedSampler, BackgroundDrawing]:
    sampler = StratifiedSampler(connection, manifest, prefetch, stop)
    stall = StallCheck(connection, sampler.awaited)
    return sampler, BackgroundDrawing(sampler.draw_block, stop, prefetch, stall.check)

  return ServerSource(
    open_streams,
    UsableRows(connection, manifest),
    make_weightings(config, manifest.codec, lambda: ReportedContents(connection, config.replay, manifest.codec)),
    make_server_priorities(connection, config),
    make_mixup(config, manifest.codec, seed),
  )


def make_server_priorities(connection: Connection, config: RunConfig) -> TablePriorities:
  """Makes what updates the priorities of the server's tables.

  Args:
    connection: to the server.
    config: of the run.
  """
  names = [table.name for table in config.replay.all_tables]

  def set_priorities(
    tables: npt.NDArray[np.int64], handles: npt.NDArray[np.uint64], priorities: npt.NDArray[np.float64]
  ) -> None:
    for table in np.unique(tables).tolist():
      own = tables == table
      updates = zip(handles[own].tolist(), priorities[own].tolist(), strict=True)
      connection.update_priorities(names[table], dict(updates))

  return TablePriorities(config, set_priorities)
