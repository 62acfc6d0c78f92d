"""An inline run: everything in one process, with an exact number of environment steps for each gradient step."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from actors.evaluator import Evaluator
from actors.worker import RolloutWorker
from configs import RunConfig, ServerLost, Stopped, UserError
from configs.seeding import derive_seed
from launch.roles import environment_spec, prepare_learner
from launch.run_directory import RunDirectory
from launch.videos import camera_of
from launch.view.run_view import RunView
from learner.learner import Learner, make_learner
from replay_server.contract.messages import Heartbeat
from replay_server.contract.role import heartbeat_of, new_instance
from replay_server.contract.run import environment_steps
from replay_server.contract.status import RunStatus
from replay_server.process.keeper import TICK_SECONDS, Keeper
from replay_server.process.server import ReplayServer
from replay_server.process.sinks import open_sinks

# Where `replay.environment_steps_per_update` is None.
_STEPS_PER_UPDATE = 1.0

# Takes the gradient steps and the evaluated weights, float32 [P].
OnEvaluation = Callable[[int, npt.NDArray[np.float32]], None]


def run_inline(
  config: RunConfig,
  run: RunDirectory,
  stop: threading.Event,
  view: RunView,
  on_evaluation: OnEvaluation = lambda gradient_steps, weights: None,
  sinks: Sequence[str] = (),
) -> RunStatus:
  """Runs until solved, until the budget is used up, or until `stop` is set.

  The same seed gives the same run, except for the items that Reverb samples: its generator cannot be seeded.

  Args:
    config: of the run.
    run: the run directory; the run resumes from the checkpoints in it, if there are any.
    stop: ends the run, after its checkpoints are written.
    view: shows the run's progress.
    on_evaluation: called after every evaluation with the policy that was evaluated.
    sinks: other services that get the run's numbers; see `replay_server.process.sinks`.

  Raises:
    UserError: something is wrong with the environment or the checkpoint, or a service does not take the run.
  """
  prepare_learner(config.learner, 1)
  # For environments and conditions that use the global generators.
  tf.random.set_seed(derive_seed(config.seed, "tensorflow"))
  np.random.seed(derive_seed(config.seed, "numpy"))  # noqa: NPY002  # The global generator is meant.
  spec = environment_spec(config)
  with (
    ReplayServer(config, spec, run.run_id, run.replay_checkpoint, inline=True) as server,
    open_sinks(sinks, run.run_id, config, run.path) as opened,
    contextlib.closing(Keeper(server, run.path, opened)) as keeper,
    camera_of(config, run, stop) as camera,
  ):
    keeper.tick()  # The learner looks into the status for the snapshot that it continues with.
    connection, manifest, seed = server.connection, server.manifest, config.seed
    policies, film = run.checkpoints / "policy", None if camera is None else camera.film
    roles = _Roles(
      learner=make_learner(connection, manifest, derive_seed(seed, "learner"), stop, run.checkpoints),
      worker=RolloutWorker(connection, manifest, "actor_0", 0, derive_seed(seed, "actor"), stop),
      evaluator=Evaluator(connection, manifest, derive_seed(seed, "evaluator"), stop, policies, film),
    )
    run.write_config(config)  # Not before the learner has accepted its checkpoint's networks.
    steps_before = environment_steps(connection.info(), config.replay.default.name)
    try:
      _take_turns(roles, config, keeper, view, stop, steps_before, on_evaluation)
    except Stopped:
      pass
    except UserError:  # For example, the world failed: what was collected and learned until then is kept.
      with contextlib.suppress(Stopped, ServerLost):
        roles.worker.flush()
      keeper.checkpoint()
      roles.learner.note_snapshot(keeper.snapshot)  # As it closes it saves itself, unless it diverged.
      raise
    finally:
      roles.worker.close()
      roles.learner.close()
    return keeper.finish(roles.heartbeats(ended=True))


@dataclasses.dataclass(frozen=True)
class _Roles:
  learner: Learner
  worker: RolloutWorker
  evaluator: Evaluator
  instance: str = dataclasses.field(default_factory=new_instance)

  def heartbeats(self, ended: bool = False) -> list[Heartbeat]:
    """The heartbeats that these roles would send from processes of their own."""
    return [heartbeat_of(role, self.instance, ended=ended) for role in (self.learner, self.worker, self.evaluator)]


def _has_rows(roles: _Roles) -> bool:
  """Whether the learner has enough rows, once it has all that were collected: whole episodes wait for their ends."""
  roles.worker.flush()
  return roles.learner.is_ready()


def _take_turns(
  roles: _Roles,
  config: RunConfig,
  keeper: Keeper,
  view: RunView,
  stop: threading.Event,
  steps_before: int,
  on_evaluation: OnEvaluation,
) -> None:
  """Collects transitions, and learns and evaluates whenever a block of updates or an evaluation is due."""
  learner, worker = roles.learner, roles.worker
  warm_up = config.replay.default.min_size
  # A transition of n steps is stored after its last step. Without these further steps the learner would wait for ever for
  # its minimum.
  stored = warm_up + config.actor.environments * (config.learner.n_step - 1)
  steps_per_update = config.replay.environment_steps_per_update or _STEPS_PER_UPDATE
  steps_per_round = config.replay.steps_per_round
  block, period = config.learner.updates_per_block, config.evaluator.period_updates
  ticked = -TICK_SECONDS
  while not stop.is_set():
    steps = steps_before + worker.environment_steps
    evaluated, at_budget = False, steps >= config.environment_steps
    taken = (steps - warm_up) // steps_per_round * steps_per_round
    if steps >= stored and taken / steps_per_update - learner.gradient_steps >= block and _has_rows(roles):
      before = learner.gradient_steps
      learner.step()
      if config.evaluator.enabled and before // period != learner.gradient_steps // period:
        learner.publish()
        evaluated = roles.evaluator.step()
        if evaluated:
          on_evaluation(learner.gradient_steps, learner.get_variables([])[0])
    elif not at_budget:
      worker.step()
    if at_budget:
      worker.flush()  # The server counts the steps that have reached it.
    # The status is updated by the clock, and whenever the run may end: after an evaluation and at its budget. Once the last
    # step is taken the clock must wait: the server may count that step before the block that it makes due.
    takes_more = steps_before + worker.environment_steps < config.environment_steps
    if evaluated or at_budget or (takes_more and time.monotonic() - ticked > TICK_SECONDS):
      ticked = time.monotonic()
      status = keeper.tick(roles.heartbeats())
      view.update(status)
      if status.finished:
        return
      if at_budget:
        worker.step()  # Rows of n steps are stored n - 1 steps later, so the server has not counted all steps yet.
      if keeper.checkpoint_is_due():
        # Tables and learner together, so that a killed run resumes both from the same moment.
        worker.flush()
        keeper.checkpoint()
        learner.note_snapshot(keeper.snapshot)
        learner.try_to_save()
