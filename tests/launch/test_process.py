"""What every role's process needs around its loop."""

import os
import signal

import pytest

from launch.process import stop_on_signals


@pytest.mark.parametrize("ignored", [False, True])
def test_a_hang_up_stops_a_role_unless_it_was_started_to_ignore_it(ignored):
  before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
  try:
    with stop_on_signals() as stop:
      os.kill(os.getpid(), signal.SIGHUP)
      assert stop.wait(0.5) != ignored  # A signal that is ignored must have no effect, so this waits for one in vain.
  finally:
    signal.signal(signal.SIGHUP, before)
