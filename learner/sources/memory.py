"""The source that draws from the learner's own memory, which it feeds with every row of the run once."""

import collections
import contextlib
import dataclasses
import json
import pathlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from configs import RunConfig, Stopped, UserError
from learner.mixup.mixup import Mixup, make_mixup
from learner.mixup.partners import bytes_beside, make_partners
from learner.sources.background import BackgroundDrawing
from learner.sources.block import Block
from learner.sources.feed import Feed, LocalFeed, ServerFeed
from learner.sources.followers import Follower, make_followers
from learner.sources.priorities import Priorities, RankPriorities, ReliabilityPriorities, TablePriorities
from learner.sources.quotas import QuotaSchedule
from learner.sources.row_pace import RowPace
from learner.sources.shares import SharesByError
from learner.sources.source import Model, State, Weighting
from learner.sources.usable_rows import UnusableRows
from learner.weights.factors import make_weightings, product
from learner.weights.memory_contents import MemoryContents
from replay_memory.journal import Journal, Needs
from replay_memory.memory import COLUMN, ReplayMemory
from replay_memory.plan import check_fit, make_plan
from replay_memory.recovery import Recovered, recover
from replay_memory.reliability import ERROR_COLUMN
from replay_memory.state import RECEIVED, SEQUENCES
from replay_server.contract.activity import Activity, Wait
from replay_server.contract.codec import Packed
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest
from replay_server.contract.messages import MEMORY_TABLE, MEMORY_TABLE_COUNTS, SHARE_METRICS

# The columns `Algorithm.OUTPUTS`, float32 [K, batch] each.
Outputs: TypeAlias = Mapping[str, npt.NDArray[np.float32]]

_POLL_SECONDS = 0.02
_CLOSE_TIMEOUT_SECONDS = 5.0
_MEMORY = "memory/"
# Rows of a read where there is no ratio, and how long none are asked for after there were none: asking takes as long as a small
# update.
_MOST_ROWS = 1 << 20
_QUIET_SECONDS = 0.05


@dataclasses.dataclass(frozen=True)
class MemoryParts:
  """What a memory source is made of.

  Attributes:
    feed: gives the rows.
    memory: stores them.
    journal: keeps the rows on the disk before they are used.
    unusable: finds rows that cannot be learned from; they are not stored.
    rng: of the draws.
    mixup: changes the rows that were drawn; None for no change.
    followers: keep more of each row, by the names under which a checkpoint keeps their states.
  """

  feed: Feed
  memory: ReplayMemory
  journal: Journal
  unusable: UnusableRows
  rng: np.random.Generator
  mixup: Mixup | None = None
  followers: Mapping[str, Follower] = dataclasses.field(default_factory=dict)


