"""Consoles for tests: in this process, in one of their own, and the worlds that they serve."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Any

import grpc
import gymnasium
import numpy as np
from gymnasium import spaces

from consoles import console_pb2, console_pb2_grpc
from consoles.options import ConsoleOptions
from consoles.server import ConsoleServer
from environments.racing.tracks import Segment, Track, make_track

ROOT = pathlib.Path(__file__).parents[2]
HERE = "tests.consoles.serving"
SECONDS = 20.0


class Counter(gymnasium.Env[Any, Any]):
  """Counts steps, and ends after `length`. `info` has the last action, and as `late` whether the half is over."""

  metadata: dict[str, Any] = {"render_modes": [], "render_fps": 50}

  def __init__(self, length: int = 5, step_seconds: float = 0.0, fails_at: int = -1):
    self.observation_space = spaces.Box(0.0, 1e6, (2,), np.float32)
    self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    self.length, self.step_seconds, self.fails_at = length, step_seconds, fails_at
    self.count = 0
    self.start = 0

  def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
    super().reset(seed=seed)
    self.count = 0
    self.start = int(self.np_random.integers(1000))
    return self._observe(), {"start": self.start, "name": "a text does not travel"}

  def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    time.sleep(self.step_seconds)
    self.count += 1
    if self.count == self.fails_at:
      raise RuntimeError("the disk is full")
    info: dict[str, Any] = {"action": float(action[0]), "late": 2 * self.count > self.length}
    terminated = self.count >= self.length
    if terminated:
      info["measures"] = {"steps": self.count}
    return self._observe(), 1.0, terminated, False, info

  def _observe(self) -> Any:
    return np.array([self.count, self.start], np.float32)


class Clinging(Counter):
  """Does not close."""

  def close(self) -> None:
    threading.Event().wait()


class Resetting(gymnasium.vector.SyncVectorEnv):
  """A VectorEnv that begins episodes by itself."""

  def __init__(self) -> None:
    super().__init__([Counter, Counter])


def vector(num: int = 3, length: int = 5) -> gymnasium.vector.SyncVectorEnv:
  """A VectorEnv of counters whose episodes have different lengths."""
  return gymnasium.vector.SyncVectorEnv(
    [lambda more=more: Counter(length + more) for more in range(num)],  # type: ignore[misc]
    autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED,
  )


@contextlib.contextmanager
def served(world: str = "Counter", **options: Any) -> Iterator[ConsoleServer]:
  """A console in this process; a world without a colon or a dash that is not built in is one of this file."""
  name = f"{HERE}:{world}" if hasattr(sys.modules[HERE], world) else world
  server = ConsoleServer(ConsoleOptions(world=name, **options))
  server.start()
  try:
    server.prepare()
    yield server
  finally:
    server.stop()


class _Later(console_pb2_grpc.ConsoleServicer):
  """A console of another protocol version."""

  def Describe(self, request: Any, context: Any) -> Any:  # noqa: N802
    return console_pb2.Description(protocol=2)


@contextlib.contextmanager
def served_later(knows: bool = True) -> Iterator[str]:
  """The address of a console of a later protocol version; one that does not know this version's methods if not `knows`."""
  server = grpc.server(futures.ThreadPoolExecutor(1))
  if knows:
    console_pb2_grpc.add_ConsoleServicer_to_server(_Later(), server)
  port = server.add_insecure_port("127.0.0.1:0")
  server.start()
  try:
    yield f"127.0.0.1:{port}"
  finally:
    server.stop(0).wait()


class ConsoleProcess:
  """`python -m consoles` with some flags.

  Attributes:
    address: where it is ready.
  """

  def __init__(self, *flags: str, python: Sequence[str] = (sys.executable,), env: dict[str, str] | None = None):
    self.process = subprocess.Popen(
      [*python, "-m", "consoles", *flags],
      cwd=ROOT,
      env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
      stdout=subprocess.PIPE,
      text=True,
    )
    assert self.process.stdout is not None
    line = self.process.stdout.readline()
    found = re.search(r"is ready at (\S+) after", line)
    assert found, line
    self.address = found[1]

  @property
  def port(self) -> str:
    return self.address.rpartition(":")[2]

  def end(self, *, kill: bool = False) -> int:
    """Ends it by SIGKILL or SIGTERM; returns its exit code."""
    if kill:
      self.process.kill()
    else:
      self.process.terminate()
    code = self.process.wait(SECONDS)
    assert self.process.stdout is not None
    self.process.stdout.close()
    return code


@contextlib.contextmanager
def console_process(*flags: str, **more: Any) -> Iterator[ConsoleProcess]:
  console = ConsoleProcess(*flags, **more)
  try:
    yield console
  finally:
    if console.process.returncode is None:
      console.end(kill=True)


def wait_until(condition: Callable[[], Any], what: str) -> None:
  """Waits for a condition.

  Raises:
    AssertionError: it does not come true in time.
  """
  until = time.monotonic() + SECONDS
  while not condition():
    assert time.monotonic() < until, what
    time.sleep(0.01)


def alone(length: int = 5) -> Counter:
  """A function that makes an Env."""
  return Counter(length)


def nothing() -> str:
  """A function that makes no world."""
  return "a world"


def open_track() -> Track:
  """A function that makes a track whose ends do not meet, three quarters of a circle."""
  return make_track("mine", [Segment(300, 270)], closed=True)
