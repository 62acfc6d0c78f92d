"""The supervisor of a role: when it starts the role again, and how it ends. The roles are small programs of real processes."""

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable

import psutil
import pytest

from launch import supervision
from launch.supervisor import Restarts
from tests.launch.processes import alive, assert_all_gone, wait_for

FAST = {"most": 2, "window_seconds": 30.0, "first_delay": 0.01, "longest_delay": 0.02}
# Appends its process id to the file `pids` of its folder; then it does what the test says.
PREFACE = """
import os, pathlib, signal, sys, time
here = pathlib.Path(sys.argv[1])
with (here / "pids").open("a") as file:
  file.write(f"{os.getpid()}\\n")
life = len((here / "pids").read_text().split())
"""


def test_delays_double_up_to_the_longest_and_end_after_the_most():
  restarts = Restarts([1], most=5, window_seconds=300.0, first_delay=1.0, longest_delay=6.0)
  assert [restarts.delay_after(1, 0.0, now) for now in range(6)] == [1.0, 2.0, 4.0, 6.0, 6.0, None]


def test_old_restarts_do_not_count_and_a_healthy_process_begins_with_the_first_delay_again():
  restarts = Restarts([1], most=2, window_seconds=300.0)
  assert [restarts.delay_after(1, 0.0, now) for now in (0.0, 10.0)] == [1.0, 2.0]
  assert restarts.delay_after(1, 280.0, 299.0) is None
  assert restarts.delay_after(1, 280.0, 301.0) == 4.0
  assert restarts.delay_after(1, 300.0, 700.0) == 1.0


@pytest.mark.parametrize("code", [0, 2, 3, 130])
def test_other_codes_are_not_restarted(code):
  assert Restarts(supervision.RESTARTED_CODES).delay_after(code, 0.0, 0.0) is None


