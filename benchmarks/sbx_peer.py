"""The peer of the benchmark `sbx`, for the Python that has `sbx-rl`: prints the environment steps per second of one run."""

import sys
import time

import sbx  # type: ignore[import-not-found]
from stable_baselines3.common.callbacks import BaseCallback  # type: ignore[import-not-found]


class _Clock(BaseCallback):
  """Takes the time between two environment steps."""

  def __init__(self, first: int, last: int):
    super().__init__()
    self._first, self._last = first, last
    self._began = 0.0

  def _on_step(self) -> bool:
    if self.num_timesteps == self._first:
      self._began = time.perf_counter()
    if self.num_timesteps == self._last:
      print((self._last - self._first) / (time.perf_counter() - self._began), flush=True)
    return True


def main(first: int, last: int, warm_up: int) -> None:
  """Trains SAC with 2 x 256 units on batches of 256, an update per step."""
  model = sbx.SAC(
    "MlpPolicy", "HalfCheetah-v5", learning_starts=warm_up, batch_size=256, policy_kwargs={"net_arch": [256, 256]}
  )
  model.learn(last, callback=_Clock(first, last))


if __name__ == "__main__":
  main(*map(int, sys.argv[1:]))
