"""The roles as functions, the same for every way to run."""

import contextlib
import dataclasses
import math
import os
import pathlib
import threading
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import portpicker
import tensorflow as tf
from acme import specs

from actors.evaluator import Evaluator
from actors.worker import RolloutWorker
from configs import LearnerConfig, RunConfig, ServerLost, Stopped, UserError
from configs.processors import half_of_the_cores, usable_cores
from configs.run import Part
from configs.seeding import derive_seed
from environments import make_environment_spec, make_event_environment
from environments.trust import Trust
from launch import gpu
from launch.endpoint import Endpoint, connected
from launch.memory import share_one_arena
from launch.metrics.probes import CandidateProbe, EvaluatorProbe, LearnerProbe, ServerProbe, WorkerProbe
from launch.process import RoleProcess
from launch.run_directory import RunDirectory
from launch.server_place import following, write_place
from launch.tls import ServerTls
from launch.tunnel import server_tunnel
from launch.videos import camera_of
from learner.mixup.mixup import check_mixup
from networks import check_actions
from replay_server.contract.activity import Activity, Wait
from replay_server.contract.codec import RowCodec
from replay_server.contract.connection import Connection
from replay_server.contract.layout import run_codec
from replay_server.contract.lease import PATIENCE_SECONDS
from replay_server.contract.lifeline import Lifeline
from replay_server.contract.manifest import Manifest
from replay_server.contract.progress import START_SECONDS, Progress
from replay_server.contract.role import Kind, Role, is_gone, name_taken
from replay_server.contract.run import read_live_status, read_manifest
from replay_server.process.guard import Guard
from replay_server.process.keeper import Keeper
from replay_server.process.server import ReplayServer
from replay_server.process.sinks import open_sinks

_POLL_SECONDS = 0.2
# The server reports a death with its next status.
_GRACE_SECONDS = 2.0
_LEASE_SECONDS = 60.0


def environment_spec(config: RunConfig) -> specs.EnvironmentSpec:
  """Makes a run's environment to read its spec.

  Raises:
    UserError: the environment, an event or the potential cannot be made, or the arguments of the workers' or the evaluator's
      environments change its spaces.
  """
  spec = _spec_of(config)
  for own, arguments in (
    (config.of_workers, config.actor.environment_arguments),
    (config.of_evaluator, config.evaluator.environment_arguments),
  ):
    if arguments:
      Manifest.of("", config, spec).check_spec(_spec_of(own), arguments)
  return spec


def _spec_of(config: RunConfig) -> specs.EnvironmentSpec:
  environment = make_event_environment(config, shaped=True)
  try:
    return make_environment_spec(environment)
  finally:
    environment.close()


def row_codec(config: RunConfig) -> RowCodec:
  """The row layout of a run; makes its environment to read the spec.

  Raises:
    UserError: the environment, an event or the potential cannot be made, the algorithm cannot act in the environment, or
      `learner.mixup` cannot mix its observations.
  """
  spec = environment_spec(config)
  check_actions(config, spec)
  check_mixup(config, spec)
  return run_codec(config, spec)


def serve(
  process: RoleProcess,
  config: RunConfig,
  run: RunDirectory,
  port: int,
  sinks: Sequence[str] = (),
  tls: ServerTls | None = None,
) -> None:
  """Runs the server: tables, status, metrics and checkpoints, until the run ends.

  Args:
    process: of the role.
    config: of the run.
    run: the run directory.
    port: to listen on.
    sinks: other services that get the run's numbers; see `replay_server.process.sinks`.
    tls: whom the server lets in over TLS; None for everybody, without TLS.

  Raises:
    UserError: the port is in use, the checkpoint is not this run's, a service does not take the run, TLS cannot be served, or
      others reach the tables without it although `tls.only` is set.
  """
  share_one_arena()
  prepare_tensorflow(1, sees_gpu=False)
  spec = environment_spec(config)
  with contextlib.ExitStack() as stack:
    # First, as workers begin once the server answers.
    opened = stack.enter_context(open_sinks(sinks, run.run_id, config, run.path))
    tables_port = port if tls is None else _free_port(but=port)
    server = stack.enter_context(
      ReplayServer(config, spec, run.run_id, run.replay_checkpoint, tables_port, is_private=tls is not None)
    )
    if tls is None:
      guard = None
      port = server.port
      print(f"Serving run {run.run_id} on port {port}.", flush=True)
    else:
      guard = Guard(server.port, tls.only)
      port = port or _free_port(but=server.port)
      stack.enter_context(server_tunnel(tls, port, server.port, process.server_lost, server.is_loopback_only))
      print(f"Serving run {run.run_id} on port {port}, over TLS.", flush=True)
    run.write_config(config)
    server.connection.progress = process.progress
    keeper = stack.enter_context(contextlib.closing(Keeper(server, run.path, opened, guard)))
    process.note_begin(ServerProbe(keeper, server.manifest))
    write_place(run, port)
    ended = False
    try:
      status = keeper.run(process.stop)
      ended = status.finished
    finally:
      write_place(run, ended=ended)
    if status.finished:
      process.note_end()
      print(f"Run {run.run_id} ended: {status.phase}.", flush=True)
    else:
      print(
        f"The server of run {run.run_id} leaves; start it again with its run directory, and the run goes on.",
        flush=True,
      )


