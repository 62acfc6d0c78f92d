"""Event conditions to combine, by reference and JSON arguments alone.

    EventSpec(
      "fast_and_close",
      "environments.conditions:And",
      history=50,
      arguments={
        "conditions": [
          {"condition": "environments.conditions:Threshold", "arguments": {"of": "info", "key": "speed", "above": 30}},
          {"condition": "my_worlds:is_close"},
        ]
      },
    )

A condition that takes another one accepts `{"condition": "module:name", "arguments": {...}}`, the reference alone if there are no
arguments, or, in Python, the condition itself. Every part is evaluated at every step, whatever the others return, since it may
count steps. Each episode resets a condition and its parts.
"""

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from configs import UserError
from environments.events import Condition, EventStep, as_bool, make_condition

# A condition, its reference, or {"condition": reference, "arguments": {...}}.
Part = Condition | str | Mapping[str, Any]
Source = Literal["reward", "observation", "next_observation", "info"]
Ending = Literal["any", "terminated", "truncated"]


class Threshold:
  """Fires while a number of the step is above a bound, below a bound, or between two; a number on a bound is not.

  SSET's reward thresholds (Section 6) are this condition with `of="reward"`.
  """

  def __init__(
    self,
    of: Source = "reward",
    key: str | int | Sequence[int] | None = None,
    above: float | None = None,
    below: float | None = None,
  ):
    """Makes the condition.

    Args:
      of: the field of the `EventStep` that holds the number. The paper's conditions look at the state that the step leads
        to, `next_observation`; `observation` is the state before the step.
      key: the key in `info`, or the index into an observation, one number per axis; None for a reward or an observation of
        one number.
      above: the number must be larger.
      below: the number must be smaller.

    Raises:
      UserError: an argument is not valid.
    """
    if of not in get_args(Source):
      raise UserError(f"Threshold looks at {of!r}: of must be one of {', '.join(get_args(Source))}.")
    if above is None and below is None:
      raise UserError("Threshold has neither above nor below: give one of them, or both.")
    self._of = of
    self._key = _check_key("Threshold", of, key)
    self._above = -math.inf if above is None else _check_number("Threshold", "above", above)
    self._below = math.inf if below is None else _check_number("Threshold", "below", below)
    if not self._above < self._below:
      raise UserError(f"Threshold is above {above} and below {below}, but no number is both: exchange them.")

  def __call__(self, step: EventStep) -> bool:
    """Whether the number lies within the bounds; NaN never does.

    Raises:
      UserError: the step has no such number.
    """
    return self._above < self._number(step) < self._below

  def _number(self, step: EventStep) -> float:
    if self._of == "reward":
      return step.reward
    if self._of == "info":
      value = _plain(_info_value("Threshold", step, self._key))
    else:
      value = _element("Threshold", self._of, getattr(step, self._of), self._key)
    if not isinstance(value, numbers.Real):
      raise UserError(f"Threshold found {value!r} under {self._key!r} of {self._of}: it compares one real number.")
    return float(value)


class Region:
  """Fires while the state that the step leads to lies in a box, faces included.

  It looks at `next_observation`, flattened (in C order). Combine it with `Rising` for the moment of entering.
  """

  def __init__(
    self,
    low: Sequence[float | None],
    high: Sequence[float | None],
    dimensions: Sequence[int] | None = None,
  ):
    """Makes the condition.

    Args:
      low: minimum of each dimension; None for no minimum.
      high: maximum of each dimension; None for no maximum.
      dimensions: indices into the observation, one for each pair of bounds; None for the first ones.

    Raises:
      UserError: an argument is not valid.
    """
    for name, bounds in (("low", low), ("high", high)):
      if not isinstance(bounds, (list, tuple)) or not bounds:
        raise UserError(f"Region has the {name} {bounds!r}: give a list with a number, or null, for each dimension.")
    chosen = range(len(low)) if dimensions is None else dimensions
    if not isinstance(chosen, (range, list, tuple)) or not all(_is_index(dimension) for dimension in chosen):
      raise UserError(f"Region has the dimensions {dimensions!r}: give a list of whole numbers from 0.")
    if not len(low) == len(high) == len(chosen):
      raise UserError(
        f"Region has {len(chosen)} dimensions, {len(low)} low and {len(high)} high bounds: give as many of each."
      )
    if len(set(chosen)) < len(chosen):
      raise UserError(f"Region has the dimensions {dimensions!r}: name each once.")
    self._low = np.array([-math.inf if bound is None else _check_number("Region", "low", bound) for bound in low])
    self._high = np.array([math.inf if bound is None else _check_number("Region", "high", bound) for bound in high])
    if (self._low > self._high).any():
      raise UserError(f"Region has the low bounds {list(low)} above the high bounds {list(high)}: exchange them.")
    self._dimensions = np.array(chosen)

  def __call__(self, step: EventStep) -> bool:
    """Whether the state lies in the box; a NaN in one of the dimensions lies outside.

    Raises:
      UserError: the observation has fewer dimensions.
    """
    observation = np.asarray(step.next_observation).reshape(-1)
    if self._dimensions.max() >= observation.size:
      raise UserError(
        f"Region looks at dimension {self._dimensions.max()} of an observation of {observation.size} values: lower it."
      )
    point = observation[self._dimensions]
    return bool(((self._low <= point) & (point <= self._high)).all())


