"""Events: conditions on a step of the environment, and the monitor that turns them into a bit mask.

An event's condition sees the whole step and not only what the replay stores: also the `info` of the environment, and whether the
episode terminated or was truncated.
"""

import copy
import difflib
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from configs import EventSpec, UserError
from environments.calls import FAILURES, describe, trace_of


class EventStep(NamedTuple):
  """One transition, as an event's condition sees it.

  Attributes:
    observation: s_t, with the shape and dtype of the environment's `observation_spec()`.
    action: a_t, as the gymnasium environment got it.
    reward: r_t.
    next_observation: s_{t+1}, in the form of `observation`.
    info: what the gymnasium environment returned with s_{t+1}.
    terminated: the episode ended in s_{t+1} by the rules of the world.
    truncated: the episode was cut off after s_{t+1}, for example by a time limit.
  """

  observation: Any
  action: Any
  reward: float
  next_observation: Any
  info: Mapping[str, Any]
  terminated: bool
  truncated: bool


class Condition(Protocol):
  """omega: whether the event occurs at a step.

  A condition is a function, or a callable object that may keep state between steps. If it has a `reset()`, that is called
  before the first step of every episode.
  """

  def __call__(self, step: EventStep) -> bool:
    """Whether the event occurs at `step`."""


def load_reference(reference: str, what: str) -> Callable[..., Any]:
  """The function or class that `module:name` names; the name may be dotted.

  Args:
    reference: for example "environments.three_rooms:at_gap".
    what: its role, which starts the error message: "The condition of event 'x'".

  Raises:
    UserError: the module is not found or raises when imported, or the name is missing or cannot be called.
  """
  module_name, colon, path = reference.partition(":")
  if not (module_name and colon and path):
    raise UserError(f"{what} is {reference!r}: write it as 'module:name'.")
  target: Any = _import_module(module_name, f"{what}, {reference!r},")
  for name in path.split("."):
    if not hasattr(target, name):
      near = difflib.get_close_matches(name, dir(target), n=1)
      hint = f"did you mean {near[0]!r}?" if near else "check the spelling."
      raise UserError(f"{what}, {reference!r}, cannot be loaded: {_name_of(target)} has no {name!r}, {hint}")
    target = getattr(target, name)
  if not callable(target):
    raise UserError(f"{what}, {reference!r}, is a {type(target).__name__}: name a function or a class.")
  loaded: Callable[..., Any] = target
  return loaded


def _import_module(name: str, what: str) -> ModuleType:
  try:
    return importlib.import_module(name)
  except ModuleNotFoundError as error:
    if error.name is not None and f"{name}.".startswith(f"{error.name}."):
      raise UserError(
        f"{what} cannot be loaded: there is no module {error.name!r}, install its package or give its folder with "
        "--pythonpath."
      ) from error
    raise _import_failure(name, what, error) from error
  except UserError:
    raise
  except FAILURES as error:  # Importing runs the user's code: it can raise anything.
    raise _import_failure(name, what, error) from error


def _import_failure(name: str, what: str, error: BaseException) -> UserError:
  sentence = f"{what} cannot be loaded: importing the module {name!r} raised {describe(error)}, fix the module."
  return UserError(sentence, trace_of(error))


def _name_of(target: Any) -> str:
  kind = "module" if inspect.ismodule(target) else type(target).__name__
  return f"{kind} {getattr(target, '__name__', repr(target))!r}"


class _Event(NamedTuple):
  name: str
  bit: int
  condition: Callable[[EventStep], Any]  # A `Condition` whose result is still to be checked.
  reset: Callable[[], Any] | None


class EventMonitor:
  """Evaluates the conditions of all events at each step; bit i of the mask stands for event i of the config."""

  def __init__(self, specs: Sequence[EventSpec]):
    """Loads the conditions.

    Raises:
      UserError: a condition cannot be loaded, or does not accept its arguments.
    """
    self._events = tuple(_load_event(spec, 1 << index) for index, spec in enumerate(specs))

  def reset(self) -> None:
    """Starts an episode.

    Raises:
      UserError: a condition's `reset()` raised.
    """
    for event in self._events:
      if event.reset is not None:
        try:
          event.reset()
        except FAILURES as error:
          raise UserError(f"{_failure(event.name, 'reset()', error)}: fix its condition.", trace_of(error)) from error

  def __call__(self, step: EventStep) -> int:
    """The mask of the events that occur at `step`.

    Raises:
      UserError: a condition raised, or returned something that is not a bool.
    """
    mask = 0
    for event in self._events:
      try:
        fired = event.condition(step)
      except UserError as error:
        raise UserError(f"The condition of event {event.name!r} failed: {error}") from error
      except FAILURES as error:  # The condition is the user's.
        raise UserError(f"{_failure(event.name, 'condition', error)}: fix it.", trace_of(error)) from error
      if fired is True or (fired is not False and as_bool(fired, f"The condition of event {event.name!r}")):
        mask |= event.bit
    return mask


