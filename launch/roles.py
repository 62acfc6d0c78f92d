"""The roles as functions, the same for every way to run."""

import contextlib
import os
import pathlib
import threading
import time
from collections.abc import Sequence

import tensorflow as tf
from acme import specs

from actors.evaluator import Evaluator
from actors.worker import RolloutWorker
from configs import RunConfig, Stopped, UserError
from configs.seeding import derive_seed
from environments import make_environment_spec, make_event_environment
from launch import gpu
from launch.process import RoleProcess
from launch.run_directory import RunDirectory
from launch.videos import camera_of
from learner.learner import make_learner
from networks import check_actions
from replay_server.contract.codec import RowCodec
from replay_server.contract.connection import Connection
from replay_server.contract.layout import run_codec
from replay_server.contract.lifeline import Lifeline
from replay_server.contract.manifest import Manifest
from replay_server.contract.role import Role
from replay_server.contract.run import read_live_status, read_manifest
from replay_server.process.keeper import Keeper
from replay_server.process.monitor import DEAD_AFTER_SECONDS
from replay_server.process.server import ReplayServer
from replay_server.process.sinks import open_sinks

CONNECT_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.2
# The server reports a death with its next status.
_LEARNER_GRACE_SECONDS = 2.0


def environment_spec(config: RunConfig) -> specs.EnvironmentSpec:
  """Makes a run's environment to read its spec.

  Raises:
    UserError: the environment, an event or the potential cannot be made.
  """
  environment = make_event_environment(config, shaped=True)
  try:
    return make_environment_spec(environment)
  finally:
    environment.close()


def row_codec(config: RunConfig) -> RowCodec:
  """The row layout of a run; makes its environment to read the spec.

  Raises:
    UserError: the environment, an event or the potential cannot be made, or the algorithm cannot act in the environment.
  """
  spec = environment_spec(config)
  check_actions(config, spec)
  return run_codec(config, spec)


def serve(process: RoleProcess, config: RunConfig, run: RunDirectory, port: int, sinks: Sequence[str] = ()) -> None:
  """Runs the server: tables, status, metrics and checkpoints, until the run ends.

  Args:
    process: of the role.
    config: of the run.
    run: the run directory.
    port: to listen on.
    sinks: other services that get the run's numbers; see `replay_server.process.sinks`.

  Raises:
    UserError: the port is in use, the checkpoint is not this run's, or a service does not take the run.
  """
  prepare_tensorflow(1, sees_gpu=False)
  spec = environment_spec(config)
  with (
    open_sinks(sinks, run.run_id, config, run.path) as opened,  # First, as workers begin once the server answers.
    ReplayServer(config, spec, run.run_id, run.replay_checkpoint, port) as server,
  ):
    print(f"Serving run {run.run_id} on port {server.address.rpartition(':')[2]}.", flush=True)
    run.write_config(config)
    with contextlib.closing(Keeper(server, run.path, opened)) as keeper:
      status = keeper.run(process.stop)
    print(f"Run {run.run_id} ended: {status.phase}.", flush=True)


def join(address: str, stop: threading.Event) -> tuple[Connection, Manifest]:
  """Connects to a server and reads its run's manifest.

  Raises:
    UserError: no server with a run answers there, or the run is inline.
    Stopped: `stop` was set meanwhile.
  """
  connection = Connection(address)
  deadline = time.monotonic() + CONNECT_TIMEOUT_SECONDS
  connection.wait_until_up(CONNECT_TIMEOUT_SECONDS, stop)
  while (manifest := read_manifest(connection)) is None:
    if time.monotonic() > deadline:
      raise UserError(
        f"The server at {address} still starts, or writes a checkpoint, after {CONNECT_TIMEOUT_SECONDS:g} s: try again, and then "
        "see its log."
      )
    if stop.wait(_POLL_SECONDS):
      raise Stopped("Stopped while waiting for the run's manifest.")
  if manifest.inline:
    raise UserError(
      f"Run {manifest.run_id} at {address} is an inline run, which nobody can join: start it without --inline."
    )
  print(f"Joined run {manifest.run_id} ({manifest.config.name}) at {address}.", flush=True)
  return connection, manifest


