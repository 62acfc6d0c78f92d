"""Process ids that tell clients from servers: real processes, and two PID namespaces that share one network."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from launch.process_id import CLIENT, SERVER
from tests.launch.processes import ROOT, START_SECONDS, alive, assert_all_gone, own_pid, wait_for
from tests.serving import free_port

# Takes an id of parity argv[1] although its own may be of the other one; then it does what the test says.
PREFACE = """
import os, pathlib, signal, sys, time
from launch.process_id import take_process_id
here = pathlib.Path(sys.argv[1])
first = os.getpid()
take_process_id(1 - first % 2 if sys.argv[2] == "other" else first % 2)
(here / "pid.partial").write_text(f"{first} {os.getpid()}")
(here / "pid.partial").rename(here / "pid")
"""


def start(folder: pathlib.Path, program: str, which: str = "other") -> subprocess.Popen:
  return subprocess.Popen([sys.executable, "-c", PREFACE + program, str(folder), which], cwd=ROOT)


def pids(folder: pathlib.Path) -> tuple[int, int]:
  wait_for((folder / "pid").exists, 60, "its id")
  first, own = (folder / "pid").read_text().split()
  return int(first), int(own)


def test_a_process_of_the_right_parity_goes_on_in_itself(tmp_path):
  process = start(tmp_path, "sys.exit(7)", "same")
  assert process.wait(60) == 7
  first, own = pids(tmp_path)
  assert first == own == process.pid


@pytest.mark.parametrize("code", [0, 2, 143])
def test_another_one_goes_on_in_a_child_of_the_right_parity_and_ends_with_its_code(tmp_path, code):
  process = start(tmp_path, f"os._exit({code})")
  assert process.wait(60) == code
  first, own = pids(tmp_path)
  assert first == process.pid != own
  assert (first - own) % 2 == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_it_ends_by_the_signal_that_ends_the_child(tmp_path, number):
  process = start(tmp_path, "time.sleep(600)")
  os.kill(pids(tmp_path)[1], number)
  assert process.wait(60) == -number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_child_once(tmp_path, number):
  program = (
    "got = []\n"
    f"signal.signal({int(number)}, lambda *_: got.append((here / f'got {{len(got)}}').touch()))\n(here / 'ready').touch()\n"
    "while not (here / 'enough').exists(): time.sleep(.01)\n"
    "sys.exit(10 + len(got))\n"
  )
  process = start(tmp_path, program)
  wait_for((tmp_path / "ready").exists, 60, "its handler")
  for count in range(3):
    process.send_signal(number)
    wait_for((tmp_path / f"got {count}").exists, 60, "the signal")
  (tmp_path / "enough").touch()
  assert process.wait(60) == 13


def test_a_killed_parent_takes_its_child_along(tmp_path):
  process = start(tmp_path, "time.sleep(600)")
  _, own = pids(tmp_path)
  assert alive(own)
  process.kill()
  process.wait(60)
  assert_all_gone([own])


def test_a_stopped_command_can_be_found_by_its_own_id(tmp_path):
  process = start(tmp_path, "time.sleep(600)")
  try:
    own = pids(tmp_path)[1]
    assert own_pid(process.pid) == own
  finally:
    process.kill()
    process.wait(60)


def test_two_first_processes_of_containers_with_one_network_do_not_crash(tmp_path):
  unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
  tried = subprocess.run([*unshare, "true"], capture_output=True, text=True, timeout=60)
  if tried.returncode:
    pytest.skip(f"a process may have no PID namespace of its own here: {tried.stderr.strip()}")
  slipstream = [*unshare, sys.executable, "-m", "slipstream"]
  port = free_port()
  serve = ["serve", "--config=three_rooms", f"--run_dir={tmp_path / 'run'}", f"--port={port}"]
  with (tmp_path / "serve.log").open("w") as log:
    server = subprocess.Popen([*slipstream, *serve], cwd=ROOT, stdout=log, stderr=log, env=environment())
  try:
    wait_for(lambda: "Serving" in (tmp_path / "serve.log").read_text(), START_SECONDS, "the server")
    for command in (["status"], ["stop", "--yes"]):
      client = subprocess.run(
        [*slipstream, *command, f"--server=localhost:{port}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        env=environment(),
      )
      assert client.returncode == 0, client.stdout + client.stderr
    assert server.wait(60) == 0
  finally:
    server.kill()
    server.wait(60)


def environment() -> dict[str, str]:
  return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_servers_and_clients_differ():
  from slipstream.commands import COMMANDS

  assert {name for name, command in COMMANDS.items() if command.parity == SERVER} == {"serve", "train"}
  talking = {"act", "attach", "doctor", "evaluate", "learn", "snapshot", "status", "stop"}
  assert {name for name, command in COMMANDS.items() if command.parity == CLIENT} == talking