def _free_port(but: int) -> int:
  """A free port, which is not `but`."""
  while (port := portpicker.pick_unused_port()) == but:
    pass
  return int(port)


@contextlib.contextmanager
def join(
  endpoint: Endpoint,
  stop: threading.Event,
  trust: Trust | None = None,
  process: RoleProcess | None = None,
) -> Iterator[tuple[Connection, Manifest]]:
  """Connects to a server and reads its run's manifest; the connection ends with the `with` statement.

  Args:
    endpoint: of the server.
    stop: ends the wait.
    trust: what may be imported because the run's config names it; None for a role that imports nothing of it.
    process: of the role; None for a command that only asks, which does not wait for a server that it has lost.

  Raises:
    UserError: no server with a run answers there, or it does not let this process in; the run is inline, or its config names
      code that may not be imported.
    RunEnded: the run of the endpoint's run directory has ended.
    Stopped: `stop` was set meanwhile.
  """
  with connected(endpoint, None if process is None else process.server_lost, stop) as connection:
    if process is not None:
      connection.progress = process.progress
    manifest = _wait_for_manifest(connection, endpoint.patience_seconds, stop)
    if manifest.inline:
      raise UserError(
        f"Run {manifest.run_id} at {endpoint.address} is an inline run, which nobody can join: start it without --inline."
      )
    if trust is not None:
      trust.check(manifest.config)
    print(f"Joined run {manifest.run_id} ({manifest.config.name}) at {endpoint.address}.", flush=True)
    connection.progress.note(START_SECONDS)
    yield connection, manifest


def with_own_arguments(
  manifest: Manifest, part: Part, arguments: Mapping[str, Any], trust: Trust, console: str = ""
) -> Manifest:
  """The manifest for a process that was given arguments of its own for its environments, or the address of a console.

  Raises:
    UserError: the arguments name code that may not be imported.
  """
  if not (arguments or console):
    return manifest
  config = manifest.config.with_arguments(part, arguments)
  if console:
    config = config.on_console(part, console)
  trust.check(config)
  return dataclasses.replace(manifest, config=config)


def _wait_for_manifest(connection: Connection, patience: float, stop: threading.Event) -> Manifest:
  deadline = time.monotonic() + patience
  connection.wait_until_up(patience, stop)
  while (manifest := read_manifest(connection)) is None:
    connection.progress.note()
    if time.monotonic() > deadline:
      raise UserError(
        f"The server at {connection.address} still starts, or writes a checkpoint, after {patience:g} s: try again, and then "
        "see its log."
      )
    if stop.wait(_POLL_SECONDS):
      raise Stopped("Stopped while waiting for the run's manifest.")
  return manifest


class LearnerCandidate:
  """The learner's process until the server gives it the lease."""

  name = "learner"
  kind: Kind = "learner"
  state = "waiting for the lease"
  paused = False

  def __init__(self) -> None:
    self._activity = Activity()
    self._activity.waits(self.state, "learner", "the lease of the one before this has ended")

  @property
  def wait(self) -> Wait | None:
    """That for the lease."""
    return self._activity.wait

  def metrics(self) -> Mapping[str, float]:
    """None."""
    return {}

  def run(self) -> None:
    """Does nothing."""


