"""The updates of a run: several of them in one TensorFlow call, with everything that they change."""

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from acme import specs

from configs import RunConfig
from learner.algorithms import make_algorithm
from learner.algorithms.algorithm import Algorithm
from learner.devices import may_compile
from learner.gradients import Batch, GradientRule, make_rule
from learner.gradients.controls import RATE_SCALE, REWARD_SCALE
from learner.normalization import RunningMoments
from learner.optimizer import Optimizer
from networks import concatenate_weights, operations_at_once
from replay_server.contract import graph
from replay_server.contract.codec import RowCodec

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

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
    self._functions = _Functions()
    self._update_one = self._update_packed
    parameter = algorithm.policy.trainable_variables[0]
    # XLA runs one operation after another.
    if config.learner.jit_compile and operations_at_once() == 1 and may_compile(parameter):
      self._update_one = tf.function(self._update_packed, autograph=False, jit_compile=True)

  @property
  def _optimizers(self) -> list[Optimizer]:
    return [module for module in self.submodules if isinstance(module, Optimizer)]

  def controls(self, updates: int, of_source: Mapping[str, float] = types.MappingProxyType({})) -> dict[str, float]:
    """All controls of the algorithm, the rule and the source after `updates` gradient steps."""
    values = {**self.algorithm.controls(updates), **self.rule.controls(updates), **of_source}
    if self._learner.final_learning_rate is not None:
      values[RATE_SCALE] = self._learner.learning_rate_scale_at(updates)
    return values

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

  def update_block(
    self,
    rows: Floats,
    weights: Floats,
    tables: Integers,
    columns: Mapping[str, Floats],
    controls: Mapping[str, float],
    before_computing: Callable[[], None] = lambda: None,
  ) -> tuple[Floats, dict[str, Floats]]:
    """Makes one update for each batch, in order.

    Args:
      rows: float32 [K, batch, width], packed.
      weights: float32 [K, batch], the factor of each row's loss.
      tables: int64 [K, batch], the index of each row's table.
      columns: the columns `Algorithm.INPUTS`, float32 [K, batch] each.
      controls: from `controls`, for the whole block.
      before_computing: called right before TensorFlow computes, for most of which it needs no lock of the interpreter's.

    Returns:
      (the numbers `Algorithm.METRICS` of every update, float32 [K, metrics]; the columns `Algorithm.OUTPUTS`, float32 [K, batch]
      each).
    """
    # A call of TensorFlow takes longer for each array that it is given: with one update a call, a third of all the time.
    numbers = np.stack([weights, *(columns[name] for name in self.algorithm.INPUTS)], axis=1)
    values = np.array(list(controls.values()), np.float32)
    arrays = (rows, numbers, tables, values)
    function = self._functions.of(tuple(controls), arrays, self._update_packed_block)
    tensors = [tf.constant(array) for array in arrays]
    before_computing()
    metrics, outputs = function(*tensors)
    by_output = np.moveaxis(outputs.numpy(), 1, 0)
    return metrics.numpy(), dict(zip(self.algorithm.OUTPUTS, by_output, strict=True))

  def _update_packed_block(
    self, names: Sequence[str], rows: tf.Tensor, numbers: tf.Tensor, tables: tf.Tensor, values: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """`update_block` with the outputs stacked, float32 [K, outputs, batch].

    Args:
      names: of the controls.
      rows: float32 [K, batch, width].
      numbers: float32 [K, 1 + inputs, batch], the weights and the columns.
      tables: int64 [K, batch].
      values: float32 [controls], the controls.
    """
    updates = rows.shape[0]
    controls = {name: values[index] for index, name in enumerate(names)}
    self._measure(rows, tables)
    self._anneal(controls)
    if updates == 1:
      measured, output = self._update_at(0, rows, numbers, tables, controls)
      return measured[tf.newaxis], output[tf.newaxis]
    metrics, outputs = tf.map_fn(
      # Where functions run eagerly, map_fn would have AutoGraph convert it.
      tf.autograph.experimental.do_not_convert(lambda index: self._update_at(index, rows, numbers, tables, controls)),
      tf.range(updates),
      fn_output_signature=(tf.float32, tf.float32),
    )
    return metrics, outputs

  def _update_at(
    self,
    index: tf.Tensor | int,
    rows: tf.Tensor,
    numbers: tf.Tensor,
    tables: tf.Tensor,
    controls: Mapping[str, tf.Tensor],
  ) -> tuple[tf.Tensor, tf.Tensor]:
    algorithm = self.algorithm
    columns = {name: numbers[index, 1 + place] for place, name in enumerate(algorithm.INPUTS)}
    metrics, outputs = self._update_one(rows[index], numbers[index, 0], tables[index], columns, controls)
    return metrics, tf.stack([outputs[name] for name in algorithm.OUTPUTS])

  @functools.partial(tf.function, autograph=False)
  def policy_weights(self) -> tf.Tensor:
    """The policy's weights as one vector, float32 [P]; see `networks.flatten_weights`, which takes ten times as long."""
    return concatenate_weights(self.algorithm.policy)

  def is_finite(self) -> bool:
    """Whether all numbers that a checkpoint would hold are finite."""
    variables = [*self.variables, *(variable for optimizer in self._optimizers for variable in optimizer.state)]
    return all(bool(np.isfinite(variable).all()) for variable in variables if variable.dtype.is_floating)

  def _measure(self, rows: tf.Tensor, tables: tf.Tensor) -> None:
    if self._moments is not None:
      # Only the default table's rows, which are distributed as workers meet them; events skew the other tables.
      collected = tf.boolean_mask(rows, tf.equal(tables, 0))
      observations = graph.unpack(self._codec, collected)["observation"]
      self._moments.update(self.algorithm.policy.features.encode(observations))

  def _anneal(self, controls: Mapping[str, tf.Tensor]) -> None:
    if RATE_SCALE in controls:
      for optimizer in self._optimizers:
        optimizer.scale_rate(controls[RATE_SCALE])

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


class _Functions:
  """TensorFlow functions of arrays, by their shapes; TensorFlow's own search for the function takes a tenth of an update."""

  def __init__(self) -> None:
    self._of: dict[tuple[Sequence[str], tuple[tuple[int, ...], ...]], Callable[..., Any]] = {}

  def of(
    self, names: Sequence[str], arrays: Sequence[npt.NDArray[Any]], function: Callable[..., Any]
  ) -> Callable[..., Any]:
    """`function` for the names, compiled for such arrays; as it is where TensorFlow is told to run functions eagerly."""
    if tf.config.functions_run_eagerly():
      return functools.partial(function, names)
    key = names, tuple(array.shape for array in arrays)
    if key not in self._of:
      signature = [tf.TensorSpec(array.shape, array.dtype) for array in arrays]
      self._of[key] = tf.function(functools.partial(function, names), autograph=False).get_concrete_function(*signature)
    return self._of[key]


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
