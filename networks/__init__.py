"""Sonnet modules that both actors and learner build."""

from networks.q_network import QNetwork, assign_weights, flatten_weights, make_q_network

__all__ = ["QNetwork", "assign_weights", "flatten_weights", "make_q_network"]
