"""Specs of events and replay tables, as a user writes them."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from configs.checks import LARGEST_WHOLE, require, shown
from configs.errors import UserError

Selector = Literal["uniform", "prioritized", "ranked", "fifo", "lifo"]

# The name of a spec of observations that are categories (Discrete, MultiDiscrete) and not numbers.
CATEGORIES = "categories"

# An int32 row field holds one bit per event; its sign bit is left alone.
MAX_EVENTS = 31

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def is_reference(text: str) -> bool:
  """Whether `text` has the form `module:name`."""
  return _REFERENCE.fullmatch(text) is not None


def check_name(kind: str, name: str) -> None:
  """Raises `UserError` unless `name` can name a table, an event or a run."""
  if not _NAME.fullmatch(name):
    raise UserError(f"{kind} name {name!r} is not valid: use letters, digits, '_', '-' and '.'.")


@dataclasses.dataclass(frozen=True)
class EventSpec:
  """An event specification, nu = (omega, tau) (SSET, Section 4).

  Attributes:
    name: of the event, unique in a run.
    condition: `module:name` of omega: a function `f(step) -> bool`, or a class whose instances are called with the step. An
      instance may have a `reset()`, which is called at the start of an episode. This is a reference, not a function, so that
      another machine can load it. `step` is an `environments.events.EventStep`.
    history: tau in steps: the event step and the `history - 1` steps before it go to the event's table.
    table: the event table that receives the history; empty for a table with the event's name. Events may share a table. None
      for an event that is only watched, by the evaluator and in the summaries of episodes; its history is not used.
    arguments: keyword arguments of the condition's class (or function), as JSON values.
  """

  name: str
  condition: str
  history: int
  table: str | None = ""
  arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    check_name("Event", self.name)
    if not is_reference(self.condition):
      raise UserError(
        f"Event {self.name!r} has the condition {self.condition!r}: write it as 'module:function', for example "
        "'environments.three_rooms:at_gap'."
      )
    if self.history < 1:
      raise UserError(
        f"Event {self.name!r} has a history of {self.history} steps: it needs at least 1, the event's own."
      )
    if self.table == "":
      object.__setattr__(self, "table", self.name)


@dataclasses.dataclass(frozen=True)
class TableSpec:
  """A replay table (SSET, Algorithm 1).

  Attributes:
    name: of the table on the server.
    probability: share of every batch (eta_i).
    capacity: kappa_i in transitions; None for the run's capacity times `probability`, as in the paper's Table 1.
    min_size: d_i in transitions: the table takes part in batches once it holds this many.
    selector: how items are drawn: `uniform`, `prioritized` (by TD error; see `PriorityConfig`), `ranked` (by the rank of the TD
      error, from the learner's own memory), `fifo` (the oldest) or `lifo` (the newest).
  """

  name: str
  probability: float
  capacity: int | None = None
  min_size: int = 1
  selector: Selector = "uniform"

  def __post_init__(self) -> None:
    check_name("Table", self.name)
    if not (math.isfinite(self.probability) and 0 < self.probability <= 1):
      raise UserError(f"Table {self.name!r} has the probability {self.probability}: it must lie in (0, 1].")
    if self.capacity is not None:
      require(
        1 <= self.capacity <= LARGEST_WHOLE,
        f"Table {self.name!r} has the capacity {shown(self.capacity)}: it must hold at least 1 transition, and at most 2^63 - 1.",
      )
    require(
      1 <= self.min_size <= LARGEST_WHOLE,
      f"Table {self.name!r} has the min_size {shown(self.min_size)}: it must be at least 1, and at most 2^63 - 1.",
    )
    if self.capacity is not None and self.min_size > self.capacity:
      raise UserError(
        f"Table {self.name!r} waits for {self.min_size} transitions but holds at most {self.capacity}: lower min_size or "
        "raise the capacity."
      )
    if self.selector not in get_args(Selector):
      raise UserError(
        f"Table {self.name!r} has the selector {self.selector!r}: use one of {', '.join(get_args(Selector))}."
      )

  @property
  def draws_by_priority(self) -> bool:
    """Whether rows of the table have different probabilities, which importance weights correct."""
    return self.selector in ("prioritized", "ranked")
