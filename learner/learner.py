"""The learner: draws blocks, updates, publishes, checkpoints."""

import contextlib
import dataclasses
import math
import pathlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from acme import core

from configs import ServerLost, Stopped, UserError
from configs.seeding import derive_seed
from learner.checkpoint import UNKNOWN_MOMENT, Counters, LearnerCheckpoints, Moment
from learner.devices import choose_device
from learner.sources.block import Block
from learner.sources.server import make_server_source
from learner.sources.source import Source
from learner.sources.stall import ServerSilent
from learner.updates import Updates, make_updates
from networks import count_weights
from replay_server.contract.activity import Activity, Wait
from replay_server.contract.connection import Connection, OtherRun
from replay_server.contract.manifest import Manifest
from replay_server.contract.news import RepeatedFailures
from replay_server.contract.policy import PolicyPublisher, PolicySnapshot, PolicySource
from replay_server.contract.role import Kind
from replay_server.contract.run import read_live_status
from replay_server.contract.status import RunStatus

Floats = npt.NDArray[np.float32]

_LEASE_POLL_SECONDS = 0.1
# The first update builds the graph, for which a new GPU takes minutes; a checkpoint may be large and its disk slow.
_LONGEST_ROUND_SECONDS = 600.0
# A busy server may be silent again and again; a checkpoint that is younger than this is not worth another one.
_SILENCE_SAVE_SECONDS = 10.0
# Heartbeats are far less frequent.
_METRICS_SECONDS = 0.1


class _SnapshotAnnounced(Exception):
  """The server writes a snapshot while the learner waits for rows."""


