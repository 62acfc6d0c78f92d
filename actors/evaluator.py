"""The evaluator: plays the latest policy in its own environment, without training's exploration, and keeps the best one."""

import dataclasses
import json
import pathlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.absence import Absence
from actors.behaviour import Behaviour, Greedy
from actors.engine import choose_actions, seconds_per_action
from actors.evaluation_schedule import UpdateSchedule
from configs import EpisodesLost, EvaluatorConfig, RunConfig, ServerLost, Stopped
from configs.files import replace_text
from configs.measures import mean_measures
from configs.seeding import derive_seed
from environments import EventEnvironment, make_environment_spec, make_event_environment
from networks import count_weights, make_acting_policy
from replay_server.contract import layout
from replay_server.contract.activity import Activity, Wait
from replay_server.contract.connection import Connection, OtherRun
from replay_server.contract.manifest import Manifest
from replay_server.contract.messages import EvaluationSummary, encode
from replay_server.contract.policy import PolicySnapshot, PolicySource, save_snapshot
from replay_server.contract.progress import HUNG_AFTER_SECONDS
from replay_server.contract.role import Kind
from replay_server.contract.run import read_live_status

_POLL_SECONDS = 0.2
# A policy that is due must be seen before the next one replaces it.
_DUE_POLL_SECONDS = 0.05


@dataclasses.dataclass(frozen=True)
class PlayedEpisode:
  """One episode that a policy played.

  Attributes:
    episode_return: undiscounted.
    length: in steps.
    events: bit mask of the events that fired.
    frames: uint8 [H, W, 3] each, first to last; empty if none were recorded.
    measures: name -> what the environment measured; empty for an episode that was cut off.
  """

  episode_return: float
  length: int
  events: int
  frames: tuple[npt.NDArray[np.uint8], ...] = ()
  measures: Mapping[str, float] = dataclasses.field(default_factory=dict)


def split_seed(seed: int) -> tuple[int, np.random.Generator]:
  """An environment's seed and a generator of random actions, independent of each other.

  A generator with the environment's own seed would draw the numbers that the environment draws too.
  """
  return derive_seed(seed, "environment"), np.random.default_rng(derive_seed(seed, "actions"))


def make_evaluated_behaviour(
  config: RunConfig, environment: EventEnvironment, snapshot: PolicySnapshot, rng: np.random.Generator
) -> Behaviour:
  """The behaviour of evaluations: the policy without noise, and random actions with probability `evaluator.epsilon`."""
  policy = make_acting_policy(config, make_environment_spec(environment), snapshot.weights)
  return Behaviour(environment.action_spec(), rng, Greedy(policy), snapshot.version, config.evaluator.epsilon)


def make_greedy_behaviour(config: RunConfig, environment: EventEnvironment, snapshot: PolicySnapshot) -> Behaviour:
  """A behaviour with neither noise nor random actions."""
  evaluated = make_evaluated_behaviour(config, environment, snapshot, np.random.default_rng(0))
  return dataclasses.replace(evaluated, epsilon=0.0)


def play_episode(
  environment: EventEnvironment,
  behaviour: Behaviour,
  stop: threading.Event | None = None,
  record: Callable[[Any], npt.NDArray[np.uint8]] | None = None,
  most_steps: int | None = None,
) -> PlayedEpisode:
  """Plays one episode.

  Args:
    environment: to play in.
    behaviour: chooses the actions.
    stop: ends the episode early when set.
    record: turns the picture of each step into what is kept of it; None renders nothing. The environment must have been made
      with `render=True`.
    most_steps: after which a longer episode is cut off; None plays it to its end.

  Raises:
    Stopped: `stop` was set.
  """
  timestep = environment.reset()
  episode_return, length, events = 0.0, 0, 0
  frames = [] if record is None else [record(environment.render())]
  while not timestep.last() and length != most_steps:
    if stop is not None and stop.is_set():
      raise Stopped("Stopped during an evaluation.")
    (choice,) = choose_actions([behaviour], [timestep.observation])
    timestep = environment.step(choice.action)
    episode_return += float(timestep.reward)
    length += 1
    events |= timestep.events
    if record is not None:
      frames.append(record(environment.render()))
  return PlayedEpisode(episode_return, length, events, tuple(frames), dict(timestep.measures))


def is_solved(episodes: list[PlayedEpisode], config: EvaluatorConfig, event_names: list[str]) -> bool:
  """Whether an evaluation reached the run's goal."""
  if not config.has_goal:
    return False
  if config.solved_event:
    bit = 1 << event_names.index(config.solved_event)
    if not all(episode.events & bit for episode in episodes):
      return False
  mean_return = sum(episode.episode_return for episode in episodes) / len(episodes)
  return config.solved_return is None or mean_return >= config.solved_return


