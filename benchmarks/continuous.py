"""SAC: whole learners against updates on a fixed batch, and a worker's steps against the environment's own."""

import contextlib
import dataclasses
import functools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import gymnasium
import numpy as np
from acme import specs

from actors.worker import RolloutWorker
from benchmarks import learner, server, workload
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from configs import RunConfig, SacConfig
from configs.presets import mujoco
from configs.run import Sampling
from environments import make_environment_spec, make_event_environment
from networks import flatten_weights, make_policy
from replay_server.contract.policy import PolicyPublisher, PolicySnapshot

_WORLD = "HalfCheetah"
# Rewards that an untrained policy earns, with Table 2's shares.
_OCCURRING = {-0.5: 0.2, 0.0: 0.1, 0.5: 0.1}
_TO_SERVER, _TO_QUEUE, _ALONE = "a worker", "a worker into the queue", "the environment alone"
_EVENTS_TO_SERVER, _EVENTS_TO_QUEUE = "a worker with events", "a worker with events into the queue"
_RATIOS = (
  ("a worker / the environment alone", _TO_SERVER, _ALONE, None, 0.5),
  ("a worker into the queue / the environment alone", _TO_QUEUE, _ALONE, None, 0.5),
  ("a worker into the queue / into the server's tables", _TO_QUEUE, _TO_SERVER, 1.1, None),
  ("the same with events that occur", _EVENTS_TO_QUEUE, _EVENTS_TO_SERVER, 1.1, None),
)


def run(runs: int, quick: bool) -> Report:
  """SAC with HalfCheetah's four tables, all prioritised, in two sizes; and a worker in HalfCheetah."""
  seconds = 0.2 if quick else 2.0
  small = _prioritized(mujoco.get_config(_WORLD), quick)
  large = _prioritized(mujoco.get_large_config(), quick)
  # The QR-SAC preset with SAC, so that only the size differs. One update a call, which already takes seconds on a CPU.
  sac = SacConfig(policy_learning_rate=2.5e-5, temperature=0.01, learn_temperature=False)
  large_learner = dataclasses.replace(large.learner, algorithm=sac, updates_per_block=1, publish_period_updates=10)
  large = dataclasses.replace(large, learner=large_learner)
  spec = workload.make_spec()
  figures, ratios = [], []
  sizes: list[tuple[RunConfig, Sequence[Sampling]]] = [(small, ("server", "memory")), (large, ("server",))]
  # Quickly, one size shows that it works.
  for config, samplings in sizes[:1] if quick else sizes:
    layers = config.network.hidden_sizes
    name = f"SAC {len(layers)} x {layers[0]}, batch {config.learner.batch_size}, "
    *through, fixed = learner.whole_learners(config, spec, seconds, runs, samplings, name=name)
    figures += [*through, fixed]
    for figure, (required, aim) in zip(through, ((0.85, 0.95), (0.93, 0.97)), strict=False):
      ratios.append(Ratio.of(f"{figure.what} / on a fixed batch", figure, fixed, required, aim))
  steps = _steps(small, runs, quick)
  return Report(
    "continuous",
    (
      f"{_WORLD}'s observations, actions and four tables, all of them prioritised, on the CPU: SAC as its presets have it, "
      "prefetching; the learner also updates priorities and publishes its weights.",
      f"A worker steps one {_WORLD}-v5 with a policy of 2 x 256 units, into a server process; against gymnasium's environment "
      "alone, under random actions. Its events do not occur under an untrained policy; those of lower rewards do, and then most "
      "steps are in all four tables.",
    ),
    (*figures, *steps.values()),
    (
      *ratios,
      *(
        Ratio.of(what, steps[one], steps[other], required, aim)
        for what, one, other, required, aim in _RATIOS
        if one in steps
      ),
    ),
  )


def _prioritized(config: RunConfig, quick: bool) -> RunConfig:
  """With priorities in every table, and neither side waiting for the other."""
  capacity = 2_000 if quick else 20_000
  replay = config.replay
  default, *events = (dataclasses.replace(table, selector="prioritized", min_size=1) for table in replay.all_tables)
  config = dataclasses.replace(
    config,
    replay=dataclasses.replace(
      replay, capacity=capacity, default=default, tables=tuple(events), environment_steps_per_update=None
    ),
    actor=dataclasses.replace(config.actor, random_steps=0),
  )
  return workload.on_cpu(config, quick)


def _steps(config: RunConfig, runs: int, quick: bool) -> dict[str, Figure]:
  """Environment steps per second of workers into the server's tables and into a memory's queue, and of their environment.

  Returns:
    By name; quickly, without the workers with events that occur.
  """
  steps = 200 if quick else 4_000
  environment = make_event_environment(config)
  spec = make_environment_spec(environment)
  environment.close()
  with contextlib.ExitStack() as stack:
    configs = {_TO_SERVER: config, _TO_QUEUE: workload.in_memory(config)}
    if not quick:
      eventful = _prioritized(mujoco.get_config(_WORLD, _OCCURRING), quick)
      configs |= {_EVENTS_TO_SERVER: eventful, _EVENTS_TO_QUEUE: workload.in_memory(eventful)}
    workers = {name: stack.enter_context(_working(each, spec)) for name, each in configs.items()}
    alone = gymnasium.make(f"{_WORLD}-v5")
    stack.callback(alone.close)
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, workload.ACTION_SIZE)).astype(np.float32)

    def step_alone() -> Mapping[str, float]:
      began = time.perf_counter()
      alone.reset(seed=0)
      for action in actions:
        *_, terminated, truncated, _ = alone.step(action)
        if terminated or truncated:
          alone.reset()
      return {"steps": steps / (time.perf_counter() - began)}

    contenders: dict[str, Contender] = {
      **{name: functools.partial(_collect, worker, steps) for name, worker in workers.items()},
      _ALONE: step_alone,
    }
    measured = interleave(contenders, runs)
  return {what: Figure(f"{_WORLD}, {what}", "steps/s", values["steps"]) for what, values in measured.items()}


@contextlib.contextmanager
def _working(config: RunConfig, spec: specs.EnvironmentSpec) -> Iterator[RolloutWorker]:
  """A worker with a policy, and a server of its own."""
  manifest = workload.make_manifest(config, spec)
  with server.ServerProcess(manifest) as process:
    weights = flatten_weights(make_policy(config, spec, seed=0))
    priorities = (1.0,) * len(config.replay.all_tables)
    PolicyPublisher(process.connection).publish(PolicySnapshot(1, 1, weights, priorities))
    with contextlib.closing(RolloutWorker(process.connection, manifest, "actor_0", 0, 0, threading.Event())) as worker:
      yield worker


def _collect(worker: RolloutWorker, steps: int) -> Mapping[str, float]:
  began = time.perf_counter()
  for _ in range(steps):
    worker.step()
  worker.flush()
  return {"steps": steps / (time.perf_counter() - began)}
