"""The server process's bookkeeping: heartbeats and summaries in, one `RunStatus` out."""

import collections
import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from configs import RunConfig
from configs.measures import MOST_MEASURES, mean_measures
from replay_server.contract.lease import PATIENCE_SECONDS
from replay_server.contract.messages import (
  DROPPED_EPISODES,
  MEMORY_TABLE,
  MEMORY_TABLE_COUNTS,
  MISSED_TICKS,
  OPEN_EPISODES,
  UNUSABLE_ROWS,
  WRITER_PREFIX,
  EpisodeSummary,
  EvaluationSummary,
  Heartbeat,
)
from replay_server.contract.run import environment_steps
from replay_server.contract.status import SERVER, Evaluation, Lease, Phase, RoleStatus, RunStatus, TableStatus

# A dead role stays on the list for this long.
FORGET_AFTER_SECONDS = 120.0
_UNUSABLE_PREFIX = f"{UNUSABLE_ROWS}/"
_MEMORY_PREFIX = f"{MEMORY_TABLE}/"
_RATE_WINDOW_SECONDS = 5.0
_RECENT_EPISODES = 100
_MOST_EVALUATIONS = 500
# The status is sent twice a second; those of earlier evaluations are in metrics.csv.
_MOST_MEASURED_EVALUATIONS = 100


@dataclasses.dataclass(frozen=True)
class _TableCounts:
  """Of a table that batches are drawn from; `inserted` and `sampled` since the run began, or since the learner's last start."""

  name: str
  capacity: int
  size: float
  inserted: float
  sampled: float


