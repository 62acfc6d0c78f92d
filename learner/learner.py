"""The learner: draws blocks, updates, publishes, checkpoints."""

import contextlib
import json
import pathlib
import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from acme import core, specs

from configs import Stopped, UserError
from configs.files import FileLock, replace_text
from learner.algorithms import make_algorithm
from learner.corrections import BiasCorrection
from learner.priorities import TablePriorities
from learner.sampler import StratifiedSampler
from networks import flatten_weights
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest
from replay_server.contract.policy import PolicyPublisher, PolicySnapshot, PolicySource, save_snapshot

_OWNER_FILE = "owner.json"


class Learner(core.Learner):
  """One algorithm on one stratified sampler.

  Attributes:
    gradient_steps: taken, over restarts.
    policy_version: the last published, over restarts.
    state: what it does or waits for, for people.
  """

  def __init__(
    self,
    connection: Connection,
    manifest: Manifest,
    spec: specs.EnvironmentSpec,
    seed: int,
    stop: threading.Event,
    checkpoint_dir: pathlib.Path,
    device: str = "",
  ):
    """Makes the learner, from its checkpoint if there is one, and publishes its policy.

    Args:
      connection: to the server.
      manifest: of the run.
      spec: of the environment.
      seed: of the initial weights.
      stop: ends a wait for transitions.
      checkpoint_dir: `learner/` and `policy/` go below it.
      device: a TensorFlow device; empty takes the config's.

    Raises:
      UserError: the checkpoint is another run's, another learner writes there, or there is no such device.
      ServerLost: the server does not answer.
    """
    config = manifest.config
    self._config = config
    self._spec = manifest.spec
    self._run_id = manifest.run_id
    self._stop = stop
    self._policy_path = checkpoint_dir / "policy" / "latest.npz"
    self._device = choose_device(device or config.learner.device)
    with tf.device(self._device):
      self._algorithm = make_algorithm(config, manifest.codec, spec, seed)
    self._sampler = StratifiedSampler(connection, config, manifest.codec, stop, self._device)
    self._priorities = TablePriorities(connection, config)
    self._correction = BiasCorrection(connection, config, manifest.codec, checkpoint_dir / "learner")
    self._publisher = PolicyPublisher(connection)
    self._counters = {
      "gradient_steps": tf.Variable(0, dtype=tf.int64),
      "policy_version": tf.Variable(0, dtype=tf.int64),
      "priorities": tf.Variable(self._priorities.largest),
    }
    self._checkpoint = tf.train.Checkpoint(**self._algorithm.checkpointed, **self._counters)
    directory = checkpoint_dir / "learner"
    self._checkpoints = tf.train.CheckpointManager(self._checkpoint, str(directory), max_to_keep=2)
    self.gradient_steps = 0
    self.policy_version = 0
    self.state = "starting"
    self._metrics: dict[str, float] = {}
    self._drawn = np.zeros(len(config.replay.all_tables), np.int64)
    self._is_finite = True
    checkpoint_dir.mkdir(parents=True, exist_ok=True)
    self._lock = FileLock(
      checkpoint_dir / "learner.lock",
      f"Another learner writes its checkpoints to {checkpoint_dir}: wait for its end, or use another directory.",
    )
    try:
      self._restore(directory, PolicySource(connection, config.replay.default.name).fetch())
      self._checkpointed = time.monotonic()
      self.publish()
    except BaseException:
      self._lock.release()
      raise

  def _restore(self, directory: pathlib.Path, published: PolicySnapshot | None) -> None:
    owner = directory / _OWNER_FILE
    if self._checkpoints.latest_checkpoint:
      found = _read_owner(owner)
      if found != self._run_id:
        raise UserError(
          f"The learner's checkpoint in {directory} belongs to {found}, and the server holds run {self._run_id}: use that "
          "run's server, or another directory. Nothing was changed."
        )
      self._checkpoint.restore(self._checkpoints.latest_checkpoint).assert_existing_objects_matched()
      self.gradient_steps = int(self._counters["gradient_steps"])
      self.policy_version = int(self._counters["policy_version"])
      self._priorities.largest = self._counters["priorities"].numpy()
    else:
      directory.mkdir(parents=True, exist_ok=True)
      replace_text(owner, json.dumps({"run_id": self._run_id}))
    # Workers tell policies apart by their version: what was published after the checkpoint keeps its numbers.
    if published is not None:
      self.policy_version = max(self.policy_version, published.version)

  def metrics(self) -> Mapping[str, float]:
    """What the learner's heartbeats carry."""
    return {**self._metrics, "gradient_steps": self.gradient_steps, "policy_version": self.policy_version}

  def drawn_ahead(self) -> dict[str, int]:
    """Table -> rows that may be drawn and not yet learned from; see `StratifiedSampler`."""
    return self._sampler.drawn_ahead()

  def describe_state(self) -> str:
    """What the learner does or waits for, for people."""
    return self._sampler.waiting_for or self.state

  def run(self, num_steps: int | None = None) -> None:
    """Learns until stopped (or for `num_steps` blocks) and closes, whatever ends it.

    Raises:
      ServerLost: the server does not answer.
      UserError: the loss or the weights are no longer finite.
    """
    blocks = 0
    try:
      while not self._stop.is_set() and (num_steps is None or blocks < num_steps):
        self.step()
        blocks += 1
        if time.monotonic() - self._checkpointed > self._config.learner.checkpoint_period_seconds:
          self.save_or_say()
    except Stopped:
      pass
    finally:
      self.close()

  def step(self) -> None:
    """One block of updates; publishes when it is time.

    Raises:
      Stopped: told to stop while waiting for transitions.
      ServerLost: the server does not answer.
      UserError: the loss or the weights are no longer finite.
    """
    block = self._sampler.next_block()
    self.state = "learning"
    weights = self._priorities.weights(block, self.gradient_steps) * self._correction.weights(block)
    with tf.device(self._device):
      updated = self._algorithm.update_block(
        block.placed_rows,
        tf.constant(weights),
        tf.constant(block.tables),
        tf.constant(self._config.learner.cagrad.coefficient_at(self.gradient_steps), tf.float32),
      )
      measured, td_errors = (tensor.numpy() for tensor in updated)
    before = self.gradient_steps
    self.gradient_steps += len(measured)
    self._drawn = block.quotas.sum(axis=0)
    metrics = dict(zip(self._algorithm.METRICS, measured.mean(axis=0).tolist(), strict=True))
    if not np.isfinite(measured[:, self._algorithm.METRICS.index("loss")]).all():
      raise self._diverged("loss is")
    self._priorities.update(block, td_errors)
    self._metrics = {
      **metrics,
      "mean_abs_td_error": float(np.abs(td_errors).mean()),
      "drawn_ahead": float(sum(self.drawn_ahead().values())),
    }
    if self._priorities.in_use:
      self._metrics["refused_priorities"] = float(self._priorities.refused)
    period = self._config.learner.publish_period_updates
    if before // period != self.gradient_steps // period:
      self.publish()

  def _diverged(self, what: str) -> UserError:
    self._is_finite = False
    shares = ", ".join(f"{n} of {name}" for name, n in zip(self._sampler.table_names, self._drawn, strict=True))
    return UserError(
      f"The {what} not finite after {self.gradient_steps} gradient steps (rows of the block: {shares}): lower "
      "learner.learning_rate or scale the rewards; the last checkpoint is from before it."
    )

  def publish(self) -> None:
    """Sends the weights to the policy table under the next version.

    Raises:
      ServerLost: the server did not confirm it.
      UserError: the weights are no longer finite; nothing was sent.
    """
    snapshot = self._snapshot(self.policy_version + 1)
    self.policy_version = snapshot.version
    self._publisher.publish(snapshot)

  def _snapshot(self, version: int) -> PolicySnapshot:
    weights = flatten_weights(self._algorithm.policy)
    # The last update of a block can break them although its loss, taken before it, was still a number.
    if not np.isfinite(weights).all():
      raise self._diverged("weights are")
    return PolicySnapshot(version, self.gradient_steps, weights, tuple(self._priorities.largest.tolist()))

  def save(self) -> None:
    """Writes networks, optimiser and counters, and the policy alone beside them.

    Raises:
      UserError: a network is no longer finite; nothing was written.
    """
    snapshot = self._snapshot(self.policy_version)
    if not self._algorithm.is_finite():
      raise self._diverged("networks are")
    self._counters["gradient_steps"].assign(self.gradient_steps)
    self._counters["policy_version"].assign(self.policy_version)
    self._counters["priorities"].assign(self._priorities.largest)
    path = self._checkpoints.save()
    self._correction.save()
    save_snapshot(self._policy_path, snapshot, self._config, self._spec)
    self._checkpointed = time.monotonic()
    print(f"Learner checkpointed at gradient step {self.gradient_steps} ({pathlib.Path(path).name}).", flush=True)

  def save_or_say(self) -> None:
    """As `save`; where the disk is full it says so, and the next checkpoint is due after another period.

    Raises:
      UserError: a network is no longer finite; nothing was written.
    """
    try:
      self.save()
    except (OSError, tf.errors.OpError) as error:
      self._checkpointed = time.monotonic()
      with contextlib.suppress(OSError):  # The log may lie on the same disk.
        print(
          f"The learner's checkpoint could not be written ({str(error).splitlines()[0]}): it learns on and tries again in "
          f"{self._config.learner.checkpoint_period_seconds:g} s; see whether the disk is full.",
          flush=True,
        )

  def close(self) -> None:
    """Writes the last checkpoint and ends the sampler; where the loss is no longer finite the checkpoint before stays."""
    try:
      if self._is_finite:
        self.state = "writing the last checkpoint"
        self.save()
    finally:
      self._sampler.close()
      self._lock.release()

  def get_variables(self, names: Sequence[str]) -> list[np.ndarray]:
    """The published network's weights as one vector, for Acme; `names` is not used."""
    del names
    return [flatten_weights(self._algorithm.policy)]


def _read_owner(path: pathlib.Path) -> str:
  """The run whose learner wrote a checkpoint, as far as its file tells."""
  try:
    return str(json.loads(path.read_text())["run_id"])
  except (OSError, ValueError, LookupError, TypeError):
    return "another run"


def choose_device(name: str) -> str:
  """A TensorFlow device: `name`, or where it is empty the first GPU, or else the CPU.

  Raises:
    UserError: TensorFlow sees no such device.
  """
  known = [device.name.removeprefix("/physical_device:") for device in tf.config.list_physical_devices()]
  if not name:
    return "GPU:0" if "GPU:0" in known else "CPU:0"
  if name not in known:
    raise UserError(
      f"TensorFlow sees no device {name!r}, only {', '.join(known)}: choose one, or leave learner.device empty."
    )
  return name
