"""What every role's process needs around its loop."""

import json
import os
import signal
import subprocess
import sys

import pytest

from configs import ServerLost, Stopped, UserError
from configs.errors import NoServer
from launch.process import FAILURE_FILE, SUPERVISOR, RoleProcess, StopEvent, stop_on_signals


@pytest.mark.parametrize("ignored", [False, True])
def test_a_hang_up_stops_a_role_unless_it_was_started_to_ignore_it(ignored):
  before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
  try:
    with stop_on_signals() as stop:
      os.kill(os.getpid(), signal.SIGHUP)
      assert stop.wait(0.5) != ignored  # A signal that is ignored must have no effect, so this waits for one in vain.
  finally:
    signal.signal(signal.SIGHUP, before)


def stopped():
  raise Stopped("It was told to.")


@pytest.mark.parametrize("body", [lambda: None, stopped], ids=["returns", "stopped"])
@pytest.mark.parametrize(
  ("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130), (0, 0)], ids=str
)
def test_a_role_that_leaves_does_not_end_with_0_and_one_whose_run_ended_does(body, signum, code):
  stop = StopEvent()
  stop.leave(signum) if signum else stop.set()
  assert RoleProcess("role", stop).run(body) == code


# Timers that run out at all points of a wait. In a process of its own, which can be killed if it waits for ever.
_SIGNALS_DURING_WAITS = """
import signal
from launch.process import StopEvent
for trial in range(5_000):
  stop = StopEvent()
  signal.signal(signal.SIGALRM, lambda signum, _: stop.leave(signum))
  signal.setitimer(signal.ITIMER_REAL, 5e-5 + trial % 50 * 1e-6)
  while not stop.wait(1e-6):
    pass
"""


def test_a_signal_at_any_point_of_a_wait_ends_it():
  subprocess.run([sys.executable, "-c", _SIGNALS_DURING_WAITS], check=True, timeout=30)


def test_the_first_reason_to_stop_counts():
  stop = StopEvent()
  stop.set()  # The run has ended.
  stop.leave(signal.SIGTERM)
  assert stop.exit_code == 0


def test_a_signal_while_the_server_waits_for_the_end_of_a_run_that_has_ended_does_not_matter():
  stop = StopEvent()
  process = RoleProcess("server", stop)

  def serve():
    stop.leave(signal.SIGTERM)
    process.note_end()

  assert process.run(serve) == 0


@pytest.mark.parametrize(
  ("error", "code"), [(UserError("Mend it."), 2), (ServerLost("It is gone."), 4), (ValueError("odd"), 1)], ids=repr
)
def test_a_failure_has_its_own_code_even_while_leaving_and_the_launcher_gets_its_sentence(
  error, code, tmp_path, monkeypatch
):
  def fail():
    raise error

  path = tmp_path / "actor_0.failure.json"
  monkeypatch.setenv(FAILURE_FILE, str(path))
  stop = StopEvent()
  stop.leave(signal.SIGTERM)
  assert RoleProcess("actor_0", stop).run(fail) == code
  said = json.loads(path.read_text())
  assert (said["role"], said["exit_code"]) == ("actor_0", code)
  assert str(error) in said["sentence"]


def test_an_address_without_a_server_is_a_mistake_and_under_a_supervisor_worth_another_try(monkeypatch):
  def join():
    raise NoServer("Nobody answers.")

  assert RoleProcess("role", StopEvent()).run(join) == 2
  monkeypatch.setenv(SUPERVISOR, "1")
  assert RoleProcess("role", StopEvent()).run(join) == 4
