"""Three rooms that take their time, so that the processes of a test leave the cores to those that start."""

import time
from typing import Any

from slipstream import ThreeRooms

STEP_SECONDS = 0.01


class SlowRooms(ThreeRooms):
  """`ThreeRooms` with a real environment's pace."""

  def step(self, action: Any) -> Any:
    time.sleep(STEP_SECONDS)
    return super().step(action)
