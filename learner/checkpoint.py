"""A learner's checkpoints: each is one folder, complete or absent, which tells if it is damaged."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import zipfile
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from configs import UserError
from configs.files import FileLock
from configs.sealed_folder import (
  PARTIAL,
  Damaged,
  Seal,
  numbered_folders,
  read_seal,
  remove_partials,
  remove_sealed,
  verify,
  write_sealed,
)
from learner.sources.source import Source
from learner.updates import Updates
from replay_server.contract.manifest import Manifest
from replay_server.contract.policy import PolicySnapshot, load_snapshot, save_snapshot

_NAME = re.compile(r"checkpoint_(\d+)")
# The newest ones that are kept, whatever they belong to.
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


@dataclasses.dataclass(frozen=True)
class Moment:
  """Where in the server's life a checkpoint was written, or is to be restored.

  Attributes:
    epoch: of the server; "" if it is not known.
    snapshot: of the server: the one that a checkpoint belongs to, or that the server has resumed from; 0 for none.
  """

  epoch: str = ""
  snapshot: int = 0


UNKNOWN_MOMENT = Moment()


class LearnerCheckpoints:
  """The checkpoints of one run's learner.

  The folder `checkpoint_<number>` holds the networks with their optimisers and generators, the source's state, the counters and
  the policy. It is written under a temporary name, sealed, and renamed once it is complete, so a learner that is killed at any
  moment leaves the earlier checkpoints intact.
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
    self._damaged: set[pathlib.Path] = set()

  def write(
    self,
    counters: Counters,
    updates: Updates,
    source: Source,
    policy: PolicySnapshot,
    manifest: Manifest,
    moment: Moment = UNKNOWN_MOMENT,
  ) -> pathlib.Path:
    """Writes a checkpoint, and deletes the older ones but the last and those of the snapshots that the server keeps.

    Args:
      counters: the learner's counters.
      updates: holds the networks, optimisers and generators.
      source: where batches come from.
      policy: the policy; it also replaces `policy/latest.npz`.
      manifest: of the run.
      moment: that it belongs to.

    Returns:
      The checkpoint's folder.

    Raises:
      OSError, tf.errors.OpError: it cannot be written; the older ones stay.
    """
    remove_partials(self._directory)
    number = max(self._folders(), default=0) + 1
    final = self._directory / f"checkpoint_{number}"

    def fill(folder: pathlib.Path) -> None:
      tf.train.Checkpoint(updates=updates).write(str(folder / _NETWORKS_PREFIX))
      np.savez(folder / _SOURCE_FILE, **source.state())
      save_snapshot(folder / _POLICY_FILE, policy, manifest.config, manifest.spec)
      (folder / _COUNTERS_FILE).write_text(json.dumps(dataclasses.asdict(counters)))

    seal = Seal(counters.run_id, number, moment.epoch, manifest.layout_version, moment.snapshot)
    write_sealed(final, seal, fill, _read_back)
    self._remove_old(manifest.config.replay.snapshots_kept)
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError, ValueError, zipfile.BadZipFile):
      # What cannot be read may need anything, so nothing is removed then.
      source.forget_all_but(
        [stack.enter_context(np.load(folder / _SOURCE_FILE)) for folder in self._folders().values()]
      )
    _replace_link(self._latest_policy, final / _POLICY_FILE)
    return final

  def restore(self, run_id: str, updates: Updates, source: Source, moment: Moment = UNKNOWN_MOMENT) -> Counters | None:
    """Restores a checkpoint into `updates` and `source`, and prints which of those that would have come first are damaged.

    The newest that was written in the server's present epoch comes first: the server has kept its tables since. Otherwise the
    server was started again, and the one that belongs to its snapshot fits its tables. Without that one, it is the newest.

    Args:
      run_id: the run that it must belong to.
      updates: newly made, from the same config.
      source: newly made, with the same tables.
      moment: the server's epoch, and the snapshot that it has resumed from.

    Returns:
      The checkpoint's counters; None where there is no checkpoint.

    Raises:
      UserError: it is another run's, of other networks, or all are damaged. No file was changed.
      ServerLost: the server does not answer.
    """
    folders = self._folders()
    if not folders:
      return None
    findings: list[str] = []
    for folder, seal in self._in_order(folders.values(), moment, findings):
      try:
        verify(folder)
      except Damaged as error:
        self._note_damage(folder, error, findings)
        continue
      if seal.run_id != run_id:
        raise UserError(
          f"The learner's checkpoint in {self._directory} belongs to run {seal.run_id}, and the server holds run {run_id}: use "
          "that run's server, or another directory; nothing was changed."
        )
      counters = self._load(folder, updates, source)
      for finding in findings:
        with contextlib.suppress(OSError):  # The log may be on a full disk.
          print(f"The learner's {finding}, so it continues from {folder.name}.", flush=True)
      return counters
    raise UserError(
      f"No checkpoint of the learner in {self._directory} is whole ({'; '.join(findings)}): put a copy of one there, or start a "
      "new run; nothing was changed."
    )

  def _in_order(
    self, folders: Iterable[pathlib.Path], moment: Moment, findings: list[str]
  ) -> list[tuple[pathlib.Path, Seal]]:
    """The folders whose seals can be read, those to restore first at the front; others go to `findings`."""
    sealed = []
    for folder in folders:
      try:
        sealed.append((folder, read_seal(folder)))
      except Damaged as error:
        self._note_damage(folder, error, findings)

    def rank(entry: tuple[pathlib.Path, Seal]) -> tuple[bool, bool, int]:
      seal = entry[1]
      is_present = bool(moment.epoch) and seal.epoch == moment.epoch
      is_of_snapshot = moment.snapshot > 0 and seal.snapshot == moment.snapshot
      # Of the present epoch it is the newest, whatever snapshots the others belong to.
      return is_present, is_of_snapshot and not is_present, seal.number

    return sorted(sealed, key=rank, reverse=True)

  def _note_damage(self, folder: pathlib.Path, error: Damaged, findings: list[str]) -> None:
    self._damaged.add(folder)
    findings.append(f"{folder.name} is damaged: {error}")

  def _load(self, folder: pathlib.Path, updates: Updates, source: Source) -> Counters:
    """Loads a checkpoint whose files are what was written."""
    try:
      counters = Counters(**json.loads((folder / _COUNTERS_FILE).read_text()))
      with np.load(folder / _SOURCE_FILE) as file:
        state = dict(file)
      tf.train.Checkpoint(updates=updates).read(str(folder / _NETWORKS_PREFIX)).assert_existing_objects_matched()
    except AssertionError:
      raise self._other_networks() from None
    except (OSError, TypeError, EOFError, zipfile.BadZipFile, tf.errors.OpError) as error:
      raise _unreadable(folder, error) from None
    except ValueError:  # A variable has another shape.
      raise self._other_networks() from None
    source.restore(state)
    return counters

  def _other_networks(self) -> UserError:
    return UserError(
      f"The networks of the learner's checkpoint in {self._directory} are not those of the config: resume with the algorithm "
      "and the network that the run had; nothing was changed."
    )

  def close(self) -> None:
    """Unlocks the directory; may be called twice."""
    self._lock.release()

  def _folders(self) -> dict[int, pathlib.Path]:
    """The folders of all checkpoints by their numbers, oldest first."""
    return numbered_folders(self._directory, _NAME)

  def _remove_old(self, snapshots_kept: int) -> None:
    """Removes all but the newest checkpoints and, of each snapshot that the server still has, the newest one."""
    seals: dict[pathlib.Path, Seal] = {}
    for folder in self._folders().values():
      if folder not in self._damaged:
        with contextlib.suppress(Damaged):  # It is left alone.
          seals[folder] = read_seal(folder)
    of_snapshots = {seal.snapshot: folder for folder, seal in seals.items() if seal.snapshot}
    kept = {*list(seals)[-_KEPT:], *(of_snapshots[number] for number in sorted(of_snapshots)[-snapshots_kept:])}
    for folder in seals.keys() - kept:
      remove_sealed(folder)


