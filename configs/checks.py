"""Checks that the configs share."""

import math

from configs.errors import UserError


def require(condition: bool, sentence: str) -> None:
  """Raises a `UserError` with this sentence unless the condition holds."""
  if not condition:
    raise UserError(sentence)


def require_positive(part: str, **values: float) -> None:
  """Raises a `UserError` if a field of this part of the config is not a finite number above 0."""
  for name, value in values.items():
    require(math.isfinite(value) and value > 0, f"{part}.{name} is {value}: it must be a finite number above 0.")
