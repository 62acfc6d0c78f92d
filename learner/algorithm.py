"""What every algorithm does with a block: several updates in one TensorFlow call."""

import abc
from collections.abc import Mapping, Sequence

import tensorflow as tf

from configs import RunConfig
from learner.adam import Adam
from learner.cagrad import conflict_averse, row_products
from learner.normalization import RunningMoments
from networks import PolicyModule, Trace
from replay_server.contract import graph
from replay_server.contract.codec import RowCodec


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
    self._update_one = self._update_packed
    # On a GPU, XLA would need the CUDA compiler besides the libraries.
    if self._config.jit_compile and "GPU" not in policy.trainable_variables[0].device:
      self._update_one = tf.function(self._update_packed, jit_compile=True)

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
      values, errors = self._update_one(rows[index], weights[index], tables[index], cagrad)
      metrics = metrics.write(index, values)
      td_errors = td_errors.write(index, errors)
    return metrics.stack(), td_errors.stack()

  def is_finite(self) -> bool:
    """Whether every number is that a checkpoint would hold."""
    parts = self.checkpointed.values()
    modules = [part for part in parts if isinstance(part, tf.Module)]
    variables = [part for part in parts if isinstance(part, tf.Variable)]
    variables += [variable for module in modules for variable in module.variables]
    finite = [tf.reduce_all(tf.math.is_finite(variable)) for variable in variables if variable.dtype.is_floating]
    return bool(tf.reduce_all(finite))

  @tf.autograph.experimental.do_not_convert
  def _measure(self, rows: tf.Tensor, tables: tf.Tensor) -> None:
    if self._moments is not None:
      # The default table's rows alone: what workers meet, and not what events make of it.
      collected = tf.boolean_mask(rows, tf.equal(tables, 0))
      self._moments.update(graph.unpack(self._codec, collected)["observation"])

  @tf.autograph.experimental.do_not_convert
  def _update_packed(
    self, rows: tf.Tensor, weights: tf.Tensor, tables: tf.Tensor, cagrad: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    metrics, td_errors = self._update(graph.unpack(self._codec, rows), weights, tables, cagrad)
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
      (`METRICS`, float32 () each; td_errors, float32 [batch], whose sizes are the rows' priorities: of twin critics the mean of
      the sizes of both, as errors of opposite sign would cancel out).
    """

  def _tape(self) -> tf.GradientTape:
    """For the rows' losses of the value networks: CAGrad asks it twice."""
    return tf.GradientTape(persistent=self._config.cagrad.in_use)

  def _trace(self) -> Trace | None:
    """For the forward pass under the tape, where it is to be traced."""
    return [] if self._config.cagrad.in_use else None

  def _apply(
    self,
    adam: Adam,
    tape: tf.GradientTape,
    trace: Trace | None,
    row_losses: tf.Tensor,
    tables: tf.Tensor,
    cagrad: tf.Tensor,
  ) -> None:
    """A step of the value networks against the mean of the rows' losses, or in the conflict-averse direction.

    Args:
      adam: of the value networks.
      tape: under which the losses were made.
      trace: of the value networks' forward pass that they were made from.
      row_losses: float32 [batch].
      tables: int64 [batch].
      cagrad: float32 ().
    """
    if trace is None:
      weights = tf.ones_like(row_losses) * (adam.loss_scale / tf.cast(tf.size(row_losses), tf.float32))
    else:
      slopes = tape.gradient(row_losses, [outputs for _, outputs in trace])
      # Row i belongs to table `tables[i]` alone, of whose rows' mean it is a share.
      members = tf.one_hot(tables, self._tables, dtype=tf.float64)
      counts = tf.reduce_sum(members, axis=0)
      means = tf.math.divide_no_nan(members, counts)
      products = tf.cast(row_products(trace, slopes), tf.float64)
      gram = tf.matmul(means, tf.matmul(products, means), transpose_a=True)
      mixture = conflict_averse(gram, counts / tf.reduce_sum(counts), tf.cast(cagrad, tf.float64))
      weights = tf.cast(tf.linalg.matvec(means, mixture), tf.float32)
    adam.apply(tape.gradient(row_losses, adam.parameters, output_gradients=weights))


def follow(targets: Sequence[tf.Variable], online: Sequence[tf.Variable], rate: float) -> None:
  """Moves every target variable by a share of the way to the online one (Polyak averaging)."""
  for target, variable in zip(targets, online, strict=True):
    target.assign_add(rate * (variable - target))
