"""An inline run's parts: collecting, learning, and both in turn."""

import contextlib
import dataclasses
import io
import pathlib
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping

from acme import specs

from actors.worker import RolloutWorker
from benchmarks import workload
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from configs import RunConfig
from configs.presets import three_rooms
from environments import make_environment_spec, make_event_environment
from learner.learner import Learner, make_learner
from replay_server.process.server import ReplayServer

_STEPS_PER_UPDATE = 10


def run(runs: int, quick: bool) -> Report:
  """Steps and updates per second in the three-room world, with everything, the server too, in this process."""
  blocks = 1 if quick else 10
  config = workload.on_cpu(three_rooms.get_config(), quick)
  environment = make_event_environment(config)
  spec = make_environment_spec(environment)
  environment.close()
  with contextlib.ExitStack() as stack:
    stack.enter_context(contextlib.redirect_stdout(io.StringIO()))  # The learners print that they checkpointed.
    on_server = stack.enter_context(_parts_of(config, spec, blocks))
    on_memory = stack.enter_context(_parts_of(workload.in_memory(config), spec, blocks))
    contenders: dict[str, Contender] = {
      "collecting alone": on_server.collecting,
      "learning alone": on_server.learning,
      "both in turn": on_server.both,
      "both in turn, with a memory": on_memory.both,
      "collecting alone, with a memory": on_memory.collecting,
      "learning alone, with a memory": on_memory.learning,
    }
    measured = interleave(contenders, runs)
  steps, updates = (
    {what: Figure(what, f"{unit}/s", values[unit]) for what, values in measured.items()}
    for unit in ("steps", "updates")
  )
  both, with_memory = "both in turn", "both in turn, with a memory"
  return Report(
    "inline",
    (
      f"The three-room world, {config.learner.updates_per_block} updates a block, {_STEPS_PER_UPDATE} steps an update, one "
      "process; and the same with the learner's own memory in place of the server's tables.",
    ),
    (
      *(figure for what, figure in steps.items() if not what.startswith("learning")),
      *(figure for what, figure in updates.items() if not what.startswith("collecting")),
    ),
    (Ratio.of(f"steps: {with_memory} / {both}", steps[with_memory], steps[both], required=1.5, aim=3),),
  )


@contextlib.contextmanager
def _parts_of(config: RunConfig, spec: specs.EnvironmentSpec, blocks: int) -> Iterator["_Parts"]:
  """The parts of a run past its random warm-up, so that the network chooses actions."""
  stop = threading.Event()
  with contextlib.ExitStack() as stack:
    directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    server = stack.enter_context(ReplayServer(config, spec, "benchmark", directory / "replay", inline=True))
    learner = make_learner(server.connection, server.manifest, 0, stop, directory)
    stack.callback(learner.close)
    worker = RolloutWorker(server.connection, server.manifest, "actor_0", 0, 0, stop)
    stack.callback(worker.close)
    parts = _Parts(worker, learner, updates=config.learner.updates_per_block, blocks=blocks)
    parts.collect(config.actor.random_steps + config.replay.default.min_size)
    yield parts


@dataclasses.dataclass(frozen=True)
class _Parts:
  worker: RolloutWorker
  learner: Learner
  updates: int
  blocks: int

  def collect(self, steps: int) -> None:
    for _ in range(steps):
      self.worker.step()
    self.worker.flush()

  def collecting(self) -> Mapping[str, float]:
    return self._run(collect=True, learn=False)

  def learning(self) -> Mapping[str, float]:
    return self._run(collect=False, learn=True)

  def both(self) -> Mapping[str, float]:
    return self._run(collect=True, learn=True)

  def _run(self, collect: bool, learn: bool) -> Mapping[str, float]:
    began = time.perf_counter()
    for _ in range(self.blocks):
      if collect:
        self.collect(_STEPS_PER_UPDATE * self.updates)
      if learn:
        self.learner.step()
    seconds = time.perf_counter() - began
    updates = self.blocks * self.updates
    return {"steps": _STEPS_PER_UPDATE * updates / seconds, "updates": updates / seconds}
