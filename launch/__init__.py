"""The Launchpad program, the roles' entry points, and the command line."""

import os

# Before TensorFlow is imported. With oneDNN's own operations an update of SAC takes 1.3 to 2.7 times as long on a CPU, one of
# double DQN nine tenths; matrices are multiplied by it either way. And TensorFlow's start-up chatter is not ours.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