def wait_for_lease(connection: Connection, manifest: Manifest, stop: threading.Event) -> None:
  """Waits until this process is the run's learner; a lifeline must run.

  Two learners would publish their policies in turn and spoil each other's priorities. One that was killed keeps the lease for
  some seconds, so this waits that long before it refuses.

  Raises:
    UserError: the run has a learner.
    ServerLost: the server gives the lease to nobody.
    Stopped: `stop` was set meanwhile.
  """
  news, began = connection.news, time.monotonic()
  deadline = began + PATIENCE_SECONDS + _GRACE_SECONDS
  assert news.lease is not None
  while not news.lease.is_held:
    connection.progress.note()
    holder = news.status.lease if news.status is not None else None
    if time.monotonic() > deadline and holder is not None and holder.instance != news.lease.instance:
      raise UserError(
        f"Run {manifest.run_id} at {connection.address} has a learner (process {holder.pid} on {holder.host}), "
        "and a run can have only one: stop that one first."
      )
    if holder is None and time.monotonic() - began > _LEASE_SECONDS and not news.is_silent:
      raise ServerLost(
        f"The server at {connection.address} answers, and has let nobody learn for {_LEASE_SECONDS:g} s: see its log."
      )
    if stop.wait(_POLL_SECONDS):
      raise Stopped("Stopped while waiting for another learner's end.")


def claim_name(connection: Connection, manifest: Manifest, name: str, stop: threading.Event) -> int:
  """Makes sure that no other worker of the run has this name; returns how many had it before.

  One that was killed counts as alive for some seconds, so this waits that long before it refuses.

  Raises:
    UserError: a worker of this name is alive.
    ServerLost: the server does not answer.
    Stopped: `stop` was set meanwhile.
  """
  deadline = time.monotonic() + PATIENCE_SECONDS + _GRACE_SECONDS
  while (status := read_live_status(connection)) is not None:
    connection.progress.note()
    rivals = [role for role in status.roles if role.name == name and role.alive and not is_gone(role)]
    if not rivals:
      return status.lives.get(name, 0)
    if time.monotonic() > deadline:
      raise name_taken(manifest.run_id, rivals[0])
    if stop.wait(_POLL_SECONDS):
      raise Stopped("Stopped while waiting for another worker's end.")
  return 0


def learn(
  process: RoleProcess,
  endpoint: Endpoint,
  run_root: pathlib.Path,
  run: RunDirectory | None = None,
  device: str = "",
) -> None:
  """Runs the learner.

  Args:
    process: of the role.
    endpoint: of the server.
    run_root: folder of run directories, for a learner that is not given its own.
    run: the run directory; None takes <run_root>/<name>/<run id>.
    device: a TensorFlow device for this learner; empty takes the config's.

  Raises:
    UserError: no server answers, its run has a learner, the run directory cannot be written, the checkpoint is another run's,
      or there is no such device.
    ServerLost: the server does not answer.
  """
  from learner.devices import choose_device  # No other role needs what the learner imports: Keras and Numba.
  from learner.learner import make_learner

  # The run's config gives the number of threads, which must be set before TensorFlow's first operation.
  with join(endpoint, process.stop, process=process) as (connection, manifest):
    prepare_learner(manifest.config.learner, half_of_the_cores())
    directory = run or RunDirectory(run_root / manifest.config.name / manifest.run_id)
    directory.check_writable(f"choose another place with {'--run_dir' if run else '--run_root'}.")
    # Before the lease is waited for, in case that there is no such device.
    choose_device(device or manifest.config.learner.device)
    seed = derive_seed(manifest.config.seed, "learner")
    candidate = LearnerCandidate()
    with _living(process, connection, candidate, endpoint) as lifeline:
      process.note_begin(CandidateProbe(connection, manifest, candidate))
      wait_for_lease(connection, manifest, process.stop)
      connection.progress.note(START_SECONDS)
      learner = make_learner(connection, manifest, seed, process.stop, directory.checkpoints, device)
      lifeline.role = learner
      process.note_begin(LearnerProbe(connection, manifest, learner))
      learner.run()


def act(
  process: RoleProcess,
  endpoint: Endpoint,
  index: int,
  trust: Trust,
  arguments: Mapping[str, Any] = types.MappingProxyType({}),
  console: str = "",
) -> None:
  """Runs a rollout worker.

  Args:
    process: of the role.
    endpoint: of the server.
    index: determines the worker's seed and its exploration.
    trust: what of the run's environment and events may be imported.
    arguments: of this worker's environments, in place of the config's.
    console: address of the console that it plays on; empty if it makes its environments itself.

  Raises:
    UserError: no server answers, the environment cannot be made here, or it produces what cannot be stored.
    ServerLost: the server does not answer.
  """
  share_one_arena()
  prepare_tensorflow(1, sees_gpu=False)
  with join(endpoint, process.stop, trust, process) as (connection, manifest):
    manifest = with_own_arguments(manifest, "actor", arguments, trust, console)
    life = claim_name(connection, manifest, process.name, process.stop)
    process.progress.note(START_SECONDS)
    seed = derive_seed(manifest.config.seed, "actor", index, life)
    worker = RolloutWorker(connection, manifest, process.name, index, seed, process.stop)
    _allow_for_worlds(process.progress, manifest)
    process.note_begin(WorkerProbe(connection, manifest, worker))
    with _living(process, connection, worker, endpoint):
      worker.run()