@pytest.fixture(name="start")
def _start(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
  """Starts a supervisor of a program in Python, whose processes all end with the test."""
  started: list[subprocess.Popen] = []

  def start(program: str, **arguments) -> subprocess.Popen:
    monkeypatch.setenv(supervision.RESTARTS, json.dumps(FAST))
    command = supervision.supervisor_command("role", [], tmp_path / "role.failure.json", **arguments)
    order = json.loads(command[-1])
    order["command"] = [sys.executable, "-c", PREFACE + program, str(tmp_path)]
    with (tmp_path / "log").open("w") as log:
      started.append(subprocess.Popen([*command[:-1], json.dumps(order)], stdout=log, stderr=log))
    return started[-1]

  yield start
  for process in started:
    process.kill()
    process.wait()
  for pid in pids(tmp_path):
    if alive(pid):
      os.kill(pid, signal.SIGKILL)


def pids(folder: pathlib.Path) -> list[int]:
  file = folder / "pids"
  return [int(word) for word in file.read_text().split()] if file.is_file() else []


def first_pid(folder: pathlib.Path, lives: int = 1) -> int:
  return wait_for(lambda: pids(folder)[lives - 1 : lives], 60, "the role")[0]


def failure(folder: pathlib.Path) -> dict | None:
  file = folder / "role.failure.json"
  return json.loads(file.read_text()) if file.is_file() else None


def test_a_killed_role_is_started_again_and_its_end_is_the_supervisors(start: Callable, tmp_path):
  supervisor = start("time.sleep(0 if life == 2 else 600)\nsys.exit(3)")
  os.kill(first_pid(tmp_path), signal.SIGKILL)
  assert supervisor.wait(60) == 3
  assert len(pids(tmp_path)) == 2
  assert "role was ended by signal 9 after" in (tmp_path / "log").read_text()


def test_a_role_that_dies_too_often_is_given_up_with_a_reason(start: Callable, tmp_path):
  assert start("os.kill(os.getpid(), signal.SIGKILL)").wait(60) == 137
  assert len(pids(tmp_path)) == 3
  said = failure(tmp_path)
  assert said is not None
  assert (said["role"], said["exit_code"]) == ("role", 137)
  assert said["sentence"].startswith("It was ended by signal 9, and was started again too often before")


def test_a_mistake_is_not_repeated_and_the_roles_own_reason_is_kept(start: Callable, tmp_path):
  write = 'open(os.environ["SLIPSTREAM_FAILURE_FILE"], "w").write(\'{"role": "role"}\')\n'
  assert start(write + "sys.exit(2)").wait(60) == 2
  assert len(pids(tmp_path)) == 1
  assert failure(tmp_path) == {"role": "role"}


def test_the_reason_of_a_failure_is_removed_when_the_role_starts_again(start: Callable, tmp_path):
  write = 'open(os.environ["SLIPSTREAM_FAILURE_FILE"], "w").write("{}") if life == 1 else None\n'
  assert start(write + "sys.exit(1 if life == 1 else 0)").wait(60) == 0
  assert failure(tmp_path) is None


@pytest.mark.parametrize(
  ("signum", "told"), [(signal.SIGTERM, 15), (signal.SIGINT, 2), (signal.SIGHUP, 15)], ids=lambda number: str(number)
)
def test_a_signal_is_passed_on_and_ends_supervision(start: Callable, tmp_path, signum, told):
  program = "for n in (2, 15): signal.signal(n, lambda n, f: sys.exit(100 + n))\n(here / 'up').touch()\ntime.sleep(600)"
  before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # The tests may run under nohup.
  try:
    supervisor = start(program)
  finally:
    signal.signal(signal.SIGHUP, before)
  wait_for((tmp_path / "up").exists, 60, "the role")
  supervisor.send_signal(signum)
  assert supervisor.wait(60) == 100 + told
  assert len(pids(tmp_path)) == 1


def test_a_role_that_does_not_leave_is_killed_after_its_grace(start: Callable, tmp_path):
  program = "signal.signal(15, signal.SIG_IGN)\n(here / 'up').touch()\ntime.sleep(600)"
  supervisor = start(program, grace_seconds=0.2)
  wait_for((tmp_path / "up").exists, 60, "the role")
  supervisor.terminate()
  assert supervisor.wait(60) == 137


def test_a_supervisor_that_is_told_to_stop_between_two_lives_starts_none(start: Callable, tmp_path, monkeypatch):
  monkeypatch.setitem(FAST, "first_delay", 600.0)
  monkeypatch.setitem(FAST, "longest_delay", 600.0)
  supervisor = start("sys.exit(1)")
  wait_for(lambda: "started again in 600 s" in (tmp_path / "log").read_text(), 60, "the back-off")
  supervisor.terminate()
  assert supervisor.wait(60) == 143
  assert len(pids(tmp_path)) == 1


def test_what_a_killed_role_has_started_ends_with_it(start: Callable, tmp_path):
  program = (
    "import subprocess\n"
    "if life == 1:\n"
    "  child = subprocess.Popen(['sleep', '600'])\n"
    "  (here / 'child').write_text(str(child.pid))\n"
    "  time.sleep(600)\n"
  )
  supervisor = start(program)
  child = wait_for(lambda: int((tmp_path / "child").read_text() or 0), 60, "its child")
  os.kill(first_pid(tmp_path), signal.SIGKILL)
  assert supervisor.wait(60) == 0
  assert_all_gone([child])


def test_a_supervisor_without_its_parent_ends_its_role_and_itself(tmp_path):
  program = "time.sleep(600)"
  launcher = (
    "import json, pathlib, subprocess, sys\nfrom launch import supervision\n"
    "command = supervision.supervisor_command('role', [])\norder = json.loads(command[-1])\n"
    f"order['command'] = [sys.executable, '-c', {PREFACE + program!r}, {str(tmp_path)!r}]\n"
    "supervisor = subprocess.Popen([*command[:-1], json.dumps(order)])\n"
    f"pathlib.Path({str(tmp_path / 'supervisor')!r}).write_text(str(supervisor.pid))\n"
    "supervisor.wait()"
  )
  process = subprocess.Popen([sys.executable, "-c", launcher], cwd=pathlib.Path(__file__).parents[2])
  try:
    role = first_pid(tmp_path)
  finally:
    process.kill()
    process.wait()
  assert_all_gone([role, int((tmp_path / "supervisor").read_text())], timeout=30)


def test_a_supervisor_takes_little_memory(start: Callable, tmp_path):
  supervisor = start("time.sleep(600)")
  first_pid(tmp_path)
  assert psutil.Process(supervisor.pid).memory_info().rss < 20e6
