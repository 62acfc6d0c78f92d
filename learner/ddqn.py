"""Double DQN: several updates in one TensorFlow call."""

import sonnet as snt
import tensorflow as tf
from acme import specs

from configs import LearnerConfig, NetworkConfig
from learner.cagrad import conflict_averse
from learner.losses import double_q_learning
from networks import make_q_network
from replay_server.codec import RowCodec


class DoubleDqn:
  """Online and target network, Adam, and the update of both.

  Attributes:
    online: the network that is learned, and published.
    checkpointed: name -> everything that a checkpoint must hold.
  """

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    codec: RowCodec,
    network: NetworkConfig,
    config: LearnerConfig,
    tables: int,
    seed: int,
  ):
    """Makes the networks.

    Args:
      spec: of the environment; actions are discrete.
      codec: of the rows.
      network: their shape.
      config: of the learner.
      tables: how many there are.
      seed: of their initial weights.
    """
    self._codec = codec
    self._config = config
    self._tables = tables
    self.online = make_q_network(spec, network, seed)
    self._target = make_q_network(spec, network, seed)
    self._optimizer = snt.optimizers.Adam(config.learning_rate)
    # Adam makes its moments at the first step, which a checkpoint that is restored before it needs.
    self._optimizer._initialize(self.online.trainable_variables)
    self.checkpointed = {"online": self.online, "target": self._target, "optimizer": self._optimizer}

  @tf.function
  def update_block(
    self, rows: tf.Tensor, weights: tf.Tensor, tables: tf.Tensor, cagrad: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """One update a batch, in turn.

    Args:
      rows: float32 [K, batch, width], packed.
      weights: float32 [K, batch], of each row's loss in its batch's mean.
      tables: int64 [K, batch], the table of each row.
      cagrad: float32 (), c of the block.

    Returns:
      (loss [K], mean_q [K], td_errors [K, batch]), float32.
    """
    updates = rows.shape[0]
    losses = tf.TensorArray(tf.float32, updates)
    mean_qs = tf.TensorArray(tf.float32, updates)
    td_errors = tf.TensorArray(tf.float32, updates)
    for index in tf.range(updates):
      loss, mean_q, td_error = self._update(rows[index], weights[index], tables[index], cagrad)
      losses = losses.write(index, loss)
      mean_qs = mean_qs.write(index, mean_q)
      td_errors = td_errors.write(index, td_error)
    return losses.stack(), mean_qs.stack(), td_errors.stack()

  @tf.autograph.experimental.do_not_convert
  def _update(
    self, rows: tf.Tensor, weights: tf.Tensor, tables: tf.Tensor, cagrad: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    batch = self._codec.unpack_tf(rows)
    q_t_value = self._target(batch["next_observation"])
    q_t_selector = self.online(batch["next_observation"])
    combines = self._config.cagrad.in_use
    with tf.GradientTape(persistent=combines) as tape:
      q_tm1 = self.online(batch["observation"])
      td_error = double_q_learning(
        q_tm1, batch["action"], batch["reward"], self._config.discount * batch["discount"], q_t_value, q_t_selector
      )
      row_losses = 0.5 * weights * tf.square(td_error)
      loss = tf.reduce_mean(row_losses)
      if combines:
        counts = tf.math.bincount(tf.cast(tables, tf.int32), minlength=self._tables, dtype=tf.float32)
        sums = tf.math.unsorted_segment_sum(row_losses, tables, self._tables)
        table_losses = tf.unstack(tf.math.divide_no_nan(sums, counts), num=self._tables)
    if combines:
      of_tables = [tape.gradient(table_loss, self.online.trainable_variables) for table_loss in table_losses]
      gradients = _combine(of_tables, counts / tf.reduce_sum(counts), cagrad)
    else:
      gradients = tape.gradient(loss, self.online.trainable_variables)
    self._apply_adam(gradients)
    rate = self._config.target_update_rate
    for target, online in zip(self._target.trainable_variables, self.online.trainable_variables, strict=True):
      target.assign_add(rate * (online - target))
    return loss, tf.reduce_mean(tf.gather(q_tm1, batch["action"], batch_dims=1)), td_error

  def _apply_adam(self, gradients: list[tf.Tensor]) -> None:
    """The optimiser's own step with one op a variable, which makes an update of a small network a sixth shorter."""
    adam = self._optimizer
    adam.step.assign_add(1)
    step = tf.cast(adam.step, tf.float32)
    beta1_power, beta2_power = tf.pow(adam.beta1, step), tf.pow(adam.beta2, step)
    variables = self.online.trainable_variables
    for variable, m, v, gradient in zip(variables, adam.m, adam.v, gradients, strict=True):
      tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=m.handle,
        v=v.handle,
        beta1_power=beta1_power,
        beta2_power=beta2_power,
        lr=adam.learning_rate,
        beta1=adam.beta1,
        beta2=adam.beta2,
        # The op adds it before the correction of the second moment, Sonnet (as the paper) after it.
        epsilon=adam.epsilon * tf.sqrt(1.0 - beta2_power),
        grad=gradient,
      )


def _combine(of_tables: list[list[tf.Tensor]], shares: tf.Tensor, cagrad: tf.Tensor) -> list[tf.Tensor]:
  """The conflict-averse direction, in the shapes of one table's gradients."""
  flat = tf.stack([tf.concat([tf.reshape(part, [-1]) for part in gradients], axis=0) for gradients in of_tables])
  sizes = [part.shape.num_elements() for part in of_tables[0]]
  parts = tf.split(conflict_averse(flat, shares, cagrad), sizes)
  return [tf.reshape(part, like.shape) for part, like in zip(parts, of_tables[0], strict=True)]