def evaluate(
  process: RoleProcess,
  endpoint: Endpoint,
  trust: Trust,
  run: RunDirectory | None = None,
  arguments: Mapping[str, Any] = types.MappingProxyType({}),
  console: str = "",
) -> None:
  """Runs the evaluator, which keeps the best policy and the videos in `run` if that is given.

  Args:
    process: of the role.
    endpoint: of the server.
    trust: what of the run's environment and events may be imported.
    run: the run directory; None keeps nothing.
    arguments: of its environment, in place of the config's.
    console: address of the console that it plays on; empty if it makes its environment itself.

  Raises:
    UserError: no server answers, the run directory cannot be written, or the environment cannot be made here.
    ServerLost: the server does not answer.
  """
  share_one_arena()
  prepare_tensorflow(1, sees_gpu=False)
  with join(endpoint, process.stop, trust, process) as (connection, manifest):
    manifest = with_own_arguments(manifest, "evaluator", arguments, trust)
    seed = derive_seed(manifest.config.seed, "evaluator")
    if run is not None:
      run.check_writable("choose another place with --run_dir.")
    policies = run.checkpoints / "policy" if run is not None else None
    with camera_of(manifest.config, run, process.stop) as camera:
      film = None if camera is None else camera.film
      evaluator = Evaluator(connection, manifest, seed, process.stop, policies, film, console)
      _allow_for_worlds(process.progress, manifest)
      process.note_begin(EvaluatorProbe(connection, manifest, evaluator))
      with _living(process, connection, evaluator, endpoint):
        evaluator.run()


def _allow_for_worlds(progress: Progress, manifest: Manifest) -> None:
  """A call into a world may take as long as the config says, in which the loop does not go round."""
  timeout = manifest.config.environment.timeout_seconds
  progress.patience_seconds = max(progress.patience_seconds, timeout) if timeout else math.inf


@contextlib.contextmanager
def _living(process: RoleProcess, connection: Connection, role: Role, endpoint: Endpoint) -> Iterator[Lifeline]:
  """Sends a role's heartbeats until the role, the run or the server ends, or the server is elsewhere."""
  with (
    following(endpoint.address, process),
    Lifeline(connection, role, process.stop, process.server_lost, endpoint.timeout_seconds) as lifeline,
  ):
    yield lifeline


def prepare_learner(learner: LearnerConfig, threads: int) -> None:
  """Prepares TensorFlow for a learner: with two operations at once where its algorithm gains from them.

  Args:
    learner: the run's.
    threads: to take where the config asks for none.
  """
  takes_two = learner.algorithm.SIDE_BY_SIDE and (learner.threads or usable_cores()) >= 2
  threads = learner.threads or threads
  if takes_two and (learner.device.startswith("CPU") or not _has_gpu()):
    prepare_tensorflow(max(1, threads // 2), operations=2)
  else:
    prepare_tensorflow(threads)


def prepare_tensorflow(threads: int, operations: int = 1, sees_gpu: bool = True) -> None:
  """Sets what TensorFlow accepts only before its first operation.

  Args:
    threads: per operation; roles share the machine's cores, and small networks gain nothing from more than one.
    operations: at once. With two, threads would pass the small operations of double DQN to each other, for nearly twice the CPU
      time; twin critics are computed side by side.
    sees_gpu: whether TensorFlow may use GPUs; only the learner needs them, and each process that uses one takes memory.
  """
  if sees_gpu and _has_gpu():
    gpu.load_libraries()
  try:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(operations)
    if not sees_gpu:
      tf.config.set_visible_devices([], "GPU")  # An environment may still use them through another library.
    # Otherwise TensorFlow takes all of a GPU's memory at once, even what other processes need.
    for device in tf.config.get_visible_devices("GPU"):
      tf.config.experimental.set_memory_growth(device, True)
  except RuntimeError:
    pass  # TensorFlow already runs in this process, as in a notebook: its settings stay.


def _has_gpu() -> bool:
  return os.environ.get("CUDA_VISIBLE_DEVICES") != "-1" and not gpu.load_driver().problem
