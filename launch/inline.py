"""An inline run: everything in one process, with an exact number of environment steps for each gradient step."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from actors.evaluator import Evaluator
from actors.worker import RolloutWorker
from configs import RunConfig, Stopped
from configs.seeding import derive_seed
from launch.roles import environment_spec, prepare_tensorflow
from launch.run_directory import RunDirectory
from launch.view import RunView
from learner.learner import Learner, make_learner
from replay_server.contract.messages import Heartbeat
from replay_server.contract.role import heartbeat_of
from replay_server.contract.run import environment_steps
from replay_server.contract.status import RunStatus
from replay_server.process.keeper import TICK_SECONDS, Keeper
from replay_server.process.server import ReplayServer

# Of a run that says nothing about it.
_STEPS_PER_UPDATE = 1.0


# Gradient steps and the weights that were evaluated, float32 [P].
OnEvaluation = Callable[[int, np.ndarray], None]


def run_inline(
  config: RunConfig,
  run: RunDirectory,
  stop: threading.Event,
  view: RunView,
  on_evaluation: OnEvaluation = lambda gradient_steps, weights: None,
) -> RunStatus:
  """Runs until solved, until the budget is used up, or until `stop` is set.

  The same seed gives the same run up to which items Reverb samples, which it does not let one seed.

  Args:
    config: of the run.
    run: its directory, with a checkpoint where it goes on.
    stop: ends the run; the checkpoints are written then too.
    view: that shows it.
    on_evaluation: called after every evaluation, to look at the policy that was evaluated.

  Raises:
    UserError: something is wrong with the environment or the checkpoint.
  """
  prepare_tensorflow(config.learner.threads or 1)
  # For environments and conditions that draw from the global generators.
  tf.random.set_seed(derive_seed(config.seed, "tensorflow"))
  np.random.seed(derive_seed(config.seed, "numpy"))  # noqa: NPY002
  spec = environment_spec(config)
  with (
    ReplayServer(config, spec, run.run_id, run.replay_checkpoint, inline=True) as server,
    contextlib.closing(Keeper(server, run.path)) as keeper,
  ):
    run.write_config(config)
    connection, manifest, seed = server.connection, server.manifest, config.seed
    roles = _Roles(
      learner=make_learner(connection, manifest, derive_seed(seed, "learner"), stop, run.checkpoints),
      worker=RolloutWorker(connection, manifest, "actor_0", 0, derive_seed(seed, "actor"), stop),
      evaluator=Evaluator(connection, manifest, derive_seed(seed, "evaluator"), stop, run.checkpoints / "policy"),
    )
    steps_before = environment_steps(connection.info(), config.replay.default.name)
    try:
      _take_turns(roles, config, keeper, view, stop, steps_before, on_evaluation)
    except Stopped:
      pass
    finally:
      roles.worker.close()
      roles.learner.close()
    return keeper.finish(roles.heartbeats(ended=True))


@dataclasses.dataclass(frozen=True)
class _Roles:
  learner: Learner
  worker: RolloutWorker
  evaluator: Evaluator

  def heartbeats(self, ended: bool = False) -> list[Heartbeat]:
    """What roles in processes of their own would have sent."""
    return [heartbeat_of(role, ended) for role in (self.learner, self.worker, self.evaluator)]


def _take_turns(
  roles: _Roles,
  config: RunConfig,
  keeper: Keeper,
  view: RunView,
  stop: threading.Event,
  steps_before: int,
  on_evaluation: OnEvaluation,
) -> None:
  """Collects until a block of updates is due, does it, evaluates when that is due, and so on."""
  learner, worker = roles.learner, roles.worker
  warm_up = config.replay.default.min_size
  # A transition of n steps is stored when all of them are there. The learner waits for its minimum, and nobody would step.
  stored = warm_up + config.actor.environments * (config.learner.n_step - 1)
  steps_per_update = config.replay.environment_steps_per_update or _STEPS_PER_UPDATE
  block, period = config.learner.updates_per_block, config.evaluator.period_updates
  ticked = -TICK_SECONDS
  while not stop.is_set():
    steps = steps_before + worker.environment_steps
    evaluated = False
    if steps >= stored and (steps - warm_up) / steps_per_update - learner.gradient_steps >= block:
      worker.flush()
      before = learner.gradient_steps
      learner.step()
      if config.evaluator.enabled and before // period != learner.gradient_steps // period:
        learner.publish()
        evaluated = roles.evaluator.step()
        if evaluated:
          on_evaluation(learner.gradient_steps, learner.get_variables([])[0])
    else:
      worker.step()
    at_budget = steps >= config.environment_steps
    if at_budget:
      worker.flush()  # The server counts what has reached it.
    # Besides by the clock, the status is made where the run may end: after an evaluation and at its budget.
    if evaluated or at_budget or time.monotonic() - ticked > TICK_SECONDS:
      ticked = time.monotonic()
      status = keeper.tick(roles.heartbeats())
      view.update(status)
      if status.finished:
        return
      if keeper.checkpoint_is_due():
        # Both together: a run that is killed goes on from one moment.
        worker.flush()
        keeper.checkpoint()
        learner.try_to_save()
