"""How far mixed transitions are from what the world does (NMER, Section 3, Figure 1).

A world's transitions lie on the surface that its dynamics draw over states and actions. A mixture of two of them lies beside it,
the farther the more the dynamics bend in between. So MuJoCo is set to a mixed state, takes the mixed action, and its reward and
next state are compared with the mixed ones.
"""

import csv
import dataclasses
import io
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.envs.mujoco import MujocoEnv

from configs import RunConfig
from configs.files import replace_text
from configs.methods import apply_method
from configs.presets import nmer as presets
from experiments.definition import Calculation
from experiments.nmer import LABELS
from experiments.statistics import mean_of
from learner.mixup.mixup import make_mixup
from learner.mixup.partners import make_partners
from replay_memory.memory import ReplayMemory
from replay_memory.plan import make_plan
from replay_server.contract.codec import Packed, RowCodec

# Their observations are all positions but the first one, which nothing depends on, and all velocities, cut at 10 in two of them.
WORLDS = ("HalfCheetah", "Hopper", "Walker2d")
# The rows as they were drawn show what the probe itself does wrong.
METHODS = ("uniform", "nmer", "nn_mixup", "ct", "mixup")
SIZES = (1_000, 3_000, 10_000)
PROBED = 300
_EPISODE_STEPS = 1_000
_LARGEST_VELOCITY = 10.0

Float64 = npt.NDArray[np.float64]


class Errors(NamedTuple):
  """Means over mixed transitions.

  Attributes:
    next_state: root mean square over components of the mixed next observation less MuJoCo's, each in units of the deviation of
      its change in a step.
    reward: absolute difference, in units of the deviation of rewards.
  """

  next_state: float
  reward: float


# (world, method, rows in memory) -> of each seed.
Measured = Mapping[tuple[str, str, int], Sequence[Errors]]


def get_manifold() -> Calculation:
  """Of each kind of mixture, over the size of memory."""
  return Calculation(
    name="nmer_manifold",
    summary="how far mixed transitions are from what MuJoCo does with the mixed state and action (NMER, Section 3, Figure 1)",
    budgets={"paper": 3, "quick": 1},
    write=write,
  )


def write(seeds: int, folder: pathlib.Path, command: str) -> str:
  """Computes the figure, and writes its CSV, picture and table; see `Calculation.write`."""
  measured = measure(seeds)
  base = folder / "nmer_manifold"
  replace_text(base.with_suffix(".csv"), _csv(measured))
  _draw(measured, seeds, base.with_suffix(".png"))
  table = _markdown(measured, seeds, command)
  replace_text(base.with_suffix(".md"), table)
  return f"{table}\nWritten: {base}.csv, .png and .md"


def measure(seeds: int) -> Measured:
  """The errors of every method in every world and size of memory."""
  measured: dict[tuple[str, str, int], list[Errors]] = {}
  for world, seed in itertools.product(WORLDS, range(seeds)):
    probe = Probe(world)
    rows = probe.collect(max(SIZES), seed)
    for method, size in itertools.product(METHODS, SIZES):
      measured.setdefault((world, method, size), []).append(errors_of(probe, rows[:size], method, seed))
  return measured


class Probe:
  """A world of MuJoCo that can be set to what it once observed.

  Attributes:
    config: of a run in it.
    codec: of its rows.
  """

  def __init__(self, world: str):
    """Makes the world.

    Args:
      world: one of `WORLDS`.
    """
    # Imported here, as that takes seconds.
    from launch.roles import row_codec

    self.config: RunConfig = presets.get_config("td3", world)
    made = gymnasium.make(self.config.environment.name).unwrapped
    assert isinstance(made, MujocoEnv)
    self._world = made
    self.codec: RowCodec = row_codec(self.config)

  def collect(self, count: int, seed: int) -> Packed:
    """The first transitions of random actions, float32 [count, width]; those with a velocity that was cut are left out."""
    packer, world = self.codec.packer(), self._world
    blank = {field.name: np.zeros(field.shape, field.dtype) for field in self.codec.fields}
    rng, episode, step = np.random.default_rng(seed), 0, 0
    rows: list[Packed] = []
    observation, _ = world.reset(seed=seed)
    low, high = world.action_space.low, world.action_space.high  # type: ignore[attr-defined]
    while len(rows) < count:
      action = rng.uniform(low, high).astype(np.float32)
      following, reward, terminated, _, _ = world.step(action)
      if self._is_known(observation) and self._is_known(following):
        values = {
          "observation": observation.astype(np.float32),
          "action": action,
          "reward": np.float32(reward),
          "next_observation": following.astype(np.float32),
          "discount": 0.0 if terminated else 1.0,
          "steps": 1,
          "episode": episode,
          "step": step,
          "terminated": terminated,
          "truncated": not terminated and step + 1 == _EPISODE_STEPS,
        }
        rows.append(packer.pack({**blank, **values}).copy())
      observation, step = following, step + 1
      if terminated or step == _EPISODE_STEPS:
        observation, _ = world.reset()
        episode, step = episode + 1, 0
    return np.array(rows, np.float32)

  def _is_known(self, observation: Float64) -> bool:
    return bool(np.abs(observation[self._world.model.nq - 1 :]).max() < _LARGEST_VELOCITY)

  def replay(self, transitions: Mapping[str, npt.NDArray[Any]]) -> tuple[Float64, Float64]:
    """What MuJoCo makes of states and actions.

    Args:
      transitions: "observation" [n, ...] and "action" [n, actions].

    Returns:
      The next observations, [n, ...], and the rewards, [n].
    """
    positions = self._world.model.nq
    observations, rewards = [], []
    for observation, action in zip(transitions["observation"], transitions["action"], strict=True):
      state = np.concatenate([[0.0], observation])
      self._world.set_state(state[:positions], state[positions:])  # type: ignore[no-untyped-call]
      following, reward, _, _, _ = self._world.step(action)
      observations.append(following)
      rewards.append(reward)
    return np.array(observations), np.array(rewards)