class LeaseLost(ServerLost):
  """Another learner has taken over the run; waiting does not help."""


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
    policy_version: version of the last policy that was sent; it grows across restarts.
    checkpointed: when this process wrote its last checkpoint, as a UNIX time; None before the first.
    own_gradient_steps: those of this process alone.
    waited_seconds: for blocks of rows.
    parts: what the learner is made of.
  """

  name = "learner"
  kind: Kind = "learner"
  paused = False  # It writes no rows.

  def __init__(
    self,
    connection: Connection,
    manifest: Manifest,
    parts: LearnerParts,
    published_version: int,
    stop: threading.Event,
    moment: Moment = UNKNOWN_MOMENT,
  ):
    """Restores a checkpoint, if there is one, and publishes its policy.

    Args:
      connection: to the server.
      manifest: of the run.
      parts: what the learner is made of; it closes them, also when this constructor fails.
      published_version: version of the policy on the server; 0 where there is none.
      stop: ends `run`.
      moment: the server's epoch, and the snapshot that it has resumed from; see `LearnerCheckpoints.restore`.

    Raises:
      UserError: the checkpoint is another run's, or of other networks, or all are damaged.
      ServerLost: the server does not answer.
    """
    self._manifest = manifest
    self._config = manifest.config
    self.parts = parts
    self._connection = connection
    self._failures = RepeatedFailures()
    self._stop = stop
    self._activity = Activity()
    # The latest block's metrics, float32 [K, metrics], and TD errors, float32 [K, batch]; averaged when they are asked for.
    self._measured: tuple[Floats, Floats] | None = None
    self._of_source: Mapping[str, float] = {}
    self._noted = -math.inf  # When `_of_source` was taken; s, monotonic.
    self.own_gradient_steps = 0
    self._policy_is_due = False
    self.checkpointed: float | None = None
    self.waited_seconds = 0.0
    self._is_finite = True
    self._epoch = moment.epoch
    # Numbers of the server's snapshots: the last that was announced, and those for which a checkpoint was tried, and written.
    self._announced = self._tried = self._written = moment.snapshot
    parts.source.use(parts.updates)
    try:
      counters = parts.checkpoints.restore(manifest.run_id, parts.updates, parts.source, moment)
      if counters is None:
        parts.source.restore({})
      self._note_metrics()  # Before the first block, so that nobody takes full tables for empty ones.
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
    return self.parts.source.describe_wait() or self._activity.state

  @property
  def wait(self) -> Wait | None:
    """What the learner waits for; None if it does not wait."""
    return self.parts.source.wait() or self._activity.wait

  def metrics(self) -> Mapping[str, float]:
    """The metrics that the learner's heartbeats carry."""
    counters = {"gradient_steps": self.gradient_steps, "policy_version": self.policy_version}
    of_block: dict[str, float] = {}
    if self._measured is not None:
      measured, td_errors = self._measured
      names = self.parts.updates.algorithm.METRICS
      of_block = dict(zip(names, measured.mean(axis=0).tolist(), strict=True))
      of_block["mean_abs_td_error"] = float(np.abs(td_errors).mean())
    return {**of_block, **self._of_source, **counters}

  def _note_metrics(self) -> None:
    """Takes the source's metrics, which only this thread may ask for, and which take a fortieth of a small update."""
    now = time.monotonic()
    # What an inline run writes must not depend on the clock.
    if self._manifest.inline or now - self._noted >= _METRICS_SECONDS:
      self._of_source, self._noted = self.parts.source.metrics(), now

  def note_status(self, status: RunStatus) -> None:
    """Takes in what the server says of itself.

    A server that was started again has another epoch, and may give the number of a snapshot once more.
    """
    if status.epoch != self._epoch:
      self._announced = self._tried = self._written = status.resumed_from
      self._epoch = status.epoch
    self.note_snapshot(status.snapshot)

  def note_snapshot(self, number: int) -> None:
    """Notes that the server writes snapshot `number`; another thread may call this.

    After the block that it learns from, or at once if it waits for rows, the learner writes a checkpoint that belongs to this
    snapshot. A number that is no larger than an earlier one has no effect.
    """
    self._announced = max(self._announced, number)

  def run(self, num_steps: int | None = None) -> None:
    """Learns until stopped, or for `num_steps` blocks; closes the learner however this ends.

    If the server was started again, or has lost a stream, it opens its streams anew and goes on.

    Raises:
      ServerLost: the server has another run or gave the lease to another learner, or fails again and again although it answers.
      UserError: the loss or the weights are no longer finite.
    """
    blocks = 0
    try:
      while not self._stop.is_set() and (num_steps is None or blocks < num_steps):
        self._connection.progress.note()
        try:
          self.step(self._look_around)
          blocks += 1
          self._note_news()
          if self._checkpoint_is_due() and self._may_write():
            self.try_to_save()
        except (OtherRun, LeaseLost):
          raise
        except _SnapshotAnnounced:
          self.try_to_save()
        except ServerSilent:
          self._wait_out_silence()
        except ServerLost as error:
          self._note_failure(error)
          self._return_to_server()
    except Stopped:
      pass
    finally:
      self.close()

  def _note_news(self) -> None:
    status = self._connection.news.status
    if status is not None:
      self.note_status(status)

  def _look_around(self) -> None:
    """Ends a wait for rows, which may be long, if the server writes a snapshot or did not get the last policy.

    Raises:
      _SnapshotAnnounced: a checkpoint should be written that belongs to the snapshot.
      ServerLost: the policy did not arrive.
    """
    self._connection.progress.note()
    self.parts.publisher.check()  # Workers may wait for the policy that has not arrived.
    self._note_metrics()  # The last block's may not have been noted, and a wait may be long.
    self._note_news()
    if self._announced > self._tried and self._may_write():
      raise _SnapshotAnnounced

  def _checkpoint_is_due(self) -> bool:
    period = self._config.learner.checkpoint_period_seconds
    return self._announced > self._tried or time.monotonic() - self._checkpointed > period

  def _note_failure(self, error: ServerLost) -> None:
    self._failures.note(error)
    with contextlib.suppress(OSError):  # The log may be on a full disk.
      print(f"{error} The learner keeps what it has learned and goes on when the server answers.", flush=True)

  def _wait_out_silence(self) -> None:
    """Waits until the server answers; saves before, as the lease runs out meanwhile and the server may not come back."""
    if self._may_write() and time.monotonic() - self._checkpointed > _SILENCE_SAVE_SECONDS:
      self.try_to_save()
    self._activity.waits("waiting for the server", "server", "it answers")
    self._connection.wait_for_answer(self._stop)

  def _return_to_server(self) -> None:
    """Opens the streams anew, and publishes the policy, once the server answers."""
    while True:
      self._wait_out_silence()
      try:
        self.parts.source.reopen()
        self.publish()  # A server that was started again may have an older one.
        return
      except (OtherRun, LeaseLost):
        raise
      except ServerLost as error:
        self._note_failure(error)

  def _may_write(self) -> bool:
    lease = self._connection.news.lease
    return lease is None or lease.is_held

  def _require_lease(self) -> None:
    """Waits until this learner surely holds the lease, without which it writes nothing.

    Raises:
      LeaseLost: another learner has it.
      Stopped: asked to stop meanwhile.
    """
    news = self._connection.news
    while not self._may_write():
      holder = news.status.lease if news.status is not None else None
      if holder is not None and news.lease is not None and holder.instance != news.lease.instance:
        raise LeaseLost(
          f"Another learner (process {holder.pid} on {holder.host}) has taken over run {self._manifest.run_id}, as the server "
          "did not hear from this one: it ends and writes nothing more."
        )
      self._connection.progress.note()
      self._activity.waits("waiting for the server to renew its lease", "server", "it renews the lease")
      if self._stop.wait(_LEASE_POLL_SECONDS):
        raise Stopped("Stopped while waiting for the lease.")

  def is_ready(self) -> bool:
    """Whether the source has enough rows for `step`, in an inline run."""
    return self.parts.source.is_ready()

  def step(self, while_waiting: Callable[[], None] = lambda: None) -> None:
    """Learns from one block; publishes the policy when it is due.

    Args:
      while_waiting: see `Source.next_block`.

    Raises:
      Stopped: stopped while waiting for transitions.
      ServerLost: the server does not answer.
      UserError: the loss or the weights are no longer finite.
    """
    source, algorithm = self.parts.source, self.parts.updates.algorithm
    began = time.monotonic()
    try:
      block = source.next_block(while_waiting)
    finally:
      self.waited_seconds += time.monotonic() - began
    self._activity.does("learning")
    self._connection.progress.note(0.0 if self.own_gradient_steps else _LONGEST_ROUND_SECONDS)
    measured, outputs = self._update(block, source.weights(block, self.gradient_steps))
    before = self.gradient_steps
    self.gradient_steps += len(measured)
    self.own_gradient_steps += len(measured)
    if not np.isfinite(measured[:, algorithm.METRICS.index("loss")]).all():
      drawn = zip(source.table_names, block.quotas.sum(axis=0).tolist(), strict=True)
      rows = ", ".join(f"{count} of {name}" for name, count in drawn)
      raise self._diverged("loss is", f" (rows of the block: {rows})")
    self._require_lease()
    source.feed_back(block, outputs)
    self._measured = measured, outputs["td_error"]
    self._note_metrics()
    period = self._config.learner.publish_period_updates
    self._policy_is_due |= before // period != self.gradient_steps // period
    # On a link that takes longer than the period, policies are left out.
    if self._policy_is_due and not self.parts.publisher.is_sending:
      self.publish(wait=self._manifest.inline)

  def _update(self, block: Block, weights: Floats) -> tuple[Floats, dict[str, Floats]]:
    """Learns from a block; returns the metrics, float32 [K, metrics], and the algorithm's outputs for the rows."""
    updates, source = self.parts.updates, self.parts.source
    with tf.device(self.parts.device):
      controls = updates.controls(self.gradient_steps, source.controls())
      return updates.update_block(block.rows, weights, block.tables, block.columns, controls, source.draw_ahead)

  def _diverged(self, what: str, where: str = "") -> UserError:
    self._is_finite = False
    return UserError(
      f"The {what} not finite after {self.gradient_steps} gradient steps{where}: lower learner.learning_rate or scale the "
      "rewards; the last checkpoint was written before this."
    )

  def publish(self, wait: bool = True) -> None:
    """Publishes the policy under the next version.

    Args:
      wait: whether to wait until the server has it. If not, what goes wrong with it is raised by a later call.

    Raises:
      ServerLost: the server did not confirm it, or the one before.
      LeaseLost: another learner has the lease.
      Stopped: asked to stop while waiting for the lease.
      UserError: the weights are no longer finite; nothing was published.
    """
    self._require_lease()
    snapshot = self._snapshot(self.policy_version + 1)
    self.policy_version = snapshot.version
    self._policy_is_due = False
    publisher = self.parts.publisher
    (publisher.publish if wait else publisher.send)(snapshot)

  def _snapshot(self, version: int) -> PolicySnapshot:
    weights = self.parts.updates.policy_weights().numpy()
    # A block's last update can break the weights although its loss, computed before the step, was finite.
    if not np.isfinite(weights).all():
      raise self._diverged("weights are")
    return PolicySnapshot(version, self.gradient_steps, weights, self.parts.source.new_item_priorities)

  def save(self) -> None:
    """Writes a checkpoint, which belongs to the snapshot that the server has announced, if there is one.

    Raises:
      UserError: a network is no longer finite; nothing was written.
      OSError, tf.errors.OpError: the checkpoint cannot be written; the previous one stays.
    """
    parts = self.parts
    self._connection.progress.note(_LONGEST_ROUND_SECONDS)
    snapshot = self._snapshot(self.policy_version)
    if not parts.updates.is_finite():
      raise self._diverged("networks are")
    counters = Counters(self._manifest.run_id, self.gradient_steps, self.policy_version)
    announced = self._tried = self._announced
    moment = Moment(self._epoch, announced if announced > self._written else 0)
    folder = parts.checkpoints.write(counters, parts.updates, parts.source, snapshot, self._manifest, moment)
    self._checkpointed, self._written = time.monotonic(), announced
    self.checkpointed = time.time()
    of_snapshot = f", of snapshot {moment.snapshot}" if moment.snapshot else ""
    print(f"Learner checkpointed at gradient step {self.gradient_steps} ({folder.name}{of_snapshot}).", flush=True)

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
    """Publishes a policy that is due and writes a last checkpoint, unless anything is no longer finite; closes the parts."""
    try:
      if self._is_finite and self._may_write():
        if self._policy_is_due:
          with contextlib.suppress(ServerLost, Stopped):
            self.publish()
        self._activity.does("writing the last checkpoint")
        self.save()
    finally:
      self._noted = -math.inf
      self._note_metrics()
      self._close_parts()

  def _close_parts(self) -> None:
    self.parts.publisher.close()
    self.parts.source.close()
    self.parts.checkpoints.close()

  def get_variables(self, names: Sequence[str]) -> list[Floats]:
    """The policy's weights as one vector, for Acme; `names` is not used."""
    del names
    return [self.parts.updates.policy_weights().numpy()]


