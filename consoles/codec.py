"""Between gymnasium's spaces, arrays and infos and the protocol's messages."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from configs.errors import UserError
from consoles import console_pb2

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

PROTOCOL = 1
# Of one message; a picture of 96 x 96 of each of 20 cars is .6 MB.
MOST_BYTES = 64 * 2**20
MEASURES = "measures"


class Column(NamedTuple):
  """A named number of each car.

  Attributes:
    values: bool, int64 or float64 [cars].
    present: bool [cars], which cars have one.
  """

  values: Array
  present: Mask


Columns = Mapping[str, Column]


def encode_value(value: Any) -> console_pb2.Value:
  """An option's value, as JSON has it.

  Raises:
    UserError: it is none of null, true, false, a number, a text or a list of these.
  """
  if value is None:
    return console_pb2.Value(none=console_pb2.Empty())
  if isinstance(value, (bool, np.bool_)):
    return console_pb2.Value(flag=bool(value))
  if isinstance(value, (int, np.integer)):
    return console_pb2.Value(whole=int(value))
  if isinstance(value, (float, np.floating)):
    return console_pb2.Value(real=float(value))
  if isinstance(value, str):
    return console_pb2.Value(text=value)
  if isinstance(value, Sequence):
    return console_pb2.Value(list=console_pb2.ValueList(items=[encode_value(item) for item in value]))
  raise UserError(
    f"A console's option is {value!r}: it must be null, true, false, a number, a text or a list of these."
  )


def decode_value(value: console_pb2.Value) -> Any:
  """The inverse of `encode_value`; a list stays one."""
  kind = value.WhichOneof("kind")
  if kind == "list":
    return [decode_value(item) for item in value.list.items]
  return None if kind in ("none", None) else getattr(value, kind)


def encode_setup(scenario: str, cars: int, options: Mapping[str, Any]) -> console_pb2.Setup:
  """A `Setup`; see there."""
  return console_pb2.Setup(
    scenario=scenario, cars=cars, options={name: encode_value(value) for name, value in options.items()}
  )


def encode_space(space: spaces.Space[Any]) -> console_pb2.Space:
  """A `Space`.

  Raises:
    UserError: it is not a Box, Discrete, MultiDiscrete or MultiBinary space.
  """
  if isinstance(space, spaces.Box):
    low, high = _bounds(space.low), _bounds(space.high)
    return _space(console_pb2.Space.BOX, space, low, high)
  if isinstance(space, spaces.Discrete):
    return _space(console_pb2.Space.DISCRETE, space, [float(space.start)], [float(space.start + space.n - 1)])
  if isinstance(space, spaces.MultiDiscrete):
    return _space(console_pb2.Space.CHOICES, space, _bounds(space.start), _bounds(space.start + space.nvec - 1))
  if isinstance(space, spaces.MultiBinary):
    return _space(console_pb2.Space.BOX, space, [0.0], [1.0])
  raise UserError(
    f"A console cannot serve the space {space}, which is no array of numbers: wrap the world with "
    "gymnasium.wrappers.FlattenObservation or FlattenAction."
  )


def _space(kind: int, space: spaces.Space[Any], low: list[float], high: list[float]) -> console_pb2.Space:
  assert space.dtype is not None
  return console_pb2.Space(kind=kind, dtype=space.dtype.name, shape=space.shape, low=low, high=high)


def _bounds(bound: Array) -> list[float]:
  """As many numbers as there are elements, or one if they are all the same."""
  values: list[float] = np.asarray(bound, np.float64).ravel().tolist()
  return values[:1] if len(set(values)) == 1 else values


def decode_space(space: console_pb2.Space) -> spaces.Space[Any]:
  """The inverse of `encode_space`, but for MultiBinary, which becomes a Box.

  Raises:
    ValueError: the message is not a space.
    TypeError: its dtype is not one of numpy's.
  """
  dtype, shape = np.dtype(space.dtype), tuple(space.shape)
  if space.kind == console_pb2.Space.DISCRETE:
    low, high = int(space.low[0]), int(space.high[0])
    return spaces.Discrete(high - low + 1, start=low)
  low_bound, high_bound = (_spread(bound, shape) for bound in (space.low, space.high))
  if space.kind == console_pb2.Space.CHOICES:
    choices = (high_bound - low_bound + 1).astype(np.int64)
    return spaces.MultiDiscrete(choices, dtype=dtype.type, start=low_bound.astype(np.int64))
  return spaces.Box(low_bound.astype(dtype), high_bound.astype(dtype), shape, dtype.type)


def _spread(bound: Sequence[float], shape: tuple[int, ...]) -> Array:
  values = np.asarray(bound, np.float64)
  return np.broadcast_to(values[0], shape) if len(values) == 1 else values.reshape(shape)


def encode_array(array: Array, space: spaces.Space[Any]) -> bytes:
  """An array [cars, shape of the space] as the protocol's bytes."""
  assert space.dtype is not None
  return np.ascontiguousarray(array, space.dtype.newbyteorder("<")).tobytes()


