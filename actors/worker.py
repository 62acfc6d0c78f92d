"""The rollout worker: steps its environments, several where the config says so, until it is told to stop."""

import collections
import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping

import numpy as np

from actors.actor import NoPolicy, RolloutActor, WarmUp
from actors.adder import EventTableAdder, references_needed
from actors.policies import PolicyBank
from actors.row_writer import RowWriter
from configs import ServerLost, Stopped, UserError
from environments import EventEnvironment, make_environment_spec, make_event_environment
from environments.timestep import EventTimeStep
from networks import make_acting_policy
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest
from replay_server.contract.messages import encode
from replay_server.contract.policy import PolicySource
from replay_server.contract.role import Kind

_POLICY_POLL_SECONDS = 0.5


class _Slot:
  """One environment and its actor."""

  def __init__(self, environment: EventEnvironment, actor: RolloutActor):
    self.environment = environment
    self.actor = actor
    self.timestep: EventTimeStep | None = None

  def observation(self) -> np.ndarray:
    assert self.timestep is not None, "an episode must have begun"
    observation: np.ndarray = self.timestep.observation
    return observation


class RolloutWorker:
  """Runs episodes and streams them to the replay server.

  Attributes:
    name: of its process, unique in the run.
    environment_steps: taken by this worker.
    state: what it does or waits for, for people.
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
      stop: ends the worker.

    Raises:
      UserError: the environment cannot be made here, or is not the run's.
      ServerLost: the server does not answer.
    """
    config = manifest.config
    self.name = name
    self.environment_steps = 0
    self.state = "starting"
    self._config = config.actor
    self._stop = stop
    self._episodes = connection.writer()
    seeds = [int(value) for value in np.random.SeedSequence(seed).generate_state(2 * config.actor.environments + 1)]
    self._rng = np.random.default_rng(seeds.pop())
    environments = [make_event_environment(config, seed=s, shaped=True) for s in seeds[: config.actor.environments]]
    spec = make_environment_spec(environments[0])
    manifest.check_spec(spec)
    self._bank = PolicyBank(lambda weights: make_acting_policy(config, spec, weights))
    source = PolicySource(connection, config.replay.default.name)
    warm_up = WarmUp(config.actor.random_steps)
    self._writers = [RowWriter(connection, references_needed(config), stop, self._note_wait) for _ in environments]
    # The corrections of the learner are all that asks what went where.
    histories = RowWriter(connection, 1, stop) if config.learner.bias_correction != "none" else None
    self._histories = [] if histories is None else [histories]
    self._slots = [
      _Slot(
        environment,
        RolloutActor(
          name=name,
          index=index,
          config=config,
          spec=spec.actions,
          bank=self._bank,
          source=source,
          warm_up=warm_up,
          # A restarted worker must not reuse the episode ids of the one that it replaces.
          adder=EventTableAdder(writer, manifest.codec, config, writer_id=secrets.randbits(31), histories=histories),
          seed=action_seed,
        ),
      )
      for environment, writer, action_seed in zip(
        environments, self._writers, seeds[config.actor.environments :], strict=True
      )
    ]

  def metrics(self) -> Mapping[str, float]:
    """What the worker's heartbeats carry."""
    return {"environment_steps": self.environment_steps}

  def run(self) -> None:
    """Runs until stopped, or until `step` raises; what was collected until then is sent, if the server takes it."""
    try:
      while not self._stop.is_set():
        self.step()
    except Stopped:
      pass
    finally:
      self.state = "ending"
      self._stop.set()  # So that no wait from here on is a long one.
      with contextlib.suppress(Stopped):
        self.flush()
      self.close()

  def step(self) -> None:
    """One step of every environment.

    Raises:
      UserError: an environment produced something that cannot be stored, or no policy came in time.
      ServerLost: the server does not answer.
      Stopped: told to stop while waiting.
    """
    for slot in self._slots:
      if slot.timestep is None or slot.timestep.last():
        self._begin_episode(slot)
      elif slot.actor.update_is_due:
        self._await(slot.actor.update)
    for slot, action in zip(self._slots, self._select_actions(), strict=True):
      slot.timestep = slot.environment.step(action)
      slot.actor.observe(action, slot.timestep)
      self.environment_steps += 1
      if slot.actor.finished is not None:
        summary, slot.actor.finished = slot.actor.finished, None
        self._episodes.write(layout.EPISODES, [encode(summary)])

  def flush(self) -> None:
    """Waits until the server has everything."""
    for writer in (*self._writers, *self._histories):
      writer.flush()

  def close(self) -> None:
    """Closes environments and writers."""
    for slot in self._slots:
      slot.environment.close()
    for writer in (*self._writers, *self._histories):
      writer.close()

  def _begin_episode(self, slot: _Slot) -> None:
    self._await(slot.actor.update)
    self.state = "running" if slot.actor.version else "running (random warm-up)"
    slot.timestep = slot.environment.reset()
    slot.actor.observe_first(slot.timestep)

  def _await(self, update: Callable[[], None]) -> None:
    deadline = time.monotonic() + self._config.weights_timeout_seconds
    while True:
      try:
        return update()
      except NoPolicy:
        self.state = "waiting for a learner's first policy"
      except ServerLost:  # The process's watchdog decides how long is too long.
        self.state = "waiting for the server"
      if time.monotonic() > deadline:
        raise UserError(
          f"No learner has published a policy for {self._config.weights_timeout_seconds:g} s: start one with 'slipstream "
          "learn', or raise actor.weights_timeout_seconds."
        )
      if self._stop.wait(_POLICY_POLL_SECONDS):
        raise Stopped("Stopped while waiting for the first policy.")

  def _select_actions(self) -> list[np.ndarray]:
    """An action for every slot, with one network call for all that act under the same weights."""
    if len(self._slots) == 1:
      (slot,) = self._slots
      return [slot.actor.select_action(slot.observation())]
    actions: dict[int, np.ndarray] = {}
    by_version: dict[int, list[int]] = collections.defaultdict(list)
    for position, slot in enumerate(self._slots):
      if slot.actor.explores():
        actions[position] = slot.actor.random_action()
      else:
        by_version[slot.actor.version].append(position)
    for version, positions in by_version.items():
      observations = np.stack([self._slots[position].observation() for position in positions])
      actions.update(zip(positions, self._bank[version].explore(observations, self._rng), strict=True))
    return [actions[position] for position in range(len(self._slots))]

  def _note_wait(self, waiting: bool) -> None:
    self.state = "waiting: the server takes no more until the learner has sampled" if waiting else "running"