class Info:
  """Fires while a value in the environment's `info` is true, or equals a given value."""

  def __init__(self, key: str, equals: Any = None, optional: bool = False):
    """Makes the condition.

    Args:
      key: in `info`.
      equals: the value to fire at, as JSON: a list also equals a tuple or an array; None fires at any true value.
      optional: whether `info` may lack the key, which does not fire. Otherwise a missing key is an error.

    Raises:
      UserError: an argument is not valid.
    """
    self._key = _check_key("Info", "info", key)
    self._equals = _plain(equals)
    if not isinstance(optional, bool):
      raise UserError(f"Info has optional={optional!r}: it must be true or false.")
    self._optional = optional

  def __call__(self, step: EventStep) -> bool:
    """Whether the value is true, or equal to the given one.

    Raises:
      UserError: `info` lacks the key.
    """
    if self._optional and self._key not in step.info:
      return False
    value = _plain(_info_value("Info", step, self._key))
    return bool(value) if self._equals is None else bool(value == self._equals)


class _Combinator:
  """A condition made from other conditions, its parts."""

  def __init__(self, *parts: Part):
    kind = type(self).__name__
    self._parts = tuple(_make_part(kind, part) for part in parts)
    self._begin()

  def reset(self) -> None:
    """Starts an episode, here and in the parts."""
    for part in self._parts:
      reset = getattr(part, "reset", None)
      if callable(reset):
        reset()
    self._begin()

  def _begin(self) -> None:
    """Resets what the condition remembers within an episode."""

  def _evaluate(self, step: EventStep) -> list[bool]:
    """The values of all parts, each of which sees every step."""
    return [as_bool(part(step), f"A part of {type(self).__name__}") for part in self._parts]


class And(_Combinator):
  """Fires while all of its parts fire."""

  def __init__(self, conditions: Sequence[Part]):
    """Makes it from one part or more.

    Raises:
      UserError: a part is not valid.
    """
    super().__init__(*_check_list("And", conditions))

  def __call__(self, step: EventStep) -> bool:
    """Whether all parts fire."""
    return all(self._evaluate(step))


class Or(_Combinator):
  """Fires while at least one of its parts fires."""

  def __init__(self, conditions: Sequence[Part]):
    """Makes it from one part or more.

    Raises:
      UserError: a part is not valid.
    """
    super().__init__(*_check_list("Or", conditions))

  def __call__(self, step: EventStep) -> bool:
    """Whether any part fires."""
    return any(self._evaluate(step))


class Not(_Combinator):
  """Fires while its part does not fire."""

  def __init__(self, condition: Part):
    """Makes it.

    Raises:
      UserError: the part is not valid.
    """
    super().__init__(condition)

  def __call__(self, step: EventStep) -> bool:
    """Whether the part does not fire."""
    return not self._evaluate(step)[0]


class Rising(_Combinator):
  """Fires when its part starts to fire: at a step at which the part fires after one at which it did not.

  Before an episode's first step nothing has fired, so a part that fires at the first step starts there.
  """

  def __init__(self, condition: Part):
    """Makes it.

    Raises:
      UserError: the part is not valid.
    """
    super().__init__(condition)

  def _begin(self) -> None:
    self._last = False

  def __call__(self, step: EventStep) -> bool:
    """Whether the part fires now and did not fire at the step before."""
    (now,) = self._evaluate(step)
    last, self._last = self._last, now
    return now and not last


class Held(_Combinator):
  """Fires while its part has fired at each of the episode's last `steps` steps, including this one.

  It keeps firing as long as its part does; wrap it in `Rising` or `Then` for a single step.
  """

  def __init__(self, condition: Part, steps: int):
    """Makes it.

    Raises:
      UserError: an argument is not valid.
    """
    self._steps = _check_steps("Held", "steps", steps)
    super().__init__(condition)

  def _begin(self) -> None:
    self._in_a_row = 0

  def __call__(self, step: EventStep) -> bool:
    """Whether the part has held for long enough."""
    self._in_a_row = self._in_a_row + 1 if self._evaluate(step)[0] else 0
    return self._in_a_row >= self._steps


