"""The learner: draws transitions from the replay server and trains the networks."""
