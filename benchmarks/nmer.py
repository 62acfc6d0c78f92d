"""Updates per second of SAC and TD3 with mixed rows, against those with the rows as they were drawn."""

import dataclasses
import math

import numpy as np
import tensorflow as tf

from benchmarks import workload
from benchmarks.learner import timed
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from configs import RunConfig
from configs.methods import METHODS
from configs.mixup import MixupConfig
from configs.presets import nmer
from learner.devices import choose_device
from learner.mixup.mixup import Mixup, make_mixup
from learner.mixup.partners import MemoryPartners, make_partners
from learner.mixup.rows import Layout
from learner.updates import Updates, make_updates
from replay_memory.memory import ReplayMemory
from replay_memory.neighbors import Neighbors, bytes_of
from replay_memory.plan import make_plan
from replay_memory.zscores import ZScores

_OTHERS = ("mixup", "ct", "s4rl", "noise")
# In each run a contender has so many turns of a second: a machine's speed drifts by a tenth while all of them have a longer one.
_TURNS = 4
# Updates per environment step -> (required, aim).
_REQUIRED: dict[nmer.Name, dict[int, tuple[float, float]]] = {
  "sac": {1: (0.80, 0.90), 20: (0.93, 0.97)},
  "td3": {1: (0.75, 0.88), 20: (0.90, 0.95)},
}


def run(runs: int, quick: bool) -> Report:
  """Draws, mixes and updates with a full memory of rows of HalfCheetah's size.

  Lists of neighbours are made when a row is first drawn after the index was made anew, most of them soon after that. A run would
  have to last until the memory has grown by a tenth to see the mean, so each update makes as many lists as that mean is.
  """
  rows, seconds, turns = (1_000, 0.1, 1) if quick else (100_000, 1.0, _TURNS)
  spec = workload.make_spec()
  # Quickly, one algorithm shows that it works.
  configs = {name: _config(name, rows, quick) for name in _REQUIRED if name == "td3" or not quick}
  first = configs["td3"]
  codec = workload.make_manifest(first, spec).codec
  memory = ReplayMemory(make_plan(first, codec.width), codec)
  neighbors_config = METHODS["nmer"](first).learner.mixup
  zscores = ZScores(memory, Layout.of(codec).point, neighbors_config.neighbors.growth)
  neighbors = Neighbors(memory, zscores, neighbors_config.neighbors.count)
  memory.add(workload.make_rows(codec, rows))
  neighbors.partners(memory.contents(0), np.random.default_rng(0))  # Every row has its list.

  def partners_of(mixup: MixupConfig) -> MemoryPartners:
    if mixup.kind == "neighbors":
      return MemoryPartners(memory, zscores, neighbors.partners)
    return make_partners(mixup, codec, memory)

  contenders: dict[str, Contender] = {}
  for name, config in configs.items():
    with tf.device(choose_device(config.learner.device)):
      updates = make_updates(config, codec, spec, 0)
    methods = dict.fromkeys(("uniform", *_OTHERS), 0.0)
    lists = {f"nmer, {ratio} updates a step": _lists_per_update(config, rows, ratio) for ratio in _REQUIRED[name]}
    for method, made in {**methods, **lists}.items():
      mixup = make_mixup(METHODS[method.partition(",")[0]](config), codec, 0, partners_of)
      loop = _Loop(config, memory, updates, mixup, neighbors, made)
      contenders[f"{name}, {method}"] = timed(loop.step, config.learner.updates_per_block, seconds)
  measured = interleave(contenders, runs * turns)
  figures = {what: Figure(what, "updates/s", values["updates"]) for what, values in measured.items()}
  ratios = [
    Ratio.of(f"{what} / uniform", figure, figures[f"{what.partition(',')[0]}, uniform"], *_required(what))
    for what, figure in figures.items()
    if not what.endswith("uniform")
  ]
  beside = bytes_of(memory.plan.slots, neighbors_config.neighbors.count, zscores.width) / memory.plan.slots
  sizes = (
    Figure("a row", "bytes", (float(codec.width * 4),)),
    Figure("its list of neighbours and its place in the index", "bytes", (beside,)),
  )
  return Report(
    "nmer",
    (
      f"{rows:,} rows of HalfCheetah's size, blocks of {first.learner.updates_per_block} updates, one thread; "
      f"in each run a contender has {turns} turns of {seconds:g} s; batches of "
      + ", ".join(f"{config.learner.batch_size} ({name})" for name, config in configs.items())
      + ".",
      f"k = {neighbors_config.neighbors.count}; moments and index are made anew when memory has grown by a tenth. Each update "
      "makes as many lists as the mean over that growth is: "
      + ", ".join(
        f"{_lists_per_update(config, rows, ratio):.1f} ({name}, {ratio} updates a step)"
        for name, config in configs.items()
        for ratio in _REQUIRED[name]
      )
      + ".",
    ),
    (*figures.values(), *sizes),
    tuple(ratios),
  )


def _required(what: str) -> tuple[float | None, float | None]:
  """What is required of a contender, and its aim."""
  for name, ratios in _REQUIRED.items():
    for ratio, required in ratios.items():
      if what == f"{name}, nmer, {ratio} updates a step":
        return required
  return 0.95, None


def _config(name: nmer.Name, rows: int, quick: bool) -> RunConfig:
  config = workload.on_cpu(workload.in_memory(nmer.get_config(name, "HalfCheetah")), quick)
  default = dataclasses.replace(config.replay.default, min_size=100)
  replay = dataclasses.replace(config.replay, capacity=rows, default=default)
  return dataclasses.replace(config, replay=replay, actor=dataclasses.replace(config.actor, random_steps=0))


def _lists_per_update(config: RunConfig, rows: int, updates_per_step: int) -> float:
  """Lists that an update makes in the mean, while the memory grows by `growth`: those of all rows that are drawn meanwhile."""
  steps = METHODS["nmer"](config).learner.mixup.neighbors.growth * rows
  updates = steps * updates_per_step
  drawn = (rows + steps) * -math.expm1(-config.learner.batch_size * updates / (rows + steps))
  return drawn / updates


class _Loop:
  """Draws blocks, mixes their rows, and updates networks with them."""

  def __init__(
    self,
    config: RunConfig,
    memory: ReplayMemory,
    updates: Updates,
    mixup: Mixup | None,
    neighbors: Neighbors,
    lists_per_update: float,
  ):
    self._memory, self._updates, self._mixup, self._neighbors = memory, updates, mixup, neighbors
    self._batches = config.learner.updates_per_block
    self._quotas = np.full((self._batches, 1), config.learner.batch_size)
    self._device = choose_device(config.learner.device)
    self._rng = np.random.default_rng(0)
    self._lists_per_update, self._due = lists_per_update, 0.0

  def step(self) -> None:
    """Makes the updates of one block."""
    draws = self._memory.draw(self._quotas, self._rng)
    self._due += self._lists_per_update * self._batches
    forgotten = int(self._due)
    if forgotten:
      self._due -= forgotten
      self._neighbors.added(np.unique(draws.slots)[:forgotten])  # As if they were new.
    rows = self._memory.take(draws.slots)
    if self._mixup is not None:
      rows = self._mixup.apply(rows, draws.slots)
    with tf.device(self._device):
      weights = np.ones(rows.shape[:2], np.float32)
      self._updates.update_block(rows, weights, draws.tables, {}, self._updates.controls(0))
