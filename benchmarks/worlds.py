"""The paper's MiniGrid worlds against worlds of the minigrid library with the same view."""

import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from minigrid.wrappers import ImgObsWrapper

from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from configs import EnvironmentConfig, load_config
from environments import make, make_event_environment
from environments.grid_world import VIEW_SIZE

_OURS = ("two_rooms", "obstacle_course", "randomised_skills")
_THEIRS = ("MiniGrid-LavaCrossingS9N2-v0", "MiniGrid-DoorKey-8x8-v0")
# Of the library's worlds; their seventh does nothing.
_ACTIONS = 6


def run(runs: int, quick: bool) -> Report:
  """Steps per second of the bare worlds under random actions, resets included."""
  # A run takes a second or two: a shorter one is too noisy on a busy machine.
  steps, their_steps = (2_000, 300) if quick else (100_000, 5_000)
  contenders: dict[str, Contender] = {}
  for name in _OURS:
    env = make(EnvironmentConfig(name))
    assert isinstance(env.action_space, gymnasium.spaces.Discrete)
    contenders[name] = _gym_contender(env, steps, int(env.action_space.n))
  contenders["obstacle_course with its events"] = _event_contender("obstacle_course", steps)
  for name in _THEIRS:
    for see_through, suffix in ((True, ", through walls"), (False, "")):
      contenders[name + suffix] = _gym_contender(_make_theirs(name, see_through), their_steps, _ACTIONS)
  measured = interleave(contenders, runs)
  figures = {name: Figure(name, "steps/s", values["steps"]) for name, values in measured.items()}
  theirs = [figures[name + suffix] for name, suffix in itertools.product(_THEIRS, (", through walls", ""))]
  return Report(
    "worlds",
    (
      "Random actions; a new episode after each that ends. The library's worlds give their view of "
      f"{VIEW_SIZE} x {VIEW_SIZE} cells as a flat vector, and no more; seeing through walls, as in ours, costs less.",
      "Required: as fast as the library's.",
    ),
    tuple(figures.values()),
    tuple(
      Ratio.of(f"{ours} / {other.what}", figures[ours], other, required=1.0)
      for ours in ("obstacle_course", "randomised_skills")
      for other in theirs
    ),
  )


def _make_theirs(name: str, see_through: bool) -> gymnasium.Env[Any, Any]:
  env: Any = gymnasium.make(name, agent_view_size=VIEW_SIZE, disable_env_checker=True).unwrapped
  env.see_through_walls = see_through
  flat: gymnasium.Env[Any, Any] = gymnasium.wrappers.FlattenObservation(ImgObsWrapper(env))
  return flat


def _gym_contender(env: gymnasium.Env[Any, Any], steps: int, actions: int) -> Contender:
  def begin() -> None:
    env.reset()

  def step(action: int) -> bool:
    _, _, terminated, truncated, _ = env.step(action)
    return terminated or truncated

  env.reset(seed=0)
  return lambda: _measure(begin, step, steps, actions)


def _event_contender(preset: str, steps: int) -> Contender:
  env = make_event_environment(load_config(preset), seed=0)
  return lambda: _measure(
    lambda: env.reset(), lambda action: env.step(action).last(), steps, env.action_spec().num_values
  )


def _measure(begin: Callable[[], Any], step: Callable[[int], bool], steps: int, actions: int) -> Mapping[str, float]:
  chosen = np.random.default_rng(0).integers(actions, size=steps).tolist()
  began = time.perf_counter()
  begin()
  for action in chosen:
    if step(action):
      begin()
  return {"steps": steps / (time.perf_counter() - began)}
