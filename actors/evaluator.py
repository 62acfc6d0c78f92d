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

from actors.behaviour import Behaviour, Greedy
from actors.engine import choose_actions
from configs import EvaluatorConfig, RunConfig, ServerLost, Stopped
from configs.files import replace_text
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

_POLL_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class PlayedEpisode:
  """One episode that a policy played.

  Attributes:
    episode_return: undiscounted.
    length: in steps.
    events: bit mask of the events that fired.
    frames: uint8 [H, W, 3] each, first to last; empty if none were recorded.
  """

  episode_return: float
  length: int
  events: int
  frames: tuple[npt.NDArray[np.uint8], ...] = ()


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
  return PlayedEpisode(episode_return, length, events, tuple(frames))


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
  """Evaluates policy versions as they come, each at most once.

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
  ):
    """Makes the evaluator.

    Args:
      connection: to the server.
      manifest: of the run.
      seed: of its environment and its random actions; see `split_seed`.
      stop: ends the evaluator when set.
      checkpoint_dir: for the best policy (best.npz); None to keep none.
      film: called after every evaluation with the policy and the run's environment steps.
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
    self._environment = make_event_environment(config, seed=world_seed)
    self._spec = manifest.spec
    manifest.check_spec(make_environment_spec(self._environment))
    weights = count_weights(config, manifest.spec)
    self._source = PolicySource(connection, config.replay.default.name, weights, stop)
    self._writer = connection.writer()
    self._stop = stop
    self._film = film
    self._best_path = None if checkpoint_dir is None else checkpoint_dir / "best.json"
    # A resumed run may have a best policy already.
    self._best = (False, -np.inf) if self._best_path is None else _read_best(self._best_path)
    self._version = 0
    self._evaluations = 0

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
          until = f"it publishes a policy after version {self._version}" if self._version else "it publishes a policy"
          self._activity.waits("waiting for a new policy", "learner", until)
        except OtherRun:
          raise
        except ServerLost:  # The process's watchdog decides when to give up.
          self._activity.waits("waiting for the server", "server", "it answers")
        pause = max(0.0, began + self._config.period_seconds - time.monotonic()) if done else _POLL_SECONDS
        self._connection.progress.note(pause + HUNG_AFTER_SECONDS)
        self._stop.wait(pause)
    except Stopped:
      pass
    finally:
      self._activity.does("ending")
      self._environment.close()

  def step(self) -> bool:
    """Evaluates the published policy if it is new and has learned; returns whether it did.

    Raises:
      ServerLost: the server does not answer.
      Stopped: asked to stop.
    """
    snapshot = self._source.fetch()
    if snapshot is None or not snapshot.learner_steps or snapshot.version == self._version:
      return False
    self._activity.does(f"evaluating policy {snapshot.version}")
    self._version = snapshot.version
    behaviour = make_evaluated_behaviour(self._run_config, self._environment, snapshot, self._rng)
    episodes = [play_episode(self._environment, behaviour, self._stop) for _ in range(self._config.episodes)]
    self._report(snapshot, episodes)
    if self._film is not None:
      self._activity.does(f"filming policy {snapshot.version}")
      self._film(snapshot, self._source.environment_steps)
    return True

  def _report(self, snapshot: PolicySnapshot, episodes: list[PlayedEpisode]) -> None:
    summary = EvaluationSummary(
      policy_version=snapshot.version,
      gradient_steps=snapshot.learner_steps,
      mean_return=float(np.mean([episode.episode_return for episode in episodes])),
      mean_length=float(np.mean([episode.length for episode in episodes])),
      solved=is_solved(episodes, self._config, self._event_names),
    )
    self._evaluations += 1
    self.last, self.evaluated = summary, time.time()
    # Of equally good policies the latest is kept, as it has learned the longest.
    if self._best_path is not None and (summary.solved, summary.mean_return) >= self._best:
      self._best = (summary.solved, summary.mean_return)
      save_snapshot(self._best_path.with_suffix(".npz"), snapshot, self._run_config, self._spec)
      replace_text(self._best_path, json.dumps({"solved": summary.solved, "mean_return": summary.mean_return}))
    self._writer.write(layout.EPISODES, [encode(summary)])
