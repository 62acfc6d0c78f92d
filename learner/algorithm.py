"""What every algorithm does with a block: several updates in one TensorFlow call."""

import abc
from collections.abc import Mapping, Sequence

import tensorflow as tf

from configs import RunConfig
from learner.cagrad import conflict_averse
from learner.normalization import RunningMoments
from networks import PolicyModule
from replay_server.codec import RowCodec


class Algorithm(abc.ABC):
  """Networks, their optimisers, and the update of all of them.

  Attributes:
    METRICS: names of the numbers that an update gives; "loss" is the one that must stay finite.
    policy: the network that is published.
    checkpointed: name -> everything that a checkpoint must hold.
  """

  METRICS: tuple[str, ...] = ("loss", "mean_q")

  def __init__(self, config: RunConfig, codec: RowCodec, policy: PolicyModule, **checkpointed: tf.Module):
    """Takes the parts that algorithms share.

    Args:
      config: of the run.
      codec: of the rows.
      policy: the network to publish.
      checkpointed: what a checkpoint must hold besides it.
    """
    self.policy = policy
    self.checkpointed: dict[str, tf.Module] = {"policy": policy, **checkpointed}
    self._config = config.learner
    self._codec = codec
    self._tables = len(config.replay.all_tables)
    self._moments = None
    if policy.features.normalization is not None:
      self._moments = RunningMoments(policy.features.normalization)
      self.checkpointed["moments"] = self._moments

  @tf.function
  def update_block(
    self, rows: tf.Tensor, weights: tf.Tensor, tables: tf.Tensor, cagrad: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """One update a batch, in turn.

    Args:
      rows: float32 [K, batch, width], packed.
      weights: float32 [K, batch], of each row's loss in its batch's mean.
      tables: int64 [K, batch], the table of each row.
      cagrad: float32 (), c of the block.

    Returns:
      (`METRICS` of every update, float32 [K, metrics]; td_errors, float32 [K, batch]).
    """
    updates = rows.shape[0]
    metrics = tf.TensorArray(tf.float32, updates)
    td_errors = tf.TensorArray(tf.float32, updates)
    self._measure(rows, tables)
    for index in tf.range(updates):
      values, errors = self._update_packed(rows[index], weights[index], tables[index], cagrad)
      metrics = metrics.write(index, values)
      td_errors = td_errors.write(index, errors)
    return metrics.stack(), td_errors.stack()

  @tf.autograph.experimental.do_not_convert
  def _measure(self, rows: tf.Tensor, tables: tf.Tensor) -> None:
    if self._moments is not None:
      # The default table's rows alone: what workers meet, and not what events make of it.
      collected = tf.boolean_mask(rows, tf.equal(tables, 0))
      self._moments.update(self._codec.unpack_tf(collected)["observation"])

  @tf.autograph.experimental.do_not_convert
  def _update_packed(
    self, rows: tf.Tensor, weights: tf.Tensor, tables: tf.Tensor, cagrad: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    metrics, td_errors = self._update(self._codec.unpack_tf(rows), weights, tables, cagrad)
    return tf.stack([metrics[name] for name in self.METRICS]), td_errors

  @abc.abstractmethod
  def _update(
    self, batch: Mapping[str, tf.Tensor], weights: tf.Tensor, tables: tf.Tensor, cagrad: tf.Tensor
  ) -> tuple[Mapping[str, tf.Tensor], tf.Tensor]:
    """One update.

    Args:
      batch: the rows' fields, [batch, ...].
      weights: float32 [batch], of each row's loss.
      tables: int64 [batch], the table of each row.
      cagrad: float32 (), c.

    Returns:
      (`METRICS`, float32 () each; td_errors, float32 [batch]).
    """

  def _tape(self) -> tf.GradientTape:
    """For the loss of the value networks: CAGrad asks it once for every table."""
    return tf.GradientTape(persistent=self._config.cagrad.in_use)

  def _objectives(self, row_losses: tf.Tensor, tables: tf.Tensor) -> list[tf.Tensor]:
    """What `_gradients` takes the gradients of, to be made under the tape: the mean loss, or each table's for CAGrad.

    Args:
      row_losses: float32 [batch].
      tables: int64 [batch].
    """
    if not self._config.cagrad.in_use:
      return [tf.reduce_mean(row_losses)]
    sums = tf.math.unsorted_segment_sum(row_losses, tables, self._tables)
    means: list[tf.Tensor] = tf.unstack(tf.math.divide_no_nan(sums, self._counts(tables)), num=self._tables)
    return means

  def _gradients(
    self,
    tape: tf.GradientTape,
    objectives: Sequence[tf.Tensor],
    tables: tf.Tensor,
    cagrad: tf.Tensor,
    variables: Sequence[tf.Variable],
  ) -> list[tf.Tensor]:
    """Of the mean loss, or the direction that CAGrad makes of the tables' gradients."""
    each: list[list[tf.Tensor]] = [tape.gradient(objective, variables) for objective in objectives]
    if not self._config.cagrad.in_use:
      return each[0]
    counts = self._counts(tables)
    return _combine(each, counts / tf.reduce_sum(counts), cagrad)

  def _counts(self, tables: tf.Tensor) -> tf.Tensor:
    """Rows of each table: float32 [tables]."""
    return tf.math.bincount(tf.cast(tables, tf.int32), minlength=self._tables, dtype=tf.float32)


def follow(targets: Sequence[tf.Variable], online: Sequence[tf.Variable], rate: float) -> None:
  """Moves every target variable by a share of the way to the online one (Polyak averaging)."""
  for target, variable in zip(targets, online, strict=True):
    target.assign_add(rate * (variable - target))


def _combine(of_tables: list[list[tf.Tensor]], shares: tf.Tensor, cagrad: tf.Tensor) -> list[tf.Tensor]:
  """The conflict-averse direction, in the shapes of one table's gradients."""
  flat = tf.stack([tf.concat([tf.reshape(part, [-1]) for part in gradients], axis=0) for gradients in of_tables])
  sizes = [part.shape.num_elements() for part in of_tables[0]]
  parts = tf.split(conflict_averse(flat, shares, cagrad), sizes)
  return [tf.reshape(part, like.shape) for part, like in zip(parts, of_tables[0], strict=True)]
