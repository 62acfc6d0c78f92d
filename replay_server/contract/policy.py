"""The policy table: the learner publishes its weights there and everyone else fetches them."""

import concurrent.futures
import contextlib
import dataclasses
import json
import pathlib
import threading
import time
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from acme import core, specs

from configs import RunConfig, ServerLost, Stopped, UserError, from_json, to_json
from replay_server.contract import layout
from replay_server.contract.connection import CALL_TIMEOUT_SECONDS, Column, Connection, NotInTime
from replay_server.contract.run import environment_steps
from replay_server.contract.spec import spec_from_dict, spec_to_dict

# A policy has the time to arrive that it takes on a link of 256 kbit/s, and at least that of any call.
LEAST_BYTES_PER_SECOND = 32_000
LEAST_SECONDS = CALL_TIMEOUT_SECONDS


@dataclasses.dataclass(frozen=True)
class PolicySnapshot:
  """One published policy.

  Attributes:
    version: 1, 2, ...; a restarted learner continues the count.
    learner_steps: gradient steps that the learner had taken.
    weights: float32 [P], the network's variables in the order of `networks.flatten_weights`.
    priorities: of new items of each table, in layout order; empty for 1 everywhere.
  """

  version: int
  learner_steps: int
  weights: npt.NDArray[np.float32]
  priorities: tuple[float, ...] = ()


class PolicyLate(ServerLost):
  """A policy did not arrive in the time that its size allows."""

  def __init__(self, weights: int):
    """Words the message for a policy of so many weights."""
    megabytes = 4e-6 * weights
    size = f"{megabytes:.0f} MB" if megabytes >= 1 else f"{1000 * megabytes:.2g} kB"
    super().__init__(
      f"The policy of {size} did not arrive within {arrival_seconds(weights):.0f} s, so the link to the server carries less than "
      f"{LEAST_BYTES_PER_SECOND / 1000:g} kB/s or is broken: check the network, or use a smaller config.network."
    )


def arrival_seconds(weights: int) -> float:
  """How long a policy of so many weights may take to the server or from it."""
  return max(LEAST_SECONDS, 4 * weights / LEAST_BYTES_PER_SECOND)


class PolicyPublisher:
  """Publishes the learner's policies, one after the other; for one thread.

  Attributes:
    published: number of policies that the server has confirmed.
    published_at: when it confirmed the last one, as a UNIX time; None before the first.
  """

  def __init__(self, connection: Connection, stop: threading.Event | None = None):
    """Makes a publisher; `stop` ends its waits when set."""
    self.published = 0
    self.published_at: float | None = None
    self._bulk = connection.bulk()
    self._writer = self._bulk.writer()
    self._stop = stop
    self._threads = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="publisher")
    self._sending: concurrent.futures.Future[None] | None = None

  @property
  def is_sending(self) -> bool:
    """Whether a policy that `send` was given is on its way."""
    return self._sending is not None and not self._sending.done()

  def publish(self, snapshot: PolicySnapshot) -> None:
    """Replaces the published policy, unless the server has one of a higher version, and waits until the server has it.

    Raises:
      PolicyLate: the server did not confirm it in the time that its size allows.
      ServerLost: it cannot be sent.
      Stopped: asked to stop meanwhile; the policy may still arrive.
    """
    self.finish()
    self._write(snapshot)

  def send(self, snapshot: PolicySnapshot) -> None:
    """Like `publish`, in a thread; waits only for the policy that was sent before, and raises what went wrong with that."""
    self.finish()
    self._sending = self._threads.submit(self._write, snapshot)

  def finish(self) -> None:
    """Waits until the server has the policy that was sent last; raises like `publish`, once."""
    sending, self._sending = self._sending, None
    if sending is not None:
      sending.result()

  def check(self) -> None:
    """Raises what went wrong with the policy that was sent last, as `publish` does, without waiting."""
    if not self.is_sending:
      self.finish()

  def close(self) -> None:
    """Waits until the policy that was sent last has arrived or failed; may be called twice."""
    with contextlib.suppress(ServerLost, Stopped):
      self.finish()
    self._threads.shutdown()

  def _write(self, snapshot: PolicySnapshot) -> None:
    # In the order of `layout.POLICY_COLUMNS`.
    columns: list[npt.NDArray[Any]] = [
      np.asarray(snapshot.learner_steps, np.int64),
      np.asarray(snapshot.priorities, np.float32),
      np.asarray(snapshot.version, np.int64),
      snapshot.weights,
    ]
    weights = len(snapshot.weights)
    try:
      self._writer.write(layout.POLICY, columns, arrival_seconds(weights), self._stop, snapshot.version)
    except ServerLost as error:
      self._bulk.renew()  # After failed tries gRPC would wait for long before the next one.
      raise (PolicyLate(weights) if isinstance(error, NotInTime) else error) from None
    self.published += 1
    self.published_at = time.time()


