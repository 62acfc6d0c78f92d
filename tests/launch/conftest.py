"""What the tests of runs share."""

import pytest

from launch import finish


@pytest.fixture(name="undrawn")
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
  """Runs of this process draw no picture of the greedy path, which takes as long as a short run itself."""
  monkeypatch.setattr(finish, "draw_greedy_path", lambda policy, run: None)
