"""A learner's checkpoints: each is one folder that is whole or not there."""

import dataclasses
import json
import os
import pathlib
import re
import shutil

import numpy as np
import tensorflow as tf

from configs import UserError
from configs.files import FileLock
from learner.sources.source import Source
from learner.updates import Updates
from replay_server.contract.manifest import Manifest
from replay_server.contract.policy import PolicySnapshot, save_snapshot

_NAME = re.compile(r"checkpoint_(\d+)")
_PARTIAL = ".partial"
_KEPT = 2
_COUNTERS_FILE = "counters.json"
_SOURCE_FILE = "source.npz"
_POLICY_FILE = "policy.npz"
_NETWORKS_PREFIX = "networks"


@dataclasses.dataclass(frozen=True)
class Counters:
  """What a learner counts, and whose it is.

  Attributes:
    run_id: of the run.
    gradient_steps: taken.
    policy_version: the last published.
  """

  run_id: str
  gradient_steps: int
  policy_version: int


class LearnerCheckpoints:
  """The checkpoints of one run's learner.

  The folder `checkpoint_<number>` holds the networks with their optimisers, the source's state, the counters and the policy. It
  is written under another name and renamed once all of it is there, so a learner that is killed at any moment leaves the last
  one whole.
  """

  def __init__(self, directory: pathlib.Path):
    """Takes the directory for this process.

    Args:
      directory: of the run's checkpoints; `learner/` and `policy/` go below it.

    Raises:
      UserError: another learner has it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    self._lock = FileLock(
      directory / "learner.lock",
      f"Another learner writes its checkpoints to {directory}: wait for its end, or use another directory.",
    )
    self._directory = directory / "learner"
    self._latest_policy = directory / "policy" / "latest.npz"

  def write(
    self, counters: Counters, updates: Updates, source: Source, snapshot: PolicySnapshot, manifest: Manifest
  ) -> pathlib.Path:
    """Writes a checkpoint; of the older ones the last stays.

    Args:
      counters: as they are.
      updates: with networks and optimisers.
      source: of the batches.
      snapshot: of the policy, which `policy/latest.npz` becomes too.
      manifest: of the run.

    Returns:
      Its folder.

    Raises:
      OSError, tf.errors.OpError: it cannot be written; those before it stay.
    """
    whole = self._whole()
    final = self._directory / f"checkpoint_{_number(whole[-1]) + 1 if whole else 1}"
    partial = final.with_suffix(_PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
      tf.train.Checkpoint(updates=updates).write(str(partial / _NETWORKS_PREFIX))
      np.savez(partial / _SOURCE_FILE, **source.state())
      save_snapshot(partial / _POLICY_FILE, snapshot, manifest.config, manifest.spec)
      (partial / _COUNTERS_FILE).write_text(json.dumps(dataclasses.asdict(counters)))
      partial.rename(final)
    finally:
      shutil.rmtree(partial, ignore_errors=True)
    for folder in [*whole[: 1 - _KEPT], *self._directory.glob(f"*{_PARTIAL}")]:
      shutil.rmtree(folder, ignore_errors=True)
    _share(final / _POLICY_FILE, self._latest_policy)
    return final

  def restore(self, run_id: str, updates: Updates, source: Source) -> Counters | None:
    """Takes the last checkpoint into `updates` and `source`.

    Args:
      run_id: of the run that it must be of.
      updates: new ones, of the same config.
      source: a new one, of the same tables.

    Returns:
      What it counted; None where there is none.

    Raises:
      UserError: it is another run's, or of other networks. Nothing was changed on the disk.
      ServerLost: the server does not answer.
    """
    whole = self._whole()
    if not whole:
      return None
    folder = whole[-1]
    counters = _read_counters(folder)
    if counters is None or counters.run_id != run_id:
      owner = "another run" if counters is None else counters.run_id
      raise UserError(
        f"The learner's checkpoint in {self._directory} belongs to {owner}, and the server holds run {run_id}: use that run's "
        "server, or another directory. Nothing was changed."
      )
    try:
      tf.train.Checkpoint(updates=updates).read(str(folder / _NETWORKS_PREFIX)).assert_existing_objects_matched()
    except (AssertionError, ValueError):
      raise UserError(
        f"The networks of the learner's checkpoint in {self._directory} are not those of the config: resume with the algorithm "
        "and the network that the run had. Nothing was changed."
      ) from None
    with np.load(folder / _SOURCE_FILE) as state:
      source.restore(dict(state))
    return counters

  def close(self) -> None:
    """Lets go of the directory; may be called twice."""
    self._lock.release()

  def _whole(self) -> list[pathlib.Path]:
    """The folders of all checkpoints, the last one last."""
    folders = [folder for folder in self._directory.glob("checkpoint_*") if _NAME.fullmatch(folder.name)]
    return sorted(folders, key=_number)


def _number(folder: pathlib.Path) -> int:
  found = _NAME.fullmatch(folder.name)
  assert found is not None
  return int(found[1])


def _share(file: pathlib.Path, link: pathlib.Path) -> None:
  """Makes `link` another name of `file`; readers see the old file or the new one whole."""
  link.parent.mkdir(parents=True, exist_ok=True)
  partial = link.with_suffix(_PARTIAL)
  partial.unlink(missing_ok=True)
  try:
    os.link(file, partial)
  except OSError:  # A file system without hard links.
    shutil.copyfile(file, partial)
  partial.replace(link)


def _read_counters(folder: pathlib.Path) -> Counters | None:
  try:
    return Counters(**json.loads((folder / _COUNTERS_FILE).read_text()))
  except (OSError, ValueError, TypeError):
    return None
