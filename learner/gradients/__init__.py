"""Gradient rules: how the rows' losses of a batch become one step of an optimiser."""

from configs import LearnerConfig, RunConfig
from learner.gradients.cagrad import CagradRule
from learner.gradients.mean import MeanRule
from learner.gradients.rule import Batch, GradientRule, Loss

__all__ = ["RULES", "Batch", "CagradRule", "GradientRule", "Loss", "MeanRule", "make_rule"]

# A run has the first rule that its config asks for; every config asks for the last.
RULES: list[type[GradientRule]] = [CagradRule, MeanRule]


def make_rule(config: RunConfig) -> GradientRule:
  """The run's gradient rule."""
  learner: LearnerConfig = config.learner
  return next(rule for rule in RULES if rule.is_asked_for(learner))(config)
