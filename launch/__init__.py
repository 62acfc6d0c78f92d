"""The Launchpad program, the roles' entry points, and the command line."""

import os

# Before TensorFlow is imported: oneDNN makes steps on a CPU up to 1.6 times faster, and its start-up chatter is not ours.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