def make_learner(
  connection: Connection,
  manifest: Manifest,
  seed: int,
  stop: threading.Event,
  checkpoint_dir: pathlib.Path,
  device: str = "",
) -> Learner:
  """Makes the learner of a run and restores a checkpoint, if there is one.

  Args:
    connection: to the server.
    manifest: of the run.
    seed: of the initial weights.
    stop: ends a wait for transitions, and the learner's loop.
    checkpoint_dir: the directory of the run's checkpoints.
    device: a TensorFlow device; empty for that of the config.

  Raises:
    UserError: the checkpoint is another run's or all are damaged, another learner writes there, or there is no such device.
    ServerLost: the server does not answer.
  """
  config = manifest.config
  device = choose_device(device or config.learner.device)
  with tf.device(device):
    updates = make_updates(config, manifest.codec, manifest.spec, seed)
  weights = count_weights(config, manifest.spec)
  published = PolicySource(connection, config.replay.default.name, weights, stop).fetch()
  parts = LearnerParts(
    updates=updates,
    source=_make_source(connection, manifest, derive_seed(seed, "replay"), stop, checkpoint_dir),
    publisher=PolicyPublisher(connection, stop),
    checkpoints=LearnerCheckpoints(checkpoint_dir),
    device=device,
  )
  status = read_live_status(connection)
  moment = UNKNOWN_MOMENT if status is None else Moment(status.epoch, status.resumed_from)
  return Learner(connection, manifest, parts, published.version if published else 0, stop, moment)


def _make_source(
  connection: Connection, manifest: Manifest, seed: int, stop: threading.Event, checkpoint_dir: pathlib.Path
) -> Source:
  if manifest.config.replay.sampling == "memory":
    # numba takes a second and 90 MB, which other runs need not spend.
    from learner.sources.memory import make_memory_source

    return make_memory_source(connection, manifest, seed, stop, checkpoint_dir / "learner" / "rows")
  return make_server_source(connection, manifest, stop, seed)
