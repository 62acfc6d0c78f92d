"""The interface of an algorithm: networks, their optimisers, and one update of all of them."""

import abc
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from configs import RunConfig
from learner.gradients import Batch, GradientRule
from networks import PolicyModule

Metrics = Mapping[str, tf.Tensor]
Outputs = Mapping[str, tf.Tensor]


class Algorithm(tf.Module, abc.ABC):
  """Networks and optimisers. They are tracked as attributes, so that a checkpoint of the algorithm holds them all.

  Attributes:
    METRICS: names of an update's metrics; "loss" is the one that must stay finite.
    ROW_FIELDS: fields of a row that it reads besides those of a transition; the algorithm's config gives their types.
    INPUTS: columns that it reads for each row besides the row's fields, float32 each.
    OUTPUTS: columns that it returns for each row, float32 each; `td_error`, whose size sets the row's priority, is always one.
    policy: the network to publish.
  """

  METRICS: tuple[str, ...] = ("loss", "mean_q")
  ROW_FIELDS: tuple[str, ...] = ()
  INPUTS: tuple[str, ...] = ()
  OUTPUTS: tuple[str, ...] = ("td_error",)

  def __init__(self, config: RunConfig, policy: PolicyModule):
    """Takes what all algorithms need.

    Args:
      config: of the run.
      policy: the network to publish.
    """
    super().__init__()
    self.policy = policy
    self._learner = config.learner

  def controls(self, updates: int) -> Mapping[str, float]:
    """The numbers that the algorithm reads from `Batch.controls`, after `updates` gradient steps; the names never change."""
    del updates
    return {}

  def evaluate(self, fields: Mapping[str, tf.Tensor]) -> Outputs:
    """Outputs for rows without learning from them, float32 [n] each; for sources that ask for them.

    Args:
      fields: of the rows, [n, ...] each.
    """
    raise NotImplementedError(f"{type(self).__name__} is not asked for outputs without an update")

  @abc.abstractmethod
  def update(self, batch: Batch, rule: GradientRule) -> tuple[Metrics, Outputs]:
    """Updates all networks once.

    Args:
      batch: the rows. Their weights apply to the losses of values only; docs/algorithms.md says why.
      rule: turns the rows' losses into steps, the policy's too.

    Returns:
      (`METRICS`, float32 () each; `OUTPUTS`, float32 [batch] each). With twin critics the TD error is the mean of both errors'
      absolute values, as errors of opposite sign would cancel out.
    """


def follow(targets: Sequence[tf.Variable], online: Sequence[tf.Variable], rate: float) -> None:
  """Moves every target variable by the fraction `rate` of the way to the online one (Polyak averaging); 1 copies it exactly."""
  for target, variable in zip(targets, online, strict=True):
    if rate == 1.0:
      target.assign(variable)
    else:
      target.assign_add(rate * (variable - target))


def in_every(period: int, updates: tf.Tensor, act: Callable[[], None]) -> None:
  """Acts if `updates`, an integer () that counts from 1, is a multiple of `period`."""

  def act_now() -> tf.Operation:
    act()
    return tf.no_op()

  if period == 1:
    act()
  else:
    tf.cond(updates % period == 0, act_now, tf.no_op)
