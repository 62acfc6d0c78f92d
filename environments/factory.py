"""Environments by name."""

import difflib
import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from configs import EnvironmentConfig, RunConfig, UserError
from environments.calls import FAILURES, one_line, trace_of
from environments.event_environment import EventEnvironment
from environments.events import load_reference
from environments.shaping import Shaping, make_potential

# Name -> class, which is imported when it is asked for: the racing worlds take numba with them, 60 MB.
BUILT_IN: Mapping[str, str] = {
  "three_rooms": "environments.three_rooms:ThreeRooms",
  "two_rooms": "environments.two_rooms:TwoRooms",
  "obstacle_course": "environments.obstacle_course:ObstacleCourse",
  "randomised_skills": "environments.randomised_skills:RandomisedSkills",
  "slingshot": "environments.racing.world:Slingshot",
  "time_trial": "environments.racing.world:TimeTrial",
}

# Does not match "package:Env-v1", which is how gymnasium names a module to import first, because of the '-'.
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def register_built_in() -> None:
  """Registers the built-in worlds with gymnasium, three_rooms as "Slipstream/ThreeRooms-v0"."""
  for reference in BUILT_IN.values():
    name = f"Slipstream/{reference.partition(':')[2]}-v0"
    if name not in gymnasium.registry:
      gymnasium.register(name, entry_point=reference)


def make(config: EnvironmentConfig, render: bool = False) -> gymnasium.Env[Any, Any]:
  """The environment that `config` names.

  Args:
    config: the name, which is one of `BUILT_IN`, a `module:function` or a gymnasium id, and keyword arguments.
    render: whether it will render pictures. It then gets the render mode "rgb_array", unless the arguments name another or a
      user's function takes none.

  Raises:
    UserError: there is no such environment, it refuses its arguments, or it is not a `gymnasium.Env`.
  """
  if config.name in BUILT_IN:
    env = _call(load_reference(BUILT_IN[config.name], "The environment"), config, render)
  elif _REFERENCE.fullmatch(config.name):
    env = _call(load_reference(config.name, "The environment"), config, render)
  else:
    env = _make_gymnasium(config, render)
  if not isinstance(env, gymnasium.Env):
    raise UserError(f"The environment {config.name!r} is a {type(env).__name__}: it must be a gymnasium.Env.")
  return env


def make_event_environment(
  config: RunConfig, seed: int | None = None, render: bool = False, shaped: bool = False
) -> EventEnvironment:
  """The run's environment with the run's events, as a dm_env environment.

  Args:
    config: of the run.
    seed: of the environment.
    render: whether it will render pictures.
    shaped: whether its steps carry the config's shaping, which a worker needs and an evaluator does not.

  Raises:
    UserError: the environment, an event or the potential cannot be made.
  """
  shaping = None
  if shaped and config.environment.potential:
    potential = make_potential(config.environment.potential, config.environment.potential_arguments)
    shaping = Shaping(potential, config.learner.discount)
  return EventEnvironment(make(config.environment, render), config.events, seed, shaping, config.environment)


def _call(function: Callable[..., Any], config: EnvironmentConfig, render: bool) -> Any:
  parameters = _parameters(function)
  arguments = dict(config.arguments)
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


def _make_gymnasium(config: EnvironmentConfig, render: bool) -> gymnasium.Env[Any, Any]:
  arguments = {"render_mode": "rgb_array", **config.arguments} if render else dict(config.arguments)
  if arguments.get("render_mode") == "rgb_array":
    # Otherwise pygame, with which some worlds draw, looks for a screen and fails if there is none.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
  try:
    return gymnasium.make(config.name, **arguments)
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
