"""Packing and unpacking rows, bit by bit."""

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import UserError, from_dict, to_dict
from replay_server.contract import graph
from replay_server.contract.codec import RowCodec
from replay_server.contract.layout import make_row_codec
from tests.serving import make_spec

_DTYPES = (
  *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
  *("float16", "float32", "float64"),
)

_FIELDS = st.lists(
  st.tuples(st.sampled_from(_DTYPES), st.lists(st.integers(1, 4), max_size=3).map(tuple)), min_size=1, max_size=5
)


def _draw(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
  """Values whose bits are random, as far as the dtype allows."""
  kind = np.dtype(dtype)
  if dtype == "bool":
    return np.asarray(rng.integers(2, size=shape), bool)
  values = np.frombuffer(rng.bytes(math.prod(shape) * kind.itemsize), kind).reshape(shape)
  # Subnormals are left out: TensorFlow's kernels may flush them to zero, whatever the codec does.
  good = np.isfinite(values) & (np.abs(values) >= np.finfo(kind).tiny) if kind.kind == "f" else True
  return np.where(good, values, np.asarray(1, kind))


def _assert_same_bits(held: np.ndarray, expected: np.ndarray) -> None:
  assert held.dtype == expected.dtype
  assert held.shape == expected.shape
  assert held.tobytes() == expected.tobytes()


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(_FIELDS, st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_any_fields_come_back_bit_by_bit_from_numpy_and_from_a_graph(
  fields: list[tuple[str, tuple[int, ...]]], batch: int, seed: int
) -> None:
  rng = np.random.default_rng(seed)
  layout = {f"field_{i}": field for i, field in enumerate(fields)}
  codec = RowCodec.of(layout)
  values = [{name: _draw(rng, *field) for name, field in layout.items()} for _ in range(batch)]
  packer = codec.packer()
  rows = np.stack([packer.pack(value) for value in values])
  assert rows.shape == (batch, codec.width)
  assert rows.dtype == np.float32
  unpacked = codec.unpack(rows)
  signature = [tf.TensorSpec([None, codec.width], tf.float32)]
  in_graph = tf.function(lambda rows: graph.unpack(codec, rows), signature)(rows)
  assert set(unpacked) == set(in_graph) == set(layout)
  for name in layout:
    expected = np.stack([value[name] for value in values])
    _assert_same_bits(unpacked[name], expected)
    _assert_same_bits(in_graph[name].numpy(), expected)
    for row, value in zip(rows, values, strict=True):
      _assert_same_bits(codec.unpack(row)[name], value[name])


@pytest.mark.parametrize("value", [-1, 0x7FC00001, -(2**31), 2**31 - 1, 1])
def test_integers_that_look_like_nan_or_infinity_are_accepted_and_come_back(value: int) -> None:
  codec = RowCodec.of({"many": (np.int32, (2,)), "long": (np.int64, ()), "one": (np.int32, ())})
  row = codec.packer().pack({"many": np.array([value, 0x7F800000], np.int32), "long": value << 32, "one": value})
  unpacked = codec.unpack(row)
  assert unpacked["many"].tolist() == [value, 0x7F800000]
  assert unpacked["long"] == value << 32
  assert unpacked["one"] == value


def test_an_image_of_odd_size_takes_a_quarter_of_the_words() -> None:
  image = np.random.default_rng(0).integers(256, size=(5, 7, 3), dtype=np.uint8)
  codec = make_row_codec(make_spec((5, 7, 3), np.uint8))
  (field,) = [field for field in codec.fields if field.name == "observation"]
  assert field.words == math.ceil(5 * 7 * 3 / 4)
  codec = RowCodec.of({"image": (np.uint8, (5, 7, 3)), "after": (np.float32, ())})
  row = codec.packer().pack({"image": image, "after": 0.5})
  np.testing.assert_array_equal(codec.unpack(row)["image"], image)
  np.testing.assert_array_equal(graph.unpack(codec, row[None])["image"][0], image)
  assert codec.unpack(row)["after"] == 0.5


def test_float32_fields_come_first_and_nothing_overlaps() -> None:
  codec = make_row_codec(make_spec((3,), np.float32))
  kinds = [field.dtype == "float32" for field in codec.fields]
  assert kinds == sorted(kinds, reverse=True)
  assert codec.float_words == 3 + 3 + 1 + 1
  for field, following in zip(codec.fields, codec.fields[1:], strict=False):
    assert field.offset + field.words == following.offset
  assert codec.fields[0].offset == 0
  assert codec.fields[-1].offset + codec.fields[-1].words == codec.width


_VALUES: dict[str, Any] = {"array": np.zeros(2, np.float32), "flag": True, "count": 3, "reward": 0.5}
_CODEC = RowCodec.of({"array": (np.float32, (2,)), "flag": (bool, ()), "count": (np.int32, ()), "reward": ("f4", ())})


@pytest.mark.parametrize(
  ("name", "value"),
  [
    ("array", np.zeros(2)),
    ("array", np.zeros(2, np.int32)),
    ("array", np.zeros(3, np.float32)),
    ("array", np.zeros((2, 1), np.float32)),
    ("array", [0.0, 0.0]),
    ("array", np.float32(1)),
    ("count", np.float32(1.5)),
    ("count", np.int64(1)),
    ("count", np.array([1], np.int32)),
    ("flag", np.int32(1)),
    ("reward", np.float64(0.1)),
  ],
)
def test_a_value_of_another_dtype_or_shape_is_refused_by_name(name: str, value: Any) -> None:
  with pytest.raises(UserError, match=f"produced a {name} of dtype"):
    _CODEC.packer().pack({**_VALUES, name: value})


def test_a_scalar_of_the_right_dtype_passes_as_number_scalar_or_array() -> None:
  for count in (3, np.int32(3), np.array(3, np.int32)):
    assert _CODEC.unpack(_CODEC.packer().pack({**_VALUES, "count": count}))["count"] == 3


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_float_that_is_not_finite_is_refused_by_name_and_the_packer_goes_on(
  bad: float, dtype: str, shape: tuple[int, ...]
) -> None:
  codec = RowCodec.of({"value": (dtype, shape), "other": (np.float32, ())})
  packer = codec.packer()
  values = np.ones(shape, dtype)
  values[...] = np.where(np.arange(values.size).reshape(shape) == values.size - 1, bad, 1)
  with pytest.raises(UserError, match="produced a value that is not finite"):
    packer.pack({"value": values, "other": 0.0})
  assert codec.unpack(packer.pack({"value": np.ones(shape, dtype), "other": 2.0}))["other"] == 2


@pytest.mark.parametrize("value", [3e38, -3e38, 1e30])
def test_large_values_are_finite_although_their_squares_are_not(value: float) -> None:
  codec = RowCodec.of({"a": (np.float32, (2,)), "b": (np.float32, ())})
  row = codec.packer().pack({"a": np.array([value, value], np.float32), "b": value})
  np.testing.assert_array_equal(row, np.full(3, value, np.float32))


@pytest.mark.parametrize("value", [1e39, -1e39, math.inf, math.nan])
def test_a_python_number_beyond_float32_is_not_finite(value: float) -> None:
  codec = RowCodec.of({"a": (np.int32, (2,)), "b": (np.float32, ()), "c": (np.int64, ())})
  packer = codec.packer()
  arrays = {"a": np.array([1, 2], np.int32), "c": 7}
  with pytest.raises(UserError, match="produced a b that is not finite"):
    packer.pack({**arrays, "b": value})
  fields = codec.unpack(packer.pack({**arrays, "b": 0.5}))
  assert (fields["a"].tolist(), float(fields["b"]), int(fields["c"])) == ([1, 2], 0.5, 7)


def test_arrays_between_scalars_keep_their_values() -> None:
  layout = {"a": (np.int32, ()), "b": (np.uint8, (5,)), "c": (np.bool_, ()), "d": (np.float64, ()), "e": (np.int8, ())}
  codec = RowCodec.of(layout)
  values = {"a": -3, "b": np.arange(5, dtype=np.uint8), "c": True, "d": 1e300, "e": np.int8(-7)}
  fields = codec.unpack(codec.packer().pack(values))
  assert [fields[name].tolist() for name in layout] == [-3, [0, 1, 2, 3, 4], True, 1e300, -7]


def test_a_packed_row_is_the_callers_to_keep() -> None:
  packer = _CODEC.packer()
  one = packer.pack({**_VALUES, "count": 1})
  packer.pack({**_VALUES, "count": 2})
  assert _CODEC.unpack(one)["count"] == 1


@pytest.mark.parametrize("dtype", [np.complex64, object, "U3", "datetime64[s]", np.longdouble])
def test_a_dtype_that_cannot_lie_in_a_row_is_refused(dtype: Any) -> None:
  with pytest.raises(UserError, match="'odd' has dtype"):
    RowCodec.of({"odd": (dtype, ())})


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_a_field_without_values_is_refused(shape: tuple[int, ...]) -> None:
  with pytest.raises(UserError, match="no values"):
    RowCodec.of({"empty": (np.float32, shape)})


def test_a_layout_travels_as_json() -> None:
  codec = make_row_codec(make_spec((5, 7, 3), np.uint8))
  assert from_dict(to_dict(codec), RowCodec) == codec
