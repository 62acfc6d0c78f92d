"""Consoles and workers that die, hang and come back; and the lease."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from configs import EpisodesLost, UserError
from consoles.client import Console
from consoles.lease import Lease
from tests.consoles.serving import HERE, ROOT, SECONDS, console_process, served, wait_until

# Plays for ever. Run as a process, so that it can be killed.
_WORKER = """
import sys
import numpy as np
from consoles.client import Console
console = Console(sys.argv[1])
console.reset()
print("plays", flush=True)
while True:
  if console.step(np.zeros((1, 1)))[2].any():
    console.reset()
"""


@contextlib.contextmanager
def _worker(address: str) -> Iterator["subprocess.Popen[str]"]:
  process = subprocess.Popen(
    [sys.executable, "-c", _WORKER, address],
    env={**os.environ, "PYTHONPATH": str(ROOT)},
    stdout=subprocess.PIPE,
    text=True,
  )
  assert process.stdout is not None
  try:
    assert process.stdout.readline() == "plays\n"
    yield process
  finally:
    process.kill()
    process.wait(SECONDS)
    process.stdout.close()


def test_a_console_that_is_killed_costs_its_episodes_and_is_found_again() -> None:
  flags = ("--world=CartPole-v1",)
  with console_process(*flags) as console:
    env = Console(console.address, num_envs=2)
    env.reset(seed=1)
    env.step(np.zeros(2, int))
    console.end(kill=True)
    with pytest.raises(
      EpisodesLost, match=rf"^The console at {console.address} does not answer \(.*: see that it runs"
    ):
      env.step(np.zeros(2, int))
    assert env.losses == 1
    assert env.lost_reason
    began = time.monotonic()
    for _ in range(3):
      with pytest.raises(EpisodesLost, match="does not answer"):
        env.reset()
    assert env.losses == 1
    assert (
      time.monotonic() - began >= 0.35
    )  # The pauses: at least half of .2, .4 and .8 s, but for what the first loss took.
    with console_process(*flags, f"--port={console.port}"):
      wait_until(lambda: _is_back(env), "it does not come back")
      assert env.step(np.zeros(2, int))[1].tolist() == [1, 1]
      assert env.lost_reason == ""
      env.close()


def _is_back(env: Console) -> bool:
  try:
    env.reset()
  except EpisodesLost:
    return False
  return True


def test_a_console_that_is_told_to_end_says_so_by_its_exit_code_and_frees_its_port() -> None:
  with console_process("--world=CartPole-v1") as console:
    env = Console(console.address)
    env.reset()
    assert console.end() == 143
    with pytest.raises(EpisodesLost):
      env.step(np.zeros(1, int))
    env.close()
    with served("CartPole-v1", port=int(console.port)):
      pass


def test_a_step_before_the_first_reset_or_after_a_loss_is_refused() -> None:
  with served() as server:
    env = Console(server.address)
    with pytest.raises(EpisodesLost, match="has not been reset"):
      env.step([[0.0]])
    env.close()


def test_a_console_that_answers_too_late_is_lost_and_comes_back() -> None:
  with served(options='{"step_seconds": 0.5, "length": 100}') as server:
    env = Console(server.address, timeouts={"step": 0.1})
    env.reset()
    with pytest.raises(EpisodesLost, match=r"did not answer within 0\.12 s: see that"):
      env.step([[0.0]])
    wait_until(lambda: _is_back(env), "it does not come back")
    assert env.losses == 1
    env.close()


def test_a_world_that_fails_costs_its_episodes_and_is_made_anew(capfd: pytest.CaptureFixture[str]) -> None:
  with served() as server:
    env = Console(server.address, options={"fails_at": 3})
    env.reset()
    for _ in range(2):
      env.step([[0.0]])
    with pytest.raises(EpisodesLost, match=r"raised RuntimeError \(the disk is full\): see that"):
      env.step([[0.0]])
    assert "RuntimeError: the disk is full" in capfd.readouterr().err
    features, _ = env.reset()
    assert features[0, 0] == 0
    env.close()


def test_one_worker_at_a_time_and_the_second_is_told_who_has_it() -> None:
  with served() as server:
    first, second = (Console(server.address, timeouts={"start": 0.3}) for _ in range(2))
    first.reset()
    health = second.health()
    assert health.ready
    assert re.fullmatch(rf"held by process {os.getpid()} on \S+ for 0 s", health.state)
    with pytest.raises(UserError) as refused:
      second.reset()
    assert re.fullmatch(
      rf"The console at {server.address} says: it is held by process {os.getpid()} on \S+ for \d s, who was heard 0\.\d s ago: "
      r"wait for that worker to end, or take another console\.",
      str(refused.value),
    )
    first.step([[0.0]])
    first.close()
    assert second.health().state == "free"
    second.reset()
    second.close()


def test_a_console_is_free_before_it_says_that_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
  give_back = Lease.give_back

  def give_back_slowly(lease: Lease) -> None:
    time.sleep(0.3)
    give_back(lease)

  monkeypatch.setattr(Lease, "give_back", give_back_slowly)
  with served() as server:
    first, second = Console(server.address), Console(server.address)
    first.reset()
    first.close()
    assert second.health().state == "free"
    second.close()


def test_a_worker_that_is_killed_frees_its_console() -> None:
  with served() as server, _worker(server.address) as worker:
    env = Console(server.address)
    assert str(worker.pid) in env.health().holder
    worker.kill()
    env.reset()
    assert env.step([[0.0]])[0][0, 0] == 1
    env.close()


def test_a_worker_that_hangs_loses_its_lease_and_one_that_only_waits_does_not() -> None:
  with served(lease_seconds=0.6) as server, _worker(server.address) as worker:
    env = Console(server.address)
    worker.send_signal(signal.SIGSTOP)
    env.reset()  # It waits for the lease.
    health = env.health()
    assert str(os.getpid()) in health.holder
    assert health.leases == 2
    worker.send_signal(signal.SIGCONT)
    assert worker.wait(SECONDS) == 1  # It lost its episodes.
    # Nothing is said for longer than the lease, but by the client's own thread.
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1.0, "the clock stands")
    assert env.step([[0.0]])[0][0, 0] == 1
    assert env.health().leases == 2
    env.close()


def test_a_console_that_comes_back_as_another_one_is_refused() -> None:
  with served() as server:
    env = Console(server.address)
    env.reset()
    port = int(server.address.rpartition(":")[2])
  with pytest.raises(EpisodesLost):
    env.step([[0.0]])
  with (
    served("CartPole-v1", port=port),
    pytest.raises(UserError, match="has other cars or spaces than before: start it"),
  ):
    env.reset()
  env.close()


def test_the_world_is_ready_before_the_console_says_so() -> None:
  from consoles.options import ConsoleOptions
  from consoles.server import ConsoleServer

  server = ConsoleServer(ConsoleOptions(world=f"{HERE}:Counter"))
  server.start()
  try:
    with pytest.raises(UserError, match="says: the world is being made and compiled: wait until it prints"):
      Console(server.address, timeouts={"start": 1.0, "ready": 1.2})
    ready = threading.Timer(2.5, server.prepare)
    ready.start()
    Console(server.address, timeouts={"start": 2.0}).close()
    ready.join()
  finally:
    server.stop()


def test_a_console_says_what_each_worker_has_missed(capfd: pytest.CaptureFixture[str]) -> None:
  with served(pace="real", rate=100.0) as server:
    env = Console(server.address, options={"length": 1000})
    env.reset()
    wait_until(lambda: env.health().tick >= 5, "the world stands still")
    env.close()
    wait_until(lambda: env.health().state == "free", "the lease is kept")
  assert re.search(rf"process {os.getpid()} on \S+: \d+ ticks, \d+ of them missed; \d+ more", capfd.readouterr().out)