class PolicySource(core.VariableSource):
  """Fetches the published policy when there is a new one.

  Attributes:
    environment_steps: of the run, as of the last fetch.
    is_reading: whether a policy is on its way; may be read by any thread.
  """

  def __init__(self, connection: Connection, default_table: str, weights: int = 0, stop: threading.Event | None = None):
    """Makes a source.

    Args:
      connection: to the server.
      default_table: in which the run's steps are counted.
      weights: of the policy, which its time to arrive follows from; 0 if it is small.
      stop: ends waits when set.
    """
    self.environment_steps = 0
    self.is_reading = False
    self._weights = weights
    self._stop = stop
    self._connection = connection
    self._default_table = default_table
    self._publishes = -1
    self._restarts = connection.news.restarts
    self._snapshot: PolicySnapshot | None = None

  def fetch(self) -> PolicySnapshot | None:
    """The latest policy; None where none was published yet.

    Versions only rise, so one that is older than the last is not taken. A server that was started again may have an older one.

    Raises:
      PolicyLate: the policy did not arrive in the time that its size allows.
      ServerLost: the server does not answer.
      Stopped: asked to stop meanwhile.
    """
    # Reading the number of inserts takes a fraction of a millisecond; the weights are fetched only when there are new ones.
    restarts = self._connection.news.restarts
    tables = self._connection.info()
    self.environment_steps = environment_steps(tables, self._default_table)
    publishes = tables[layout.POLICY].rate_limiter_info.insert_stats.completed
    if publishes != self._publishes or restarts != self._restarts:
      columns = self._read()
      if columns is not None:
        learner_steps, priorities, version, weights = columns
        found = PolicySnapshot(int(version), int(learner_steps), weights, tuple(priorities.tolist()))
        if self._snapshot is None or found.version > self._snapshot.version or restarts != self._restarts:
          self._snapshot = found
        self._publishes, self._restarts = publishes, restarts
    return self._snapshot

  def _read(self) -> list[Column] | None:
    self.is_reading = True
    try:
      return self._connection.bulk().read(
        layout.POLICY, "fetching the policy", arrival_seconds(self._weights), self._stop
      )
    except ServerLost as error:
      self._connection.bulk().renew()
      raise (PolicyLate(self._weights) if isinstance(error, NotInTime) else error) from None
    finally:
      self.is_reading = False

  def get_variables(self, names: Sequence[str]) -> list[npt.NDArray[Any]]:
    """The latest weights, for Acme; ignores `names`, as a policy is one vector."""
    del names
    snapshot = self.fetch()
    if snapshot is None:
      raise ValueError("no policy was published yet")
    return [snapshot.weights]


@dataclasses.dataclass(frozen=True)
class StoredPolicy:
  """The content of a policy file.

  Attributes:
    snapshot: the policy; its weights need the config to be used.
    config: of its run.
    spec: of its environment; None in a file of an earlier release, which did not store it.
  """

  snapshot: PolicySnapshot
  config: RunConfig
  spec: specs.EnvironmentSpec | None


def save_snapshot(path: pathlib.Path, snapshot: PolicySnapshot, config: RunConfig, spec: specs.EnvironmentSpec) -> None:
  """Writes a policy, with the config and the spec that it needs, to an .npz file; readers never see a partial file."""
  path.parent.mkdir(parents=True, exist_ok=True)
  partial = path.with_suffix(".partial.npz")
  np.savez(
    partial,
    version=snapshot.version,
    learner_steps=snapshot.learner_steps,
    weights=snapshot.weights,
    config=to_json(config),
    spec=json.dumps(spec_to_dict(spec)),
  )
  partial.replace(path)


def load_snapshot(path: pathlib.Path) -> StoredPolicy:
  """Reads what `save_snapshot` wrote.

  Raises:
    UserError: the file is not there or is not a policy.
  """
  try:
    with path.open("rb") as file:
      data = np.load(file)
      snapshot = PolicySnapshot(int(data["version"]), int(data["learner_steps"]), data["weights"])
      spec = spec_from_dict(json.loads(str(data["spec"]))) if "spec" in data else None
      return StoredPolicy(snapshot, from_json(str(data["config"])), spec)
  except (OSError, EOFError, ValueError, LookupError, zipfile.BadZipFile) as error:
    reason = getattr(error, "strerror", None) or type(error).__name__
    raise UserError(
      f"{path} is not a policy file ({reason}): name a run directory or one of its checkpoints/policy/*.npz."
    ) from None
