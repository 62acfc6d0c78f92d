"""The server's part of a run's snapshots, on the disk: `<number>/` with Reverb's files, the config and the status."""

import dataclasses
import pathlib
import re
import shutil

import tensorflow as tf

from configs import RunConfig, UserError, to_json
from configs.loading import read_config_file
from configs.sealed_folder import (
  PARTIAL,
  Damaged,
  Seal,
  numbered_folders,
  remove_partials,
  remove_sealed,
  verify,
  write_sealed,
)
from replay_server.contract.status import RunStatus, parse_status

_NAME = re.compile(r"(\d{6,})")
# How earlier releases named the folders of their checkpoints, and the file that Reverb writes last into one.
_FORMER_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*")
DONE_FILE = "DONE"
_TABLES = "tables"
_CONFIG_FILE = "config.json"
_STATUS_FILE = "status.json"
# Records read at a time. A table's record may take gigabytes; those of the chunks are small and many.
_BATCHES = {"chunks.tfrecord": 64}


@dataclasses.dataclass(frozen=True)
class StoredSnapshot:
  """A snapshot that is whole.

  Attributes:
    seal: of its folder.
    tables: the folder of Reverb's files.
    config: that the run had.
    status: of the run, as of just before the tables were written; None if there was none yet.
    damaged: a sentence for each newer snapshot, which is damaged.
  """

  seal: Seal
  tables: pathlib.Path
  config: RunConfig
  status: RunStatus | None
  damaged: tuple[str, ...] = ()


class ServerSnapshots:
  """The snapshots in one directory; for the process that holds the run's lock."""

  def __init__(self, directory: pathlib.Path, kept: int):
    """Changes nothing yet.

    Args:
      directory: for the server's parts of a run's snapshots and nothing else; it exists.
      kept: how many of them are kept.
    """
    self.directory = directory
    # Where Reverb writes. It keeps one checkpoint there and removes the others, so each is moved away when it is complete.
    self.staging = directory / f"staging{PARTIAL}"
    self._kept = kept
    self._damaged: set[pathlib.Path] = set()
    self._last_number = 0

  def newest(self) -> StoredSnapshot | None:
    """The newest snapshot that is whole; None if there is none, damaged or not.

    Raises:
      UserError: all are damaged, or an earlier release wrote them; nothing was changed.
    """
    folders = _folders(self.directory)
    findings = []
    for number, folder in reversed(folders.items()):
      try:
        seal = verify(folder)
      except Damaged as error:
        self._damaged.add(folder)
        findings.append((number, str(error)))
      else:
        damaged = tuple(
          f"Snapshot {newer} in {self.directory} is damaged ({finding}), so the run continues from snapshot {number}: remove "
          f"the folder {_folder_name(newer)} when nobody needs it any more."
          for newer, finding in findings
        )
        return _read(folder, seal, damaged)
    if findings:
      every = "; ".join(f"{_folder_name(number)}: {finding}" for number, finding in findings)
      raise UserError(
        f"No snapshot in {self.directory} is whole ({every}): put a copy of one there, or start a new run; nothing of it was "
        "changed."
      )
    return None

  def is_of_earlier_release(self) -> bool:
    """Whether an earlier release wrote checkpoints here, and this one no snapshot."""
    return not _folders(self.directory) and _has_former(self.directory)

  @property
  def next_number(self) -> int:
    """Number of the next snapshot. A number that was tried once is not taken again."""
    return max([self._last_number, *_folders(self.directory)]) + 1

  def prepare(self) -> None:
    """Removes what is incomplete, and makes an empty folder for Reverb to write to.

    Raises:
      OSError: it cannot be made.
    """
    remove_partials(self.directory)
    self.staging.mkdir()

  def close(self) -> None:
    """Removes the folder that Reverb wrote to."""
    shutil.rmtree(self.staging, ignore_errors=True)

  def write(self, written: pathlib.Path, seal: Seal, config: RunConfig, status: str) -> None:
    """Makes a snapshot of what Reverb has written, and removes all but the newest ones.

    Args:
      written: the folder that Reverb wrote; it is moved.
      seal: of the new snapshot, with its number.
      config: of the run.
      status: of the run as JSON; "" for none.

    Raises:
      OSError: it cannot be written; the earlier ones stay.
    """
    self._last_number = seal.number

    def fill(folder: pathlib.Path) -> None:
      written.rename(folder / _TABLES)
      (folder / _CONFIG_FILE).write_text(to_json(config), encoding="utf-8")
      if status:
        (folder / _STATUS_FILE).write_text(status, encoding="utf-8")

    write_sealed(self.directory / _folder_name(seal.number), seal, fill, _read_records)
    self._remove_old()

  def note_failure(self, number: int) -> None:
    """Notes that snapshot `number` was announced and not written."""
    self._last_number = max(self._last_number, number)

  def _remove_old(self) -> None:
    whole = [folder for folder in _folders(self.directory).values() if folder not in self._damaged]
    for folder in whole[: -self._kept]:
      remove_sealed(folder)
    for path in self.directory.glob(f"*{PARTIAL}"):
      if path != self.staging:
        shutil.rmtree(path, ignore_errors=True)


def has_checkpoint(directory: pathlib.Path) -> bool:
  """Whether `directory` has a server's part of a snapshot, damaged or not, or a checkpoint of an earlier release."""
  return bool(_folders(directory)) or _has_former(directory)


def _folders(directory: pathlib.Path) -> dict[int, pathlib.Path]:
  return numbered_folders(directory, _NAME)


def _folder_name(number: int) -> str:
  return f"{number:06d}"


def _has_former(directory: pathlib.Path) -> bool:
  return any(_FORMER_NAME.fullmatch(done.parent.name) for done in directory.glob(f"*/{DONE_FILE}"))


def _read(folder: pathlib.Path, seal: Seal, damaged: tuple[str, ...]) -> StoredSnapshot:
  """A snapshot whose files are what was sealed.

  Raises:
    UserError: this release cannot read its config or its status.
  """
  status = None
  if _STATUS_FILE in seal.files:
    try:
      status = parse_status((folder / _STATUS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, UserError) as error:
      raise UserError(
        f"{folder / _STATUS_FILE} cannot be read ({error}): resume the run with the release that wrote it."
      ) from None
  return StoredSnapshot(seal, folder / _TABLES, read_config_file(folder / _CONFIG_FILE), status, damaged)


def _read_records(folder: pathlib.Path) -> None:
  """Reads Reverb's files record by record, each of which has a checksum.

  Raises:
    Damaged: a record is not what was written.
  """
  for path in sorted((folder / _TABLES).glob("*.tfrecord")):
    records = tf.data.TFRecordDataset(str(path)).batch(_BATCHES.get(path.name, 1))
    try:
      for _ in records:
        pass
    except tf.errors.OpError as error:
      raise Damaged(f"{_TABLES}/{path.name} cannot be read ({str(error).splitlines()[0]})") from None
