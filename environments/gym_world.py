"""`GymWorld`: the calls into a gymnasium environment, single or vector."""

import functools
import inspect
import sys
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.vector import VectorWrapper

from configs import EnvironmentConfig, UserError
from environments.calls import LateCall, WorldCalls


class GymWorld:
  """A gymnasium `Env` or `VectorEnv` whose calls are watched; see `environments.calls`.

  Attributes:
    env: the environment, which belongs to this object.
    name: of the environment, for messages.
  """

  def __init__(self, env: Any, config: EnvironmentConfig):
    """Wraps `env`; the config gives its name, and how long its calls may last."""
    self.env = env
    self.name = config.name
    self._calls = WorldCalls(config.name, config.timeout_seconds)

  def space(self, attribute: str) -> spaces.Space[Any]:
    """The environment's space of this name.

    Raises:
      UserError: there is none.
    """
    space = self._calls(attribute, lambda: getattr(self.env, attribute, None))
    if not isinstance(space, spaces.Space):
      what = f"no {attribute}" if space is None else f"the {attribute} {space!r} ({type(space).__name__})"
      raise UserError(f"The environment {self.name!r} has {what}: set it to one of gymnasium's spaces.")
    return space

  def check_takes_seed(self) -> None:
    """Refuses an environment, or a wrapper of it, whose `reset` takes no seed.

    Raises:
      UserError: this is one.
    """
    layer = self.env
    while True:
      try:
        inspect.signature(layer.reset).bind(seed=None)
      except TypeError as error:
        raise UserError(
          f"The environment {self.name!r} cannot be reset with a seed: {type(layer).__name__}.reset does not take 'seed' "
          f"({error}); write it as reset(self, *, seed=None, options=None)."
        ) from None
      except ValueError:
        pass  # Some callables written in C have no signature.
      if not isinstance(layer, (gymnasium.Wrapper, VectorWrapper)):
        return
      layer = layer.env

  def reset(self, **arguments: Any) -> Any:
    """What the environment's `reset` returns, unchecked.

    Raises:
      UserError: it raised something.
      EpisodesLost: as the environment.
    """
    return self._calls("reset", functools.partial(self.env.reset, **arguments))

  def step(self, action: Any) -> Any:
    """What the environment's `step` returns, unchecked.

    Raises:
      UserError: it raised something.
      EpisodesLost: as the environment.
    """
    return self._calls("step", self.env.step, action)

  def check_pace(self, action_seconds: float) -> None:
    """Refuses a policy that cannot keep up, if the environment does not wait: then it has a `check_pace`, as a console's client.

    Args:
      action_seconds: how long it takes to choose an action, or those of all its sub-environments.

    Raises:
      UserError: the environment goes on before.
    """
    check = getattr(self.env.unwrapped, "check_pace", None)
    if check is not None:
      check(action_seconds)

  def render(self) -> Any:
    """The environment's picture, in its render mode.

    Raises:
      UserError: the environment raised something.
    """
    return self._calls("render", self.env.render)

  def late_call(self) -> LateCall | None:
    """The call that is under way, if it has lasted longer than `environment.timeout_seconds`; for other threads."""
    return self._calls.late()

  def close(self) -> None:
    """Closes the environment. If that fails, says so on standard error: a finished run must not fail for it."""
    try:
      self._calls("close", self.env.close)
    except UserError as error:
      print(error, file=sys.stderr, flush=True)
