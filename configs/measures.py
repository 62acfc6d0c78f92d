"""Measures: named numbers that an environment tells of an episode at its end, such as a lap time or whether a race was won."""

import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

# Each name is a column of metrics.csv and a tag in TensorBoard.
MOST_MEASURES = 32
_LONGEST_NAME = 64


def as_measures(given: Any) -> dict[str, float]:
  """Name -> value, as floats, of what an environment or a message gives as an episode's measures.

  Args:
    given: a mapping from names, of ASCII letters, digits and underscores, to finite numbers; True and False are 1 and 0.

  Raises:
    ValueError: it is something else; the message says what.
  """
  if not isinstance(given, Mapping):
    raise ValueError(f"they are a {type(given).__name__}")
  if len(given) > MOST_MEASURES:
    raise ValueError(f"they are {len(given)}, more than {MOST_MEASURES}")
  return {_name(name): _number(name, value) for name, value in given.items()}


def mean_measures(episodes: Iterable[Mapping[str, float]]) -> dict[str, float]:
  """Name -> the mean over those of the episodes that have this measure, in the order in which the names come."""
  values: dict[str, list[float]] = {}
  for measures in episodes:
    for name, value in measures.items():
      values.setdefault(name, []).append(value)
  return {name: math.fsum(given) / len(given) for name, given in values.items()}


def _name(name: Any) -> str:
  if not (isinstance(name, str) and name.isascii() and name.isidentifier() and len(name) <= _LONGEST_NAME):
    raise ValueError(
      f"{str(name)[:_LONGEST_NAME]!r} is no name of at most {_LONGEST_NAME} letters, digits and underscores"
    )
  return name


def _number(name: str, value: Any) -> float:
  if getattr(value, "shape", None) == ():  # numpy's scalars and arrays of one number.
    value = value.item()
  try:
    number = float(value) if isinstance(value, numbers.Real) else math.nan
  except OverflowError:
    number = math.inf
  if not math.isfinite(number):
    raise ValueError(f"{name!r} is {str(value)[:_LONGEST_NAME]} ({type(value).__name__}), which is no finite number")
  return number
