"""The rollout worker: steps one or several environments until it is asked to stop."""

import contextlib
import secrets
import threading
import time
from collections.abc import Mapping

import numpy as np

from actors.adder import EventTableAdder, references_needed
from actors.behaviour import Behaviour, WarmUp
from actors.engine import choose_actions
from actors.pacer import Pacer
from actors.policies import PolicyBank
from actors.rollout import Rollout
from actors.row_writer import LocalRowWriter, RowWriter
from configs import ServerLost, Stopped, UserError
from environments import make_environment_spec, make_event_environment
from networks import count_weights, make_acting_policy
from replay_server.contract import layout
from replay_server.contract.activity import Activity, Wait
from replay_server.contract.connection import Connection, OtherRun
from replay_server.contract.manifest import Manifest
from replay_server.contract.messages import WRITER_PREFIX, encode
from replay_server.contract.news import RepeatedFailures
from replay_server.contract.policy import PolicyLate, PolicySnapshot, PolicySource
from replay_server.contract.role import Kind, name_taken

POLICY_POLL_SECONDS = 0.5
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
    self._source = PolicySource(connection, config.replay.default.name, weights, stop)
    self._warm_up = WarmUp(config.actor.random_steps)
    count = config.actor.environments
    seeds = np.random.SeedSequence(seed).generate_state(2 * count).tolist()
    environments = [make_event_environment(config, seed=s, shaped=True) for s in seeds[:count]]
    spec = make_environment_spec(environments[0])
    manifest.check_spec(spec)
    self._bank = PolicyBank(lambda weights: make_acting_policy(config, spec, weights))
    # With a memory of its own, the learner reads the rows themselves, and holds the worker back by not reading.
    in_memory = config.replay.sampling == "memory"
    on_wait = self._note_full_queue if in_memory else self._note_slow_server
    rows = connection.local_rows
    writers: list[RowWriter | LocalRowWriter] = [
      RowWriter(connection, references_needed(config), stop, on_wait) if rows is None else LocalRowWriter(rows)
      for _ in environments
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
    self.behaviours = [Behaviour(spec.actions, np.random.default_rng(s), warm_up=self._warm_up) for s in seeds[count:]]
    # A restarted worker must not reuse the episode ids of the one that it replaces.
    self._writer_ids = [secrets.randbits(31) for _ in writers]
    adders = [
      EventTableAdder(writer, manifest.codec, config, writer_id, histories)
      for writer, writer_id in zip(writers, self._writer_ids, strict=True)
    ]
    self._rollouts = [Rollout(name, *parts) for parts in zip(environments, self.behaviours, adders, strict=True)]

  @property
  def state(self) -> str:
    """What it does or waits for, in words; may be read by any thread."""
    late = (rollout.environment.late_call() for rollout in self._rollouts)
    own = "fetching the policy" if self._source.is_reading else self._activity.state
    return next((str(call) for call in late if call is not None), own)

  @property
  def wait(self) -> Wait | None:
    """What it waits for; None if it does not wait."""
    late = (rollout.environment.late_call() for rollout in self._rollouts)
    world = next((Wait("world", f"its {call.call} returns", call.seconds) for call in late if call is not None), None)
    return world or self._activity.wait

  @property
  def policy_version(self) -> int:
    """Of the oldest policy by which one of its environments acts; 0 before there is one."""
    return min(behaviour.version for behaviour in self.behaviours)

  @property
  def waited_seconds(self) -> Mapping[str, float]:
    """On whom it waited -> for how long, since it began: for the server to take its rows, for the learner to keep up."""
    waited = {"server": sum(writer.waited_seconds for writer in self._row_writers)}
    return waited if self._paced_writer is None else {**waited, "learner": self._paced_writer.waited_seconds}

  def metrics(self) -> Mapping[str, float]:
    """The metrics of the worker's heartbeats."""
    ids = {f"{WRITER_PREFIX}{index}": float(writer_id) for index, writer_id in enumerate(self._writer_ids)}
    return {"environment_steps": self.environment_steps, **ids}

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
    for rollout in self._rollouts:
      rollout.drop()

  def step(self) -> None:
    """One step of every environment.

    Raises:
      UserError: an environment produced something that cannot be stored, or no learner published a policy in time.
      PolicyLate: a policy was published, and did not arrive in time.
      ServerLost: the server does not answer.
      Stopped: asked to stop while waiting.
    """
    period = self._config.actor.policy_period_steps
    for rollout in self._rollouts:
      if rollout.ended:
        self._update_policy(rollout)
        self._activity.does("running" if rollout.behaviour.version else "running (random warm-up)")
        rollout.begin()
      elif period is not None and rollout.length % period == 0:
        self._update_policy(rollout)
    choices = choose_actions(self.behaviours, [rollout.observation for rollout in self._rollouts])
    for rollout, choice in zip(self._rollouts, choices, strict=True):
      summary = rollout.step(choice)
      self.environment_steps += 1
      if summary is not None:
        self.episodes += 1
        self._episodes.write(layout.EPISODES, [encode(summary)])
    if self._pacer is not None:
      self._pacer.report(sum(rollout.adder.transitions for rollout in self._rollouts))

  def flush(self) -> None:
    """Waits until the server has everything."""
    for writer in self._writers:
      writer.flush()

  def close(self) -> None:
    """Closes environments and writers."""
    for rollout in self._rollouts:
      rollout.environment.close()
    for writer in self._writers:
      writer.close()

  def _update_policy(self, rollout: Rollout) -> None:
    """Gives an environment the latest policy, if there is one."""
    latest = self._fetch_policy()
    if latest is None:
      return
    behaviour = rollout.behaviour
    if latest.version != behaviour.version:
      behaviour.policy, behaviour.version = self._bank.policy_of(latest), latest.version
      self.policy_received = time.time()
      rollout.adder.set_priorities(latest.priorities)
    behaviour.epsilon = self._config.learner.algorithm.epsilon_at(self._index, latest.learner_steps)

  def _fetch_policy(self) -> PolicySnapshot | None:
    """The latest policy. If there is none, returns None during the warm-up, and waits for one afterwards."""
    timeout = self._config.actor.weights_timeout_seconds
    deadline = time.monotonic() + timeout
    late: PolicyLate | None = None
    while True:
      self._connection.progress.note()
      try:
        latest = self._source.fetch()
        self._warm_up.note(self._source.environment_steps)
        if latest is not None or self._warm_up.steps_left > 0:
          return latest
        self._activity.waits("waiting for a learner's first policy", "learner", "it publishes its first policy")
      except PolicyLate as error:
        late = error
        self._activity.waits("waiting for the policy to arrive", "server", "the policy arrives")
      except ServerLost:  # The process's watchdog decides when to give up.
        self._activity.waits("waiting for the server", "server", "it answers")
      if time.monotonic() > deadline:
        if late is not None:
          raise late
        raise UserError(
          f"No learner has published a policy for {timeout:g} s: start one with 'slipstream learn', or raise "
          "actor.weights_timeout_seconds."
        )
      if self._stop.wait(POLICY_POLL_SECONDS):
        raise Stopped("Stopped while waiting for the first policy.")

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
