"""The counted world of the fault suite, whose steps hang while a file exists."""

import os
import pathlib
import time
from typing import Any

from tests.faults import world

# The environment variable with the path of the file.
HANG = "SLIPSTREAM_METRICS_HANG"
at_goal = world.at_goal


class Hanging(world.Counted):
  """`Counted`, whose `step` does not return while the file exists."""

  def step(self, action: Any) -> Any:
    path = os.environ.get(HANG)
    while path and pathlib.Path(path).exists():
      time.sleep(0.1)
    return super().step(action)