class MemorySource:
  """Reads the rows that are due, stores them, and draws stratified blocks from the tables that the memory makes of them.

  A source that prefetches does all this in its own thread while the learner computes, and takes in what is fed back there too:
  when block t + 1 is drawn, the memory knows what updates up to block t - 1 said of its rows.
  """

  def __init__(
    self,
    config: RunConfig,
    parts: MemoryParts,
    weightings: Mapping[str, Weighting],
    stop: threading.Event,
    inline: bool,
  ):
    """Reads nothing yet.

    Args:
      config: of the run.
      parts: what the source is made of.
      weightings: the factors of the rows' weights, by the names under which a checkpoint keeps their states.
      stop: ends a wait for rows.
      inline: whether the run is inline. Its loop knows when a block is due, so the source does not wait for rows, and nothing is
        drawn ahead.
    """
    specs = config.replay.all_tables
    self._parts = parts
    self._stop = stop
    self._inline = inline
    self._prefetch = config.learner.prefetch and not inline
    self._model: Model | None = None
    self._min_sizes = np.array([spec.min_size for spec in specs])
    self._batches, self._batch_size = config.learner.updates_per_block, config.learner.batch_size
    self._pace = RowPace.of(config)
    shares = np.array([spec.probability for spec in specs])
    self._schedule = QuotaSchedule(shares, config.learner.batch_size, config.replay.at_least_one)
    self._shares = SharesByError(shares) if config.replay.shares == "td_error" else None
    self._priorities = self._make_priorities(config)
    self._count_names = [f"{MEMORY_TABLE}/{spec.name}/{what}" for what in MEMORY_TABLE_COUNTS for spec in specs]
    self._knows_least_ratios = config.replay.priority.normalize == "buffer"
    self._weightings = weightings
    self._activity = Activity()
    self._lock = threading.RLock()
    # Updates whose blocks were drawn and handed out, and rows that belong to updates which were lost with an earlier life.
    self._drawn = self._handed_out = self._uncounted = 0
    # Rows that the learner's last life lost, and the difference between the server's count of rows read and the learner's, which
    # begins at 0 and changes when the server is restored from a snapshot.
    self._lost = self._unread_before = 0
    # Until when no rows are asked for, because there were none; s, monotonic.
    self._quiet_until = 0.0
    # Blocks, and what was computed for their rows, that the memory does not know of yet.
    self._fed_back: collections.deque[tuple[Block, Outputs]] = collections.deque()
    self._closed = threading.Event()
    self._drawing = self._start_drawing()

  def _make_priorities(self, config: RunConfig) -> Priorities:
    if config.replay.priority.criterion == "reaper":
      return ReliabilityPriorities(config.replay.priority, self._parts.memory)
    if any(table.selector == "ranked" for table in config.replay.all_tables):
      return RankPriorities(config.replay.priority, self._parts.memory)
    return TablePriorities(config, self._set_priorities)

  def _start_drawing(self) -> BackgroundDrawing:
    closed = self._closed
    return BackgroundDrawing(lambda: self._draw(closed), self._stop, self._prefetch)

  @property
  def table_names(self) -> Sequence[str]:
    """Names of the tables, in layout order."""
    return self._parts.memory.table_names

  def use(self, model: Model) -> None:
    """Takes the learner's networks."""
    self._model = model

  def is_ready(self) -> bool:
    """Whether the default table has its minimum: of whole episodes, once the rows that wait were read."""
    if not self._parts.memory.plan.whole_episodes:
      return True
    while len(rows := self._parts.feed.take(_MOST_ROWS)):
      self._store(rows)
    return bool(self._parts.memory.sizes[0] >= self._min_sizes[0])

  def controls(self) -> Mapping[str, float]:
    """The followers' controls."""
    with self._lock:
      return {name: value for follower in self._parts.followers.values() for name, value in follower.controls().items()}

  def next_block(self, while_waiting: Callable[[], None] = lambda: None) -> Block:
    """The next K batches; waits until the rows that are due before them were read.

    Args:
      while_waiting: see `Source.next_block`.

    Raises:
      Stopped: stopped while waiting.
      ServerLost: the server does not answer.
      UserError: too many of the rows read lately cannot be learned from.
    """
    block = self._draw(self._closed) if self._inline else self._drawing.next_block(while_waiting)
    self._handed_out += self._batches
    return block

  def _draw(self, closed: threading.Event) -> Block:
    self._take_in()  # The priorities of new rows follow from it.
    self._read_due_rows(closed)
    with self._lock:
      self._take_in()  # What was fed back during a wait for rows.
      memory = self._parts.memory
      self._schedule.set_ready(memory.sizes >= self._min_sizes)
      if self._shares is not None and self._shares.change(self._drawn):
        self._schedule.set_shares(self._shares.current)
      quotas = self._schedule.next_block(self._batches)
      least_ratios = memory.least_ratios if self._knows_least_ratios else None
      draws = memory.draw(quotas, self._parts.rng)
      rows, mixup = memory.take(draws.slots), self._parts.mixup
      block = Block(
        rows if mixup is None else mixup.apply(rows, draws.slots),
        draws.tables,
        draws.handles,
        draws.probabilities,
        draws.table_sizes,
        quotas,
        self._schedule.shares,
        columns=self._columns(draws.slots),
        least_ratios=least_ratios,
      )
      self._drawn += self._batches
      return block

  def _columns(self, slots: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.float32]]:
    """What followers know of drawn rows, which changes with every update."""
    followers = self._parts.followers.values()
    if not followers:
      return {}
    assert self._model is not None, "the source was given no networks"
    for follower in followers:
      follower.begin(self._drawn, self._model)
    return {name: column for follower in followers for name, column in follower.columns(slots).items()}

  def _read_due_rows(self, closed: threading.Event) -> None:
    """Reads rows until those that the next block needs are there.

    Raises:
      Stopped: stopped or closed meanwhile.
    """
    due = self._pace.due(self._drawn)
    memory = self._parts.memory
    while True:
      missing = self._asked_for() if due is None else due + self._uncounted - memory.received
      if memory.sizes[0] < self._min_sizes[0]:
        missing = max(missing, 1)  # With whole episodes the default table has fewer rows than were received.
      if missing > 0:
        if len(rows := self._parts.feed.take(missing)):
          self._store(rows)
          continue
        if not self._inline:  # What an inline run reads must not depend on the clock.
          self._quiet_until = time.monotonic() + _QUIET_SECONDS
      is_due = due is None or missing <= 0 or self._inline
      if is_due and memory.sizes[0] >= self._min_sizes[0]:
        self._activity.does("drawing")
        return
      if self._inline:
        raise RuntimeError(f"an inline learner was asked for a block, and its memory has {memory.sizes[0]} rows")
      self._note_wait(missing)
      if closed.wait(_POLL_SECONDS) or self._stop.is_set():
        raise Stopped("Stopped while waiting for transitions.")

  def _asked_for(self) -> int:
    """Rows to ask for where no ratio says how many are due."""
    return _MOST_ROWS if time.monotonic() >= self._quiet_until else 0

  def _note_wait(self, missing: int) -> None:
    size, least, name = int(self._parts.memory.sizes[0]), int(self._min_sizes[0]), self.table_names[0]
    if size < least:
      self._activity.waits(
        f"waiting for workers: table {name} has {size} of {least} transitions",
        "workers",
        f"table {name} has {least:,} transitions ({size:,} now)",
      )
    else:
      steps = f"{self._pace.rows_per_update:g}"
      self._activity.waits(
        f"waiting for workers: {steps} environment steps for each update, and {missing} are missing",
        "workers",
        f"they have taken {steps} steps for each update",
      )

  def _store(self, rows: Packed) -> None:
    """Stores rows, kept first where they can be found again."""
    with self._lock:
      memory = self._parts.memory
      self._parts.journal.append(memory.received, rows)
      self._add(rows, memory.received)

  def _add(self, rows: Packed, first: int) -> None:
    """Adds rows to the memory, but those that cannot be learned from; `first` is the first one's number in the stream."""
    memory = self._parts.memory
    unusable = self._parts.unusable.find(rows)
    priorities = self.new_item_priorities if self._priorities.in_use else None
    if not unusable.any():  # As nearly always; an inline run adds row by row.
      memory.add(rows, priorities, first)
      return
    usable = np.flatnonzero(~unusable)
    # Runs of usable rows; the numbers of the others are left out.
    for run in np.split(usable, np.flatnonzero(np.diff(usable) > 1) + 1):
      if len(run):
        memory.add(rows[run], priorities, first + int(run[0]))
    memory.skip_to(first + len(rows))

  def _set_priorities(
    self, tables: npt.NDArray[np.int64], handles: npt.NDArray[np.uint64], priorities: npt.NDArray[np.float64]
  ) -> None:
    self._parts.memory.set_priorities(handles, tables, priorities)

  def draw_ahead(self) -> None:
    """Begins to draw the next block, if the learner prefetches."""
    self._drawing.draw_ahead()

  def weights(self, block: Block, updates: int) -> npt.NDArray[np.float32]:
    """The product of all factors, float32 [K, batch]; 1 where there are none."""
    with self._lock:
      return product(self._weightings, block, updates)

  def feed_back(self, block: Block, outputs: Outputs) -> None:
    """Sets the priorities that follow from the output `td_error`, and gives all outputs to the followers."""
    self._fed_back.append((block, outputs))
    if not self._prefetch:
      self._take_in()

  def _take_in(self) -> None:
    with self._lock:
      while self._fed_back:
        block, outputs = self._fed_back.popleft()
        self._priorities.update(block, outputs["td_error"])
        if self._shares is not None:
          self._shares.note(block.tables, outputs["td_error"])
        if self._parts.followers:
          slots = self._parts.memory.slots_of(block.handles)
          for follower in self._parts.followers.values():
            follower.feed_back(slots, outputs)

  @property
  def new_item_priorities(self) -> tuple[float, ...]:
    """The priority that a new row of each table gets, in layout order; 1 until one of the table's rows was updated."""
    return self._priorities.for_new_items

  def describe_wait(self) -> str:
    """What the source is waiting for, in words for people; empty where it is not waiting."""
    return self._activity.state if self._activity.wait is not None else ""

  def wait(self) -> Wait | None:
    """The source's present wait; None where it is not waiting."""
    return self._activity.wait

  def metrics(self) -> Mapping[str, float]:
    """The sizes, inserts and draws of the tables, rows that were no next ones of their episodes, and priorities refused."""
    with self._lock:
      memory, counts = self._parts.memory, self._parts.memory.counts
      table_counts = np.concatenate([memory.sizes, memory.inserts, memory.draws]).astype(np.float64).tolist()
      metrics = dict(zip(self._count_names, table_counts, strict=True))
      unsaved = self._parts.journal.waiting + self._parts.journal.dropped
      odd = {
        "repeated": counts.repeated,
        "late": counts.late,
        "missing": counts.missing,
        "lost": self._lost,
        "unsaved": unsaved,
      }
      # A healthy run has none of these, and the panel need not say so.
      metrics |= {f"memory_{what}_rows": float(rows) for what, rows in odd.items() if rows}
      metrics["drawn_ahead"] = float((self._drawn - self._handed_out) * self._batch_size)
      more = {} if self._parts.mixup is None else dict(self._parts.mixup.metrics())
      for follower in self._parts.followers.values():
        more.update(follower.metrics())
    if self._shares is not None:
      shares = zip(self.table_names, self._shares.current.tolist(), strict=True)
      metrics |= {f"{SHARE_METRICS}{name}": share for name, share in shares}
    if self._priorities.in_use:
      metrics["refused_priorities"] = float(self._priorities.refused)
    return {**metrics, **more, **self._parts.unusable.metrics()}

  def state(self) -> State:
    """The memory but for its rows, and the states of the parts that have one."""
    with self._lock:
      self._take_in()
      memory, journal = self._parts.memory, self._parts.journal
      journal.sync()
      state: dict[str, npt.NDArray[Any]] = {
        **self._priorities.state(),
        "updates": np.array([self._handed_out, self._uncounted, self._unread_before]),
        "rng": np.array(json.dumps(self._parts.rng.bit_generator.state)),
        **{f"{_MEMORY}{key}": value for key, value in memory.state().items()},
        **{f"feed/{key}": value for key, value in self._parts.feed.state().items()},
      }
      states = {name: weighting.state() for name, weighting in self._weightings.items()}
      if self._shares is not None:
        states["shares"] = self._shares.state()
      if self._parts.mixup is not None:
        states["mixup"] = self._parts.mixup.state()
      states.update({name: follower.state() for name, follower in self._parts.followers.items()})
      for name, part in {"quotas": self._schedule.state(), **states}.items():
        state.update({f"{name}/{key}": value for key, value in part.items()})
      return state

  def restore(self, state: State) -> None:
    """Restores what `state` returned, and adds every row that was received since, or all where the state is empty.

    Raises:
      UserError: the state is of other tables.
      ServerLost: the server does not answer.
    """
    memory, journal = self._parts.memory, self._parts.journal
    if state:
      self._check_criterion(state)
      self._priorities.restore(state)
      self._handed_out, self._uncounted, self._unread_before = state["updates"].tolist()
      self._drawn = self._handed_out
      self._parts.rng.bit_generator.state = json.loads(str(state["rng"]))
      if self._shares is not None and (own := _part_of(state, "shares/")):
        self._shares.restore(own)
        self._schedule.set_shares(self._shares.current)
      self._schedule.restore(_part_of(state, "quotas/"))
      for name, weighting in self._weightings.items():
        # One that was only switched on when the run was resumed has no state yet.
        if own := _part_of(state, f"{name}/"):
          weighting.restore(own)
      if self._parts.mixup is not None and (own := _part_of(state, "mixup/")):
        self._parts.mixup.restore(own)
      for name, follower in self._parts.followers.items():
        follower.restore(_part_of(state, f"{name}/"))
    recovered = recover(memory, journal, _part_of(state, _MEMORY) or None, self._add)
    if not self._inline:  # The lost updates are not made up for, as on the server; an inline loop makes up for them.
      self._uncounted += recovered.received_since
    self._parts.feed.restore(_part_of(state, "feed/"), memory.received)
    given = self._parts.feed.given()
    self._lost = max(0, given - memory.received - self._unread_before)
    self._unread_before = given - memory.received
    for sentence in self._findings(recovered):
      with contextlib.suppress(OSError):  # The log may be on a full disk.
        print(sentence, flush=True)

  def _check_criterion(self, state: State) -> None:
    has_errors = f"{_MEMORY}{COLUMN}{ERROR_COLUMN}" in state
    if has_errors != isinstance(self._priorities, ReliabilityPriorities):
      before, now = ("reaper", "td_error") if has_errors else ("td_error", "reaper")
      raise UserError(
        f"The learner's checkpoint is of a run whose replay.priority.criterion is {before!r}, and the config's is {now!r}: "
        "resume with the one that the run had."
      )
    if self._priorities.state().keys() - state.keys():
      raise UserError(
        "The learner's checkpoint is of a run whose tables have other selectors than the config's: resume with those that the "
        "run had."
      )

  def _findings(self, recovered: Recovered) -> Iterator[str]:
    yield from (f"Of the learner's rows, {finding}." for finding in self._parts.journal.findings)
    if recovered.received_since:
      yield f"The learner found {recovered.received_since:,} transitions that it had received after its checkpoint."
    if recovered.lost:
      yield f"The learner lost {recovered.lost:,} transitions of its checkpoint with damaged files."
    if self._lost:
      yield f"The learner lost {self._lost:,} transitions that were on their way to it when it ended."

  def forget_all_but(self, states: Iterable[State]) -> None:
    """Removes the rows on the disk that neither the memory nor any of these states, those of the kept checkpoints, needs."""
    # A file's arrays are read one by one, as they are asked for.
    kept = [Needs(int(state[f"{_MEMORY}{RECEIVED}"]), state[f"{_MEMORY}{SEQUENCES}"]) for state in states]
    with self._lock:
      self._parts.journal.forget_all_but(kept)

  def reopen(self) -> None:
    """Begins to draw anew, after the server was started again; blocks drawn ahead are dropped.

    A thread that hangs in a call is left behind; rows that it still gets are stored.
    """
    self._closed.set()
    self._drawing.close(timeout_seconds=0.0)
    self._closed = threading.Event()
    given = self._parts.feed.given()
    with self._lock:
      self._drawn = self._handed_out
      self._unread_before = given - self._parts.memory.received
    self._drawing = self._start_drawing()

  def close(self) -> None:
    """Ends the reading and the drawing; waits a few seconds for a read that is under way."""
    self._closed.set()
    self._drawing.close(_CLOSE_TIMEOUT_SECONDS)
    with self._lock:
      self._parts.journal.close()


