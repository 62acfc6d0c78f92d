"""An environment's spec as JSON, so that joining a run or reading a policy file does not need the environment installed."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from acme import specs

from configs import UserError, from_dict, to_dict


@dataclasses.dataclass(frozen=True)
class _StoredArray:
  """The spec of one array.

  Attributes:
    kind: which of dm_env's classes it is: `Array`, `BoundedArray` or `DiscreteArray`.
    dtype: numpy's name for it.
    shape: of the array.
    name: of the array, if it has one.
    minimum: of a bounded array: one number if it is the same everywhere, else a flat list of numbers. JSON has neither infinity
      nor NaN: they are the strings "inf", "-inf" and "nan".
    maximum: likewise.
    num_values: of a discrete array, else 0.
  """

  kind: Literal["array", "bounded", "discrete"]
  dtype: str
  shape: tuple[int, ...]
  name: str | None = None
  minimum: Any = None
  maximum: Any = None
  num_values: int = 0

  @classmethod
  def of(cls, spec: specs.Array) -> "_StoredArray":
    if type(spec) not in (specs.Array, specs.BoundedArray, specs.DiscreteArray) or spec.dtype.kind not in "biuf":
      raise UserError(
        f"The environment's {spec.name or 'array'} is a {type(spec).__name__} of dtype {spec.dtype}: use arrays of Booleans, "
        "integers or floats."
      )
    array = cls("array", spec.dtype.name, spec.shape, spec.name)
    if isinstance(spec, specs.DiscreteArray):
      return dataclasses.replace(array, kind="discrete", num_values=spec.num_values)
    if isinstance(spec, specs.BoundedArray):
      minimum, maximum = (_stored_bound(bound, spec.shape) for bound in (spec.minimum, spec.maximum))
      return dataclasses.replace(array, kind="bounded", minimum=minimum, maximum=maximum)
    return array

  def restored(self) -> specs.Array:
    dtype = np.dtype(self.dtype)
    if self.kind == "discrete":
      return specs.DiscreteArray(self.num_values, dtype, self.name)
    if self.kind == "bounded":
      minimum, maximum = (_restored_bound(bound, dtype, self.shape) for bound in (self.minimum, self.maximum))
      return specs.BoundedArray(self.shape, dtype, minimum, maximum, self.name)
    return specs.Array(self.shape, dtype, self.name)


@dataclasses.dataclass(frozen=True)
class _StoredSpec:
  observations: _StoredArray
  actions: _StoredArray
  rewards: _StoredArray
  discounts: _StoredArray


def spec_to_dict(spec: specs.EnvironmentSpec) -> dict[str, Any]:
  """A spec as nested dicts and lists of JSON values.

  Raises:
    UserError: it holds something other than single numeric arrays.
  """
  return to_dict(_StoredSpec(*map(_StoredArray.of, spec)))


def spec_from_dict(data: Mapping[str, Any]) -> specs.EnvironmentSpec:
  """The spec that was given to `spec_to_dict`; its bounds have the shapes of their arrays.

  Raises:
    UserError: a key is unknown or missing, or a value has the wrong type.
  """
  stored = from_dict(data, _StoredSpec)
  arrays = (stored.observations, stored.actions, stored.rewards, stored.discounts)
  return specs.EnvironmentSpec(*(array.restored() for array in arrays))


def _stored_bound(bound: npt.NDArray[Any], shape: tuple[int, ...]) -> Any:
  values = [_stored_number(value) for value in np.broadcast_to(bound, shape).ravel().tolist()]
  return values[0] if len(set(values)) == 1 else values


def _stored_number(value: Any) -> Any:
  return value if np.isfinite(value) else str(value)


def _restored_bound(bound: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
  values = bound if isinstance(bound, list) else [bound]
  numbers = [float(value) if isinstance(value, str) else value for value in values]
  return np.broadcast_to(np.array(numbers, dtype).reshape(shape if len(values) > 1 else ()), shape)
