"""The policy table: the learner publishes its weights there and everyone else fetches them."""

import dataclasses
import json
import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from acme import core, specs

from configs import RunConfig, UserError, from_json, to_json
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.run import environment_steps
from replay_server.contract.spec import spec_from_dict, spec_to_dict


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


class PolicyPublisher:
  """Publishes the learner's policies."""

  def __init__(self, connection: Connection):
    self._writer = connection.writer()

  def publish(self, snapshot: PolicySnapshot) -> None:
    """Replaces the published policy.

    Raises:
      ServerLost: the server did not confirm it.
    """
    # In the order of `layout.POLICY_COLUMNS`.
    columns: list[npt.NDArray[Any]] = [
      np.asarray(snapshot.learner_steps, np.int64),
      np.asarray(snapshot.priorities, np.float32),
      np.asarray(snapshot.version, np.int64),
      snapshot.weights,
    ]
    self._writer.write(layout.POLICY, columns)


class PolicySource(core.VariableSource):
  """Fetches the published policy when there is a new one.

  Attributes:
    environment_steps: of the run, as of the last fetch.
  """

  def __init__(self, connection: Connection, default_table: str):
    """Makes a source that counts the run's steps in `default_table`."""
    self.environment_steps = 0
    self._connection = connection
    self._default_table = default_table
    self._publishes = -1
    self._snapshot: PolicySnapshot | None = None

  def fetch(self) -> PolicySnapshot | None:
    """The latest policy; None where none was published yet.

    Raises:
      ServerLost: the server does not answer.
    """
    # Reading the number of inserts takes a fraction of a millisecond; the weights are fetched only when there are new ones.
    tables = self._connection.info()
    self.environment_steps = environment_steps(tables, self._default_table)
    publishes = tables[layout.POLICY].rate_limiter_info.insert_stats.completed
    if publishes != self._publishes:
      columns = self._connection.read(layout.POLICY, "fetching the policy")
      if columns is not None:
        learner_steps, priorities, version, weights = columns
        self._snapshot = PolicySnapshot(int(version), int(learner_steps), weights, tuple(priorities.tolist()))
        self._publishes = publishes
    return self._snapshot

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
