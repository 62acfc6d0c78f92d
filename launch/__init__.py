"""The Launchpad program, and everything that starts, watches and ends the processes of a run."""

import os

from launch.gpu import load_runtime
from launch.tensorflow_import import lighten_import

# Libraries read these when they are imported, so they are set first. Roles that Launchpad starts get them too.
ENVIRONMENT = {
  # On a CPU, oneDNN's operations make an update of SAC take 1.3 to 2.7 times as long, and one of double DQN nine tenths as
  # long. TensorFlow multiplies matrices with oneDNN either way.
  "TF_ENABLE_ONEDNN_OPTS": "0",
  # Hides TensorFlow's start-up messages.
  "TF_CPP_MIN_LOG_LEVEL": "2",
  # For one observation and 256 x 256 weights numpy takes 11 us with one thread and 30 us with two.
  "OPENBLAS_NUM_THREADS": "1",
}

for _name, _value in ENVIRONMENT.items():
  os.environ.setdefault(_name, _value)

# Before TensorFlow is imported.
load_runtime()
lighten_import()
