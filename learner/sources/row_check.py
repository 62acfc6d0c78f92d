"""Finds rows that an algorithm cannot learn from, although the layout lets them pass."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
from acme import specs

from networks.exploration import MOST_DEVIATIONS
from replay_server.contract.codec import RowCodec

# Rounding may put a float this far beyond its range.
_ROUNDING = 1e-5


@dataclasses.dataclass(frozen=True)
class _Range:
  """The values that a field may have.

  Attributes:
    field: its name.
    low: the smallest, of a shape that broadcasts to the field's.
    high: the largest.
  """

  field: str
  low: npt.NDArray[Any]
  high: npt.NDArray[Any]


class RowCheck:
  """Checks rows of one layout: every float is finite, the action is one of the world's, and the discount is from 0 to 1.

  Where rows hold their behaviour, an action may lie outside the world's bounds, but it lies within `MOST_DEVIATIONS` of its mean.

  A worker's packer refuses such floats, and its world and policy give no such actions. A client of another make may send them.
  """

  def __init__(self, codec: RowCodec, spec: specs.EnvironmentSpec, stores_behaviour: bool = False):
    """Takes the layout of the rows, the spec of the environment, and whether rows hold their behaviour."""
    self._codec = codec
    self._stores_behaviour = stores_behaviour
    self._float_words = codec.float_words
    self._other_floats = [field.name for field in codec.fields if field.dtype in ("float16", "float64")]
    rounding = _ROUNDING if spec.actions.dtype.kind == "f" else 0
    of_actions = _Range("action", spec.actions.minimum - rounding, spec.actions.maximum + rounding)
    of_discounts = _Range("discount", np.array(0.0), np.array(1.0 + _ROUNDING))
    self._ranges = (of_discounts,) if stores_behaviour else (of_actions, of_discounts)
    drawn = ("action", "behaviour") if stores_behaviour else ()
    self._read = frozenset((*self._other_floats, *(allowed.field for allowed in self._ranges), *drawn))

  def unusable(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Which rows cannot be learned from.

    Args:
      rows: float32 [..., width], packed.

    Returns:
      bool [...].
    """
    found: npt.NDArray[np.bool_] = ~np.isfinite(rows[..., : self._float_words]).all(axis=-1)
    fields = self._codec.unpack(rows, self._read)
    leading = rows.ndim - 1
    for name in self._other_floats:
      found |= ~_all(np.isfinite(fields[name]), leading)
    for allowed in self._ranges:
      values = fields[allowed.field]
      found |= ~_all((values >= allowed.low) & (values <= allowed.high), leading)  # NaN is in no range.
    if self._stores_behaviour:
      found |= ~_all(_is_drawn(fields["action"], fields["behaviour"]), leading)
    return found

  def reason(self, row: npt.NDArray[np.float32]) -> str:
    """What is wrong with an unusable row, float32 [width], as the end of a sentence."""
    fields = self._codec.unpack(row)
    for name, value in fields.items():
      if value.dtype.kind == "f" and not np.isfinite(value).all():
        return f"its {name} is {_format(value)}"
    for allowed in self._ranges:
      value = fields[allowed.field]
      if not ((value >= allowed.low) & (value <= allowed.high)).all():
        low, high = (np.unique(np.round(bound, 4)) for bound in (allowed.low, allowed.high))
        return f"its {allowed.field} is {_format(value)}, and the run's is from {_format(low)} to {_format(high)}"
    if self._stores_behaviour and not _is_drawn(fields["action"], fields["behaviour"]).all():
      return (
        f"its action is {_format(fields['action'])}, and its behaviour, which gave it, {_format(fields['behaviour'])}"
      )
    raise ValueError("the row is usable")


def _is_drawn(actions: npt.NDArray[Any], behaviours: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
  """Whether each component of actions [..., A] can be a draw of its Gaussian; behaviours [..., 2A] are means and deviations."""
  dimensions = behaviours.shape[-1] // 2
  means, deviations = behaviours[..., :dimensions], behaviours[..., dimensions:]
  rounding = _ROUNDING * (1.0 + np.abs(means))
  drawn: npt.NDArray[np.bool_] = np.abs(actions - means) <= MOST_DEVIATIONS * deviations + rounding
  return drawn & (deviations > 0)


def _all(holds: npt.NDArray[np.bool_], leading: int) -> npt.NDArray[np.bool_]:
  """Whether something holds for all elements of a value, bool [...] with `leading` axes."""
  result: npt.NDArray[np.bool_] = holds.all(axis=tuple(range(leading, holds.ndim)))
  return result


def _format(value: npt.NDArray[Any]) -> str:
  return np.array2string(np.squeeze(value), threshold=6, precision=4)
