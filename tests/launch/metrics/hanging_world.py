"""Three rooms whose steps hang while a test wants it."""

import threading
from typing import Any

from environments import ThreeRooms

MAY_STEP = threading.Event()
MAY_STEP.set()


class Hanging(ThreeRooms):
  """`ThreeRooms`, whose `step` does not return while `MAY_STEP` is not set."""

  def step(self, action: Any) -> Any:
    MAY_STEP.wait()
    return super().step(action)
