"""The updates of a run: several of them in one TensorFlow call, with everything that they change."""

import types
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from acme import specs

from configs import RunConfig
from learner.algorithms import make_algorithm
from learner.algorithms.algorithm import Algorithm
from learner.gradients import Batch, GradientRule, make_rule
from learner.gradients.controls import RATE_SCALE, REWARD_SCALE
from learner.normalization import RunningMoments
from learner.optimizer import Optimizer
from networks import concatenate_weights, operations_at_once
from replay_server.contract import graph
from replay_server.contract.codec import RowCodec

# Rows of one forward pass outside an update.
_ROWS_AT_ONCE = 16_384


class Updates(tf.Module):
  """Updates an algorithm by a gradient rule; a checkpoint of this module holds all that an update changes.

  Attributes:
    algorithm: the run's algorithm.
    rule: the run's gradient rule.
  """

  def __init__(self, config: RunConfig, codec: RowCodec, algorithm: Algorithm, rule: GradientRule):
    """Changes nothing yet.

    Args:
      config: of the run.
      codec: of its rows.
      algorithm: the algorithm to update.
      rule: turns its losses into steps.

    Raises:
      ValueError: the algorithm reads a field that rows do not have.
    """
    super().__init__()
    missing = set(algorithm.ROW_FIELDS) - {field.name for field in codec.fields}
    if missing:
      raise ValueError(
        f"{type(algorithm).__name__} reads {missing}, which rows do not have: see LearnerConfig.row_fields"
      )
    self.algorithm = algorithm
    self.rule = rule
    self._codec = codec
    normalization = algorithm.policy.features.normalization
    self._normalization = normalization
    self._moments = RunningMoments(normalization) if normalization and config.network.normalize_by == "draws" else None
    self._scales_rewards = config.learner.scale_rewards
    self._learner = config.learner
    self._evaluate = tf.function(
      self._evaluate_packed, input_signature=[tf.TensorSpec([None, codec.width], tf.float32)], autograph=False
    )
    self._update_one = self._update_packed
    # On a GPU, XLA would need the CUDA compiler besides the libraries. On a CPU it runs one operation after another.
    is_on_gpu = "GPU" in algorithm.policy.trainable_variables[0].device
    if config.learner.jit_compile and not is_on_gpu and operations_at_once() == 1:
      self._update_one = tf.function(self._update_packed, jit_compile=True)

  @property
  def _optimizers(self) -> list[Optimizer]:
    return [module for module in self.submodules if isinstance(module, Optimizer)]

  def controls(self, updates: int, of_source: Mapping[str, float] = types.MappingProxyType({})) -> dict[str, tf.Tensor]:
    """All controls of the algorithm, the rule and the source after `updates` gradient steps, float32 () each."""
    values = {**self.algorithm.controls(updates), **self.rule.controls(updates), **of_source}
    if self._learner.final_learning_rate is not None:
      values[RATE_SCALE] = self._learner.learning_rate_scale_at(updates)
    return {name: tf.constant(value, tf.float32) for name, value in values.items()}

  def normalize(self, rows: npt.NDArray[np.float32]) -> None:
    """Sets the normalisation of observations to the moments of these rows' observations, float32 [n, width].

    Raises:
      ValueError: the policy does not normalise observations.
    """
    if self._normalization is None:
      raise ValueError("the policy does not normalise observations")
    observations = graph.unpack(self._codec, tf.constant(rows))["observation"]
    RunningMoments(self._normalization).update(self.algorithm.policy.features.encode(observations))

  def evaluate(self, rows: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[np.float32]]:
    """`Algorithm.evaluate` of packed rows, float32 [n] each, for float32 [n, width]."""
    parts = [
      self._evaluate(tf.constant(part)) for part in np.split(rows, range(_ROWS_AT_ONCE, len(rows), _ROWS_AT_ONCE))
    ]
    return {name: np.concatenate([part[name].numpy() for part in parts]) for name in parts[0]}

  def _evaluate_packed(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
    return dict(self.algorithm.evaluate(graph.unpack(self._codec, rows)))

  @tf.function
  def update_block(
    self,
    rows: tf.Tensor,
    weights: tf.Tensor,
    tables: tf.Tensor,
    columns: Mapping[str, tf.Tensor],
    controls: Mapping[str, tf.Tensor],
  ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Makes one update for each batch, in order.

    Args:
      rows: float32 [K, batch, width], packed.
      weights: float32 [K, batch], the factor of each row's loss.
      tables: int64 [K, batch], the index of each row's table.
      columns: the columns `Algorithm.INPUTS`, float32 [K, batch] each.
      controls: from `controls`, for the whole block.

    Returns:
      (the numbers `Algorithm.METRICS` of every update, float32 [K, metrics]; the columns `Algorithm.OUTPUTS`, float32 [K, batch]
      each).
    """
    updates = rows.shape[0]
    metrics = tf.TensorArray(tf.float32, updates)
    outputs = {name: tf.TensorArray(tf.float32, updates) for name in self.algorithm.OUTPUTS}
    self._measure(rows, tables)
    self._anneal(controls)
    for index in tf.range(updates):
      batch_columns = {name: column[index] for name, column in columns.items()}
      values, batch_outputs = self._update_one(rows[index], weights[index], tables[index], batch_columns, controls)
      metrics = metrics.write(index, values)
      outputs = {name: array.write(index, batch_outputs[name]) for name, array in outputs.items()}
    return metrics.stack(), {name: array.stack() for name, array in outputs.items()}

  @tf.function
  def policy_weights(self) -> tf.Tensor:
    """The policy's weights as one vector, float32 [P]; see `networks.flatten_weights`, which takes ten times as long."""
    return concatenate_weights(self.algorithm.policy)

  def is_finite(self) -> bool:
    """Whether all numbers that a checkpoint would hold are finite."""
    variables = [*self.variables, *(variable for optimizer in self._optimizers for variable in optimizer.state)]
    return all(bool(np.isfinite(variable).all()) for variable in variables if variable.dtype.is_floating)

  @tf.autograph.experimental.do_not_convert
  def _measure(self, rows: tf.Tensor, tables: tf.Tensor) -> None:
    if self._moments is not None:
      # Only the default table's rows, which are distributed as workers meet them; events skew the other tables.
      collected = tf.boolean_mask(rows, tf.equal(tables, 0))
      observations = graph.unpack(self._codec, collected)["observation"]
      self._moments.update(self.algorithm.policy.features.encode(observations))

  @tf.autograph.experimental.do_not_convert
  def _anneal(self, controls: Mapping[str, tf.Tensor]) -> None:
    if RATE_SCALE in controls:
      for optimizer in self._optimizers:
        optimizer.scale_rate(controls[RATE_SCALE])

  @tf.autograph.experimental.do_not_convert
  def _update_packed(
    self,
    rows: tf.Tensor,
    weights: tf.Tensor,
    tables: tf.Tensor,
    columns: Mapping[str, tf.Tensor],
    controls: Mapping[str, tf.Tensor],
  ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    fields = dict(graph.unpack(self._codec, rows))
    if self._scales_rewards:
      fields["reward"] /= controls[REWARD_SCALE]
    batch = Batch(fields, weights, tables, columns, controls)
    metrics, outputs = self.algorithm.update(batch, self.rule)
    return tf.stack([metrics[name] for name in self.algorithm.METRICS]), dict(outputs)


def make_updates(config: RunConfig, codec: RowCodec, spec: specs.EnvironmentSpec, seed: int) -> Updates:
  """Makes the updates of a run.

  Args:
    config: of the run.
    codec: of its rows.
    spec: of its environment.
    seed: of the initial weights and of the noise.

  Raises:
    UserError: the algorithm cannot act in such an environment.
  """
  return Updates(config, codec, make_algorithm(config, spec, seed), make_rule(config))
