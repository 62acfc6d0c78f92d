"""The small JSON messages that roles send to the server process: signs of life, and summaries of episodes."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from configs import from_dict, to_dict


@dataclasses.dataclass(frozen=True)
class Heartbeat:
  """One sign of life of one role.

  Attributes:
    name: of the process, unique in the run.
    role: "learner", "actor" or "evaluator".
    host: its machine.
    pid: its process id there.
    state: what it does or waits for.
    ended: whether it was its last.
    metrics: what it counts; the learner's has gradient_steps and policy_version.
  """

  name: str
  role: str
  host: str
  pid: int
  state: str
  ended: bool = False
  metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class EpisodeSummary:
  """One training episode.

  Attributes:
    actor: name of the process that ran it.
    episode_return: undiscounted.
    length: in steps.
    events: bit mask of the events that fired in it.
    policy_version: that acted.
  """

  actor: str
  episode_return: float
  length: int
  events: int
  policy_version: int


@dataclasses.dataclass(frozen=True)
class EvaluationSummary:
  """One evaluation; see `replay_server.contract.status.Evaluation`, to which the server process adds when it came in."""

  policy_version: int
  gradient_steps: int
  mean_return: float
  mean_length: float
  solved: bool


def encode(message: Any) -> np.ndarray:
  """A dataclass as the scalar bytes column of a text table."""
  return encode_text(json.dumps({"type": type(message).__name__, **to_dict(message)}))


def encode_text(text: str) -> np.ndarray:
  """A text as the scalar bytes column of a text table."""
  return np.array(text.encode(), dtype=object)


def decode_text(column: np.ndarray) -> str:
  """The text of a text table's column."""
  data = column.item()
  return data.decode() if isinstance(data, bytes) else str(data)


def decode(column: np.ndarray, *types: type[Any]) -> Any:
  """The dataclass that `encode` took, one of `types`."""
  data = json.loads(decode_text(column))
  by_name = {cls.__name__: cls for cls in types}
  return from_dict(data, by_name[data.pop("type")])