def _read_back(folder: pathlib.Path) -> None:
  """Reads every number of a checkpoint.

  Raises:
    Damaged: one cannot be read.
  """
  try:
    json.loads((folder / _COUNTERS_FILE).read_text())
    with np.load(folder / _SOURCE_FILE) as file:
      for name in file.files:
        file[name]
    load_snapshot(folder / _POLICY_FILE)
    reader = tf.train.load_checkpoint(str(folder / _NETWORKS_PREFIX))
    for name in reader.get_variable_to_shape_map():
      reader.get_tensor(name)
  except (OSError, ValueError, EOFError, UserError, zipfile.BadZipFile, tf.errors.OpError) as error:
    raise Damaged(f"it cannot be read ({str(error).splitlines()[0]})") from None


def _unreadable(folder: pathlib.Path, error: Exception) -> UserError:
  reason = str(error).splitlines()[0]
  return UserError(
    f"The learner's checkpoint {folder} cannot be read ({reason}): resume with the release that wrote it, or start a new run; "
    "nothing was changed."
  )


def _replace_link(link: pathlib.Path, file: pathlib.Path) -> None:
  """Makes `link` another name of `file`; a reader sees either the old file or the new one."""
  link.parent.mkdir(parents=True, exist_ok=True)
  partial = link.with_suffix(PARTIAL)
  partial.unlink(missing_ok=True)
  try:
    os.link(file, partial)
  except OSError:  # The file system has no hard links.
    shutil.copyfile(file, partial)
  partial.replace(link)
