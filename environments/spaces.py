"""Spaces of gymnasium as specs of the replay, and actions of the spec as actions of the space."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from acme import specs
from gymnasium import spaces

from configs import UserError
from configs.specs import CATEGORIES


def observation_spec(space: spaces.Space[Any]) -> specs.Array:
  """The observations' shape and dtype; float64 becomes float32.

  Raises:
    UserError: the space is of a kind that cannot be stored.
  """
  if isinstance(space, spaces.Box):
    if space.dtype == np.float64:
      return specs.BoundedArray(space.shape, np.float32, _as_float32(space.low), _as_float32(space.high), "observation")
    return specs.BoundedArray(space.shape, space.dtype, space.low, space.high, "observation")
  if isinstance(space, spaces.Discrete):
    return specs.BoundedArray((), np.int32, space.start, space.start + space.n - 1, CATEGORIES)
  if isinstance(space, spaces.MultiDiscrete):
    return specs.BoundedArray(space.shape, np.int32, space.start, space.start + space.nvec - 1, CATEGORIES)
  if isinstance(space, spaces.MultiBinary):
    return specs.BoundedArray(space.shape, space.dtype, 0, 1, "observation")
  raise UserError(
    f"The environment's observations are a {type(space).__name__} space, and only arrays can be stored: wrap the "
    "environment with gymnasium.wrappers.FlattenObservation."
  )


def action_spec(space: spaces.Space[Any]) -> specs.BoundedArray:
  """A `DiscreteArray` of int32 that counts from 0, or a `BoundedArray` of float32.

  A Box whose bounds are all finite, with low below high, becomes [-1, 1]; any other Box keeps its own bounds.

  Raises:
    UserError: the space is of another kind.
  """
  if isinstance(space, spaces.Discrete):
    return specs.DiscreteArray(int(space.n), np.int32, "action")
  if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
    low, high = (-1.0, 1.0) if _can_rescale(space) else (_as_float32(space.low), _as_float32(space.high))
    return specs.BoundedArray(space.shape, np.float32, low, high, "action")
  raise UserError(f"The environment's actions are {space}: use one with a Discrete space or a Box of floats.")


def action_converter(space: spaces.Space[Any]) -> Callable[[Any], Any]:
  """The function from an action of the spec to one of `space`."""
  if isinstance(space, spaces.Discrete):
    start = int(space.start)
    return int if start == 0 else lambda action: start + int(action)
  assert isinstance(space, spaces.Box)  # action_spec has refused the others.
  if _can_rescale(space) and not ((space.low == -1) & (space.high == 1)).all():
    return _rescaler(space)
  return _clipper(space)


def _as_float32(bound: npt.NDArray[Any]) -> npt.NDArray[Any]:
  with np.errstate(over="ignore"):  # Some environments write the largest float64 where they mean infinity.
    return np.asarray(bound).astype(np.float32)


def _can_rescale(space: spaces.Box) -> bool:
  """Whether every dimension has two finite bounds, low below high."""
  finite = np.isfinite(_as_float32(space.low)) & np.isfinite(_as_float32(space.high))
  return bool((finite & (space.low < space.high)).all())


# np.clip takes four times as long as np.minimum and np.maximum, and every step converts an action.
def _clipper(space: spaces.Box) -> Callable[[Any], npt.NDArray[Any]]:
  """The function that converts an action to the dtype of `space` and clips it: as float32, a bound can lie just outside."""
  dtype, shape, low, high = space.dtype, space.shape, space.low, space.high

  def convert(action: Any) -> npt.NDArray[Any]:
    action = np.asarray(action, dtype)
    _check_shape(action, shape)
    return np.asarray(np.minimum(np.maximum(action, low), high))

  return convert


def _rescaler(space: spaces.Box) -> Callable[[Any], npt.NDArray[Any]]:
  """The map from [-1, 1] to the bounds of `space`: affine, except for rounding, and exact at -1 and 1."""
  dtype, shape = space.dtype, space.shape
  # In float64, so that rounding to the dtype comes last; it leaves the bounds, which have that dtype, unchanged.
  low, high = space.low.astype(np.float64), space.high.astype(np.float64)
  offset, scale = low / 2 + high / 2, high / 2 - low / 2
  # If rounding leaves -1 or 1 short of its bound, a slightly steeper map reaches it; what goes beyond the bounds is clipped.
  short = (offset - scale > low) | (offset + scale < high)
  scale = scale + short * 4 * np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high))

  def convert(action: Any) -> npt.NDArray[Any]:
    action = np.asarray(action, np.float64)
    _check_shape(action, shape)
    return np.asarray(np.minimum(np.maximum(action * scale + offset, low), high), dtype)

  return convert


def _check_shape(action: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
  if action.shape != shape:  # Broadcasting might hide this.
    raise UserError(f"An action has the shape {action.shape}, but the environment takes {shape}: fix the policy.")
