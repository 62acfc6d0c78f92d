"""Rollout workers, the evaluator, and the only writer of transitions."""
