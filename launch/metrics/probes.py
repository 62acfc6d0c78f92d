"""What each role knows of itself, read when somebody asks: nothing here calls the server, waits, or takes a lock for long."""

import collections
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any, get_args

from actors.evaluator import Evaluator
from actors.worker import RolloutWorker
from environments import last_call_began, late_calls
from launch.metrics.catalogue import ACTOR, EVALUATOR, LEARNER, SERVER, Sample
from replay_server.contract.activity import Whom
from replay_server.contract.connection import Connection
from replay_server.contract.layout import PACE
from replay_server.contract.manifest import Manifest
from replay_server.contract.messages import UNUSABLE_ROWS
from replay_server.contract.news import SILENT_SECONDS
from replay_server.contract.progress import Progress
from replay_server.contract.role import Role
from replay_server.contract.status import Phase, RunStatus
from replay_server.process.keeper import Keeper

if TYPE_CHECKING:
  from learner.learner import Learner  # Slow to import, and only the learner does.

_DRAWN_AHEAD, _REFUSED_PRIORITIES, _LOSS = "drawn_ahead", "refused_priorities", "loss"
# Of the learner's metrics: those that have a metric of their own, or are none of Prometheus's.
_OWN_METRICS = (_DRAWN_AHEAD, _REFUSED_PRIORITIES, _LOSS, UNUSABLE_ROWS, "gradient_steps", "policy_version")


def overdue(name: str, progress: Progress, moved: float = float("-inf")) -> str:
  """Why a process counts as hung, as a sentence; "" if its loop moves.

  Args:
    name: of the process.
    progress: of its loop.
    moved: when else it moved last, in seconds of the monotonic clock.
  """
  age = min(progress.age_seconds, time.monotonic() - moved)
  if age <= progress.allowed_seconds:
    return ""
  return (
    f"The loop of {name} has not gone round for {age:.0f} s, and may take {progress.allowed_seconds:g} s: it hangs, so start the "
    "process again (kill -USR1 PID prints where it is)."
  )


def info(role: str, name: str, manifest: Manifest) -> Sample:
  """Which process this is."""
  labels = (role, name, manifest.config.name, manifest.run_id, metadata.version("slipstream"))
  return Sample("slipstream_role_info", 1.0, labels)


class ServerProbe:
  """What the server's process knows: all of it as of the keeper's last tick."""

  def __init__(self, keeper: Keeper, manifest: Manifest):
    """Takes the keeper, whose loop writes what is read here."""
    self._keeper = keeper
    self._manifest = manifest

  def hung(self, progress: Progress) -> str:
    """As `Probe.hung`."""
    return overdue("the server", progress)

  def unready(self) -> str:
    """As `Probe.unready`."""
    keeper, run_id = self._keeper, self._manifest.run_id
    if keeper.status is None:
      return f"The server of run {run_id} has no status yet: it is starting."
    if keeper.status.finished:
      return f"Run {run_id} has ended: {keeper.status.phase}."
    if keeper.is_leaving:
      return f"The server of run {run_id} leaves; start it again with its run directory."
    if keeper.silent_seconds > SILENT_SECONDS:
      busy = "it writes a snapshot" if keeper.status.is_snapshotting else "see its log"
      return f"The server of run {run_id} has not answered its own process for {keeper.silent_seconds:.0f} s: {busy}."
    return ""

  def samples(self) -> Iterator[Sample]:
    """As `Probe.samples`."""
    yield info(SERVER, "server", self._manifest)
    yield Sample("slipstream_snapshot_period_seconds", self._manifest.config.replay.checkpoint_period_seconds)
    yield from self._of_snapshots()
    if self._keeper.status is not None:
      yield from _of_run(self._keeper.status)
    yield from self._of_tables()

  def _of_snapshots(self) -> Iterator[Sample]:
    record = self._keeper.snapshots
    yield Sample("slipstream_snapshots_total", record.written)
    yield Sample("slipstream_snapshot_failures_total", record.failed)
    if record.at is not None:
      yield Sample("slipstream_snapshot_timestamp_seconds", record.at)
    if record.seconds is not None:
      yield Sample("slipstream_snapshot_duration_seconds", record.seconds)

  def _of_tables(self) -> Iterator[Sample]:
    before, now = self._keeper.first_tables, self._keeper.tables
    names = [table.name for table in self._manifest.config.replay.all_tables]
    for name in names:
      if name in now:
        yield Sample("slipstream_table_rows", now[name].current_size, (name,))
        yield Sample("slipstream_table_capacity_rows", now[name].max_size, (name,))
    for name in (*names, PACE):
      if name not in now:
        continue
      counts, first = _table_counts(now[name]), _table_counts(before[name])
      yield Sample("slipstream_table_inserts_total", counts["inserts"] - first["inserts"], (name,))
      yield Sample("slipstream_table_samples_total", counts["samples"] - first["samples"], (name,))
      for side in ("writers", "readers"):
        waited = max(0.0, counts[side] - first[side])
        yield Sample("slipstream_table_limiter_wait_seconds_total", waited, (name, side))


