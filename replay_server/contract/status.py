"""The status of a run, which the server process makes from all messages and writes to the `status` table for everyone."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Literal

from configs import from_dict, to_json
from replay_server.contract.activity import Wait

# The server's name among the run's processes.
SERVER = "server"

# A run is still going, has reached its goal or its budget, or was asked to stop.
Phase = Literal["running", "solved", "exhausted", "stopping"]

# Former name -> name of fields of `RunStatus`, so that earlier runs can be resumed and read.
_FORMER_NAMES = {"train_return": "recent_return", "train_length": "recent_length"}


@dataclasses.dataclass(frozen=True)
class TableStatus:
  """One table of transitions.

  Attributes:
    name: of the table.
    size: transitions that it holds.
    capacity: transitions that it can hold.
    inserted: transitions inserted since the run began.
    inserts_per_second: over the last seconds.
    samples_per_second: over the last seconds.
  """

  name: str
  size: int
  capacity: int
  inserted: int
  inserts_per_second: float
  samples_per_second: float


@dataclasses.dataclass(frozen=True)
class RoleStatus:
  """One process of the run, as of its last heartbeat.

  Attributes:
    name: unique in the run, such as "actor_0", "learner", or "actor_host_1234" for one that was attached.
    role: "learner", "actor" or "evaluator".
    host: its machine's name.
    pid: its process id there.
    state: what it does or waits for, in words.
    seconds_since_heartbeat: since its last heartbeat arrived.
    alive: whether that is recent enough, and it has not ended.
    ended: whether it has sent its last heartbeat.
    instance: of the process; see `messages.Heartbeat`.
    paused: whether it writes nothing now.
    reached_plain_port: see `messages.Heartbeat`.
    wait: what it waits for; None if it does not wait.
    dropped_episodes: of a worker: open ones that it gave up, as its world or the server had lost them.
    missed_ticks: of a worker: in which its worlds, such as consoles at the real pace, went on without an action of their own.
  """

  name: str
  role: str
  host: str
  pid: int
  state: str
  seconds_since_heartbeat: float
  alive: bool
  ended: bool = False
  instance: str = ""
  paused: bool = False
  reached_plain_port: int = 0
  wait: Wait | None = None
  dropped_episodes: int = 0
  missed_ticks: int = 0


@dataclasses.dataclass(frozen=True)
class Lease:
  """The right to be the run's learner: to publish policies, to send priorities and to write checkpoints.

  Attributes:
    instance: of the learner's process that holds it; see `messages.Heartbeat`.
    beat: number of the holder's last heartbeat that the server has heard. The lease is valid until the server's patience has
      passed since the holder sent it.
    host: of the holder.
    pid: of the holder there.
  """

  instance: str
  beat: int
  host: str
  pid: int


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """One evaluation of one policy version.

  Attributes:
    environment_steps: of the run when the evaluation arrived.
    gradient_steps: that the policy had learned for.
    policy_version: of the evaluated policy.
    mean_return: undiscounted, over its episodes.
    mean_length: in steps.
    solved: whether it reached the run's goal.
    seconds: since the run began.
    train_return: mean undiscounted return of the training episodes that ended since the evaluation before; None without one.
    train_length: their mean length in steps; None without one.
    measures: name -> mean over those of its episodes that have this measure (`configs.measures`); a status keeps those of the
      latest 100 evaluations.
    passed_over: multiples of `evaluator.period_updates` since the evaluation before that got none, if these go by updates.
  """

  environment_steps: int
  gradient_steps: int
  policy_version: int
  mean_return: float
  mean_length: float
  solved: bool
  seconds: float
  train_return: float | None = None
  train_length: float | None = None
  measures: Mapping[str, float] = dataclasses.field(default_factory=dict)
  passed_over: int = 0


@dataclasses.dataclass(frozen=True)
class RunStatus:
  """The run as a whole.

  Attributes:
    run_id: names the run directory.
    name: of the experiment.
    phase: "running"; "solved" or "exhausted" (the budget) once it has ended by itself; "stopping" once it was asked to.
    wall_seconds: since the run began, earlier parts of a resumed run included.
    environment_steps: transitions in the default table since the run began.
    environment_steps_budget: at which the run ends.
    gradient_steps: of the learner.
    policy_version: of the latest published policy.
    environment_steps_per_second: over the last seconds.
    gradient_steps_per_second: over the last seconds.
    episodes: training episodes that ended.
    dropped_episodes: training episodes that were lost before their end, with a worker, its world or the server.
    recent_return: mean undiscounted return of the last 100 training episodes; None before the first.
    recent_length: their mean length in steps; None before the first.
    recent_measures: name -> mean over those of them that have this measure; at most the first 32 names of the run.
    evaluations: the latest (at most 500), oldest first.
    solved_streak: solved evaluations in a row, up to the latest evaluation.
    solved_evaluations: how many in a row end the run; 0 if only its budget ends it.
    tables: that batches are drawn from, in layout order: the server's, or those of the learner's own memory.
    roles: processes that sent heartbeats; one that has ended leaves the list soon after.
    learner: the learner's latest metrics, such as "loss".
    unusable_rows: process, or "writer <id>" if no heartbeat named it -> how many of its rows were drawn and could not be used.
    epoch: of the server; another one each time that the server is started.
    lease: who may learn; None without a learner.
    lives: name of a role, or "server" -> how many times such a process began.
    snapshot: number of the snapshot that the server writes, or wrote last; 0 before the first.
    resumed_from: number of the snapshot that this epoch began with; 0 if with empty tables.
    is_snapshotting: whether the server writes a snapshot, and may not answer meanwhile.
    is_leaving: whether the server is about to end and to be started again, so that nobody may write any more.
    dropped_messages: sender, "?" if it is not known -> how many of its messages the server could not read.
    unread_steps: transitions that wait on the server for a learner with its own memory; None if the server holds the tables.
    plain_port: on which the server's tables are reached without TLS, if the server is served over TLS; else 0.
  """

  run_id: str
  name: str
  phase: Phase
  wall_seconds: float
  environment_steps: int
  environment_steps_budget: int
  gradient_steps: int
  policy_version: int
  environment_steps_per_second: float
  gradient_steps_per_second: float
  episodes: int
  recent_return: float | None
  recent_length: float | None
  evaluations: tuple[Evaluation, ...]
  solved_streak: int
  solved_evaluations: int
  tables: tuple[TableStatus, ...]
  roles: tuple[RoleStatus, ...]
  learner: Mapping[str, float]
  unusable_rows: Mapping[str, int] = dataclasses.field(default_factory=dict)
  epoch: str = ""
  lease: Lease | None = None
  lives: Mapping[str, int] = dataclasses.field(default_factory=dict)
  snapshot: int = 0
  resumed_from: int = 0
  is_snapshotting: bool = False
  is_leaving: bool = False
  dropped_messages: Mapping[str, int] = dataclasses.field(default_factory=dict)
  unread_steps: int | None = None
  plain_port: int = 0
  dropped_episodes: int = 0
  recent_measures: Mapping[str, float] = dataclasses.field(default_factory=dict)

  @property
  def finished(self) -> bool:
    """Whether every role should end."""
    return self.phase != "running"

  @property
  def hosts_on_plain_port(self) -> tuple[str, ...]:
    """Other hosts than the server's that reach its tables without TLS, although it is served over TLS; sorted."""
    # What a role has found of an earlier server's port says nothing of this one's.
    reached = (role for role in self.roles if role.alive and role.reached_plain_port == self.plain_port)
    return tuple(sorted({role.host for role in reached})) if self.plain_port else ()

  @property
  def restarts(self) -> int:
    """How many times a process of the run was started again."""
    return sum(lives - 1 for lives in self.lives.values())


def parse_status(text: str) -> RunStatus:
  """A `RunStatus` from the text of the status table, or of an earlier version's status.json.

  Raises:
    UserError, ValueError: the text is something else.
  """
  data = json.loads(text)
  for former, name in _FORMER_NAMES.items():
    if former in data:
      data[name] = data.pop(former)
  return from_dict(data, RunStatus)


def status_json(status: RunStatus) -> str:
  """A `RunStatus` as the text of the status table."""
  return to_json(status)
