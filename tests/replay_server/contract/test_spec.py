"""Specs to JSON and back."""

import json
from typing import Any

import numpy as np
import pytest
from acme import specs
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import EnvironmentConfig, RunConfig, UserError
from environments import make_environment_spec, make_event_environment
from replay_server.contract.spec import spec_from_dict, spec_to_dict

_SCALAR = specs.Array((), np.float32, "reward")
_DTYPES = ("bool", "int8", "int32", "int64", "uint8", "uint64", "float16", "float32", "float64")
_SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)
_NAMES = st.none() | st.text(max_size=5)


def _through_json(spec: specs.EnvironmentSpec) -> specs.EnvironmentSpec:
  return spec_from_dict(json.loads(json.dumps(spec_to_dict(spec), allow_nan=False)))


def _bounds(draw: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
  if dtype.kind == "f":
    values: st.SearchStrategy[Any] = {
      "float16": st.floats(allow_nan=False, width=16),
      "float32": st.floats(allow_nan=False, width=32),
      "float64": st.floats(allow_nan=False),
    }[dtype.name]
  elif dtype.kind == "b":
    values = st.booleans()
  else:
    info = np.iinfo(dtype)
    values = st.integers(int(info.min), int(info.max))
  return np.array(draw(st.lists(values, min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))), dtype).reshape(
    shape
  )


@st.composite
def _arrays(draw: Any) -> specs.Array:
  kind, name = draw(st.sampled_from(["array", "bounded", "discrete"])), draw(_NAMES)
  if kind == "discrete":
    return specs.DiscreteArray(draw(st.integers(1, 100)), draw(st.sampled_from([np.int32, np.int64, np.uint8])), name)
  dtype, shape = np.dtype(draw(st.sampled_from(_DTYPES))), draw(_SHAPES)
  if kind == "array":
    return specs.Array(shape, dtype, name)
  # A bound may be one number for the whole array.
  low, high = (_bounds(draw, dtype, draw(st.sampled_from([shape, ()]))) for _ in range(2))
  return specs.BoundedArray(shape, dtype, np.minimum(low, high), np.maximum(low, high), name)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.lists(_arrays(), min_size=4, max_size=4))
def test_any_spec_comes_back_exactly(arrays: list[specs.Array]) -> None:
  for held, expected in zip(_through_json(specs.EnvironmentSpec(*arrays)), arrays, strict=True):
    assert type(held) is type(expected)
    assert held == expected
    assert held.name == expected.name
    if isinstance(expected, specs.BoundedArray):
      for bound, wanted in ((held.minimum, expected.minimum), (held.maximum, expected.maximum)):
        assert bound.shape == held.shape
        np.testing.assert_array_equal(bound, np.broadcast_to(wanted, expected.shape))
    if isinstance(expected, specs.DiscreteArray):
      assert held.num_values == expected.num_values


def test_a_picture_is_stored_with_two_numbers_and_infinities_as_texts() -> None:
  picture = specs.BoundedArray((84, 84, 4), np.uint8, np.zeros((84, 84, 4)), np.full((84, 84, 4), 255))
  numbers = specs.BoundedArray((2,), np.float32, [-np.inf, -1.5], np.inf)
  stored = spec_to_dict(specs.EnvironmentSpec(picture, numbers, _SCALAR, _SCALAR))
  assert (stored["observations"]["minimum"], stored["observations"]["maximum"]) == (0, 255)
  assert (stored["actions"]["minimum"], stored["actions"]["maximum"]) == (["-inf", -1.5], "inf")


@pytest.mark.parametrize("world", ["three_rooms", "Pendulum-v1", "CartPole-v1"])
def test_the_spec_of_a_world_comes_back(world: str) -> None:
  environment = make_event_environment(RunConfig(environment=EnvironmentConfig(world)))
  spec = make_environment_spec(environment)
  environment.close()
  assert _through_json(spec) == spec


def test_a_spec_that_is_not_of_arrays_of_numbers_is_refused() -> None:
  texts = specs.Array((), "U5", "letters")
  with pytest.raises(UserError, match="letters is a Array of dtype <U5"):
    spec_to_dict(specs.EnvironmentSpec(texts, _SCALAR, _SCALAR, _SCALAR))
