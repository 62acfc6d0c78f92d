"""Throughput and memory, side by side in one run."""
