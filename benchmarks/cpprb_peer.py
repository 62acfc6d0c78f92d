"""The peer of the benchmark `replay`, for an interpreter that has numpy and cpprb.

`python cpprb_peer.py ROWS OBSERVATION ACTION`: the rows of each buffer, and the lengths of an observation and of an action.

It fills a uniform and a prioritised buffer with random transitions. Then each line on standard input, `uniform 256 1.5` or
`prioritized 32 1.5`, asks for batches of that size for that many seconds, and is answered with the rows per second.
"""

import importlib
import signal
import sys
import time

import numpy as np

# As of benchmarks/server.py: a benchmark that hangs must not leave it behind.
_LIFETIME_SECONDS = 1_800
# As in PriorityConfig.
_PRIORITY_EXPONENT = 0.65
_IMPORTANCE_EXPONENT = 0.4


def main() -> None:
  """Answers until standard input closes."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one, which then ends it.
  signal.alarm(_LIFETIME_SECONDS)
  cpprb = importlib.import_module("cpprb")
  rows, observation, action = (int(argument) for argument in sys.argv[1:])
  shapes = {"obs": observation, "act": action, "rew": 1, "next_obs": observation, "done": 1}
  fields = {name: {"shape": shape} for name, shape in shapes.items()}
  rng = np.random.default_rng(0)
  values = {name: rng.standard_normal((rows, shape)).astype(np.float32) for name, shape in shapes.items()}
  uniform = cpprb.ReplayBuffer(rows, fields)
  uniform.add(**values)
  prioritized = cpprb.PrioritizedReplayBuffer(rows, fields, alpha=_PRIORITY_EXPONENT)
  prioritized.add(**values)
  print("ready", flush=True)
  for line in sys.stdin:
    kind, batch_size, seconds = line.split()
    size = int(batch_size)
    priorities = np.abs(rng.standard_normal(size)) + 1e-6
    drawn, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < float(seconds) or not drawn:
      if kind == "uniform":
        uniform.sample(size)
      else:
        batch = prioritized.sample(size, _IMPORTANCE_EXPONENT)
        prioritized.update_priorities(batch["indexes"], priorities)
      drawn += size
    print(drawn / elapsed, flush=True)


if __name__ == "__main__":
  main()
