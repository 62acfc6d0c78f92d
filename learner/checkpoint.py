"""A learner's checkpoints: each is one folder, either complete or absent."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import zipfile

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
  """A learner's counters, and the run that they belong to.

  Attributes:
    run_id: of the run.
    gradient_steps: gradient steps taken.
    policy_version: version of the last published policy.
  """

  run_id: str
  gradient_steps: int
  policy_version: int


class LearnerCheckpoints:
  """The checkpoints of one run's learner.

  The folder `checkpoint_<number>` holds the networks with their optimisers, the source's state, the counters and the policy. It
  is written under a temporary name and renamed once it is complete, so a learner that is killed at any moment leaves the
  previous checkpoint intact.
  """

  def __init__(self, directory: pathlib.Path):
    """Locks the directory for this process.

    Args:
      directory: of the run's checkpoints; they go to `learner/` and `policy/` below it.

    Raises:
      UserError: another learner holds the lock.
    """
    directory.mkdir(parents=True, exist_ok=True)
    self._lock = FileLock(
      directory / "learner.lock",
      f"Another learner writes its checkpoints to {directory}: wait until it ends, or use another directory.",
    )
    self._directory = directory / "learner"
    self._latest_policy = directory / "policy" / "latest.npz"

  def write(
    self, counters: Counters, updates: Updates, source: Source, snapshot: PolicySnapshot, manifest: Manifest
  ) -> pathlib.Path:
    """Writes a checkpoint and deletes all older ones but the last.

    Args:
      counters: the learner's counters.
      updates: holds the networks and optimisers.
      source: where batches come from.
      snapshot: the policy; it also replaces `policy/latest.npz`.
      manifest: of the run.

    Returns:
      The checkpoint's folder.

    Raises:
      OSError, tf.errors.OpError: it cannot be written; the older ones stay.
    """
    older = self._folders()
    final = self._directory / f"checkpoint_{_number(older[-1]) + 1 if older else 1}"
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
    for folder in [*older[: 1 - _KEPT], *self._directory.glob(f"*{_PARTIAL}")]:
      shutil.rmtree(folder, ignore_errors=True)
    _replace_link(self._latest_policy, final / _POLICY_FILE)
    return final

  def restore(self, run_id: str, updates: Updates, source: Source) -> Counters | None:
    """Restores the last checkpoint into `updates` and `source`.

    Args:
      run_id: the run that it must belong to.
      updates: newly made, from the same config.
      source: newly made, with the same tables.

    Returns:
      The checkpoint's counters; None where there is no checkpoint.

    Raises:
      UserError: it is another run's, of other networks, or damaged. No file was changed.
      ServerLost: the server does not answer.
    """
    folders = self._folders()
    if not folders:
      return None
    folder = folders[-1]
    counters = _read_counters(folder)
    if counters.run_id != run_id:
      raise UserError(
        f"The learner's checkpoint in {self._directory} belongs to run {counters.run_id}, and the server holds run {run_id}: use "
        "that run's server, or another directory; nothing was changed."
      )
    try:
      tf.train.Checkpoint(updates=updates).read(str(folder / _NETWORKS_PREFIX)).assert_existing_objects_matched()
    except (AssertionError, ValueError):
      raise UserError(
        f"The networks of the learner's checkpoint in {self._directory} are not those of the config: resume with the algorithm "
        "and the network that the run had; nothing was changed."
      ) from None
    except tf.errors.OpError as error:
      raise _unreadable(folder, error) from None
    try:
      with np.load(folder / _SOURCE_FILE) as file:
        state = dict(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
      raise _unreadable(folder, error) from None
    source.restore(state)
    return counters

  def close(self) -> None:
    """Unlocks the directory; may be called twice."""
    self._lock.release()

  def _folders(self) -> list[pathlib.Path]:
    """The folders of all checkpoints, oldest first."""
    folders = [folder for folder in self._directory.glob("checkpoint_*") if _NAME.fullmatch(folder.name)]
    return sorted(folders, key=_number)


def _unreadable(folder: pathlib.Path, error: Exception) -> UserError:
  reason = str(error).splitlines()[0]
  return UserError(
    f"The learner's checkpoint {folder} cannot be read ({reason}): move that folder away to continue from the one before it, or "
    "start a new run; nothing was changed."
  )


def _number(folder: pathlib.Path) -> int:
  found = _NAME.fullmatch(folder.name)
  assert found is not None
  return int(found[1])


def _replace_link(link: pathlib.Path, file: pathlib.Path) -> None:
  """Makes `link` another name of `file`; a reader sees either the old file or the new one."""
  link.parent.mkdir(parents=True, exist_ok=True)
  partial = link.with_suffix(_PARTIAL)
  partial.unlink(missing_ok=True)
  try:
    os.link(file, partial)
  except OSError:  # The file system has no hard links.
    shutil.copyfile(file, partial)
  partial.replace(link)


def _read_counters(folder: pathlib.Path) -> Counters:
  try:
    return Counters(**json.loads((folder / _COUNTERS_FILE).read_text()))
  except (OSError, ValueError, TypeError) as error:
    raise _unreadable(folder, error) from None
