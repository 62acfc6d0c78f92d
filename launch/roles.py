"""The roles as functions: each takes an address and builds what its room offers; the same for every way to run."""

import contextlib
import os
import pathlib
import threading
import time

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
from learner.learner import make_learner
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

CONNECT_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.2
# For a status that was written before the server noticed.
_LEARNER_GRACE_SECONDS = 2.0


def environment_spec(config: RunConfig) -> specs.EnvironmentSpec:
  """The spec of a run's environment, which is made for it.

  Raises:
    UserError: the environment, an event or the potential cannot be made.
  """
  environment = make_event_environment(config, shaped=True)
  try:
    return make_environment_spec(environment)
  finally:
    environment.close()


def row_codec(config: RunConfig) -> RowCodec:
  """The row layout of a run, for which its environment is made.

  Raises:
    UserError: the environment, an event or the potential cannot be made.
  """
  return run_codec(config, environment_spec(config))


def serve(process: RoleProcess, config: RunConfig, run: RunDirectory, port: int) -> None:
  """The server role: tables, status, record and checkpoints, until the run ends.

  Raises:
    UserError: the port is in use, or the checkpoint is not this run's.
  """
  prepare_tensorflow(1, sees_gpu=False)
  with ReplayServer(config, environment_spec(config), run.run_id, run.replay_checkpoint, port) as server:
    print(f"Serving run {run.run_id} on port {server.address.rpartition(':')[2]}.", flush=True)
    run.write_config(config)
    with contextlib.closing(Keeper(server, run.path)) as keeper:
      status = keeper.run(process.stop)
    print(f"Run {run.run_id} ended: {status.phase}.", flush=True)


def join(
  address: str, stop: threading.Event, timeout_seconds: float = CONNECT_TIMEOUT_SECONDS
) -> tuple[Connection, Manifest]:
  """Connects to a server and reads what run it holds.

  Raises:
    UserError: no server answers there, it is none of ours, or its run is inline.
    Stopped: told to stop while waiting.
  """
  connection = Connection(address)
  deadline = time.monotonic() + timeout_seconds
  connection.wait_until_up(timeout_seconds, stop)
  while (manifest := read_manifest(connection)) is None:
    if time.monotonic() > deadline:
      raise UserError(f"The server at {address} holds no run after {timeout_seconds:g} s: see its log.")
    if stop.wait(_POLL_SECONDS):
      raise Stopped("Stopped while waiting for the run's manifest.")
  if manifest.inline:
    raise UserError(
      f"Run {manifest.run_id} at {address} is an inline run, which nobody can join: start it without --inline."
    )
  print(f"Joined run {manifest.run_id} ({manifest.config.name}) at {address}.", flush=True)
  return connection, manifest


def refuse_second_learner(connection: Connection, manifest: Manifest, stop: threading.Event) -> None:
  """Refuses where a learner lives: two would publish their policies in turn and spoil each other's priorities.

  One that was killed is called dead some seconds later, for which this waits.

  Raises:
    UserError: another learner lives.
    ServerLost: the server does not answer.
    Stopped: told to stop meanwhile.
  """
  deadline = time.monotonic() + DEAD_AFTER_SECONDS + _LEARNER_GRACE_SECONDS
  while (status := read_live_status(connection)) is not None:
    learners = [role for role in status.roles if role.role == "learner" and role.alive]
    if not learners:
      return
    if time.monotonic() > deadline:
      raise UserError(
        f"Run {manifest.run_id} at {connection.address} has a learner (process {learners[0].pid} on {learners[0].host}), "
        "and can have one only: stop that one first."
      )
    if stop.wait(_POLL_SECONDS):
      raise Stopped("Stopped while waiting for another learner's end.")


def learn(
  process: RoleProcess, address: str, run_root: pathlib.Path, run: RunDirectory | None = None, device: str = ""
) -> None:
  """The learner role.

  Args:
    process: of the role.
    address: of the server.
    run_root: below which runs lie, for a learner on another machine than the server.
    run: the run's directory, if it is known.
    device: a TensorFlow device for this learner; empty takes the config's.

  Raises:
    UserError: no server, one that has a learner, another run's checkpoint, or no such device.
    ServerLost: the server does not answer.
  """
  # How many threads it may have is the run's to say, and TensorFlow must be told before its first operation.
  connection, manifest = join(address, process.stop)
  prepare_tensorflow(manifest.config.learner.threads or max(1, (os.cpu_count() or 1) // 2))
  refuse_second_learner(connection, manifest, process.stop)
  directory = run or RunDirectory(run_root / manifest.config.name / manifest.run_id)
  seed = derive_seed(manifest.config.seed, "learner")
  learner = make_learner(connection, manifest, seed, process.stop, directory.checkpoints, device)
  _live(process, connection, learner)


def act(process: RoleProcess, address: str, index: int) -> None:
  """The rollout worker role; `index` tells its seed and its exploration rate.

  Raises:
    UserError: no server, no such environment here, or one that produces what cannot be stored.
    ServerLost: the server does not answer.
  """
  prepare_tensorflow(1, sees_gpu=False)
  connection, manifest = join(address, process.stop)
  seed = derive_seed(manifest.config.seed, "actor", index)
  worker = RolloutWorker(connection, manifest, process.name, index, seed, process.stop)
  _live(process, connection, worker)


def evaluate(process: RoleProcess, address: str, run: RunDirectory | None = None) -> None:
  """The evaluator role; with `run` it keeps the best policy there.

  Raises:
    UserError: no server, or no such environment here.
    ServerLost: the server does not answer.
  """
  prepare_tensorflow(1, sees_gpu=False)
  connection, manifest = join(address, process.stop)
  seed = derive_seed(manifest.config.seed, "evaluator")
  policies = run.checkpoints / "policy" if run is not None else None
  evaluator = Evaluator(connection, manifest, seed, process.stop, policies)
  _live(process, connection, evaluator)


def _live(process: RoleProcess, connection: Connection, role: Role) -> None:
  """Runs a role while its heartbeats tell the server of it, until its end, the run's or the server's."""
  with Lifeline(connection, role, process.stop, process.server_lost):
    role.run()


def prepare_tensorflow(threads: int, sees_gpu: bool = True) -> None:
  """Settings that TensorFlow takes before its first operation only.

  Args:
    threads: of an operation: roles share the machine's cores, and small networks gain nothing from more than one.
    sees_gpu: whether TensorFlow may use GPUs; only who learns needs them, and each process that does takes memory there.
  """
  if sees_gpu and os.environ.get("CUDA_VISIBLE_DEVICES") != "-1" and not gpu.load_driver().problem:
    gpu.load_libraries()
  try:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # Two would hand the small operations of an update to and fro, for nearly twice the CPU time.
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if not sees_gpu:
      tf.config.set_visible_devices([], "GPU")  # An environment may still use them, in another library.
    # Else it takes all of a GPU's memory at once, which others may be using.
    for device in tf.config.get_visible_devices("GPU"):
      tf.config.experimental.set_memory_growth(device, True)
  except RuntimeError:
    pass  # TensorFlow has begun to run in this process, as in a notebook: its settings stand.
