"""The Launchpad program, and everything that starts, watches and ends the processes of a run."""

import os

# What libraries look for when they are imported, so before any of them is. A role that Launchpad starts gets it as well.
ENVIRONMENT = {
  # With oneDNN's own operations an update of SAC takes 1.3 to 2.7 times as long on a CPU, one of double DQN nine tenths;
  # matrices are multiplied by it either way.
  "TF_ENABLE_ONEDNN_OPTS": "0",
  # TensorFlow's start-up chatter is not ours.
  "TF_CPP_MIN_LOG_LEVEL": "2",
  # One observation's way through 256 x 256 weights takes numpy 11 us; with a second thread, which other roles miss, 30.
  "OPENBLAS_NUM_THREADS": "1",
}

for _name, _value in ENVIRONMENT.items():
  os.environ.setdefault(_name, _value)
