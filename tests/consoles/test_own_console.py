"""The console of one's own that docs/consoles.md shows is a console."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import portpicker
import pytest
from gymnasium import spaces

from configs import EpisodesLost, UserError
from consoles.client import Console
from tests.consoles.serving import ROOT, SECONDS

_BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "consoles.md").read_text(), re.MULTILINE | re.DOTALL)


@contextlib.contextmanager
def _game() -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
  port = portpicker.pick_unused_port()
  process = subprocess.Popen([sys.executable, "-c", _BLOCKS[0], str(port)], env={**os.environ, "PYTHONPATH": str(ROOT)})
  try:
    yield process, f"127.0.0.1:{port}"
  finally:
    process.kill()
    process.wait(SECONDS)


def test_the_console_of_the_docs_has_60_lines_and_is_played() -> None:
  (block,) = _BLOCKS
  assert len([line for line in block.splitlines() if line.strip()]) <= 60
  assert "consoles.server" not in block
  with _game() as (process, address):
    console = Console(address, world="walk")
    assert (console.num_envs, console.pace, console.control_seconds) == (1, "fast", 0.1)
    assert console.single_observation_space == spaces.Box(-5, 5, (1,), np.float32)
    assert console.single_action_space == spaces.Discrete(2)
    for way, won in ((1, True), (0, False)):
      features, _ = console.reset()
      assert features.tolist() == [[0.0]]
      for step in range(1, 6):
        features, rewards, terminated, truncated, info = console.step(np.array([way]))
        assert features.tolist() == [[step if way else -step]]
        assert (terminated.tolist(), truncated.tolist()) == ([step == 5], [False])
      assert (rewards.tolist(), info["won"].tolist()) == ([float(won)], [won])
    with pytest.raises(UserError, match="says: it is held by another worker: wait for that worker"):
      Console(address, timeouts={"start": 0.2}).reset()
    with pytest.raises(UserError, match="says: the game has one scenario, walk, for one, without options"):
      Console(address, num_envs=2)
    process.kill()
    with pytest.raises(EpisodesLost, match="see that it runs there"):
      console.step(np.array([1]))
    console.close()