def _table_counts(info: Any) -> Mapping[str, float]:
  limiter, spent = info.rate_limiter_info, info.table_worker_time
  return {
    "inserts": limiter.insert_stats.completed,
    "samples": limiter.sample_stats.completed,
    # Reverb names what is waited for: while writers are held back, the table waits for samples.
    "writers": spent.waiting_for_sampling_ms / 1000,
    "readers": spent.waiting_for_inserts_ms / 1000,
  }


def _of_run(status: RunStatus) -> Iterator[Sample]:
  """The run's numbers, as of a status."""
  yield Sample("slipstream_run_environment_steps", status.environment_steps)
  yield Sample("slipstream_run_budget_steps", status.environment_steps_budget)
  yield Sample("slipstream_run_gradient_steps", status.gradient_steps)
  yield Sample("slipstream_run_episodes", status.episodes)
  yield Sample("slipstream_run_dropped_episodes", status.dropped_episodes)
  yield Sample("slipstream_run_duration_seconds", status.wall_seconds)
  yield Sample("slipstream_run_solved_streak", status.solved_streak)
  yield Sample("slipstream_refused_messages_total", sum(status.dropped_messages.values()))
  for phase in get_args(Phase):
    yield Sample("slipstream_run_phase", status.phase == phase, (phase,))
  if status.recent_return is not None and status.recent_length is not None:
    yield Sample("slipstream_run_train_return", status.recent_return)
    yield Sample("slipstream_run_train_length_steps", status.recent_length)
  for name, mean in status.recent_measures.items():
    yield Sample("slipstream_run_train_measure", mean, (name,))
  yield from _of_processes(status)


def _of_processes(status: RunStatus) -> Iterator[Sample]:
  kinds = {SERVER: SERVER, LEARNER: LEARNER, EVALUATOR: EVALUATOR}
  restarts = collections.Counter(dict.fromkeys((SERVER, LEARNER, ACTOR, EVALUATOR), 0))
  for name, lives in status.lives.items():
    restarts[kinds.get(name, ACTOR)] += lives - 1
  for kind, count in restarts.items():
    yield Sample("slipstream_run_restarts_total", count, (kind,))
  for kind in (LEARNER, ACTOR, EVALUATOR):
    roles = [role for role in status.roles if role.role == kind]
    alive = [role for role in roles if role.alive]
    yield Sample("slipstream_run_processes", len(alive), (kind,))
    yield Sample("slipstream_run_processes_lost", sum(not role.alive and not role.ended for role in roles), (kind,))
    waits = collections.Counter(role.wait.whom for role in alive if role.wait is not None)
    for whom in get_args(Whom):
      yield Sample("slipstream_run_processes_waiting", waits[whom], (kind, whom))


class ClientProbe:
  """What every role that joins a server knows; subclasses add what only they know."""

  def __init__(self, connection: Connection, manifest: Manifest, role: Role):
    """Takes the role, whose loop writes what is read here."""
    self.connection = connection
    self.manifest = manifest
    self._role = role

  def hung(self, progress: Progress) -> str:
    """As `Probe.hung`."""
    name = self._role.name
    late = late_calls()
    if late:
      allowed = f"longer than the {late[0].timeout_seconds:g} s of environment.timeout_seconds"
      return f"{name} has been {late[0]}, {allowed}: find out what it waits for."
    return overdue(name, progress, last_call_began())

  def unready(self) -> str:
    """As `Probe.unready`."""
    name, address, silent = self._role.name, self.connection.address, self.connection.news.silent_seconds
    if silent is None:
      return f"{name} has not heard from the replay server at {address} yet: it is starting."
    if silent > SILENT_SECONDS:
      return f"The replay server at {address} has not answered {name} for {silent:.0f} s: {name} waits until it does."
    if self.connection.news.is_leaving:
      return f"The replay server at {address} is about to be started again: {name} waits until it is."
    return ""

  def samples(self) -> Iterator[Sample]:
    """As `Probe.samples`."""
    kind, wait, silent = self._role.kind, self._role.wait, self.connection.news.silent_seconds
    yield info(kind, self._role.name, self.manifest)
    for whom in get_args(Whom):
      seconds = wait.seconds if wait is not None and wait.whom == whom else 0.0
      yield Sample("slipstream_role_wait_seconds", seconds, (kind, whom))
    if silent is not None:
      yield Sample("slipstream_role_server_silence_seconds", silent, (kind,))

  def of_policy(self, version: int, timestamp: float | None) -> Iterator[Sample]:
    """The samples about a policy; none before there is one."""
    if version and timestamp is not None:
      yield Sample("slipstream_policy_version", version, (self._role.kind,))
      yield Sample("slipstream_policy_timestamp_seconds", timestamp, (self._role.kind,))