class Then(_Combinator):
  """Fires when one part fires after another, at most `within` steps later.

  It fires at a step at which `second` fires, if `first` fired 1 to `within` steps earlier. Each firing needs a new `first`: one
  from before the last firing no longer counts. `first` and `second` at the same step are not one after the other.

  SSET's racing event "re-established" (Section 7.2), back on the track for 2 s (20 steps) after leaving it, is

      Then(first="track:is_off", second=Held("track:is_on", steps=20))
  """

  def __init__(self, first: Part, second: Part, within: int | None = None):
    """Makes it; `within` None means any time in the episode.

    Raises:
      UserError: an argument is not valid.
    """
    self._within = None if within is None else _check_steps("Then", "within", within)
    super().__init__(first, second)

  def _begin(self) -> None:
    self._since_first: int | None = None  # None if `first` has not fired since the last firing.

  def __call__(self, step: EventStep) -> bool:
    """Whether `second` fires in time after a `first`."""
    first, second = self._evaluate(step)
    if self._since_first is not None:
      self._since_first += 1
      if self._within is not None and self._since_first > self._within:
        self._since_first = None
    fires = second and self._since_first is not None
    if fires:
      self._since_first = None
    if first:
      self._since_first = 0
    return fires


class EpisodeEnd(_Combinator):
  """Fires at the last step of an episode, if its part fires there or it has none."""

  def __init__(self, condition: Part | None = None, by: Ending = "any"):
    """Makes it.

    Args:
      condition: the part, which must also fire at the last step; None for none.
      by: which end counts: "terminated" by the rules of the world, "truncated" by a time limit, or "any". An episode that
        is both counts as terminated.

    Raises:
      UserError: an argument is not valid.
    """
    if by not in get_args(Ending):
      raise UserError(f"EpisodeEnd has by={by!r}: use one of {', '.join(get_args(Ending))}.")
    self._by = by
    super().__init__(*(() if condition is None else (condition,)))

  def __call__(self, step: EventStep) -> bool:
    """Whether the episode ends here as asked, and the part fires."""
    holds = all(self._evaluate(step))
    if self._by == "terminated":
      return holds and step.terminated
    if self._by == "truncated":
      return holds and step.truncated and not step.terminated
    return holds and (step.terminated or step.truncated)


def _make_part(kind: str, part: Part) -> Condition:
  what = f"A part of {kind}"
  if isinstance(part, str):
    return make_condition(part, {}, what)
  if isinstance(part, Mapping):
    unknown = sorted(set(part) - {"condition", "arguments"})
    reference, arguments = part.get("condition"), part.get("arguments", {})
    if unknown or not isinstance(reference, str) or not isinstance(arguments, Mapping):
      raise UserError(
        f"{what} is {dict(part)}: write it as {{'condition': 'module:name', 'arguments': {{...}}}}, without other keys."
      )
    return make_condition(reference, arguments, what)
  if not callable(part):
    raise UserError(f"{what} is {part!r}: write it as 'module:name' or {{'condition': 'module:name'}}.")
  return part


def _check_list(kind: str, conditions: Any) -> Sequence[Part]:
  if not isinstance(conditions, (list, tuple)) or not conditions:
    raise UserError(f"{kind} has the conditions {conditions!r}: give a list of at least one.")
  return conditions


def _check_number(kind: str, name: str, value: Any) -> float:
  if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
    raise UserError(f"{kind} has {name} {value!r}: it must be a finite number.")
  return float(value)


def _check_steps(kind: str, name: str, value: Any) -> int:
  if isinstance(value, bool) or not isinstance(value, int) or value < 1:
    raise UserError(f"{kind} has {name}={value!r}: it must be a whole number of at least 1 step.")
  return value


def _is_index(value: Any) -> bool:
  return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_key(kind: str, of: str, key: Any) -> Any:
  """The key in `info` unchanged, or the index into an observation as a tuple."""
  if of == "reward":
    if key is not None:
      raise UserError(f"{kind} has the key {key!r} of a reward, which is one number: leave the key out.")
    return None
  if of == "info":
    if not isinstance(key, str) or not key:
      raise UserError(f"{kind} has the key {key!r} of info: it must be a string.")
    return key
  index = () if key is None else (key,) if isinstance(key, int) else key
  if not isinstance(index, (list, tuple)) or not all(_is_index(position) for position in index):
    raise UserError(
      f"{kind} has the key {key!r} of {of}: it must be a whole number from 0, or a list, one for each axis."
    )
  return tuple(index)


def _info_value(kind: str, step: EventStep, key: str) -> Any:
  if key not in step.info:
    known = ", ".join(repr(name) for name in step.info) or "nothing"
    raise UserError(f"{kind} looks for {key!r} in an info with {known}: correct the key.")
  return step.info[key]


def _element(kind: str, of: str, observation: Any, index: tuple[int, ...]) -> Any:
  array = np.asarray(observation)
  if not index and array.size == 1:
    return array.item()
  if len(index) != array.ndim or any(position >= size for position, size in zip(index, array.shape, strict=True)):
    raise UserError(
      f"{kind} has the key {list(index)} of {of}, which has the shape {array.shape}: give an index into it."
    )
  return array[index].item()


def _plain(value: Any) -> Any:
  """A value as in JSON, so that a tuple or an array in `info` equals a list in the config."""
  if isinstance(value, (np.ndarray, np.generic)):
    return value.tolist()
  if isinstance(value, (list, tuple)):
    return [_plain(item) for item in value]
  return value
