"""Calls of a user's code: a failure becomes a sentence with a traceback, and other threads see how long a world's call lasts."""

import math
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from configs import EpisodesLost, UserError

T = TypeVar("T")

# What a user's code may raise. `sys.exit` would otherwise end a role without a word, and with the code's own exit code.
FAILURES = (Exception, SystemExit)
_LONGEST_MESSAGE = 300
# Frames of these packages come before those of the user's code, which they call.
_CALLERS = ("environments", "gymnasium", "importlib")

_lock = threading.Lock()
_all: "weakref.WeakSet[WorldCalls]" = weakref.WeakSet()


def describe(error: BaseException) -> str:
  """The kind and the message of an exception on one line, such as "ValueError (bad angle)"."""
  message = one_line(error)
  return f"{type(error).__name__} ({message})" if message else type(error).__name__


def one_line(error: BaseException) -> str:
  """The message of an exception on one line, shortened, without a full stop."""
  message = " ".join(str(error).split()).rstrip(".")
  return f"{message[:_LONGEST_MESSAGE]} ..." if len(message) > _LONGEST_MESSAGE else message


def trace_of(error: BaseException) -> str:
  """The traceback of an exception that a user's code raised, from the first frame of that code on."""
  caught_here = error.__traceback__
  own = caught_here
  while own is not None and _package(own) in _CALLERS:
    own = own.tb_next
  if own is None:  # A built-in world, or gymnasium itself: leave out the frame that called it.
    own = caught_here and caught_here.tb_next
  return "".join(traceback.format_exception(type(error), error, own))


def _package(frame: TracebackType) -> str:
  return str(frame.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


class LateCall(NamedTuple):
  """A call into a world that has lasted longer than it may.

  Attributes:
    world: its name.
    call: "reset" or "step".
    began: when, in seconds of the monotonic clock; tells one call from the next.
    seconds: that it has lasted.
    timeout_seconds: that it may last.
  """

  world: str
  call: str
  began: float
  seconds: float
  timeout_seconds: float

  def __str__(self) -> str:
    """Words for the panel."""
    return f"in {self.call} of the environment {self.world!r} for {self.seconds:.0f} s"


class WorldCalls:
  """Calls the methods of one world.

  Other threads can ask how long the present call has lasted: of this world by `late`, of all worlds of the process by
  `late_calls`.

  Attributes:
    world: the world's name, for messages.
  """

  def __init__(self, world: str, timeout_seconds: float):
    """Takes the world's name, and how long a call of `reset` or `step` may last; 0 for any time."""
    self.world = world
    self._timeout_seconds = timeout_seconds
    self._began = -math.inf  # Of the last call.
    self._present: tuple[str, float] | None = None
    with _lock:
      _all.add(self)

  def __call__(self, call: str, method: Callable[..., T], *arguments: Any) -> T:
    """Calls `method`, whose name is `call`, and returns what it returns.

    Raises:
      UserError: the method raised something.
      EpisodesLost: as the method.
    """
    self._began = began = time.monotonic()
    self._present = (call, began)
    try:
      return method(*arguments)
    except (UserError, EpisodesLost):
      raise
    except FAILURES as error:
      raise UserError(self._failure(call, error), trace_of(error)) from error
    finally:
      self._present = None

  def _failure(self, call: str, error: BaseException) -> str:
    if isinstance(error, ValueError) and "values to unpack" in str(error) and _raised_in_gymnasium(error):
      # One of gymnasium's wrappers took what the world returned apart.
      return (
        f"The environment {self.world!r} does not return what gymnasium asks for from {call} ({error}): {USE_GYMNASIUM}"
      )
    return f"The environment {self.world!r} raised {describe(error)} in {call}: fix it."

  @property
  def began(self) -> float:
    """When the last call began, in seconds of the monotonic clock; minus infinity before the first."""
    return self._began

  def late(self) -> LateCall | None:
    """The present call, if it has lasted longer than it may."""
    present = self._present
    if present is None or not self._timeout_seconds:
      return None
    call, began = present
    seconds = time.monotonic() - began
    return (
      LateCall(self.world, call, began, seconds, self._timeout_seconds) if seconds > self._timeout_seconds else None
    )


USE_GYMNASIUM = (
  "let reset return (observation, info) and step (observation, reward, terminated, truncated, info), as gymnasium's worlds do, "
  "or wrap an older world with the package shimmy."
)


def _raised_in_gymnasium(error: BaseException) -> bool:
  frame = error.__traceback__
  while frame is not None and frame.tb_next is not None:
    frame = frame.tb_next
  return frame is not None and _package(frame) == "gymnasium"


def late_calls() -> list[LateCall]:
  """All calls into worlds of this process that last longer than they may."""
  return [late for calls in _every() if (late := calls.late()) is not None]


def last_call_began() -> float:
  """When the last call into a world of this process began, by the monotonic clock in seconds; minus infinity before the first."""
  return max((calls.began for calls in _every()), default=-math.inf)


def _every() -> "list[WorldCalls]":
  with _lock:
    return list(_all)
