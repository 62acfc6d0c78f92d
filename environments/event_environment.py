"""`EventEnvironment`: a gymnasium environment as a dm_env environment that evaluates events."""

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import dm_env
import gymnasium
import numpy as np
import numpy.typing as npt
from acme import specs
from gymnasium import spaces

from configs import EnvironmentConfig, EventSpec, UserError
from configs.specs import CATEGORIES
from environments.answers import AnswerCheck
from environments.calls import LateCall, WorldCalls
from environments.events import EventMonitor, EventStep
from environments.shaping import Shaping
from environments.timestep import EventTimeStep

make_environment_spec = specs.make_environment_spec

_CONTINUES = np.float32(1.0)
_ENDS = np.float32(0.0)


class EventEnvironment(dm_env.Environment):
  """Steps a gymnasium environment by dm_env's rules, evaluates events at each step, and shapes rewards if asked to.

  As in dm_env, `step` after the end of an episode (or before the first `reset`) starts an episode and ignores its action.
  What the environment does wrong becomes a sentence that names it and the call: `environments.calls` says what happens if it
  raises or hangs, and `environments.answers` how its answers are checked.

  Continuous actions with finite bounds are canonical: in [-1, 1], whatever the environment's own bounds are, so that policies
  and replay know one range. Only this class maps them onto the environment's bounds.
  """

  def __init__(
    self,
    gym_env: gymnasium.Env[Any, Any],
    events: Sequence[EventSpec] = (),
    seed: int | None = None,
    shaping: Shaping | None = None,
    config: EnvironmentConfig | None = None,
  ):
    """Wraps `gym_env`, and takes ownership of it.

    Args:
      gym_env: the environment.
      events: in the order of their bits.
      seed: for the first reset and for the action space; later episodes continue the environment's own generator.
      shaping: of the learner's rewards; None for none.
      config: gives the environment's name, how it is checked, and how long its calls may last; None takes the name of its class,
        and the defaults.

    Raises:
      UserError: a space is missing or of a kind that cannot be stored, `reset` takes no seed, or an event cannot be loaded.
    """
    config = config or EnvironmentConfig(type(gym_env.unwrapped).__name__)
    self.gym_env = gym_env
    self._calls = WorldCalls(config.name, config.timeout_seconds)
    self._monitor = EventMonitor(events)
    self._shaping = shaping
    action_space = self._space("action_space")
    self._observation_spec = _observation_spec(self._space("observation_space"))
    self._action_spec = _action_spec(action_space)
    self._to_gym_action = _action_converter(action_space)
    self._check = AnswerCheck(config.name, self._observation_spec, action_space, config.check)
    _check_takes_seed(gym_env, config.name)
    self._dtype = self._observation_spec.dtype
    self._seed = seed
    self._observation: npt.NDArray[Any] = np.zeros(self._observation_spec.shape, self._dtype)
    self._needs_reset = True
    action_space.seed(seed)

  def reset(self) -> EventTimeStep:
    """Starts an episode.

    Raises:
      UserError: the environment raised something or returned something else than it should, or an event's condition or the
        potential failed.
    """
    observation, info = self._check.of_reset(
      self._calls("reset", functools.partial(self.gym_env.reset, seed=self._seed))
    )
    self._seed = None
    self._monitor.reset()
    self._needs_reset = False
    self._observation = self._convert(observation)
    if self._shaping is not None:
      self._shaping.reset(self._observation, info)
    return EventTimeStep(dm_env.StepType.FIRST, None, None, self._observation)

  def step(self, action: Any) -> EventTimeStep:
    """Takes an action of `action_spec()`; a continuous action is clipped to its bounds.

    Raises:
      UserError: an action has another shape than the spec or is outside the space, the environment raised something or returned
        something else than it should, or an event's condition or the potential failed.
    """
    if self._needs_reset:
      return self.reset()
    gym_action = self._to_gym_action(action)
    if self._check.active:
      self._check.action(gym_action)
    answer = self._calls("step", self.gym_env.step, gym_action)
    raw_observation, reward, terminated, truncated, info = self._check.of_step(answer)
    last, observation = self._observation, self._convert(raw_observation)
    events = self._monitor(EventStep(last, gym_action, reward, observation, info, terminated, truncated))
    shaping = 0.0 if self._shaping is None else self._shaping(observation, info, terminated)
    self._observation = observation
    self._needs_reset = terminated or truncated
    return EventTimeStep(
      dm_env.StepType.LAST if self._needs_reset else dm_env.StepType.MID,
      np.float32(reward),
      _ENDS if terminated else _CONTINUES,
      observation,
      events,
      terminated,
      truncated,
      shaping,
    )

  def observation_spec(self) -> specs.Array:
    """The observations' shape and dtype; float64 spaces become float32."""
    return self._observation_spec

  def action_spec(self) -> specs.BoundedArray:
    """A `DiscreteArray` of int32 that counts from 0, or a `BoundedArray` of float32.

    A Box whose bounds are all finite, with low below high, becomes [-1, 1]; any other Box keeps its own bounds.
    """
    return self._action_spec

  def reward_spec(self) -> specs.Array:
    """A float32 scalar."""
    return specs.Array((), np.float32, name="reward")

  def discount_spec(self) -> specs.BoundedArray:
    """A float32 scalar in [0, 1]."""
    return specs.BoundedArray((), np.float32, minimum=0.0, maximum=1.0, name="discount")

  def late_call(self) -> LateCall | None:
    """The call into the environment that is under way, if it has lasted longer than `environment.timeout_seconds`; for other
    threads.
    """
    return self._calls.late()

  def render(self) -> Any:
    """The gymnasium environment's picture, in its render mode.

    Raises:
      UserError: the environment raised something.
    """
    return self._calls("render", self.gym_env.render)

  def close(self) -> None:
    """Closes the gymnasium environment. If that fails, says so on standard error: a finished run must not fail for it."""
    try:
      self._calls("close", self.gym_env.close)
    except UserError as error:
      print(error, file=sys.stderr, flush=True)

  def _space(self, name: str) -> spaces.Space[Any]:
    space = self._calls(name, lambda: getattr(self.gym_env, name, None))
    if not isinstance(space, spaces.Space):
      what = f"no {name}" if space is None else f"the {name} {space!r} ({type(space).__name__})"
      raise UserError(f"The environment {self._calls.world!r} has {what}: set it to one of gymnasium's spaces.")
    return space

  def _convert(self, observation: Any) -> npt.NDArray[Any]:
    # Always a new array: some environments write every observation into the same one.
    try:
      return np.array(observation, dtype=self._dtype)
    except (TypeError, ValueError, OverflowError) as error:
      raise UserError(
        f"The environment {self._calls.world!r} returned an observation ({type(observation).__name__}) that is no array of "
        f"numbers ({error}): return what its observation_space says."
      ) from error


