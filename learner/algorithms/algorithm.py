"""What every algorithm is: networks, their optimisers, and one update of all of them."""

import abc
from collections.abc import Mapping, Sequence

import tensorflow as tf

from configs import RunConfig
from learner.gradients import Batch, GradientRule
from networks import PolicyModule

Metrics = Mapping[str, tf.Tensor]
Outputs = Mapping[str, tf.Tensor]


class Algorithm(tf.Module, abc.ABC):
  """Networks and optimisers, which are tracked as attributes, so that a checkpoint of the algorithm holds them all.

  Attributes:
    METRICS: names of the numbers that an update gives; "loss" is the one that must stay finite.
    ROW_FIELDS: fields of a row that it reads beyond those of a transition; the algorithm's config says their types.
    INPUTS: columns that it reads for a row beside the row's fields, float32 each.
    OUTPUTS: what it gives for a row, float32 each; `td_error`, whose size is the row's priority, is always among them.
    policy: the network that is published.
  """

  METRICS: tuple[str, ...] = ("loss", "mean_q")
  ROW_FIELDS: tuple[str, ...] = ()
  INPUTS: tuple[str, ...] = ()
  OUTPUTS: tuple[str, ...] = ("td_error",)

  def __init__(self, config: RunConfig, policy: PolicyModule):
    """Takes what all algorithms have.

    Args:
      config: of the run.
      policy: the network to publish.
    """
    super().__init__()
    self.policy = policy
    self._learner = config.learner

  def controls(self, updates: int) -> Mapping[str, float]:
    """What the algorithm reads from `Batch.controls`, as it is after so many gradient steps; the same names every time."""
    del updates
    return {}

  @abc.abstractmethod
  def update(self, batch: Batch, rule: GradientRule) -> tuple[Metrics, Outputs]:
    """One update of all networks.

    Args:
      batch: of rows. Its weights are for the losses of values alone; docs/algorithms.md says why.
      rule: which makes a step of the rows' losses, the policy's too.

    Returns:
      (`METRICS`, float32 () each; `OUTPUTS`, float32 [batch] each). Twin critics' TD error is the mean of the sizes of both, as
      errors of opposite sign would cancel out.
    """


def follow(targets: Sequence[tf.Variable], online: Sequence[tf.Variable], rate: float) -> None:
  """Moves every target variable by a share of the way to the online one (Polyak averaging)."""
  for target, variable in zip(targets, online, strict=True):
    target.assign_add(rate * (variable - target))
