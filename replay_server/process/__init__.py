"""The server process: the server itself, its checkpoints, and the run's status and record. Only `launch` and above import it."""