class CandidateProbe(ClientProbe):
  """What a learner's process knows until it may learn."""

  def unready(self) -> str:
    """As `Probe.unready`."""
    lost = f"The learner waits for the lease of run {self.manifest.run_id}: the one before it may still hold it."
    return super().unready() or lost

  def samples(self) -> Iterator[Sample]:
    """As `Probe.samples`."""
    yield from super().samples()
    yield Sample("slipstream_learner_lease_held", 0.0)


class LearnerProbe(ClientProbe):
  """What a learner knows."""

  def __init__(self, connection: Connection, manifest: Manifest, learner: "Learner"):
    """Takes the learner."""
    super().__init__(connection, manifest, learner)
    self._learner = learner

  def unready(self) -> str:
    """As `Probe.unready`."""
    lease = self.connection.news.lease
    lost = f"The learner does not hold the lease of run {self.manifest.run_id}: it waits until the server renews it."
    return super().unready() or (lost if lease is not None and not lease.is_held else "")

  def samples(self) -> Iterator[Sample]:
    """As `Probe.samples`."""
    yield from super().samples()
    learner, lease = self._learner, self.connection.news.lease
    steps, measured = learner.own_gradient_steps, learner.metrics()
    yield from self.of_policy(learner.policy_version, learner.parts.publisher.published_at)
    yield Sample("slipstream_learner_gradient_steps_total", steps)
    yield Sample("slipstream_learner_rows_total", steps * self.manifest.config.learner.batch_size)
    yield Sample("slipstream_learner_wait_seconds_total", learner.waited_seconds)
    yield Sample("slipstream_learner_policies_total", learner.parts.publisher.published)
    yield Sample("slipstream_learner_refused_rows_total", measured.get(UNUSABLE_ROWS, 0.0))
    yield Sample("slipstream_learner_refused_priorities_total", measured.get(_REFUSED_PRIORITIES, 0.0))
    yield Sample("slipstream_learner_drawn_ahead_rows", measured.get(_DRAWN_AHEAD, 0.0))
    yield Sample("slipstream_learner_lease_held", lease is not None and lease.is_held)
    if learner.checkpointed is not None:
      yield Sample("slipstream_learner_checkpoint_timestamp_seconds", learner.checkpointed)
    if _LOSS in measured:
      yield Sample("slipstream_learner_loss", measured[_LOSS])
    for name, value in measured.items():
      if name not in _OWN_METRICS and not name.startswith(UNUSABLE_ROWS):
        yield Sample("slipstream_learner_measure", value, (name,))


class WorkerProbe(ClientProbe):
  """What a rollout worker knows."""

  def __init__(self, connection: Connection, manifest: Manifest, worker: RolloutWorker):
    """Takes the worker."""
    super().__init__(connection, manifest, worker)
    self._worker = worker

  def samples(self) -> Iterator[Sample]:
    """As `Probe.samples`."""
    yield from super().samples()
    worker = self._worker
    yield from self.of_policy(worker.policy_version, worker.policy_received)
    yield Sample("slipstream_actor_environment_steps_total", worker.environment_steps)
    yield Sample("slipstream_actor_episodes_total", worker.episodes)
    yield Sample("slipstream_actor_dropped_episodes_total", worker.dropped_episodes)
    yield Sample("slipstream_actor_missed_ticks", worker.missed_ticks)
    for whom, seconds in worker.waited_seconds.items():
      yield Sample("slipstream_actor_wait_seconds_total", seconds, (whom,))


class EvaluatorProbe(ClientProbe):
  """What an evaluator knows."""

  def __init__(self, connection: Connection, manifest: Manifest, evaluator: Evaluator):
    """Takes the evaluator."""
    super().__init__(connection, manifest, evaluator)
    self._evaluator = evaluator

  def samples(self) -> Iterator[Sample]:
    """As `Probe.samples`."""
    yield from super().samples()
    evaluator, last = self._evaluator, self._evaluator.last
    yield Sample("slipstream_evaluator_evaluations_total", evaluator.evaluations)
    yield Sample("slipstream_evaluator_passed_over_total", evaluator.passed_over)
    if last is not None:
      yield from self.of_policy(last.policy_version, evaluator.evaluated)
      yield Sample("slipstream_evaluator_return", last.mean_return)
      yield Sample("slipstream_evaluator_length_steps", last.mean_length)
      yield Sample("slipstream_evaluator_solved", last.solved)
      for name, mean in last.measures.items():
        yield Sample("slipstream_evaluator_measure", mean, (name,))
