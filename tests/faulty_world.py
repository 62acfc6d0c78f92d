"""A world that goes wrong in the way that it is told, for the tests of what a run then says."""

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium import spaces

FIRST = np.zeros(2, np.float32)
GOOD_STEP: tuple[Any, ...] = (FIRST, 0.0, False, False, {})


def _raise() -> NoReturn:
  raise KeyError("no such\nroom")


def _exit() -> NoReturn:
  sys.exit(7)


def hang() -> NoReturn:
  """Waits for ever, for a process that it has started."""
  subprocess.Popen(["sleep", "1000"])
  while True:
    threading.Event().wait()


# What `reset` or `step` does, or returns instead of what it should.
DOES: Mapping[str, Callable[[], NoReturn]] = {"raise": _raise, "exit": _exit, "hang": hang}
FROM_RESET: Mapping[str, Any] = {
  "old_api": FIRST,
  "no_info": (FIRST, None),
  "shape": (np.zeros(3, np.float32), {}),
  "far": (np.array([0, 5], np.float32), {}),
}
FROM_STEP: Mapping[str, Any] = {
  "old_api": (FIRST, 0.0, False, {}),
  "number": (FIRST, 0.0, 0, False, {}),
  "text": (FIRST, 0.0, False, "no", {}),
  "no_info": (FIRST, 0.0, False, False, None),
  "nan": (np.array([0, np.nan], np.float32), 0.0, False, False, {}),
  "far": (np.array([0, 5], np.float32), 0.0, False, False, {}),
  "shape": (np.zeros((2, 1), np.float32), 0.0, False, False, {}),
  "words": ("nowhere", 0.0, False, False, {}),
  "ragged": ([[0.0], 0.0], 0.0, False, False, {}),
  "no_reward": (FIRST, None, False, False, {}),
  "nan_reward": (FIRST, float("nan"), False, False, {}),
  "measure_list": (FIRST, 0.0, True, False, {"measures": [93.2]}),
  "measure_name": (FIRST, 0.0, True, False, {"measures": {"lap time": 93.2}}),
  "nan_measure": (FIRST, 0.0, True, False, {"measures": {"lap": float("nan")}}),
  "text_measure": (FIRST, 0.0, False, True, {"measures": {"lap": "1:33"}}),
  "many_measures": (FIRST, 0.0, True, False, {"measures": {f"lap_{index}": 1.0 for index in range(33)}}),
}


class Faulty(gymnasium.Env[Any, Any]):
  """Episodes of ten steps, until `in_reset` or `in_step` happens, or its `close` raises."""

  def __init__(
    self, in_reset: str = "", in_step: str = "", after: int = 0, in_init: str = "", in_close: str = "", lacks: str = ""
  ):
    """Takes what goes wrong where, after how many steps, and which space is missing."""
    if in_init:
      DOES[in_init]()
    self.in_reset, self.in_step, self.after, self.in_close = in_reset, in_step, after, in_close
    self.steps = self.length = 0
    if lacks != "observation_space":
      self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
    if lacks != "action_space":
      self.action_space = spaces.Discrete(2)

  def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
    self.length = 0
    return self._do(self.in_reset, FROM_RESET, (FIRST, {}))

  def step(self, action: Any) -> Any:
    self.steps += 1
    self.length += 1
    return self._do(self.in_step, FROM_STEP, (*GOOD_STEP[:3], self.length == 10, {}))

  def _do(self, fault: str, answers: Mapping[str, Any], good: Any) -> Any:
    if not fault or self.steps < self.after:
      return good
    return DOES[fault]() if fault in DOES else answers[fault]

  def close(self) -> None:
    if self.in_close:
      DOES[self.in_close]()


class Sized(Faulty):
  """Its observations have so many numbers."""

  def __init__(self, numbers: int = 2):
    super().__init__()
    self.observation_space = spaces.Box(-1, 1, (numbers,), np.float32)


class Seedless(Faulty):
  """Its `reset` takes no seed."""

  def reset(self) -> Any:  # type: ignore[override]  # That is the fault.
    return super().reset()


class Unseeded(gymnasium.Wrapper[Any, Any, Any, Any]):
  """A wrapper whose `reset` takes no seed."""

  def reset(self) -> Any:  # type: ignore[override]  # That is the fault.
    return self.env.reset()


def wrapped() -> gymnasium.Env[Any, Any]:
  """A world with a faulty wrapper below a good one."""
  return gymnasium.wrappers.TimeLimit(Unseeded(Faulty()), 5)