def _check_takes_seed(gym_env: gymnasium.Env[Any, Any], name: str) -> None:
  """Refuses an environment, or a wrapper of it, whose `reset` takes no seed."""
  layer = gym_env
  while True:
    try:
      inspect.signature(layer.reset).bind(seed=None)
    except TypeError as error:
      raise UserError(
        f"The environment {name!r} cannot be reset with a seed: {type(layer).__name__}.reset does not take 'seed' ({error}); "
        "write it as reset(self, *, seed=None, options=None)."
      ) from None
    except ValueError:
      pass  # Some callables written in C have no signature.
    if not isinstance(layer, gymnasium.Wrapper):
      return
    layer = layer.env


def _as_float32(bound: npt.NDArray[Any]) -> npt.NDArray[Any]:
  with np.errstate(over="ignore"):  # Some environments write the largest float64 where they mean infinity.
    return np.asarray(bound).astype(np.float32)


def _observation_spec(space: spaces.Space[Any]) -> specs.Array:
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


def _action_spec(space: spaces.Space[Any]) -> specs.BoundedArray:
  if isinstance(space, spaces.Discrete):
    return specs.DiscreteArray(int(space.n), np.int32, "action")
  if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
    low, high = (-1.0, 1.0) if _can_rescale(space) else (_as_float32(space.low), _as_float32(space.high))
    return specs.BoundedArray(space.shape, np.float32, low, high, "action")
  raise UserError(f"The environment's actions are {space}: use one with a Discrete space or a Box of floats.")


def _can_rescale(space: spaces.Box) -> bool:
  """Whether every dimension has two finite bounds, low below high."""
  finite = np.isfinite(_as_float32(space.low)) & np.isfinite(_as_float32(space.high))
  return bool((finite & (space.low < space.high)).all())


def _action_converter(space: spaces.Space[Any]) -> Callable[[Any], Any]:
  """The function from an action of the spec to one of `space`."""
  if isinstance(space, spaces.Discrete):
    start = int(space.start)
    return int if start == 0 else lambda action: start + int(action)
  assert isinstance(space, spaces.Box)  # _action_spec has refused the others.
  if _can_rescale(space) and not ((space.low == -1) & (space.high == 1)).all():
    return _rescaler(space)
  return _clipper(space)


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
