"""Checks that the configs share."""

import math

from configs.errors import UserError

# What the server, TensorFlow and numpy can count.
LARGEST_WHOLE = 2**63 - 1
# Some thirty years; a wait of more than 292 cannot be asked of the operating system.
MOST_SECONDS = 1e9

_SHOWN_DIGITS = 25


def require(condition: bool, sentence: str) -> None:
  """Raises a `UserError` with this sentence unless the condition holds."""
  if not condition:
    raise UserError(sentence)


def require_positive(part: str, **values: float) -> None:
  """Raises a `UserError` if a field of this part of the config is not a finite number above 0."""
  for name, value in values.items():
    require(math.isfinite(value) and value > 0, f"{part}.{name} is {value}: it must be a finite number above 0.")


def require_whole(part: str, least: int = 1, most: int = LARGEST_WHOLE, **values: int) -> None:
  """Raises a `UserError` if a field of this part of the config does not lie between two whole numbers.

  Args:
    part: of the config; empty for its top level.
    least: smallest value.
    most: greatest value.
    values: name -> value of each field.
  """
  for name, value in values.items():
    path = f"{part}.{name}" if part else name
    require(value >= least, f"{path} is {shown(value)}: it must be a whole number, {least} or more.")
    bound = "2^63 - 1" if most == LARGEST_WHOLE else f"{most:,}"
    require(value <= most, f"{path} is {shown(value)}: it must be a whole number, at most {bound}.")


def require_seconds(part: str, **values: float) -> None:
  """Raises a `UserError` if a field of this part of the config is not a time above 0 that can be waited for."""
  for name, value in values.items():
    require(
      0 < value <= MOST_SECONDS,
      f"{part}.{name} is {value}: it must be a number of seconds above 0, at most {MOST_SECONDS:,.0f}.",
    )


def shown(number: float) -> str:
  """A number as in a message; of one with very many digits, only how many these are."""
  text = str(number)
  return text if len(text) <= _SHOWN_DIGITS else f"a number of {len(text)} digits"
