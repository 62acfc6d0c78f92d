"""The learner and the only reader of transitions."""
