"""Three rooms with slow steps, so that the workers of a test leave the cores to processes that start."""

import time
from typing import Any

from slipstream import ThreeRooms

STEP_SECONDS = 0.01


class SlowRooms(ThreeRooms):
  """`ThreeRooms` with a real environment's pace."""

  def step(self, action: Any) -> Any:
    time.sleep(STEP_SECONDS)  # A slow world is what is wanted.
    return super().step(action)
