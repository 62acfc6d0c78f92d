"""The rollout worker: steps one or several environments until it is asked to stop."""

import contextlib
import itertools
import secrets
import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np

from actors.adder import EventTableAdder, references_needed
from actors.behaviour import Behaviour, WarmUp
from actors.engine import choose_actions, seconds_per_action
from actors.pacer import Pacer
from actors.policies import PolicyBank
from actors.policy_feed import PolicyFeed
from actors.rollout import Rollout, Stage
from actors.row_writer import LocalRowWriter, RowWriter
from configs import ServerLost, Stopped
from environments import make_event_worlds
from networks import count_weights, make_acting_policy, make_own_noise
from replay_server.contract import layout
from replay_server.contract.activity import Activity, Wait
from replay_server.contract.connection import Connection, OtherRun
from replay_server.contract.manifest import Manifest
from replay_server.contract.messages import DROPPED_EPISODES, MISSED_TICKS, OPEN_EPISODES, WRITER_PREFIX, encode
from replay_server.contract.news import RepeatedFailures
from replay_server.contract.policy import PolicySnapshot, PolicySource
from replay_server.contract.role import Kind, name_taken

_PAUSE_POLL_SECONDS = 0.1


class RolloutWorker:
  """Runs episodes and streams them to the replay server.

  Its environments adopt the latest policy at the start of an episode and keep it to the end (SSET, Appendix A.3), or for
  `actor.policy_period_steps`.

  Attributes:
    name: of its process, unique in the run.
    kind: of role.
    environment_steps: taken by this worker.
    episodes: that have ended.
    policy_received: when it took the policy that it acts by from the server, as a UNIX time; None before.
    behaviours: of its environments.
  """

  kind: Kind = "actor"

  def __init__(
    self,
    connection: Connection,
    manifest: Manifest,
    name: str,
    index: int,
    seed: int,
    stop: threading.Event,
  ):
    """Makes environments, networks and writers.

    Args:
      connection: to the server.
      manifest: of the run.
      name: of this process, unique in the run.
      index: of the worker, from 0.
      seed: of its environments and its exploration.
      stop: ends the worker when set.

    Raises:
      UserError: the environment cannot be made here, or is not the run's.
      ServerLost: the server does not answer.
    """
    config = manifest.config
    self.name = name
    self._activity = Activity()
    self.environment_steps = self.episodes = 0
    self.policy_received: float | None = None
    self._config = config
    self._index = index
    self._stop = stop
    self._connection = connection
    self._restarts = connection.news.restarts
    self._failures = RepeatedFailures()
    self._paused = self._held_back = False
    self._episodes = connection.writer()
    weights = count_weights(config, manifest.spec)
    warm_up = WarmUp(config.actor.random_steps)
    source = PolicySource(connection, config.replay.default.name, weights, stop)
    self._policies = PolicyFeed(source, connection.progress, warm_up, self._activity, config.actor, stop)
    count = config.actor.environments
    seeds = np.random.SeedSequence(seed).generate_state(2 * count).tolist()
    worlds = make_event_worlds(config.of_workers, seeds[:count])
    spec = worlds[0].spec
    manifest.check_spec(spec, config.actor.environment_arguments)
    self._bank = PolicyBank(lambda weights: make_acting_policy(config, spec, weights))
    # With a memory of its own, the learner reads the rows themselves, and holds the worker back by not reading.
    in_memory = config.replay.sampling == "memory"
    on_wait = self._note_full_queue if in_memory else self._note_slow_server
    rows = connection.local_rows
    writers: list[RowWriter | LocalRowWriter] = [
      RowWriter(connection, references_needed(config), stop, on_wait) if rows is None else LocalRowWriter(rows)
      for _ in range(count)
    ]
    # Only a bias correction on the server's tables needs to be told which steps went to which table.
    needs_histories = config.learner.bias_correction != "none" and not in_memory
    histories = RowWriter(connection, 1, stop) if needs_histories else None
    self._row_writers = writers if histories is None else [*writers, histories]
    self._writers: list[RowWriter | LocalRowWriter] = self._row_writers
    steps_per_item = layout.pace_shape(config, manifest.inline).steps_per_item
    self._pacer: Pacer | None = None
    self._paced_writer: RowWriter | None = None
    if steps_per_item:
      self._paced_writer = paced = RowWriter(connection, 1, stop, self._note_slow_learner)
      self._pacer = Pacer(paced, steps_per_item)
      self._writers = [*self._row_writers, paced]  # Last, as it may have to wait while the others can be flushed.
    self.behaviours = [
      Behaviour(spec.actions, np.random.default_rng(s), warm_up=warm_up, noise=make_own_noise(config, spec))
      for s in seeds[count:]
    ]
    # A restarted worker must not reuse the episode ids of the one that it replaces.
    self._writer_ids = [secrets.randbits(31) for _ in writers]
    adders = [
      EventTableAdder(writer, manifest.codec, config, writer_id, histories)
      for writer, writer_id in zip(writers, self._writer_ids, strict=True)
    ]
    self._rollouts = [Rollout(name, *parts) for parts in zip(self.behaviours, adders, strict=True)]
    left = iter(self._rollouts)
    self._stages = [Stage(together, list(itertools.islice(left, together.size))) for together in worlds]

  @property
  def state(self) -> str:
    """What it does or waits for, in words; may be read by any thread."""
    late = (stage.worlds.late_call() for stage in self._stages)
    own = "fetching the policy" if self._policies.is_reading else self._activity.state
    return next((str(call) for call in late if call is not None), own)

  @property
  def wait(self) -> Wait | None:
    """What it waits for; None if it does not wait."""
    late = (stage.worlds.late_call() for stage in self._stages)
    world = next((Wait("world", f"its {call.call} returns", call.seconds) for call in late if call is not None), None)
    return world or self._activity.wait

  @property
  def policy_version(self) -> int:
    """Of the oldest policy by which one of its environments acts; 0 before there is one."""
    return min(behaviour.version for behaviour in self.behaviours)

  @property
  def missed_ticks(self) -> int:
    """In which its worlds went on without an action, as consoles do at the real pace; of their present sessions."""
    return sum(stage.worlds.missed_ticks for stage in self._stages)

  @property
  def dropped_episodes(self) -> int:
    """Episodes with at least one step that were dropped, as the world or the server had lost them."""
    return sum(stage.dropped for stage in self._stages)

  @property
  def waited_seconds(self) -> Mapping[str, float]:
    """On whom it waited -> for how long, since it began: for the server to take its rows, for the learner to keep up."""
    waited = {"server": sum(writer.waited_seconds for writer in self._row_writers)}
    return waited if self._paced_writer is None else {**waited, "learner": self._paced_writer.waited_seconds}

  def metrics(self) -> Mapping[str, float]:
    """The metrics of the worker's heartbeats."""
    ids = {f"{WRITER_PREFIX}{index}": float(writer_id) for index, writer_id in enumerate(self._writer_ids)}
    lost = {DROPPED_EPISODES: self.dropped_episodes, OPEN_EPISODES: sum(rollout.is_open for rollout in self._rollouts)}
    return {"environment_steps": self.environment_steps, MISSED_TICKS: self.missed_ticks, **lost, **ids}

  @property
  def paused(self) -> bool:
    """Whether it writes no rows, as the server is about to be started again, and all that it had have been confirmed."""
    return self._connection.news.is_leaving and (self._paused or self._held_back)

  def run(self) -> None:
    """Runs until stopped, or until `step` raises; then sends the rows collected so far, if the server accepts them.

    If the server was started again, or has lost a stream, it drops the open episodes, opens its writers anew and goes on.

    Raises:
      UserError: as `step`.
      ServerLost: the server has another run, or fails again and again although it answers.
    """
    try:
      while not self._stop.is_set():
        self._connection.progress.note()
        try:
          self._follow_server()
          self.step()
        except OtherRun:
          raise
        except ServerLost as error:
          self._failures.note(error)
          print(f"{error} The worker goes on with a new episode.", flush=True)
          self._return_to_server()
    except Stopped:
      pass
    finally:
      self._activity.does("ending")
      self._stop.set()  # Keeps every further wait short.
      with contextlib.suppress(Stopped, ServerLost):
        self.flush()
      self.close()

  def _follow_server(self) -> None:
    """Does what the server's news ask for: a pause before it leaves, new writers after it was started again.

    Raises:
      UserError: another worker had this one's name first.
    """
    news = self._connection.news
    if news.rival is not None:  # Two of one name have started at once; the later one ends.
      raise name_taken(self._connection.run_id, news.rival)
    if news.is_leaving:
      self._pause()
    if news.restarts != self._restarts:
      self._return_to_server()

  def _pause(self) -> None:
    """Sends everything, then waits until the server was started again."""
    for writer in self._row_writers:
      writer.flush()
    self._paused = True
    self._activity.waits("paused: the server is about to be started again", "server", "it is started again")
    news = self._connection.news
    while news.is_leaving and news.restarts == self._restarts:
      self._connection.progress.note()
      if self._stop.wait(_PAUSE_POLL_SECONDS):
        raise Stopped("Stopped while the server was about to be started again.")
    self._paused = False
    self._activity.does("running")

  def _return_to_server(self) -> None:
    """Drops the open episodes and opens all writers anew, once the server answers."""
    self._activity.waits("waiting for the server", "server", "it answers")
    while True:
      self._connection.wait_for_answer(self._stop)
      self._restarts = self._connection.news.restarts
      try:
        for writer in self._writers:
          writer.reopen()
        break
      except OtherRun:
        raise
      except ServerLost:
        continue
    for stage in self._stages:
      stage.drop()

  def step(self) -> None:
    """One step of every environment; of none if all have lost their episodes and have no new ones yet.

    Raises:
      UserError: an environment produced something that cannot be stored, or no learner published a policy in time.
      PolicyLate: a policy was published, and did not arrive in time.
      ServerLost: the server does not answer.
      Stopped: asked to stop while waiting.
    """
    stages = [stage for stage in self._stages if stage.is_ready or self._prepare(stage)]
    if not stages:
      self._wait_for_worlds()
      return
    rollouts = self._rollouts if len(stages) == len(self._stages) else [r for stage in stages for r in stage.rollouts]
    if self._config.actor.policy_period_steps is not None:
      self._renew_policies(rollouts, self._config.actor.policy_period_steps)
    choices = choose_actions([r.behaviour for r in rollouts], [r.observation for r in rollouts])
    begin = 0
    for stage in stages:
      end = begin + len(stage.rollouts)
      summaries = stage.step(choices[begin:end])
      begin = end
      if summaries is None:
        continue
      self.environment_steps += len(stage.rollouts)
      self.episodes += len(summaries)
      for summary in summaries:
        self._episodes.write(layout.EPISODES, [encode(summary)])
    if self._pacer is not None:
      self._pacer.report(sum(rollout.adder.transitions for rollout in self._rollouts))

  def _prepare(self, stage: Stage) -> bool:
    """Begins the episodes that are due, with the latest policy; returns whether the stage can be stepped."""
    if stage.absence.pause_seconds:
      return False
    ended = stage.ended()
    for rollout in ended:
      self._update_policy(rollout)
    self._activity.does("running" if ended[0].behaviour.version else "running (random warm-up)")
    stage.begin()
    return stage.is_ready

  def _renew_policies(self, rollouts: Sequence[Rollout], period: int) -> None:
    """Gives the latest policy to those whose episode has gone on for another period of so many steps."""
    for rollout in rollouts:
      if rollout.length and rollout.length % period == 0:
        self._update_policy(rollout)

  def _wait_for_worlds(self) -> None:
    """Waits until a world that has lost its episodes may have new ones."""
    absence = min((stage.absence for stage in self._stages), key=lambda absence: absence.pause_seconds)
    self._activity.waits(f"waiting for its world: {absence.reason}", "world", "it has episodes again")
    if self._stop.wait(absence.pause_seconds):
      raise Stopped("Stopped while its world had no episodes.")

  def flush(self) -> None:
    """Waits until the server has everything."""
    for writer in self._writers:
      writer.flush()

  def close(self) -> None:
    """Closes environments and writers."""
    for stage in self._stages:
      stage.worlds.close()
    for writer in self._writers:
      writer.close()

  def _update_policy(self, rollout: Rollout) -> None:
    """Gives an environment the latest policy, if there is one."""
    latest = self._policies.latest()
    if latest is None:
      return
    behaviour = rollout.behaviour
    if self.policy_received is None:
      self._check_pace(latest)
    if latest.version != behaviour.version:
      behaviour.policy, behaviour.version = self._bank.policy_of(latest), latest.version
      self.policy_received = time.time()
      rollout.adder.set_priorities(latest.priorities)
    behaviour.epsilon = self._config.learner.algorithm.epsilon_at(self._index, latest.learner_steps)

  def _check_pace(self, latest: PolicySnapshot) -> None:
    """Refuses a policy that takes longer to act than the worlds wait."""
    policy = self._bank.policy_of(latest)
    for stage in self._stages:
      stage.worlds.check_pace(seconds_per_action(policy, stage.worlds.spec.observations, stage.worlds.size))

  def _note_slow_server(self, waiting: bool) -> None:
    if waiting:
      self._activity.waits("waiting for the server to confirm transitions", "server", "it confirms the rows sent")
    else:
      self._activity.does("running")

  def _note_full_queue(self, waiting: bool) -> None:
    if waiting:
      self._activity.waits(
        "waiting for the learner to read transitions", "learner", "it reads the transitions that wait on the server"
      )
    else:
      self._activity.does("running")

  def _note_slow_learner(self, waiting: bool) -> None:
    self._held_back = False
    if not waiting:
      self._activity.does("running")
      return
    # The learner may need the rows that wait for a burst.
    for writer in self._row_writers:
      writer.flush()
    self._activity.waits(
      "waiting for the learner: it is behind in its updates", "learner", "it catches up in its updates"
    )
    self._held_back = True
