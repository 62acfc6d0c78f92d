"""Updates per second with ReaPER against those with PER, and its draws and criteria against the buffer of its authors."""

import contextlib
import dataclasses
import io
import pathlib

import numpy as np

from benchmarks import workload
from benchmarks.learner import learning, timed
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from benchmarks.peer import Peer
from configs import NetworkConfig, RunConfig
from configs.methods import apply_method
from replay_memory.memory import ReplayMemory
from replay_memory.plan import make_plan
from replay_memory.reliability import Reliability

OBSERVATION_SIZE = 8
ACTIONS = 4
_BATCH_SIZE = 128
_EPISODE = 300
_PER, _REAPER = "a learner with PER, updates", "a learner with ReaPER, updates"
_OURS, _THEIRS = "the memory alone, batches", "the authors' buffer, batches"


def run(runs: int, quick: bool, peer: pathlib.Path | None = None) -> Report:
  """Whole updates of double DQN, one at a time, and batches with new TD errors and all criteria that follow from them.

  Args:
    runs: of each contender.
    quick: the smallest form.
    peer: an interpreter that has Stable-Baselines3 and the authors' code; None leaves them out.
  """
  rows, seconds = (2_000, 0.1) if quick else (50_000, 2.0)
  config = _config(rows)
  spec = workload.make_spec(OBSERVATION_SIZE, ACTIONS)
  codec = workload.make_manifest(config, spec).codec
  stored = workload.make_rows(codec, rows, ACTIONS, episode_steps=_EPISODE)
  per, reaper = apply_method(config, "per"), apply_method(config, "reaper")
  with contextlib.ExitStack() as stack:
    stack.enter_context(contextlib.redirect_stdout(io.StringIO()))  # They print that they checkpointed.
    learners = {
      name: stack.enter_context(learning(each, spec, stored)) for name, each in ((_PER, per), (_REAPER, reaper))
    }
    memory = ReplayMemory(make_plan(reaper, codec.width), codec)
    contenders: dict[str, Contender] = {
      **{name: timed(learner.step, 1, seconds) for name, learner in learners.items()},
      _OURS: _batches(memory, reaper, stored, seconds),
    }
    if peer is not None:
      arguments = (rows, _EPISODE, OBSERVATION_SIZE)
      theirs = stack.enter_context(Peer(peer, "reaper_peer.py", arguments, "the authors' code"))
      contenders[_THEIRS] = _in_batches(theirs.contender("reaper", _BATCH_SIZE, seconds))
    measured = interleave(contenders, runs)
  figures = {name: Figure(name, "1/s", next(iter(values.values()))) for name, values in measured.items()}
  ratios = [Ratio.of("an update with ReaPER / with PER", figures[_REAPER], figures[_PER], required=0.6, aim=0.8)]
  if peer is not None:
    ratios.append(Ratio.of("the memory alone / the authors' buffer", figures[_OURS], figures[_THEIRS], required=5))
  return Report(
    "reaper",
    (
      f"{rows:,} rows in one table, in episodes of {_EPISODE}; batches of {_BATCH_SIZE}, one update a call. Double DQN, "
      f"{'x'.join(map(str, config.network.hidden_sizes))} hidden units.",
      "The memory alone, the authors' buffer: draws and copies of the rows, new TD errors for them, and all criteria that follow."
      if peer
      else "The authors' buffer is left out: --reaper=PYTHON names the interpreter of an environment that has their code.",
    ),
    tuple(figures.values()),
    tuple(ratios),
  )


def _config(rows: int) -> RunConfig:
  config = workload.in_memory(workload.make_config((1.0,), rows, _BATCH_SIZE))
  learner = dataclasses.replace(config.learner, updates_per_block=1, prefetch=False)
  return dataclasses.replace(config, learner=learner, network=NetworkConfig(hidden_sizes=(256, 256)))


def _batches(memory: ReplayMemory, config: RunConfig, rows: workload.Rows, seconds: float) -> Contender:
  """Draws from a full memory, and new TD errors for what was drawn."""
  priority = config.replay.priority
  reliability = Reliability(memory, priority.exponent, priority.reliability_exponent)
  memory.add(rows)
  rng = np.random.default_rng(0)
  quotas = np.array([[_BATCH_SIZE]])

  def draw() -> None:
    drawn = memory.draw(quotas, rng)
    memory.take(drawn.slots)
    reliability.update(drawn.handles.ravel(), np.abs(rng.standard_normal(_BATCH_SIZE)) + 1e-6)

  return timed(draw, 1, seconds)


def _in_batches(contender: Contender) -> Contender:
  return lambda: {what: value / _BATCH_SIZE for what, value in contender().items()}
