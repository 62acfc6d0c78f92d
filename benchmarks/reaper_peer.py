"""The peer of the benchmark `reaper`, for an interpreter that has Stable-Baselines3 and the code of ReaPER's authors.

`python reaper_peer.py ROWS EPISODE OBSERVATION`: the rows of the buffer, and the lengths of an episode and an observation.

It fills the authors' buffer with random transitions. Then each line on standard input, `reaper 128 1.5`, asks for batches of that
size, each with new TD errors, for that many seconds, and is answered with the rows per second.
"""

import contextlib
import importlib
import io
import signal
import sys
import time
from typing import Any

import numpy as np

# As of benchmarks/server.py: a benchmark that hangs must not leave it behind.
_LIFETIME_SECONDS = 1_800
_ALPHA, _OMEGA, _BETA = 0.4, 0.2, 0.4


def main() -> None:
  """Answers until standard input closes."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one, which then ends it.
  signal.alarm(_LIFETIME_SECONDS)
  rows, episode, observation = (int(argument) for argument in sys.argv[1:])
  buffer = _filled(rows, episode, observation)
  rng = np.random.default_rng(0)
  print("ready", flush=True)
  for line in sys.stdin:
    _, batch_size, seconds = line.split()
    size = int(batch_size)
    drawn, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < float(seconds) or not drawn:
      _, _, indices = buffer.sample(size, _BETA)
      buffer.update_priorities(indices, np.abs(rng.standard_normal(size)) + 1e-6)
      drawn += size
    print(drawn / elapsed, flush=True)


def _filled(rows: int, episode: int, observation: int) -> Any:
  """The authors' buffer, full of episodes that have ended."""
  spaces = importlib.import_module("gymnasium.spaces")
  reaper = importlib.import_module("custom_buffers.reaper")
  with contextlib.redirect_stdout(io.StringIO()):  # It prints its exponents.
    buffer = reaper.ReaPER(
      rows,
      spaces.Box(-np.inf, np.inf, (observation,)),
      spaces.Discrete(4),
      device="cpu",
      alpha=_ALPHA,
      omega=_OMEGA,
    )
  rng = np.random.default_rng(0)
  for row in range(rows):
    observations = rng.standard_normal((2, 1, observation)).astype(np.float32)
    done = np.array([row % episode == episode - 1])
    buffer.add(observations[0], observations[1], np.zeros((1, 1), int), np.zeros(1), done, [{}])
  return buffer


if __name__ == "__main__":
  main()
