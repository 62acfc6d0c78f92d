"""An inline run's parts: collecting, learning, and both in turn."""

import contextlib
import dataclasses
import io
import pathlib
import tempfile
import threading
import time
from collections.abc import Mapping

from actors.worker import RolloutWorker
from benchmarks.measure import Figure, Report, interleave
from configs.presets import three_rooms
from environments import make_environment_spec, make_event_environment
from learner.learner import Learner, make_learner
from replay_server.process.server import ReplayServer

_STEPS_PER_UPDATE = 10


def run(runs: int, quick: bool) -> Report:
  """Steps and updates per second in the three-room world, with everything, the server too, in this process."""
  blocks = 1 if quick else 10
  config = three_rooms.get_config()
  config = dataclasses.replace(config, learner=dataclasses.replace(config.learner, device="CPU:0"))
  environment = make_event_environment(config)
  spec = make_environment_spec(environment)
  environment.close()
  stop = threading.Event()
  with contextlib.ExitStack() as stack:
    directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    stack.enter_context(contextlib.redirect_stdout(io.StringIO()))  # The learner prints that it checkpointed.
    server = stack.enter_context(ReplayServer(config, spec, "benchmark", directory / "replay", inline=True))
    learner = make_learner(server.connection, server.manifest, 0, stop, directory)
    stack.callback(learner.close)
    worker = RolloutWorker(server.connection, server.manifest, "actor_0", 0, 0, stop)
    stack.callback(worker.close)
    parts = _Parts(worker, learner, updates=config.learner.updates_per_block, blocks=blocks)
    # Past the random warm-up, so that the network chooses actions.
    parts.collect(config.actor.random_steps + config.replay.default.min_size)
    measured = interleave({"collecting": parts.collecting, "learning": parts.learning, "both": parts.both}, runs)
  return Report(
    "inline",
    (
      f"The three-room world, {config.learner.updates_per_block} updates a block, {_STEPS_PER_UPDATE} steps an update, one "
      "process.",
    ),
    (
      Figure("collecting alone", "steps/s", measured["collecting"]["steps"]),
      Figure("learning alone", "updates/s", measured["learning"]["updates"]),
      Figure("both in turn", "steps/s", measured["both"]["steps"]),
      Figure("both in turn", "updates/s", measured["both"]["updates"]),
    ),
  )


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
