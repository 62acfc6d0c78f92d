"""The small JSON messages that roles send to the server process: heartbeats, and summaries of episodes and evaluations."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from configs import from_dict, to_dict
from configs.measures import as_measures
from replay_server.contract.activity import Wait

# A worker's heartbeats have a metric of this prefix for the id of each of its writers, which episode ids begin with.
WRITER_PREFIX = "writer_"
# A worker's metrics of episodes with at least one step: those dropped, as its world or the server had lost them, and those open,
# which are lost with the worker if it is killed.
DROPPED_EPISODES = "dropped_episodes"
OPEN_EPISODES = "open_episodes"
# A worker's metric of ticks in which its worlds went on without an action of their own.
MISSED_TICKS = "missed_ticks"
# The learner's metric of rows drawn that it could not use; "<this>/<id>" is the part of one writer.
UNUSABLE_ROWS = "unusable_rows"
# The metrics of a table in the learner's own memory are "<this>/<its name>/<one of these>".
MEMORY_TABLE = "memory_table"
MEMORY_TABLE_COUNTS = ("size", "inserts", "draws")
# The learner's metrics of ReF-ER begin with this; they are columns of metrics.csv too, as its figures are drawn from them.
REFER_METRICS = "refer_"
# Likewise those of the tables' shares, where they change (`replay.shares`): "<this><name of the table>".
SHARE_METRICS = "share/"

_LONGEST_SENDER = 100

Text: TypeAlias = npt.NDArray[np.object_]


@dataclasses.dataclass(frozen=True)
class Heartbeat:
  """One sign of life of one role.

  Attributes:
    name: of the process, unique in the run.
    role: "learner", "actor" or "evaluator".
    host: name of its machine.
    pid: its process id there.
    state: what it does or waits for, in words.
    ended: whether this is its last heartbeat.
    metrics: name -> finite value; the learner's have gradient_steps and policy_version, a worker's
      the ids of its writers.
    instance: of the process; another one each time that it is started.
    number: of heartbeats that the instance has sent, this one included.
    paused: whether it writes nothing now, as the server asked for.
    reached_plain_port: of a server that is served over TLS: its port without TLS, if this process is on another host and has
      reached it; else 0.
    wait: what it waits for; None if it does not wait.
  """

  name: str
  role: str
  host: str
  pid: int
  state: str
  ended: bool = False
  metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
  instance: str = ""
  number: int = 0
  paused: bool = False
  reached_plain_port: int = 0
  wait: Wait | None = None


@dataclasses.dataclass(frozen=True)
class Request:
  """What someone asks the server process to do.

  Attributes:
    what: "stop" ends the run; "snapshot" writes a snapshot now.
    sender: who asks, such as "slipstream stop on box", for the server's log.
  """

  what: Literal["stop", "snapshot"]
  sender: str


@dataclasses.dataclass(frozen=True)
class EpisodeSummary:
  """One training episode.

  Attributes:
    actor: name of the process that ran it.
    episode_return: undiscounted.
    length: in steps.
    events: bit mask of the events that fired in it.
    policy_version: of the policy that took its last action.
    measures: name -> what the environment measured in it; see `configs.measures`.
  """

  actor: str
  episode_return: float
  length: int
  events: int
  policy_version: int
  measures: Mapping[str, float] = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    as_measures(self.measures)


@dataclasses.dataclass(frozen=True)
class EvaluationSummary:
  """One evaluation; the server process adds when it arrived (`replay_server.contract.status.Evaluation`).

  `measures` are the means over those of its episodes that have the measure, and `passed_over` the multiples of
  `evaluator.period_updates` before it that got no evaluation, where evaluations go by updates.
  """

  policy_version: int
  gradient_steps: int
  mean_return: float
  mean_length: float
  solved: bool
  measures: Mapping[str, float] = dataclasses.field(default_factory=dict)
  passed_over: int = 0

  def __post_init__(self) -> None:
    as_measures(self.measures)


def encode(message: Any) -> Text:
  """A dataclass as the scalar bytes column of a text table."""
  return encode_text(json.dumps({"type": type(message).__name__, **to_dict(message)}))


def encode_text(text: str) -> Text:
  """A text as the scalar bytes column of a text table."""
  return np.array(text.encode(), dtype=object)


def decode_text(column: Text) -> str:
  """The text of a text table's column."""
  data = column.item()
  return data.decode() if isinstance(data, bytes) else str(data)


class Unreadable(Exception):
  """A message that this version does not know.

  Attributes:
    sender: as far as the message tells; else "?".
  """

  def __init__(self, sender: str, reason: str):
    super().__init__(reason)
    self.sender = sender


def decode(column: Text, *types: type[Any]) -> Any:
  """The dataclass that was given to `encode`, an instance of one of `types`.

  Raises:
    Unreadable: it is something else; any client may write to the tables of messages.
  """
  sender = "?"
  try:
    data = json.loads(decode_text(column))
    sender = next((str(data[key])[:_LONGEST_SENDER] for key in ("name", "actor", "sender") if key in data), "?")
    by_name = {cls.__name__: cls for cls in types}
    return from_dict(data, by_name[data.pop("type")])
  except Exception as error:  # Of any type, as the message may hold anything.
    raise Unreadable(sender, f"{type(error).__name__}: {error}") from None
