"""Gradient rules: how the losses of a batch's rows become one step of an optimiser."""

from configs import LearnerConfig, RunConfig
from learner.gradients.cagrad import CagradRule
from learner.gradients.mean import MeanRule
from learner.gradients.refer import ReferRule
from learner.gradients.rule import Batch, GradientRule, Loss

__all__ = ["RULES", "Batch", "CagradRule", "GradientRule", "Loss", "MeanRule", "ReferRule", "make_rule"]

# A run uses the first rule that its config asks for; every config asks for the last one. ReF-ER's goes around it.
RULES: list[type[GradientRule]] = [CagradRule, MeanRule]


def make_rule(config: RunConfig) -> GradientRule:
  """The run's gradient rule."""
  learner: LearnerConfig = config.learner
  rule = next(rule for rule in RULES if rule.is_asked_for(learner))(config)
  return ReferRule(config, rule) if ReferRule.is_asked_for(learner) else rule