def refuse_second_learner(connection: Connection, manifest: Manifest, stop: threading.Event) -> None:
  """Raises if the run has a learner: two would publish their policies in turn and spoil each other's priorities.

  A learner that was killed counts as alive for some seconds, so this waits that long before it refuses.

  Raises:
    UserError: the run has a learner.
    ServerLost: the server does not answer.
    Stopped: `stop` was set meanwhile.
  """
  deadline = time.monotonic() + DEAD_AFTER_SECONDS + _LEARNER_GRACE_SECONDS
  while (status := read_live_status(connection)) is not None:
    learners = [role for role in status.roles if role.role == "learner" and role.alive]
    if not learners:
      return
    if time.monotonic() > deadline:
      raise UserError(
        f"Run {manifest.run_id} at {connection.address} has a learner (process {learners[0].pid} on {learners[0].host}), "
        "and a run can have only one: stop that one first."
      )
    if stop.wait(_POLL_SECONDS):
      raise Stopped("Stopped while waiting for another learner's end.")


def learn(
  process: RoleProcess, address: str, run_root: pathlib.Path, run: RunDirectory | None = None, device: str = ""
) -> None:
  """Runs the learner.

  Args:
    process: of the role.
    address: of the server.
    run_root: folder of run directories, for a learner that is not given its own.
    run: the run directory; None takes <run_root>/<name>/<run id>.
    device: a TensorFlow device for this learner; empty takes the config's.

  Raises:
    UserError: no server answers, its run has a learner, the run directory cannot be written, the checkpoint is another run's,
      or there is no such device.
    ServerLost: the server does not answer.
  """
  # The run's config gives the number of threads, which must be set before TensorFlow's first operation.
  connection, manifest = join(address, process.stop)
  prepare_tensorflow(manifest.config.learner.threads or max(1, (os.cpu_count() or 1) // 2))
  refuse_second_learner(connection, manifest, process.stop)
  directory = run or RunDirectory(run_root / manifest.config.name / manifest.run_id)
  directory.check_writable(f"choose another place with {'--run_dir' if run else '--run_root'}.")
  seed = derive_seed(manifest.config.seed, "learner")
  learner = make_learner(connection, manifest, seed, process.stop, directory.checkpoints, device)
  _live(process, connection, learner)


def act(process: RoleProcess, address: str, index: int) -> None:
  """Runs a rollout worker; `index` determines its seed and its exploration.

  Raises:
    UserError: no server answers, the environment cannot be made here, or it produces what cannot be stored.
    ServerLost: the server does not answer.
  """
  prepare_tensorflow(1, sees_gpu=False)
  connection, manifest = join(address, process.stop)
  seed = derive_seed(manifest.config.seed, "actor", index)
  worker = RolloutWorker(connection, manifest, process.name, index, seed, process.stop)
  _live(process, connection, worker)


def evaluate(process: RoleProcess, address: str, run: RunDirectory | None = None) -> None:
  """Runs the evaluator, which keeps the best policy and the videos in `run` if that is given.

  Raises:
    UserError: no server answers, the run directory cannot be written, or the environment cannot be made here.
    ServerLost: the server does not answer.
  """
  prepare_tensorflow(1, sees_gpu=False)
  connection, manifest = join(address, process.stop)
  seed = derive_seed(manifest.config.seed, "evaluator")
  if run is not None:
    run.check_writable("choose another place with --run_dir.")
  policies = run.checkpoints / "policy" if run is not None else None
  with camera_of(manifest.config, run, process.stop) as camera:
    evaluator = Evaluator(connection, manifest, seed, process.stop, policies, None if camera is None else camera.film)
    _live(process, connection, evaluator)


def _live(process: RoleProcess, connection: Connection, role: Role) -> None:
  """Runs a role and sends its heartbeats, until the role, the run or the server ends."""
  with Lifeline(connection, role, process.stop, process.server_lost):
    role.run()


def prepare_tensorflow(threads: int, sees_gpu: bool = True) -> None:
  """Sets what TensorFlow accepts only before its first operation.

  Args:
    threads: per operation; roles share the machine's cores, and small networks gain nothing from more than one.
    sees_gpu: whether TensorFlow may use GPUs; only the learner needs them, and each process that uses one takes memory.
  """
  if sees_gpu and os.environ.get("CUDA_VISIBLE_DEVICES") != "-1" and not gpu.load_driver().problem:
    gpu.load_libraries()
  try:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # With two, threads would pass an update's small operations to each other, for nearly twice the CPU time.
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if not sees_gpu:
      tf.config.set_visible_devices([], "GPU")  # An environment may still use them through another library.
    # Otherwise TensorFlow takes all of a GPU's memory at once, even what other processes need.
    for device in tf.config.get_visible_devices("GPU"):
      tf.config.experimental.set_memory_growth(device, True)
  except RuntimeError:
    pass  # TensorFlow already runs in this process, as in a notebook: its settings stay.
