"""Spaces, arrays and columns come back from their messages as they were."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from configs import UserError
from consoles.codec import (
  Column,
  decode_array,
  decode_columns,
  decode_space,
  decode_value,
  encode_array,
  encode_columns,
  encode_space,
  encode_value,
  gather,
  merge,
  take_columns,
)


@pytest.mark.parametrize(
  "space",
  [
    spaces.Box(-np.inf, np.inf, (3,), np.float32),
    spaces.Box(np.array([0.1, -2.0], np.float32), np.array([1.0, np.inf], np.float32)),
    spaces.Box(0, 255, (96, 96, 3), np.uint8),
    spaces.Box(-1e300, 1e300, (), np.float64),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([3, 4], start=[1, 0]),
  ],
  ids=str,
)
def test_a_space_comes_back(space: spaces.Space[Any]) -> None:
  message = encode_space(space)
  assert decode_space(type(message).FromString(message.SerializeToString())) == space


def test_bits_are_a_box_and_what_is_no_array_is_refused() -> None:
  assert decode_space(encode_space(spaces.MultiBinary(3))) == spaces.Box(0, 1, (3,), np.int8)
  with pytest.raises(UserError, match="which is no array of numbers: wrap the world with"):
    encode_space(spaces.Dict({"a": spaces.Discrete(2)}))


@settings(max_examples=30)
@given(st.data(), st.sampled_from(["float32", "float64", "uint8", "int64"]), st.integers(1, 4))
def test_an_array_comes_back_bit_for_bit(data: st.DataObject, dtype: str, cars: int) -> None:
  space = spaces.Box(0, 1, (2, 3), np.dtype(dtype).type)
  array = data.draw(hnp.arrays(dtype, (cars, 2, 3)))
  back = decode_array(encode_array(array, space), space, cars)
  assert (back.dtype, back.tobytes()) == (array.dtype, array.tobytes())
  back[:] = 0  # It is not the message's memory.
  with pytest.raises(ValueError, match="reshape"):
    decode_array(encode_array(array, space), space, cars + 1)


_VALUES = st.recursive(
  st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
  lambda items: st.lists(items, max_size=3),
  max_leaves=6,
)


@settings(max_examples=30)
@given(_VALUES)
def test_an_option_comes_back_with_its_type(value: Any) -> None:
  message = encode_value(value)
  back = decode_value(type(message).FromString(message.SerializeToString()))
  assert (type(back), back) == (type(value), value)


def test_numbers_of_some_cars_make_columns_and_come_back_as_gymnasiums_info() -> None:
  infos = {
    0: {"speed": 3.5, "won": False, "laps": 2, "name": "text"},
    2: {"speed": 1, "won": np.True_, "track": [1, 2]},
  }
  columns = gather(infos, 3)
  info = decode_columns(encode_columns(columns), 3)
  assert set(info) == {"speed", "_speed", "won", "_won", "laps", "_laps"}
  assert (info["speed"].tolist(), info["speed"].dtype) == ([3.5, 0, 1], np.float64)
  assert (info["won"].tolist(), info["won"].dtype) == ([False, False, True], bool)
  assert (info["laps"].tolist(), info["laps"].dtype) == ([2, 0, 0], np.int64)
  assert info["_laps"].tolist() == [True, False, False]
  assert info["_speed"].tolist() == [True, False, True]
  again = take_columns(info, 3)
  assert {name: column.values.tolist() for name, column in again.items()} == {
    name: column.values.tolist() for name, column in columns.items()
  }


def test_a_column_without_a_value_for_each_car_is_refused() -> None:
  messages = encode_columns({"speed": Column(np.zeros(2), np.ones(2, bool))})
  with pytest.raises(ValueError, match="'speed' has 2 values for 3 cars"):
    decode_columns(messages, 3)


def test_of_two_ticks_the_newer_values_count() -> None:
  def column(values: list[float], present: list[bool]) -> Column:
    return Column(np.array(values), np.array(present))

  merged = merge(
    {"a": column([1, 2], [True, True]), "b": column([3, 0], [True, False])},
    {"a": column([5, 0], [True, False]), "c": column([0, 7], [False, True])},
  )
  assert {name: (one.values.tolist(), one.present.tolist()) for name, one in merged.items()} == {
    "a": ([5, 2], [True, True]),
    "b": ([3, 0], [True, False]),
    "c": ([0, 7], [False, True]),
  }