class Monitor:
  """Collects what a `RunStatus` is made from; has no clock and no connection of its own."""

  def __init__(
    self,
    config: RunConfig,
    run_id: str,
    resumed: RunStatus | None = None,
    clock: Callable[[], float] = time.monotonic,
    epoch: str = "",
  ):
    """Starts counting.

    Args:
      config: of the run.
      run_id: of the run.
      resumed: the last status of a run that is resumed; its time, evaluations and counts continue.
      clock: in seconds.
      epoch: of the server.
    """
    self._config = config
    self._epoch = epoch
    self._run_id = run_id
    self._clock = clock
    self._began = clock() - (resumed.wall_seconds if resumed else 0.0)
    self._evaluations = list(resumed.evaluations) if resumed else []
    self._streak = resumed.solved_streak if resumed else 0
    self._episodes = resumed.episodes if resumed else 0
    self._recent: collections.deque[EpisodeSummary] = collections.deque(maxlen=_RECENT_EPISODES)
    self._since_evaluation: list[EpisodeSummary] = []
    # Clients of different makes may name more than a run's record has room for: the first names stay.
    self._measures: set[str] = set()
    if resumed:
      for measures in (resumed.recent_measures, *(evaluation.measures for evaluation in resumed.evaluations)):
        self._kept(measures)
    # By name and instance: two processes of one name are told apart.
    self._beats: dict[tuple[str, str], tuple[float, Heartbeat]] = {}
    self._lives = dict(resumed.lives) if resumed else {}
    self._lives[SERVER] = self._lives.get(SERVER, 0) + 1  # It hears no heartbeat of its own.
    self._latest_instance = {role.name: role.instance for role in resumed.roles} if resumed else {}
    # Whoever held the lease may still believe in it, so it is kept for as long as from a heartbeat.
    self._lease = resumed.lease if resumed else None
    self._lease_heard = clock()
    self._dropped: collections.Counter[str] = collections.Counter(resumed.dropped_messages if resumed else {})
    self._learner: Mapping[str, float] = {}
    if resumed:
      counters = {"gradient_steps": resumed.gradient_steps, "policy_version": resumed.policy_version}
      # The tables of a learner's own memory are as they were until it reports them.
      in_memory = resumed.tables if config.replay.sampling == "memory" else ()
      sizes = {f"{_MEMORY_PREFIX}{table.name}/size": float(table.size) for table in in_memory}
      inserts = {f"{_MEMORY_PREFIX}{table.name}/inserts": float(table.inserted) for table in in_memory}
      self._learner = {**resumed.learner, **counters, **sizes, **inserts}
    self._writers: dict[int, str] = {}
    self._dropped_episodes = resumed.dropped_episodes if resumed else 0
    # Of each worker that is heard, what is in that sum.
    self._dropped_by = {role.instance: role.dropped_episodes for role in resumed.roles} if resumed else {}
    self._window: collections.deque[tuple[float, dict[str, float]]] = collections.deque()
    self._phase: Phase = "running"

  def hear(self, beats: Iterable[Heartbeat]) -> None:
    """Takes in heartbeats."""
    for beat in beats:
      self._note_life(beat)
      self._beats[beat.name, beat.instance] = (self._clock(), beat)
      for name, value in beat.metrics.items():
        if name.startswith(WRITER_PREFIX):
          self._writers[int(value)] = beat.name
      dropped = int(beat.metrics.get(DROPPED_EPISODES, 0))
      self._dropped_episodes += dropped - self._dropped_by.get(beat.instance, 0)
      self._dropped_by[beat.instance] = dropped
      may_learn = self._lease is None or self._lease.instance == beat.instance
      if beat.role == "learner" and beat.metrics and may_learn:
        if self._draws(beat.metrics) and not self._draws(self._learner):
          self._window.clear()  # The draws of earlier lives are not of the last seconds.
        self._learner = beat.metrics

  def _draws(self, metrics: Mapping[str, float]) -> float:
    """Transitions drawn from the learner's own memory."""
    return metrics.get(f"{_MEMORY_PREFIX}{self._config.replay.default.name}/draws", 0.0)

  def _note_life(self, beat: Heartbeat) -> None:
    if (beat.name, beat.instance) in self._beats or self._latest_instance.get(beat.name) == beat.instance:
      return
    self._latest_instance[beat.name] = beat.instance
    self._lives[beat.name] = self._lives.get(beat.name, 0) + 1
    for key in [key for key in self._beats if key[0] == beat.name and not self._is_alive(key, self._clock())]:
      self._forget_dead(key)  # Its successor has its place on the list.

  def _forget_replaced_workers(self) -> None:
    """Takes workers off the list that have died since their successors were heard, who may be back before a death is known."""
    now = self._clock()
    alive = {key[0] for key in self._beats if self._is_alive(key, now)}
    for key, (_, beat) in list(self._beats.items()):
      if beat.role == "actor" and key[0] in alive and not self._is_alive(key, now):
        self._forget_dead(key)

  def _forget_dead(self, key: tuple[str, str]) -> None:
    _, last = self._beats.pop(key)
    if not last.ended:  # It was killed, and its open episodes with it.
      self._dropped_episodes += int(last.metrics.get(OPEN_EPISODES, 0))

  def _is_alive(self, key: tuple[str, str], now: float) -> bool:
    heard, beat = self._beats[key]
    return not beat.ended and now - heard < PATIENCE_SECONDS

  def forgive(self, seconds: float) -> None:
    """Notes that nobody could be heard for this long, so that nobody counts as dead for it."""
    now = self._clock()
    self._beats = {key: (min(now, heard + seconds), beat) for key, (heard, beat) in self._beats.items()}
    self._lease_heard = min(now, self._lease_heard + seconds)

  def drop(self, sender: str) -> None:
    """Counts a message that could not be read."""
    self._dropped[sender] += 1

  def _grant_lease(self, now: float) -> Lease | None:
    """Who may learn: the holder, until it ends or falls silent; then the learner that was heard first."""
    learners = {beat.instance: (heard, beat) for heard, beat in self._beats.values() if beat.role == "learner"}
    if self._lease is not None:
      heard, beat = learners.get(self._lease.instance, (self._lease_heard, None))
      if (beat is None or not beat.ended) and now - heard < PATIENCE_SECONDS:
        number = self._lease.beat if beat is None else beat.number
        self._lease = dataclasses.replace(self._lease, beat=number)
        self._lease_heard = heard
        return self._lease
    waiting = (beat for heard, beat in learners.values() if not beat.ended and now - heard < PATIENCE_SECONDS)
    successor = next(waiting, None)
    self._lease = (
      None if successor is None else Lease(successor.instance, successor.number, successor.host, successor.pid)
    )
    return self._lease

  def count(self, summaries: Iterable[EpisodeSummary | EvaluationSummary], environment_steps: int) -> None:
    """Takes in summaries that arrived when the run had taken `environment_steps`."""
    for summary in summaries:
      if isinstance(summary, EpisodeSummary):
        self._recent.append(summary)
        self._since_evaluation.append(summary)
        self._episodes += 1
      else:
        self._evaluate(summary, environment_steps)

  def _evaluate(self, summary: EvaluationSummary, environment_steps: int) -> None:
    if self._phase == "solved":
      return  # The run has ended, so no further evaluation is of interest.
    if self._evaluations and self._evaluations[-1].policy_version == summary.policy_version:
      return  # A policy version counts once.
    self._evaluations.append(
      Evaluation(
        environment_steps=environment_steps,
        seconds=self._clock() - self._began,
        train_return=_mean(episode.episode_return for episode in self._since_evaluation),
        train_length=_mean(episode.length for episode in self._since_evaluation),
        **{**dataclasses.asdict(summary), "measures": self._kept(summary.measures)},
      )
    )
    if len(self._evaluations) > _MOST_MEASURED_EVALUATIONS:
      earlier = self._evaluations[-_MOST_MEASURED_EVALUATIONS - 1]
      self._evaluations[-_MOST_MEASURED_EVALUATIONS - 1] = dataclasses.replace(earlier, measures={})
    self._since_evaluation = []
    if self._phase == "running":  # Evaluations that arrive after the end do not change it.
      self._streak = self._streak + 1 if summary.solved else 0
      if self._is_solved():
        self._phase = "solved"

  def _kept(self, measures: Mapping[str, float]) -> dict[str, float]:
    """The measures without those whose names came after the run's first `MOST_MEASURES`."""
    kept = {}
    for name, value in measures.items():
      if name in self._measures or len(self._measures) < MOST_MEASURES:
        self._measures.add(name)
        kept[name] = value
    return kept

  def stop(self) -> None:
    """Notes that the run was asked to stop."""
    if self._phase == "running":
      self._phase = "stopping"

  def roles_left(self) -> list[str]:
    """Names of the roles that are alive and have not ended."""
    now = self._clock()
    return [key[0] for key in self._beats if self._is_alive(key, now)]

  def roles_writing(self) -> list[str]:
    """Names of the workers that are alive and have not paused; the others write no rows."""
    now = self._clock()
    actors = [(key, beat) for key, (_, beat) in self._beats.items() if beat.role == "actor"]
    return [beat.name for key, beat in actors if self._is_alive(key, now) and not beat.paused]

  def status(self, tables: Mapping[str, Any]) -> RunStatus:
    """The current status of the run.

    Args:
      tables: name -> Reverb's `TableInfo` message, from the server.
    """
    self._forget_replaced_workers()
    now = self._clock()
    default = self._config.replay.default.name
    steps = environment_steps(tables, default)
    transitions = self._transitions(tables)
    counts = {f"insert/{table.name}": table.inserted for table in transitions}
    counts |= {f"sample/{table.name}": table.sampled for table in transitions}
    counts["environment_steps"] = float(steps)
    counts["gradient_steps"] = self._learner.get("gradient_steps", 0.0)
    rates = self._rates(now, counts)
    if self._phase == "running":
      self._phase = self._decide(steps)
    return RunStatus(
      run_id=self._run_id,
      name=self._config.name,
      phase=self._phase,
      wall_seconds=now - self._began,
      environment_steps=steps,
      environment_steps_budget=self._config.environment_steps,
      gradient_steps=int(self._learner.get("gradient_steps", 0)),
      policy_version=int(self._learner.get("policy_version", 0)),
      environment_steps_per_second=rates["environment_steps"],
      gradient_steps_per_second=rates["gradient_steps"],
      episodes=self._episodes,
      recent_return=_mean(episode.episode_return for episode in self._recent),
      recent_length=_mean(episode.length for episode in self._recent),
      recent_measures=self._kept(mean_measures(episode.measures for episode in self._recent)),
      evaluations=tuple(self._evaluations[-_MOST_EVALUATIONS:]),
      solved_streak=self._streak,
      solved_evaluations=self._config.evaluator.streak_to_solve,
      tables=tuple(_table_status(table, rates) for table in transitions),
      unread_steps=tables[default].current_size if self._config.replay.sampling == "memory" else None,
      roles=tuple(self._roles(now)),
      learner={
        key: value
        for key, value in self._learner.items()
        if key not in ("gradient_steps", "policy_version") and not key.startswith((_UNUSABLE_PREFIX, _MEMORY_PREFIX))
      },
      unusable_rows=self._unusable_rows(),
      epoch=self._epoch,
      lease=self._grant_lease(now),
      lives=dict(self._lives),
      dropped_messages=dict(self._dropped),
      dropped_episodes=self._dropped_episodes,
    )

  def _unusable_rows(self) -> dict[str, int]:
    rows: collections.Counter[str] = collections.Counter()
    for key, value in self._learner.items():
      if key.startswith(_UNUSABLE_PREFIX):
        writer = int(key.removeprefix(_UNUSABLE_PREFIX))
        rows[self._writers.get(writer, f"writer {writer}")] += int(value)
    return dict(rows)

  def _is_solved(self) -> bool:
    return 0 < self._config.evaluator.streak_to_solve <= self._streak

  def _decide(self, environment_steps: int) -> Phase:
    if self._is_solved():
      return "solved"
    return "exhausted" if environment_steps >= self._config.environment_steps else "running"

  def _rates(self, now: float, counts: dict[str, float]) -> dict[str, float]:
    self._window.append((now, counts))
    while len(self._window) > 2 and now - self._window[1][0] >= _RATE_WINDOW_SECONDS:
      self._window.popleft()
    then, before = self._window[0]
    seconds = now - then
    return {key: max(0.0, value - before[key]) / seconds if seconds else 0.0 for key, value in counts.items()}

  def _transitions(self, tables: Mapping[str, Any]) -> list[_TableCounts]:
    """The tables that batches are drawn from: the server's, or those of the learner's memory as it last reported them."""
    replay = self._config.replay
    if replay.sampling == "server":
      return [_server_counts(tables[table.name]) for table in replay.all_tables]
    return [
      _TableCounts(
        table.name,
        replay.capacity_of(table),
        *(self._learner.get(f"{_MEMORY_PREFIX}{table.name}/{what}", 0.0) for what in MEMORY_TABLE_COUNTS),
      )
      for table in replay.all_tables
    ]

  def _roles(self, now: float) -> Iterable[RoleStatus]:
    for (name, instance), (heard, beat) in sorted(self._beats.items(), key=lambda item: item[0][0]):
      silent = now - heard
      # A role that has ended leaves the list soon after; one that fell silent stays on it for longer, to be noticed.
      if silent > FORGET_AFTER_SECONDS or (beat.ended and silent > PATIENCE_SECONDS):
        continue
      yield RoleStatus(
        name=name,
        role=beat.role,
        host=beat.host,
        pid=beat.pid,
        state=beat.state,
        seconds_since_heartbeat=silent,
        alive=not beat.ended and silent < PATIENCE_SECONDS,
        ended=beat.ended,
        instance=instance,
        paused=beat.paused,
        reached_plain_port=beat.reached_plain_port,
        dropped_episodes=self._dropped_by.get(instance, 0),
        missed_ticks=int(beat.metrics.get(MISSED_TICKS, 0)),
        wait=beat.wait and dataclasses.replace(beat.wait, seconds=beat.wait.seconds + silent),
      )


def _server_counts(info: Any) -> _TableCounts:
  limiter = info.rate_limiter_info
  inserted, sampled = limiter.insert_stats.completed, limiter.sample_stats.completed
  return _TableCounts(info.name, info.max_size, info.current_size, float(inserted), float(sampled))


def _table_status(table: _TableCounts, rates: Mapping[str, float]) -> TableStatus:
  return TableStatus(
    name=table.name,
    size=int(table.size),
    capacity=table.capacity,
    inserted=int(table.inserted),
    inserts_per_second=rates[f"insert/{table.name}"],
    samples_per_second=rates[f"sample/{table.name}"],
  )


def _mean(values: Iterable[float]) -> float | None:
  given = list(values)
  return sum(given) / len(given) if given else None
