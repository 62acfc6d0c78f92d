"""The slingshot, which notes every tick, so that rows can be counted without Slipstream.

A row holds the features that a tick led to. They go from the world to the table bit for bit, so their digest names the tick.
"""

import hashlib
import os
import pathlib
import time
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from environments.racing.world import Slingshot

# The environment variable with the folder of the notes; without it nothing is noted.
NOTES = "SLIPSTREAM_CONSOLE_NOTES"


def digest(features: npt.NDArray[np.float32]) -> str:
  """Names the tick that led to these features: 16 hexadecimal digits."""
  return hashlib.blake2b(np.ascontiguousarray(features, np.float32).tobytes(), digest_size=8).hexdigest()


class Noted(Slingshot):
  """The slingshot. Each of its processes writes a line for each tick: UNIX time, episode, tick, whether it ended, digest."""

  NAME = "noted slingshot"

  def __init__(self, **arguments: Any):
    """As `Slingshot`."""
    super().__init__(**arguments)
    self._file: BinaryIO | None = None
    self._episode = self._tick = 0

  def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
    """As `Slingshot`'s."""
    self._episode += 1
    self._tick = 0
    return super().reset(seed=seed, options=options)

  def step(self, action: Any) -> Any:
    """As `Slingshot`'s."""
    features, reward, terminated, truncated, info = super().step(action)
    self._tick += 1
    self._note(f"{time.time():.3f},{self._episode},{self._tick},{int(terminated or truncated)},{digest(features)}\n")
    return features, reward, terminated, truncated, info

  def close(self) -> None:
    """Closes the notes."""
    if self._file is not None:
      self._file.close()
    super().close()

  def _note(self, line: str) -> None:
    folder = os.environ.get(NOTES)
    if folder is None:
      return
    if self._file is None:  # Here, since a console makes worlds that nobody plays.
      self._file = (pathlib.Path(folder) / f"{os.getpid()}-{id(self)}.csv").open("ab", buffering=0)
    self._file.write(line.encode())  # One write, so that a kill leaves whole lines.
