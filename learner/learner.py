"""The learner: draws blocks, updates, publishes, checkpoints."""

import contextlib
import dataclasses
import pathlib
import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from acme import core

from configs import Stopped, UserError
from learner.checkpoint import Counters, LearnerCheckpoints
from learner.devices import choose_device
from learner.sources.block import Block
from learner.sources.server import make_server_source
from learner.sources.source import Source
from learner.updates import Updates, make_updates
from networks import flatten_weights
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest
from replay_server.contract.policy import PolicyPublisher, PolicySnapshot, PolicySource
from replay_server.contract.role import Kind

Floats = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class LearnerParts:
  """What a learner is made of.

  Attributes:
    updates: the algorithm and its gradient rule.
    source: where batches come from.
    publisher: sends policies to the workers.
    checkpoints: the run's checkpoints.
    device: the TensorFlow device that `updates` was made on.
  """

  updates: Updates
  source: Source
  publisher: PolicyPublisher
  checkpoints: LearnerCheckpoints
  device: str = "CPU:0"


class Learner(core.Learner):
  """Draws blocks from a source, updates an algorithm with them, and publishes its policy.

  Attributes:
    gradient_steps: gradient steps taken, including those before a restart.
    policy_version: version of the last published policy; it grows across restarts.
    parts: what the learner is made of.
  """

  name = "learner"
  kind: Kind = "learner"

  def __init__(self, manifest: Manifest, parts: LearnerParts, published_version: int, stop: threading.Event):
    """Restores the last checkpoint, if there is one, and publishes its policy.

    Args:
      manifest: of the run.
      parts: what the learner is made of; it closes them, also when this constructor fails.
      published_version: version of the policy on the server; 0 where there is none.
      stop: ends `run`.

    Raises:
      UserError: the checkpoint is another run's, or of other networks.
      ServerLost: the server does not answer.
    """
    self._manifest = manifest
    self._config = manifest.config
    self.parts = parts
    self._stop = stop
    self._state = "starting"
    self._metrics: dict[str, float] = {}
    self._is_finite = True
    try:
      counters = parts.checkpoints.restore(manifest.run_id, parts.updates, parts.source)
      self.gradient_steps = counters.gradient_steps if counters else 0
      # Workers tell policies apart by their version, so versions published after the checkpoint are not reused.
      self.policy_version = max(counters.policy_version if counters else 0, published_version)
      self._checkpointed = time.monotonic()
      self.publish()
    except BaseException:
      self._close_parts()
      raise

  @property
  def state(self) -> str:
    """What the learner is doing or waiting for, in words for people."""
    return self.parts.source.describe_wait() or self._state

  def metrics(self) -> Mapping[str, float]:
    """The metrics that the learner's heartbeats carry."""
    return {**self._metrics, "gradient_steps": self.gradient_steps, "policy_version": self.policy_version}

  def run(self, num_steps: int | None = None) -> None:
    """Learns until stopped, or for `num_steps` blocks; closes the learner however this ends.

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
          self.try_to_save()
    except Stopped:
      pass
    finally:
      self.close()

  def step(self) -> None:
    """Learns from one block; publishes the policy when it is due.

    Raises:
      Stopped: stopped while waiting for transitions.
      ServerLost: the server does not answer.
      UserError: the loss or the weights are no longer finite.
    """
    source, algorithm = self.parts.source, self.parts.updates.algorithm
    block = source.next_block()
    self._state = "learning"
    measured, outputs = self._update(block, source.weights(block, self.gradient_steps))
    before = self.gradient_steps
    self.gradient_steps += len(measured)
    if not np.isfinite(measured[:, algorithm.METRICS.index("loss")]).all():
      drawn = zip(source.table_names, block.quotas.sum(axis=0).tolist(), strict=True)
      rows = ", ".join(f"{count} of {name}" for name, count in drawn)
      raise self._diverged("loss is", f" (rows of the block: {rows})")
    source.feed_back(block, outputs)
    self._metrics = {
      **dict(zip(algorithm.METRICS, measured.mean(axis=0).tolist(), strict=True)),
      "mean_abs_td_error": float(np.abs(outputs["td_error"]).mean()),
      **source.metrics(),
    }
    period = self._config.learner.publish_period_updates
    if before // period != self.gradient_steps // period:
      self.publish()

  def _update(self, block: Block, weights: Floats) -> tuple[Floats, dict[str, Floats]]:
    """Learns from a block; returns the metrics, float32 [K, metrics], and the algorithm's outputs for the rows."""
    updates = self.parts.updates
    with tf.device(self.parts.device):
      columns = {name: tf.constant(block.columns[name]) for name in updates.algorithm.INPUTS}
      measured, outputs = updates.update_block(
        tf.constant(block.rows),
        tf.constant(weights),
        tf.constant(block.tables),
        columns,
        updates.controls(self.gradient_steps),
      )
      return measured.numpy(), {name: output.numpy() for name, output in outputs.items()}

  def _diverged(self, what: str, where: str = "") -> UserError:
    self._is_finite = False
    return UserError(
      f"The {what} not finite after {self.gradient_steps} gradient steps{where}: lower learner.learning_rate or scale the "
      "rewards; the last checkpoint was written before this."
    )

  def publish(self) -> None:
    """Publishes the policy under the next version.

    Raises:
      ServerLost: the server did not confirm it.
      UserError: the weights are no longer finite; nothing was published.
    """
    snapshot = self._snapshot(self.policy_version + 1)
    self.policy_version = snapshot.version
    self.parts.publisher.publish(snapshot)

  def _snapshot(self, version: int) -> PolicySnapshot:
    weights = flatten_weights(self.parts.updates.algorithm.policy)
    # A block's last update can break the weights although its loss, computed before the step, was finite.
    if not np.isfinite(weights).all():
      raise self._diverged("weights are")
    return PolicySnapshot(version, self.gradient_steps, weights, self.parts.source.new_item_priorities)

  def save(self) -> None:
    """Writes a checkpoint.

    Raises:
      UserError: a network is no longer finite; nothing was written.
      OSError, tf.errors.OpError: the checkpoint cannot be written; the previous one stays.
    """
    parts = self.parts
    snapshot = self._snapshot(self.policy_version)
    if not parts.updates.is_finite():
      raise self._diverged("networks are")
    counters = Counters(self._manifest.run_id, self.gradient_steps, self.policy_version)
    folder = parts.checkpoints.write(counters, parts.updates, parts.source, snapshot, self._manifest)
    self._checkpointed = time.monotonic()
    print(f"Learner checkpointed at gradient step {self.gradient_steps} ({folder.name}).", flush=True)

  def try_to_save(self) -> None:
    """Like `save`, but prints a failed write and tries again after another period.

    Raises:
      UserError: a network is no longer finite; nothing was written.
    """
    try:
      self.save()
    except (OSError, tf.errors.OpError) as error:
      self._checkpointed = time.monotonic()
      with contextlib.suppress(OSError):  # The log may be on the same disk.
        print(
          f"The learner's checkpoint could not be written ({str(error).splitlines()[0]}): learning continues, and the next "
          f"try is in {self._config.learner.checkpoint_period_seconds:g} s; check whether the disk is full.",
          flush=True,
        )

  def close(self) -> None:
    """Writes a last checkpoint, unless the loss or the weights are no longer finite, and closes the parts."""
    try:
      if self._is_finite:
        self._state = "writing the last checkpoint"
        self.save()
    finally:
      self._close_parts()

  def _close_parts(self) -> None:
    self.parts.source.close()
    self.parts.checkpoints.close()

  def get_variables(self, names: Sequence[str]) -> list[Floats]:
    """The policy's weights as one vector, for Acme; `names` is not used."""
    del names
    return [flatten_weights(self.parts.updates.algorithm.policy)]


def make_learner(
  connection: Connection,
  manifest: Manifest,
  seed: int,
  stop: threading.Event,
  checkpoint_dir: pathlib.Path,
  device: str = "",
) -> Learner:
  """Makes the learner of a run and restores its last checkpoint, if there is one.

  Args:
    connection: to the server.
    manifest: of the run.
    seed: of the initial weights.
    stop: ends a wait for transitions, and the learner's loop.
    checkpoint_dir: the directory of the run's checkpoints.
    device: a TensorFlow device; empty for that of the config.

  Raises:
    UserError: the checkpoint is another run's, another learner writes there, or there is no such device.
    ServerLost: the server does not answer.
  """
  config = manifest.config
  device = choose_device(device or config.learner.device)
  with tf.device(device):
    updates = make_updates(config, manifest.codec, manifest.spec, seed)
  published = PolicySource(connection, config.replay.default.name).fetch()
  parts = LearnerParts(
    updates=updates,
    source=make_server_source(connection, manifest, stop),
    publisher=PolicyPublisher(connection),
    checkpoints=LearnerCheckpoints(checkpoint_dir),
    device=device,
  )
  return Learner(manifest, parts, published.version if published else 0, stop)
