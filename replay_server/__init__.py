"""The contract between actors and learner: rows, tables, manifest; and the server process."""