def _read_best(path: pathlib.Path) -> tuple[bool, float]:
  """Whether the best policy so far reached the goal, and its mean return; the worst values if the file cannot be read."""
  try:
    best = json.loads(path.read_text())
    return bool(best["solved"]), float(best["mean_return"])
  except (OSError, ValueError, LookupError, TypeError):
    return False, -np.inf


class Evaluator:
  """Evaluates policy versions as they come, each at most once: by the clock, or by gradient steps (`evaluator.schedule`).

  Attributes:
    name: of its process; a run has one evaluator.
    kind: of role.
    last: its last evaluation; None before the first.
    evaluated: when that ended, as a UNIX time; None before the first.
  """

  name = "evaluator"
  kind: Kind = "evaluator"
  paused = False  # It writes no rows.

  def __init__(
    self,
    connection: Connection,
    manifest: Manifest,
    seed: int,
    stop: threading.Event,
    checkpoint_dir: pathlib.Path | None = None,
    film: Callable[[PolicySnapshot, int], None] | None = None,
    console: str = "",
  ):
    """Makes the evaluator.

    Args:
      connection: to the server.
      manifest: of the run.
      seed: of its environment and its random actions; see `split_seed`.
      stop: ends the evaluator when set.
      checkpoint_dir: for the best policy (best.npz); None to keep none.
      film: called after every evaluation with the policy and the run's environment steps.
      console: address of the console that it plays on; empty if it makes its environment itself. The best policy is kept with the
        run's own config, so that it can be played without a console.
    """
    config = manifest.config
    self._activity = Activity()
    self._connection = connection
    self.last: EvaluationSummary | None = None
    self.evaluated: float | None = None
    self._run_config = config
    self._config = config.evaluator
    self._event_names = [event.name for event in config.events]
    world_seed, self._rng = split_seed(seed)
    played = config.on_console("evaluator", console) if console else config
    self._environment = make_event_environment(played.of_evaluator, seed=world_seed)
    self._spec = manifest.spec
    manifest.check_spec(make_environment_spec(self._environment), self._config.environment_arguments)
    weights = count_weights(config, manifest.spec)
    self._source = PolicySource(connection, config.replay.default.name, weights, stop)
    self._writer = connection.writer()
    self._stop = stop
    self._film = film
    self._best_path = None if checkpoint_dir is None else checkpoint_dir / "best.json"
    # A resumed run may have a best policy already.
    self._best = (False, -np.inf) if self._best_path is None else _read_best(self._best_path)
    self._absence = Absence()
    self._version = 0
    self._evaluations = 0
    # The loop of an inline run evaluates when it is due.
    by_updates = self._config.schedule == "updates" and not manifest.inline
    self._schedule = UpdateSchedule(self._config.period_updates) if by_updates else None
    self._resumed_at: int | None = None  # Which start of the server the schedule knows of.
    self._said = 0

  @property
  def state(self) -> str:
    """What it does or waits for, in words; may be read by any thread."""
    late = self._environment.late_call()
    return self._activity.state if late is None else str(late)

  @property
  def wait(self) -> Wait | None:
    """What it waits for; None if it does not wait."""
    late = self._environment.late_call()
    return self._activity.wait if late is None else Wait("world", f"its {late.call} returns", late.seconds)

  @property
  def evaluations(self) -> int:
    """How many it has made."""
    return self._evaluations

  @property
  def passed_over(self) -> int:
    """How many multiples of `evaluator.period_updates` got no evaluation, where evaluations go by updates."""
    return 0 if self._schedule is None else self._schedule.passed_over

  def metrics(self) -> Mapping[str, float]:
    """The metrics of the evaluator's heartbeats."""
    return {"evaluations": self._evaluations}

  def run(self) -> None:
    """Evaluates until stopped."""
    try:
      while not self._stop.is_set():
        began, done = time.monotonic(), False
        self._connection.progress.note()
        try:
          done = self.step()
          self._activity.waits("waiting for a new policy", "learner", self._awaited())
        except OtherRun:
          raise
        except ServerLost:  # The process's watchdog decides when to give up.
          self._activity.waits("waiting for the server", "server", "it answers")
        pause = self._pause_seconds(began, done)
        self._connection.progress.note(pause + HUNG_AFTER_SECONDS)
        self._stop.wait(pause)
    except Stopped:
      pass
    finally:
      self._activity.does("ending")
      self._environment.close()

  def _awaited(self) -> str:
    """What would end the wait for a policy, in words."""
    if self._schedule is None:
      return f"it publishes a policy after version {self._version}" if self._version else "it publishes a policy"
    passed = f" ({self.passed_over} passed over so far)" if self.passed_over else ""
    return f"it publishes a policy of {self._schedule.next_gradient_steps:,} gradient steps{passed}"

  def _pause_seconds(self, began: float, done: bool) -> float:
    """How long to wait after a step that began then, and evaluated a policy or not."""
    if self._schedule is not None:
      return 0.0 if done else _DUE_POLL_SECONDS
    return max(0.0, began + self._config.period_seconds - time.monotonic()) if done else _POLL_SECONDS

  def step(self) -> bool:
    """Evaluates the published policy if it is new, has learned and is due; returns whether it did.

    Raises:
      ServerLost: the server does not answer.
      Stopped: asked to stop.
    """
    snapshot = self._source.fetch()
    if snapshot is None or not snapshot.learner_steps or snapshot.version == self._version:
      return False
    if not self._is_due(snapshot):
      return False
    self._activity.does(f"evaluating policy {snapshot.version}")
    self._version = snapshot.version
    behaviour = make_evaluated_behaviour(self._run_config, self._environment, snapshot, self._rng)
    if not self._evaluations and behaviour.policy is not None:
      self._environment.check_pace(seconds_per_action(behaviour.policy, self._spec.observations, 1))
    episodes = [self._play(behaviour) for _ in range(self._config.episodes)]
    self._report(snapshot, episodes)
    if self._film is not None:
      self._activity.does(f"filming policy {snapshot.version}")
      self._film(snapshot, self._source.environment_steps)
    return True

  def _play(self, behaviour: Behaviour) -> PlayedEpisode:
    """Plays an episode; one that its world loses is played again."""
    while True:
      try:
        episode = play_episode(self._environment, behaviour, self._stop)
        self._absence.end()
        return episode
      except EpisodesLost as error:
        self._absence.note(error)
      self._activity.waits(f"waiting for its world: {self._absence.reason}", "world", "it has episodes again")
      self._connection.progress.note()
      if self._stop.wait(self._absence.pause_seconds):
        raise Stopped("Stopped while its world had no episodes.")

  def _is_due(self, snapshot: PolicySnapshot) -> bool:
    if self._schedule is None:
      return True
    restarts = self._connection.news.restarts
    if self._resumed_at != restarts:
      # What counts is what the run has: an evaluator that begins anew repeats none, and a server that lost some gets them again.
      status = read_live_status(self._connection)
      if status is None:
        return False
      self._schedule.resume(max((evaluation.gradient_steps for evaluation in status.evaluations), default=0))
      self._resumed_at = restarts
    return snapshot.learner_steps >= self._schedule.next_gradient_steps

  def _take(self, snapshot: PolicySnapshot) -> None:
    """Notes that the multiple of a policy has its evaluation."""
    if self._schedule is None:
      return
    self._schedule.take(snapshot.learner_steps)
    if self.passed_over > 2 * self._said:  # Again when they are more than twice as many.
      self._said = self.passed_over
      print(
        f"The evaluator is behind the learner: up to policy {snapshot.version}, of {snapshot.learner_steps:,} gradient steps, "
        f"{self.passed_over} multiples of evaluator.period_updates ({self._config.period_updates}) got no evaluation.",
        flush=True,
      )

  def _report(self, snapshot: PolicySnapshot, episodes: list[PlayedEpisode]) -> None:
    summary = EvaluationSummary(
      policy_version=snapshot.version,
      gradient_steps=snapshot.learner_steps,
      mean_return=float(np.mean([episode.episode_return for episode in episodes])),
      mean_length=float(np.mean([episode.length for episode in episodes])),
      solved=is_solved(episodes, self._config, self._event_names),
      measures=mean_measures(episode.measures for episode in episodes),
      passed_over=0 if self._schedule is None else self._schedule.passes_over(snapshot.learner_steps),
    )
    self._evaluations += 1
    self.last, self.evaluated = summary, time.time()
    # Of equally good policies the latest is kept, as it has learned the longest.
    if self._best_path is not None and (summary.solved, summary.mean_return) >= self._best:
      self._best = (summary.solved, summary.mean_return)
      save_snapshot(self._best_path.with_suffix(".npz"), snapshot, self._run_config, self._spec)
      replace_text(self._best_path, json.dumps({"solved": summary.solved, "mean_return": summary.mean_return}))
    self._writer.write(layout.EPISODES, [encode(summary)])
    self._take(snapshot)
