"""What a gradient rule is, and the batch that it and the algorithms see."""

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
  """One batch in the graph.

  Attributes:
    fields: of the rows, by name, [batch, ...] each; `batch["reward"]` is short for `batch.fields["reward"]`.
    weights: float32 [batch], of each row's loss: importance weights and bias corrections.
    tables: int64 [batch], the index of each row's table.
    columns: what the algorithm reads for a row beside its fields, float32 [batch] each.
    controls: numbers that are the same for the whole block, float32 () each.
  """

  fields: Mapping[str, tf.Tensor]
  weights: tf.Tensor
  tables: tf.Tensor
  columns: Mapping[str, tf.Tensor]
  controls: Mapping[str, tf.Tensor]

  def __getitem__(self, name: str) -> tf.Tensor:
    """A field of the rows."""
    return self.fields[name]


class Loss(NamedTuple):
  """The loss of a network's forward pass.

  Attributes:
    rows: float32 [batch], each row's own loss.
    extra: whatever else the caller wants to know of the forward pass; no gradient is taken of it.
  """

  rows: tf.Tensor
  extra: tuple[tf.Tensor, ...] = ()


# Makes the loss; it appends every linear layer of the optimised network to the trace, if there is one.
LossFunction = Callable[[Trace | None], Loss]


class GradientRule(tf.Module, abc.ABC):
  """Turns the rows' losses into a step of an optimiser.

  Every loss of an algorithm passes the rule, the critics' as the policy's: "conflict-averse", say, is a property of a step and
  not of a network.
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
    """What the rule reads from `Batch.controls`, as it is after so many gradient steps; the same names every time."""
    del updates
    return {}

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
      loss: makes the rows' losses; called once.
      batch: that they are made of.
      penalty: a loss of the parameters alone, float32 (), whose gradient is added to whatever the rule makes of the rows'.

    Returns:
      What `loss` returned.
    """
