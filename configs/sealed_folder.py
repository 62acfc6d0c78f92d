"""Folders that are complete or absent: each is written beside its place, synced to the disk, sealed, read back and renamed.

The seal is the file `snapshot.json`. It names every other file of the folder with its size and its SHA-256, so that whoever reads
the folder later knows whether it still is what was written.
"""

import contextlib
import dataclasses
import datetime as dt
import errno
import hashlib
import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Mapping
from typing import Any

from configs.errors import UserError
from configs.serialization import from_dict, to_dict

SEAL_FILE = "snapshot.json"
# Ends the name of a folder or file that is being written or removed; nobody reads such a one.
PARTIAL = ".partial"
# The key of the seal's own digest, which tells of a damaged seal.
_DIGEST = "seal_sha256"
_BLOCK_BYTES = 1 << 20


class Damaged(Exception):
  """A folder is not what was sealed; the message names the file and says what is wrong with it."""


@dataclasses.dataclass(frozen=True)
class SealedFile:
  """One file of a sealed folder.

  Attributes:
    bytes: its size.
    sha256: of its content, as hexadecimal digits.
  """

  bytes: int
  sha256: str


@dataclasses.dataclass(frozen=True)
class Seal:
  """What `snapshot.json` says of its folder.

  Attributes:
    run_id: of the run.
    number: of the folder among those beside it: 1, 2, ...
    epoch: of the server when the folder was written; "" if it was not known.
    layout_version: of the tables and rows; see docs/contract.md.
    snapshot: number of the server's snapshot that the folder belongs to; 0 for none.
    utc: when it was written, as ISO 8601.
    files: path relative to the folder -> size and digest.
  """

  run_id: str
  number: int
  epoch: str
  layout_version: int
  snapshot: int = 0
  utc: str = ""
  files: Mapping[str, SealedFile] = dataclasses.field(default_factory=dict)


def write_sealed(
  final: pathlib.Path, seal: Seal, fill: Callable[[pathlib.Path], None], check: Callable[[pathlib.Path], None]
) -> None:
  """Writes a folder that is complete or absent, whatever happens meanwhile.

  Args:
    final: the folder, which does not exist; its parent may not exist either.
    seal: of it; the time and the files are added here.
    fill: writes the folder's files into the folder that it is given.
    check: reads all these files back, each by its own format.

  Raises:
    OSError: it cannot be written, or does not read back as it was written; nothing is left of it.
  """
  partial = final.with_name(final.name + PARTIAL)
  shutil.rmtree(partial, ignore_errors=True)
  partial.mkdir(parents=True)
  try:
    fill(partial)
    files = {name: _sync_and_measure(partial / name) for name in _names_in(partial)}
    try:
      check(partial)
    except Damaged as error:
      raise OSError(errno.EIO, f"{error}, just after it was written") from None
    now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    _write_seal(partial / SEAL_FILE, dataclasses.replace(seal, utc=now, files=files))
    for folder in [*(path for path in partial.rglob("*") if path.is_dir()), partial]:
      sync_folder(folder)
    partial.rename(final)
    sync_folder(final.parent)
  finally:
    shutil.rmtree(partial, ignore_errors=True)


def read_seal(folder: pathlib.Path) -> Seal:
  """The seal of a folder, whose files are not looked at.

  Raises:
    Damaged: there is none, or it is damaged.
  """
  path = folder / SEAL_FILE
  try:
    data = json.loads(path.read_text(encoding="utf-8"))
    digest = data.pop(_DIGEST)
    if digest != _digest(data):
      raise Damaged(f"{SEAL_FILE} is damaged")
    return from_dict(data, Seal)
  except OSError as error:
    raise Damaged(_unreadable(SEAL_FILE, error)) from None
  except (ValueError, TypeError, LookupError, AttributeError, RecursionError, UserError):
    raise Damaged(f"{SEAL_FILE} is damaged") from None


def verify(folder: pathlib.Path) -> Seal:
  """The seal of a folder, all of whose files are what was sealed; reads every byte of them.

  Raises:
    Damaged: a file is missing, or is another one.
  """
  seal = read_seal(folder)
  for name, facts in seal.files.items():
    path = folder / name
    try:
      size = path.stat().st_size
      if size != facts.bytes:
        raise Damaged(f"{name} has {size:,} bytes and had {facts.bytes:,}")
      if _sha256(path) != facts.sha256:
        raise Damaged(f"{name} has another SHA-256 than when it was written")
    except OSError as error:
      raise Damaged(_unreadable(name, error)) from None
  return seal


def numbered_folders(directory: pathlib.Path, name: re.Pattern[str]) -> dict[int, pathlib.Path]:
  """Number -> folder of `directory`, ascending; `name` matches a folder's name, and its first group is the number."""
  found = ((name.fullmatch(folder.name), folder) for folder in directory.glob("*") if folder.is_dir())
  return dict(sorted((int(match[1]), folder) for match, folder in found if match))


def remove_sealed(folder: pathlib.Path) -> None:
  """Removes a folder; one that is removed in part never has its name. It may stay, where it cannot be removed."""
  going = folder.with_name(folder.name + PARTIAL)
  with contextlib.suppress(OSError):
    shutil.rmtree(going, ignore_errors=True)
    folder.rename(going)
    shutil.rmtree(going, ignore_errors=True)


def remove_partials(directory: pathlib.Path) -> None:
  """Removes what a process that was killed left half-written or half-removed in `directory`."""
  for path in directory.glob(f"*{PARTIAL}"):
    shutil.rmtree(path, ignore_errors=True)


def sync_folder(folder: pathlib.Path) -> None:
  """Makes the disk keep which files `folder` has.

  Raises:
    OSError: the disk reported a failure.
  """
  descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
  try:
    os.fsync(descriptor)
  except OSError as error:
    if error.errno != errno.EINVAL:  # Some network file systems sync files alone.
      raise
  finally:
    os.close(descriptor)


def _names_in(folder: pathlib.Path) -> list[str]:
  return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _sync_and_measure(path: pathlib.Path) -> SealedFile:
  """Syncs a file to the disk; its size and digest as read back."""
  descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
  try:
    os.fsync(descriptor)
    # So that what is read back comes from the disk and not from memory.
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
  finally:
    os.close(descriptor)
  return SealedFile(path.stat().st_size, _sha256(path))


def _write_seal(path: pathlib.Path, seal: Seal) -> None:
  data = to_dict(seal)
  with path.open("w", encoding="utf-8") as file:
    json.dump({**data, _DIGEST: _digest(data)}, file, indent=2)
    file.flush()
    os.fsync(file.fileno())


def _digest(data: Mapping[str, Any]) -> str:
  return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _sha256(path: pathlib.Path) -> str:
  digest = hashlib.sha256()
  with path.open("rb") as file:
    while block := file.read(_BLOCK_BYTES):
      digest.update(block)
  return digest.hexdigest()


def _unreadable(name: str, error: OSError) -> str:
  if isinstance(error, FileNotFoundError):
    return f"{name} is missing"
  return f"{name} cannot be read ({error.strerror})"
