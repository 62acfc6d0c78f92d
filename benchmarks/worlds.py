"""The paper's MiniGrid worlds against worlds of the minigrid library with the same view; the racing worlds against real time."""

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
from environments.racing.car import Car
from environments.racing.driver import drive, find_line, make_drivers
from environments.racing.features import FeatureLayout
from environments.racing.rewards import COMPONENTS, SLINGSHOT, assess
from environments.racing.simulation import MAX_CARS, STEP, Simulation
from environments.racing.tracks import circuit
from environments.racing.world import TimeTrialField

_OURS = ("two_rooms", "obstacle_course", "randomised_skills")
_THEIRS = ("MiniGrid-LavaCrossingS9N2-v0", "MiniGrid-DoorKey-8x8-v0")
# Of the library's worlds; their seventh does nothing.
_ACTIONS = 6
# Racing worlds, and how many times as fast as real time they must be.
_RACING = {"slingshot": 1000.0, "time_trial": 1000.0, "20 cars, as ghosts": 100.0, "20 cars, racing each other": 100.0}


def run(runs: int, quick: bool) -> Report:
  """Steps per second of the bare worlds under random actions, resets included."""
  # A run takes a second or two: a shorter one is too noisy on a busy machine.
  steps, their_steps = (500, 100) if quick else (100_000, 5_000)
  contenders: dict[str, Contender] = {}
  for name in _OURS:
    env = make(EnvironmentConfig(name))
    assert isinstance(env.action_space, gymnasium.spaces.Discrete)
    contenders[name] = _gym_contender(env, steps, int(env.action_space.n))
  contenders["obstacle_course with its events"] = _event_contender("obstacle_course", steps)
  for name in _THEIRS:
    for see_through, suffix in ((True, ", through walls"), (False, "")):
      contenders[name + suffix] = _gym_contender(_make_theirs(name, see_through), their_steps, _ACTIONS)
  contenders |= _racing_contenders(500 if quick else 20_000)
  measured = interleave(contenders, runs)
  figures = {name: Figure(name, "steps/s", values["steps"]) for name, values in measured.items()}
  real_time = Figure("real time", "steps/s", (1 / STEP,) * runs)
  theirs = [figures[name + suffix] for name, suffix in itertools.product(_THEIRS, (", through walls", ""))]
  return Report(
    "worlds",
    (
      "Random actions; a new episode after each that ends. The library's worlds give their view of "
      f"{VIEW_SIZE} x {VIEW_SIZE} cells as a flat vector, and no more; seeing through walls, as in ours, costs less.",
      "Required: as fast as the library's.",
      "Racing: a step is 0.1 s of all cars, with features and rewards; the slingshot has a learner and a built-in driver.",
    ),
    tuple(figures.values()),
    tuple(
      Ratio.of(f"{ours} / {other.what}", figures[ours], other, required=1.0)
      for ours in ("obstacle_course", "randomised_skills")
      for other in theirs
    )
    + tuple(
      Ratio.of(f"{name} / real time", figures[name], real_time, required=required) for name, required in _RACING.items()
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


def _racing_contenders(steps: int) -> dict[str, Contender]:
  worlds = {name: make(EnvironmentConfig(name)) for name in ("slingshot", "time_trial")}
  few = steps // 10
  return {
    **{name: lambda env=env: _race_alone(env, steps) for name, env in worlds.items()},  # type: ignore[misc]
    "20 cars, as ghosts": lambda: _race_ghosts(few),
    "20 cars, racing each other": lambda: _race_all(few),
  }


def _race_alone(env: gymnasium.Env[Any, Any], steps: int) -> Mapping[str, float]:
  actions = np.random.default_rng(0).uniform(-0.1, 1, (steps, 2)) * (0.1, 1)
  env.reset(seed=0)
  began = time.perf_counter()
  for action in actions:
    _, _, terminated, truncated, _ = env.step(action)
    if terminated or truncated:
      env.reset()
  return {"steps": steps / (time.perf_counter() - began)}


def _race_ghosts(steps: int) -> Mapping[str, float]:
  field, generator = TimeTrialField(MAX_CARS), np.random.default_rng(0)
  field.reset(generator)
  actions = generator.uniform(-1, 1, (MAX_CARS, 2)) * (0.1, 1)
  began = time.perf_counter()
  for _ in range(steps):
    *_, truncated = field.step(actions)
    if truncated.any():
      field.reset(generator, truncated)
  return {"steps": steps / (time.perf_counter() - began)}


def _race_all(steps: int) -> Mapping[str, float]:
  simulation, layout = Simulation(circuit(), [Car()] * MAX_CARS), FeatureLayout(opponents=7)
  line, drivers, actions = find_line(circuit(), Car()), make_drivers(MAX_CARS), np.zeros((MAX_CARS, 2))
  components = np.zeros((MAX_CARS, len(COMPONENTS)))
  rows = np.arange(MAX_CARS)
  simulation.place(300.0 - 12.0 * rows, np.where(rows % 2, 2.5, -2.5), np.full(MAX_CARS, 50.0))
  began = time.perf_counter()
  for _ in range(steps):
    drive(simulation.race, line, drivers, actions)
    simulation.step(actions)
    assess(simulation.race, components)
    SLINGSHOT.reward(components)
    layout.observe(simulation.race)
  return {"steps": steps / (time.perf_counter() - began)}


def _measure(begin: Callable[[], Any], step: Callable[[int], bool], steps: int, actions: int) -> Mapping[str, float]:
  chosen = np.random.default_rng(0).integers(actions, size=steps).tolist()
  began = time.perf_counter()
  begin()
  for action in chosen:
    if step(action):
      begin()
  return {"steps": steps / (time.perf_counter() - began)}