def _failure(name: str, part: str, error: BaseException) -> str:
  return f"The {part} of event {name!r} raised {describe(error)}"


def as_bool(fired: Any, what: str) -> bool:
  """A condition's result as a bool.

  Args:
    fired: the result, a Python or numpy bool.
    what: returned it, and starts the error message: "The condition of event 'x'".

  Raises:
    UserError: the result is something else.
  """
  if isinstance(fired, (bool, np.bool_)):
    return bool(fired)
  raise UserError(f"{what} returned a {type(fired).__name__} ({fired!r}): it must return True or False.")


def make_condition(reference: str, arguments: Mapping[str, Any], what: str) -> Condition:
  """The condition that a reference and its arguments make; see `make_callable`."""
  return make_callable(reference, arguments, what, ("a step",))


def make_callable(reference: str, arguments: Mapping[str, Any], what: str, takes: Sequence[str]) -> Callable[..., Any]:
  """The callable that a reference and its arguments make: an instance of a class, a function with bound arguments, or a copy of
  an object. Every call makes a new one, so that environments share no state.

  Args:
    reference: `module:name`.
    arguments: keyword arguments of the class, or of the function beside those of each call.
    what: its role, which starts the error message: "The condition of event 'x'".
    takes: the arguments of each call, for the error message: ("a step",).

  Raises:
    UserError: it cannot be loaded, does not accept its arguments, or cannot be called.
  """
  target = load_reference(reference, what)
  named = f"{what}, {reference!r},"
  if inspect.isclass(target):
    made = _instantiate(target, arguments, named, takes)
    _check_takes(made, {}, named, takes)
    return made
  if not inspect.isroutine(target):
    if arguments:
      raise UserError(f"{named} is an object, which takes no arguments: name its class, or leave them out.")
    target = _copy(target, named)
  _check_takes(target, arguments, named, takes)
  return functools.partial(target, **arguments) if arguments else target


def _load_event(spec: EventSpec, bit: int) -> _Event:
  condition = make_condition(spec.condition, spec.arguments, f"The condition of event {spec.name!r}")
  reset = getattr(condition, "reset", None)
  return _Event(spec.name, bit, condition, reset if callable(reset) else None)


def _copy(target: Callable[..., Any], named: str) -> Callable[..., Any]:
  try:
    copied: Callable[..., Any] = copy.deepcopy(target)
    return copied
  except Exception as error:  # The object is the user's.
    raise UserError(
      f"{named} is an object that cannot be copied for each environment ({type(error).__name__}: {error}): name a class or a "
      "function."
    ) from error


def _instantiate(
  cls: Callable[..., Any], arguments: Mapping[str, Any], named: str, takes: Sequence[str]
) -> Callable[..., Any]:
  try:
    made = cls(**arguments)
  except UserError as error:
    raise UserError(f"{named} cannot be made: {error}") from error
  except FAILURES as error:  # The class is the user's.
    raise UserError(
      f"{named} cannot be made with the arguments {dict(arguments)} ({type(error).__name__}: {error}): change them.",
      trace_of(error),
    ) from error
  if not callable(made):
    raise UserError(f"{named} is a class without __call__: give it one that takes {' and '.join(takes)}.")
  called: Callable[..., Any] = made
  return called


def _check_takes(function: Callable[..., Any], arguments: Mapping[str, Any], named: str, takes: Sequence[str]) -> None:
  try:
    signature = inspect.signature(function)
  except ValueError:  # Some callables written in C have no signature; a mismatch shows at the first call.
    return
  try:
    signature.bind(*(None for _ in takes), **arguments)
  except TypeError as error:
    taken = " and ".join([*takes, *([f"the arguments {dict(arguments)}"] if arguments else [])])
    raise UserError(f"{named} cannot be called with {taken} ({error}): change one.") from error
