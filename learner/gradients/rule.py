"""The interface of a gradient rule, and the batch that rules and algorithms read."""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

from configs import LearnerConfig, RunConfig
from learner.optimizer import Optimizer
from networks import Trace


@dataclasses.dataclass(frozen=True)
class Batch:
  """One batch, as tensors.

  Attributes:
    fields: the rows' fields by name, [batch, ...] each; `batch["reward"]` is short for `batch.fields["reward"]`.
    weights: float32 [batch], the factor of each row's loss: importance weight times bias correction.
    tables: int64 [batch], the index of each row's table.
    columns: what the algorithm reads for each row besides its fields, float32 [batch] each.
    controls: numbers that are the same for a whole block, float32 () each.
    near: float32 [batch], 1 for a row that gives gradients and 0 for one that does not (ReF-ER, Rule 1); None where all do.
  """

  fields: Mapping[str, tf.Tensor]
  weights: tf.Tensor
  tables: tf.Tensor
  columns: Mapping[str, tf.Tensor]
  controls: Mapping[str, tf.Tensor]
  near: tf.Tensor | None = None

  def __getitem__(self, name: str) -> tf.Tensor:
    """A field of the rows."""
    return self.fields[name]


class Loss(NamedTuple):
  """The loss of a network's forward pass.

  Attributes:
    rows: float32 [batch], the loss of each row.
    extra: other results of the forward pass, for the caller; no gradient is taken of them.
    divergence: float32 [batch], KL(behaviour || policy) of each row, from a network that is or holds the policy; None for any
      other, and where rows do not hold their behaviour.
  """

  rows: tf.Tensor
  extra: tuple[tf.Tensor, ...] = ()
  divergence: tf.Tensor | None = None


# Computes the loss; appends every linear layer of the optimised network to the trace, if one is given.
LossFunction = Callable[[Trace | None], Loss]


class GradientRule(tf.Module, abc.ABC):
  """Turns the rows' losses into a step of an optimiser.

  All losses of an algorithm go through the rule, the critics' and the policy's: to be conflict-averse, for example, is a property
  of a step and not of a network.
  """

  def __init__(self, config: RunConfig):
    """Takes the run's config."""
    super().__init__()
    del config

  @classmethod
  @abc.abstractmethod
  def is_asked_for(cls, config: LearnerConfig) -> bool:
    """Whether a config asks for this rule."""

  def controls(self, updates: int) -> Mapping[str, float]:
    """The numbers that the rule reads from `Batch.controls`, after `updates` gradient steps; the names never change."""
    del updates
    return {}

  def classify(self, batch: Batch, log_ratio: tf.Tensor) -> Batch:
    """Marks the rows that give gradients; all do, unless the rule says otherwise.

    Args:
      batch: the rows.
      log_ratio: float32 [batch], log pi(a|s) - log mu(a|s) before the update.
    """
    del log_ratio
    return batch

  @abc.abstractmethod
  def minimise(
    self,
    optimizer: Optimizer,
    loss: LossFunction,
    batch: Batch,
    penalty: Callable[[], tf.Tensor] | None = None,
  ) -> Loss:
    """Takes one step.

    Args:
      optimizer: of the network's parameters.
      loss: computes the rows' losses; called once.
      batch: the rows of these losses.
      penalty: a loss of the parameters alone, float32 (); its gradient is added to the rule's combination of the rows' gradients.

    Returns:
      What `loss` returned.
    """