def errors_of(probe: Probe, rows: Packed, method: str, seed: int) -> Errors:
  """How far a method's mixtures are from what MuJoCo does.

  Args:
    probe: of the rows' world.
    rows: float32 [n, width], all that memory holds.
    method: one of `METHODS`.
    seed: of the draws.
  """
  config = apply_method(_holding(probe.config, len(rows)), method)
  memory = ReplayMemory(make_plan(config, probe.codec.width), probe.codec)
  hook = make_mixup(config, probe.codec, seed, lambda mixup: make_partners(mixup, probe.codec, memory))
  memory.add(rows)
  slots = np.random.default_rng(seed).choice(memory.contents(0), PROBED)
  drawn = memory.take(slots)
  mixed = drawn
  if hook is not None:
    mixed = hook.apply(drawn[None], slots[None])[0]
    mixed = mixed[(mixed != drawn).any(axis=1)]
  stored, taken = probe.codec.unpack(rows), probe.codec.unpack(mixed)
  observations, rewards = probe.replay(taken)
  change = (stored["next_observation"] - stored["observation"]).std(axis=0, dtype=np.float64)
  off = (taken["next_observation"] - observations) / change
  return Errors(
    float(np.sqrt((off**2).mean(axis=1)).mean()),
    float(np.abs(taken["reward"] - rewards).mean() / stored["reward"].std(dtype=np.float64)),
  )


def _holding(config: RunConfig, rows: int) -> RunConfig:
  default = dataclasses.replace(config.replay.default, min_size=rows)
  return dataclasses.replace(config, replay=dataclasses.replace(config.replay, capacity=rows, default=default))


def _csv(measured: Measured) -> str:
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(("world", "method", "rows", "seed", *Errors._fields))
  for (world, method, size), found in measured.items():
    writer.writerows(
      (world, method, size, seed, *(f"{error:.3g}" for error in errors)) for seed, errors in enumerate(found)
    )
  return text.getvalue()


def _markdown(measured: Measured, seeds: int, command: str) -> str:
  summary = get_manifold().summary
  lines = ["# nmer_manifold", "", f"{summary[0].upper()}{summary[1:]}.", "", f"    {command}", ""]
  for world in WORLDS:
    columns = [f" {part}, {size:,} rows |" for part in ("next state", "reward") for size in SIZES]
    lines += [f"## {world}", "", f"| mixture |{''.join(columns)}", f"|{' --- |' * (1 + len(columns))}"]
    for method in METHODS:
      cells = [
        f" {mean_of([getattr(errors, field) for errors in measured[world, method, size]]).value:.2g} |"
        for field in Errors._fields
        for size in SIZES
      ]
      lines.append(f"| {_label(method)} |{''.join(cells)}")
    lines.append("")
  lines += [
    f"Means over {seeds} seeds of {PROBED} draws each from the first rows of random actions, without the draws that stayed as "
    "they were. Of the next state: the root mean square over components, each in units of the deviation of its change in a step, "
    "so 1 is as wrong as a usual change. Of the reward: the absolute difference, in units of the deviation of rewards.",
    "",
  ]
  return "\n".join(lines)


def _label(method: str) -> str:
  return "as drawn" if method == "uniform" else LABELS[method]


def _draw(measured: Measured, seeds: int, path: pathlib.Path) -> None:
  # Imported here, as that takes seconds.
  from matplotlib.figure import Figure

  from experiments.pictures import styles_of
  from launch.drawing import tidy

  compared = [method for method in METHODS if method != "uniform"]
  styles = styles_of(compared)
  figure = Figure(figsize=(11, 6), dpi=150, layout="constrained")
  grid = figure.subplots(len(Errors._fields), len(WORLDS), sharex=True, squeeze=False)
  for (row, field), (column, world) in itertools.product(enumerate(Errors._fields), enumerate(WORLDS)):
    axes = grid[row, column]
    for method in compared:
      means = [mean_of([getattr(errors, field) for errors in measured[world, method, size]]).value for size in SIZES]
      colour, dashes = styles[method]
      axes.plot(SIZES, means, dashes, color=colour, marker="o", label=_label(method))
    axes.set_xscale("log")
    axes.set_yscale("log")
    tidy(axes)
  for axes, world in zip(grid[0], WORLDS, strict=True):
    axes.set_title(world, fontsize="medium")
  for axes in grid[-1]:
    axes.set_xlabel("rows in memory")
  grid[0, 0].set_ylabel("error of the next state,\ndeviations of its change")
  grid[1, 0].set_ylabel("error of the reward,\ndeviations of rewards")
  figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(compared), frameon=False)
  figure.suptitle(f"nmer_manifold: means over {seeds} seeds", fontsize="medium")
  figure.savefig(path)