def decode_array(data: bytes, space: spaces.Space[Any], cars: int) -> Array:
  """The inverse of `encode_array`: a new array.

  Raises:
    ValueError: there are too few or too many bytes.
  """
  assert space.dtype is not None
  assert space.shape is not None
  array = np.frombuffer(data, space.dtype.newbyteorder("<")).reshape(cars, *space.shape)
  return array.astype(space.dtype)


_KINDS = {"b": console_pb2.Column.FLAG, "i": console_pb2.Column.WHOLE, "u": console_pb2.Column.WHOLE}
_DTYPES: Mapping[int, type[np.generic]] = {
  console_pb2.Column.REAL: np.float64,
  console_pb2.Column.WHOLE: np.int64,
  console_pb2.Column.FLAG: np.bool_,
}


def encode_columns(columns: Columns) -> list[console_pb2.Column]:
  """Messages of the columns that any car has."""
  return [
    console_pb2.Column(
      name=name,
      kind=_KINDS.get(column.values.dtype.kind, console_pb2.Column.REAL),
      values=column.values.tolist(),
      present=() if column.present.all() else column.present.tolist(),
    )
    for name, column in columns.items()
    if column.present.any()
  ]


def decode_columns(messages: Sequence[console_pb2.Column], cars: int) -> dict[str, Any]:
  """gymnasium's vector info: name -> values [cars], and "_name" -> which cars have one.

  Raises:
    ValueError: a column does not have a value for each car.
  """
  info: dict[str, Any] = {}
  for message in messages:
    present = np.array(message.present or [True] * cars, bool)
    values = np.array(message.values).astype(_DTYPES.get(message.kind, np.float64))
    if len(values) != cars or len(present) != cars:
      raise ValueError(f"{message.name!r} has {len(values)} values for {cars} cars")
    info[message.name], info[f"_{message.name}"] = values, present
  return info


def gather(infos: Mapping[int, Mapping[str, Any]], cars: int) -> Columns:
  """Columns of the numbers among the values of some cars' infos."""
  columns: dict[str, Column] = {}
  for car, info in infos.items():
    for name, value in info.items():
      dtype = _dtype_of(value)
      if dtype is None:
        continue
      column = columns.get(name)
      if column is None:
        column = columns[name] = Column(np.zeros(cars, dtype), np.zeros(cars, bool))
      elif dtype != column.values.dtype:  # A number that is whole at times.
        common = np.promote_types(dtype, column.values.dtype)
        column = columns[name] = Column(column.values.astype(common), column.present)
      column.values[car], column.present[car] = value, True
  return columns


def _dtype_of(value: Any) -> type[np.generic] | None:
  """That of a column with such a value; None if it is not one number."""
  if isinstance(value, (bool, np.bool_)):
    return np.bool_
  if isinstance(value, (int, np.integer)):
    return np.int64
  if isinstance(value, (float, np.floating)):
    return np.float64
  return None


def take_columns(info: Mapping[str, Any], cars: int) -> Columns:
  """The columns of numbers in gymnasium's vector info."""
  columns = {}
  for name, values in info.items():
    if name.startswith("_") or not isinstance(values, np.ndarray) or values.shape != (cars,):
      continue
    if values.dtype.kind in "biuf":
      present = np.asarray(info.get(f"_{name}", np.ones(cars, bool)))
      columns[name] = Column(values, present)
  return columns


def merge(old: Columns, new: Columns) -> Columns:
  """The newer value of each car, or else the older one."""
  if not old:
    return new
  merged = dict(old)
  for name, column in new.items():
    before = old.get(name)
    if before is not None:
      column = Column(np.where(column.present, column.values, before.values), column.present | before.present)
    merged[name] = column
  return merged
