"""The papers' experiments: methods x seeds on one world -> curves, a table, a picture."""

import launch  # noqa: F401  # First, as it does what must be done before TensorFlow is imported.
