"""What a role tells over HTTP: its metrics for Prometheus, whether its loop moves, and whether it is ready."""