def _part_of(state: State, prefix: str) -> State:
  return {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}


def make_memory_source(
  connection: Connection, manifest: Manifest, seed: int, stop: threading.Event, directory: pathlib.Path
) -> MemorySource:
  """Makes the source of a run whose learner has its own memory.

  Args:
    connection: to the server.
    manifest: of the run.
    seed: of the draws.
    stop: ends a wait for transitions.
    directory: for the rows that were read.

  Raises:
    UserError: this machine has too little memory.
  """
  config = manifest.config
  plan = make_plan(config, manifest.codec.width)
  fit = check_fit(plan, bytes_beside(config.learner.mixup, manifest.codec, plan.slots))
  if not manifest.inline:
    print(fit, flush=True)
  memory = ReplayMemory(plan, manifest.codec)
  rows = connection.local_rows
  parts = MemoryParts(
    feed=ServerFeed(connection, manifest, stop) if rows is None else LocalFeed(rows),
    memory=memory,
    journal=Journal(directory, manifest.run_id, manifest.codec),
    unusable=UnusableRows(manifest),
    rng=np.random.default_rng(seed),
    followers=make_followers(config, memory, manifest.codec),
    mixup=make_mixup(config, manifest.codec, seed, lambda mixup: make_partners(mixup, manifest.codec, memory)),
  )

  def make_factors() -> Mapping[str, Weighting]:
    return make_weightings(config, manifest.codec, lambda: MemoryContents(memory))

  return MemorySource(config, parts, make_factors(), stop, manifest.inline)
