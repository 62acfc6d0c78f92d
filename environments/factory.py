"""Environments by name."""

import difflib
import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from configs import EnvironmentConfig, UserError
from environments.calls import FAILURES, one_line, trace_of
from environments.events import load_reference
from environments.vector import SingleOfVector, check_vector

AnyEnv = gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]

# Name -> class, which is imported when it is asked for: the racing worlds take numba with them, 60 MB.
BUILT_IN: Mapping[str, str] = {
  "three_rooms": "environments.three_rooms:ThreeRooms",
  "two_rooms": "environments.two_rooms:TwoRooms",
  "obstacle_course": "environments.obstacle_course:ObstacleCourse",
  "randomised_skills": "environments.randomised_skills:RandomisedSkills",
  "slingshot": "environments.racing.world:Slingshot",
  "time_trial": "environments.racing.world:TimeTrial",
  "time_trials": "environments.racing.time_trials:TimeTrials",
}

# Of these, the vector environments.
_VECTOR = ("environments.racing.time_trials:TimeTrials",)

# A maker of vector environments takes this argument: how many sub-environments to make.
_COUNT = "num_envs"
# With this argument an id of gymnasium is made by its `make_vec`: "sync", "async" or "vector_entry_point".
_VECTORIZATION = "vectorization_mode"
# Does not match "package:Env-v1", which is how gymnasium names a module to import first, because of the '-'.
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def register_built_in() -> None:
  """Registers the built-in worlds with gymnasium, three_rooms as "Slipstream/ThreeRooms-v0"."""
  for reference in BUILT_IN.values():
    name = f"Slipstream/{reference.partition(':')[2]}-v0"
    if name in gymnasium.registry:
      continue
    if reference in _VECTOR:
      gymnasium.register(name, vector_entry_point=reference)
    else:
      gymnasium.register(name, entry_point=reference)


def make(config: EnvironmentConfig, render: bool = False) -> gymnasium.Env[Any, Any]:
  """The environment that `config` names; a vector environment is made with one sub-environment.

  Args:
    config: the name, which is one of `BUILT_IN`, a `module:function` or a gymnasium id, and keyword arguments.
    render: whether it will render pictures. It then gets the render mode "rgb_array", unless the arguments name another or a
      user's function takes none.

  Raises:
    UserError: there is no such environment, it refuses its arguments, or it is no environment of gymnasium.
  """
  env = make_any(config, render, 1)
  if not isinstance(env, VectorEnv):
    return env
  check_vector(env, config.name, 1, "a single episode, as an evaluation plays it,")
  return SingleOfVector(env)


def make_any(config: EnvironmentConfig, render: bool, count: int | None) -> AnyEnv:
  """The environment that `config` names, single or vector.

  Args:
    config: of the environment.
    render: whether it will render pictures.
    count: sub-environments that a maker of vector environments is asked for; None for as many as it makes by itself.

  Raises:
    UserError: as `make`.
  """
  if _COUNT in config.arguments:
    raise UserError(
      f"environment.arguments has {_COUNT!r}, which the role that makes the environment chooses: set actor.environments."
    )
  if config.name in BUILT_IN:
    env = _call(load_reference(BUILT_IN[config.name], "The environment"), config, render, count)
  elif _REFERENCE.fullmatch(config.name):
    env = _call(load_reference(config.name, "The environment"), config, render, count)
  else:
    env = _make_gymnasium(config, render, count)
  if not isinstance(env, (gymnasium.Env, VectorEnv)):
    raise UserError(
      f"The environment {config.name!r} is a {type(env).__name__}: it must be a gymnasium.Env or a gymnasium.vector.VectorEnv."
    )
  return env


def _call(function: Callable[..., Any], config: EnvironmentConfig, render: bool, count: int | None) -> Any:
  parameters = _parameters(function)
  arguments = dict(config.arguments)
  if count is not None and parameters is not None and _COUNT in parameters:
    arguments[_COUNT] = count
  if render and parameters is not None and "render_mode" in parameters:
    arguments.setdefault("render_mode", "rgb_array")
  if parameters is not None and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
    unknown = [name for name in arguments if name not in parameters]
    if unknown:
      near = difflib.get_close_matches(unknown[0], parameters, n=1)
      hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(parameters) or 'none'}."
      raise UserError(f"The environment {config.name!r} has no argument {unknown[0]!r}: {hint}")
  try:
    return function(**arguments)
  except UserError:
    raise
  except FAILURES as error:  # The function is the user's.
    raise UserError(_refusal(config, error), trace_of(error)) from error


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
  try:
    return inspect.signature(function).parameters
  except ValueError:  # Some callables written in C have no signature.
    return None


def _make_gymnasium(config: EnvironmentConfig, render: bool, count: int | None) -> AnyEnv:
  arguments = {"render_mode": "rgb_array", **config.arguments} if render else dict(config.arguments)
  if arguments.get("render_mode") == "rgb_array":
    # Otherwise pygame, with which some worlds draw, looks for a screen and fails if there is none.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
  mode = arguments.pop(_VECTORIZATION, None)
  try:
    if mode is None:
      return gymnasium.make(config.name, **arguments)
    # An environment with a vector entry point of its own takes no arguments for gymnasium's; it says itself how it resets.
    vectorizer = {} if mode == "vector_entry_point" else {"autoreset_mode": AutoresetMode.DISABLED}
    return gymnasium.make_vec(config.name, count or 1, mode, vectorizer, **arguments)
  except UserError:
    raise
  except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
    near = difflib.get_close_matches(config.name, [*BUILT_IN, *gymnasium.registry], n=3)
    names = " or ".join(repr(name) for name in near)
    hint = f"did you mean {names}?" if near else "check the id, or write 'module:function'."
    raise UserError(f"There is no environment {config.name!r}: {hint}") from error
  except ModuleNotFoundError as error:
    # For an id with a module ("module:Env-v1") gymnasium raises its own error, without a name, from the original one.
    missing = error.name or getattr(error.__cause__, "name", None)
    raise UserError(
      f"The environment {config.name!r} needs the module {missing!r}: install its package or give its folder with "
      "--pythonpath."
    ) from error
  except FAILURES as error:
    raise UserError(_refusal(config, error), trace_of(error)) from error


def _refusal(config: EnvironmentConfig, error: BaseException) -> str:
  return (
    f"The environment {config.name!r} cannot be made with the arguments {dict(config.arguments)} "
    f"({type(error).__name__}: {one_line(error)}): check environment.name and environment.arguments."
  )
