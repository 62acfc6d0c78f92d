"""Sonnet modules that both actors and learner build."""

from networks.q_network import ActingNetwork, QNetwork, assign_weights, flatten_weights, make_q_network

__all__ = ["ActingNetwork", "QNetwork", "assign_weights", "flatten_weights", "make_q_network"]
