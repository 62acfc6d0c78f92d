"""The file that keeps the rows of a memory: parts that are only appended to.

A part is `rows_<number of its first row>.part`, all numbers little-endian:

- a header: `SLIPROWS`, uint32 bytes of the text, uint32 CRC-32 of the text, and the text: JSON of run, layout and row;
- frames, one for each call of `append`: `FRAM`, uint32 rows, int64 number of the first row in the stream, uint32 CRC-32 of the
  payload, uint32 CRC-32 of these 20 bytes; then the rows as they are, float32 [rows, width];
- in a closed part a last frame of 0 rows. Its first number is that after the last row, and its payload's CRC-32 is that of the
  CRC-32s of all payloads. So it stands for every byte of the part, and a part that lacks a frame is noticed.

A process that is killed leaves a frame that is not whole; the next one cuts it off and closes the part. Nobody writes to a closed
part, so a checkpoint needs no copy of it: it keeps the journal's position and the names of the parts that its rows are in.

A frame whose payload is damaged is left out; if its head is, so is the rest of its part. A part whose header is damaged is set
aside as `rows_<number>.damaged`. Nothing else that is damaged is changed.
"""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import re
import struct
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from configs import UserError
from configs.sealed_folder import sync_folder
from configs.serialization import to_dict
from replay_server.contract.codec import WORD_BYTES, Packed, RowCodec
from replay_server.contract.layout import LAYOUT_VERSION

# Rows after which a part is closed and another begins.
PART_ROWS = 65_536

_RECEIVED, _PARTS = "journal/received", "journal/parts"
_NAME = re.compile(r"rows_(\d+)\.part")
_MAGIC = b"SLIPROWS"
_HEADER = struct.Struct("<8sII")
_FRAME = struct.Struct("<4sIqI")
_CRC = struct.Struct("<I")
_FRAME_MAGIC = b"FRAM"
_FRAME_BYTES = _FRAME.size + _CRC.size


@dataclasses.dataclass(frozen=True)
class Position:
  """What a checkpoint needs of the journal.

  Attributes:
    received: number of the next row of the stream.
    parts: int64 [n], first rows of the parts that hold the checkpoint's rows.
  """

  received: int
  parts: npt.NDArray[np.int64]

  @classmethod
  def of(cls, state: Mapping[str, npt.NDArray[Any]]) -> "Position":
    """The position that a checkpoint's state holds."""
    return cls(int(state[_RECEIVED]), state[_PARTS])

  def state(self) -> dict[str, npt.NDArray[Any]]:
    """The arrays that a checkpoint keeps of it, besides those of the memory."""
    return {_RECEIVED: np.array(self.received), _PARTS: self.parts}


@dataclasses.dataclass
class _Part:
  """A part that is whole up to `bytes`.

  Attributes:
    path: of the file.
    ranges: first number and number of rows of each frame.
    bytes: of the header and the whole frames, that of a closed part's end included.
    rows: in the frames.
    digest: CRC-32 of the payloads' CRC-32s.
    is_closed: whether its last frame says that no other is missing.
  """

  path: pathlib.Path
  ranges: list[tuple[int, int]]
  bytes: int
  rows: int = 0
  digest: int = 0
  is_closed: bool = False

  @property
  def first(self) -> int:
    """The number that the part is named for."""
    return _first_of(self.path)

  def close(self) -> None:
    """Adds the frame that says that no other is missing, in place of whatever follows the whole frames.

    Raises:
      OSError: it cannot be written.
    """
    _write_at(self.path, self.bytes, _frame_head(self.end, 0, self.digest), sync=True)
    self.is_closed = True
    self.bytes += _FRAME_BYTES

  @property
  def end(self) -> int:
    """The number after that of its last row."""
    return sum(self.ranges[-1])

  def add(self, first: int, rows: int, checksum: int, payload_bytes: int) -> None:
    """Counts a frame in."""
    self.ranges.append((first, rows))
    self.rows += rows
    self.digest = zlib.crc32(_CRC.pack(checksum), self.digest)
    self.bytes += _FRAME_BYTES + payload_bytes

  def has_any(self, sequences: npt.NDArray[np.int64]) -> bool:
    """Whether it holds one of the rows with these numbers, int64 [n], ascending."""
    firsts, counts = np.array(self.ranges, np.int64).reshape(-1, 2).T
    return bool((np.searchsorted(sequences, firsts + counts) > np.searchsorted(sequences, firsts)).any())


class Journal:
  """Keeps the rows of one run's memory in a folder; for one thread of one process at a time.

  A failure to write ends nothing: the rows wait in memory, the failure is said once, and every further call tries again.

  Attributes:
    findings: what was damaged when the folder was opened or read, as parts of sentences.
    waiting: rows that could not be written yet.
    dropped: rows that waited and were given up, as too many did.
  """

  def __init__(
    self,
    folder: pathlib.Path,
    run_id: str,
    codec: RowCodec,
    most_waiting: int = 1_000_000,
    part_rows: int = PART_ROWS,
  ):
    """Opens the folder, which may not exist; closes what a process that was killed left open.

    Args:
      folder: of the journal alone.
      run_id: of the run.
      codec: of the rows.
      most_waiting: rows that wait in memory at most, while none can be written; the oldest are given up first.
      part_rows: rows after which another part begins.

    Raises:
      UserError: the folder has rows of another run or layout, or cannot be read. No file was changed.
    """
    self._folder = folder
    self._width = codec.width
    self._header = _header(run_id, codec)
    self._about = _about(run_id, codec)
    self._most_waiting = most_waiting
    self._part_rows = part_rows
    self._waiting: deque[tuple[int, Packed]] = deque()
    self._open: _Part | None = None
    self._has_failed = False
    self.findings: list[str] = []
    self.waiting = 0
    self.dropped = 0
    self._parts = self._scan()
    self._end = max((part.end for part in self._parts), default=0)

  @property
  def end(self) -> int:
    """The number after the last row that is in the journal or waits for it."""
    return self._end

  @property
  def bytes(self) -> int:
    """Bytes of all parts."""
    return sum(part.bytes for part in self._all_parts())

  def append(self, first: int, rows: Packed) -> None:
    """Appends rows, which a process that is killed from now on does not lose; a failing disk keeps them waiting.

    Args:
      first: number of the first row in the stream, not below `end`.
      rows: float32 [n, width].
    """
    if first < self._end:
      raise ValueError(f"row {first} is in the journal already, which ends at {self._end}")
    self._end = first + len(rows)
    if len(rows):
      self._waiting.append((first, rows))
      self.waiting += len(rows)
    self.flush()

  def flush(self) -> None:
    """Writes what waits, as far as the disk takes it."""
    try:
      while self._waiting:
        self._write_frame(*self._waiting[0])
        self.waiting -= len(self._waiting.popleft()[1])
    except OSError as error:
      self._keep_waiting(error)
    else:
      if self._has_failed:
        _say(f"The replay memory's journal in {self._folder} is written again.")
      self._has_failed = False

  def sync(self) -> None:
    """Writes what waits, and makes the disk keep it even if the machine fails; for use before a checkpoint."""
    self.flush()
    try:
      if self._open is not None:
        with self._open.path.open("rb") as file:
          os.fsync(file.fileno())
      if self._parts or self._open is not None:
        sync_folder(self._folder)
    except OSError as error:
      self._keep_waiting(error)

  def position(self, sequences: npt.NDArray[np.int64], received: int) -> Position:
    """What a checkpoint of a memory needs.

    Args:
      sequences: int64 [n], ascending, the numbers of its rows.
      received: number of its next row.
    """
    parts = [part.first for part in self._all_parts() if part.has_any(sequences)]
    return Position(received, np.array(parts, np.int64))

  def remove_unneeded(self, sequences: npt.NDArray[np.int64], kept: Iterable[Position]) -> None:
    """Removes the closed parts that neither the memory nor a kept checkpoint needs.

    A checkpoint needs the parts with its rows and every part with a row that was received after it.

    Args:
      sequences: int64 [n], ascending, the numbers of the memory's rows.
      kept: positions of all checkpoints that are kept.
    """
    kept = list(kept)
    named = {first for position in kept for first in position.parts.tolist()}
    oldest = min((position.received for position in kept), default=self._end)
    for part in list(self._parts):
      if part.first not in named and part.end <= oldest and not part.has_any(sequences):
        with contextlib.suppress(OSError):
          part.path.unlink()
          self._parts.remove(part)

  def read(self, since: int = 0) -> Iterator[tuple[int, Packed]]:
    """The number of the first row, and the rows, of all whole frames on the disk, in the order of their numbers.

    Args:
      since: parts whose rows all have lower numbers are left out. `findings` tells what of the others is damaged.
    """
    for part in self._all_parts():
      if part.end > since:
        yield from self._read(part)

  def close(self) -> None:
    """Writes what waits and closes the part; may be called twice."""
    self.flush()
    with contextlib.suppress(OSError):
      self._close_part()

  def _all_parts(self) -> Sequence[_Part]:
    return [*self._parts, *([self._open] if self._open is not None else [])]

  def _scan(self) -> list[_Part]:
    """All parts in the folder, the readable ones of which are then closed."""
    try:
      paths = sorted((path for path in self._folder.glob("*.part") if _NAME.fullmatch(path.name)), key=_first_of)
      contents = {path: self._check_header(path) for path in paths}
    except OSError as error:
      raise UserError(
        f"The replay memory's journal in {self._folder} cannot be read ({error.strerror}): repair it."
      ) from None
    parts = []
    for path, offset in contents.items():
      if offset is None:
        self._set_aside(path)
        continue
      part = self._measure(path, offset) if offset else None
      if part is not None and part.ranges:
        parts.append(part)
      elif not self.findings:  # It was begun and never had a row.
        with contextlib.suppress(OSError):
          path.unlink()
    return parts

  def _set_aside(self, path: pathlib.Path) -> None:
    self._note(path, "its header is damaged")
    with contextlib.suppress(OSError):
      path.rename(path.with_suffix(".damaged"))

  def _check_header(self, path: pathlib.Path) -> int | None:
    """The size of a part's header; 0 if the part ends within it, None if it is damaged.

    Raises:
      UserError: the part is of another run or layout.
    """
    with path.open("rb") as file:
      start = file.read(len(self._header))
      if len(start) < len(self._header) and self._header.startswith(start):
        return 0
      if len(start) < _HEADER.size:
        return None
      magic, size, checksum = _HEADER.unpack_from(start)
      file.seek(_HEADER.size)
      text = file.read(min(size, 1 << 24)) if magic == _MAGIC else b""
    if magic != _MAGIC or zlib.crc32(text) != checksum:
      return None
    self._check_about(json.loads(text))
    return int(_HEADER.size + size)

  def _check_about(self, about: dict[str, object]) -> None:
    if about["run_id"] != self._about["run_id"]:
      raise UserError(
        f"The replay memory's journal in {self._folder} is of run {about['run_id']}, and this is run {self._about['run_id']}: "
        "use the directory of this run; nothing was changed."
      )
    if about != self._about:
      raise UserError(
        f"The replay memory's journal in {self._folder} has rows of another layout than this run's: resume with the config and "
        "the release that wrote it, or start a new run; nothing was changed."
      )

  def _measure(self, path: pathlib.Path, offset: int) -> _Part | None:
    """A part's frames, by their heads, closed if it was only cut short; None if it cannot be read."""
    part = _Part(path, [], offset)
    try:
      with path.open("rb") as file:
        for first, rows, checksum in self._frames(file, offset):
          if rows == 0 and checksum == part.digest:
            part.is_closed = True
            part.bytes += _FRAME_BYTES
            break
          part.add(first, rows, checksum, rows * self._width * WORD_BYTES)
        file.seek(part.bytes)
        rest = file.read(_FRAME_BYTES)
        size = os.fstat(file.fileno()).st_size
    except OSError as error:
      self._note(path, f"it cannot be read ({error.strerror})")
      return None
    if not part.is_closed:
      self._mend(part, size, _is_cut_short(rest))
    return part

  def _frames(self, file: io.BufferedReader, offset: int) -> Iterator[tuple[int, int, int]]:
    """(First number, rows, checksum of the payload) of each frame, at whose payload the file then is."""
    size = os.fstat(file.fileno()).st_size
    while offset + _FRAME_BYTES <= size:
      file.seek(offset)
      head = file.read(_FRAME_BYTES)
      if not _is_whole_head(head):
        return
      _, rows, first, checksum = _FRAME.unpack_from(head)
      offset += _FRAME_BYTES + rows * self._width * WORD_BYTES
      if offset > size:
        return
      yield first, rows, checksum

  def _mend(self, part: _Part, size: int, is_cut_short: bool) -> None:
    """Closes a part that a process left open, without the frame that was not whole; leaves a damaged part as it is."""
    lost = size - part.bytes
    if lost:
      self._note(part.path, f"its last {lost:,} bytes are {'no whole rows' if is_cut_short else 'damaged'}")
    if not part.ranges or (lost and not is_cut_short):
      return
    with contextlib.suppress(OSError):  # On a failing disk it stays as it is.
      part.close()

  def _read(self, part: _Part) -> Iterator[tuple[int, Packed]]:
    found = 0
    try:
      with part.path.open("rb") as file:
        for first, rows, checksum in self._frames(file, _offset_of(file)):
          payload = file.read(rows * self._width * WORD_BYTES)
          if rows and zlib.crc32(payload) == checksum:
            found += rows
            yield first, np.frombuffer(payload, np.float32).reshape(rows, self._width)
    except (OSError, struct.error) as error:
      self._note(part.path, f"it cannot be read ({error})")
    if found < part.rows:
      self._note(part.path, f"{part.rows - found:,} of its {part.rows:,} rows are damaged")

  def _note(self, path: pathlib.Path, what: str) -> None:
    finding = f"{path.name}: {what}"
    if finding not in self.findings:
      self.findings.append(finding)

  def _write_frame(self, first: int, rows: Packed) -> None:
    """Writes a frame, at the start of a new part if the last one is full.

    Raises:
      OSError: it cannot be written; the part is as before.
    """
    if self._open is not None and self._open.rows >= self._part_rows:
      self._close_part()
    payload = np.ascontiguousarray(rows, np.float32).tobytes()
    checksum = zlib.crc32(payload)
    frame = _frame_head(first, len(rows), checksum) + payload
    part = self._open
    if part is None:
      self._folder.mkdir(parents=True, exist_ok=True)
      part = _Part(self._folder / f"rows_{first}.part", [], len(self._header))
      _write_at(part.path, 0, self._header + frame)
    else:
      _write_at(part.path, part.bytes, frame)
    part.add(first, len(rows), checksum, len(payload))
    self._open = part

  def _close_part(self) -> None:
    """Closes the open part, if there is one.

    Raises:
      OSError: it cannot be written; the part is still open.
    """
    if self._open is not None:
      self._open.close()
      self._parts.append(self._open)
      self._open = None

  def _keep_waiting(self, error: OSError) -> None:
    if not self._has_failed:
      _say(
        f"The replay memory's journal in {self._folder} cannot be written ({error.strerror}): its rows wait in memory, and would "
        "be lost if the learner ended now; make room on the disk."
      )
    self._has_failed = True
    while self.waiting > self._most_waiting:
      rows = len(self._waiting.popleft()[1])
      self.waiting -= rows
      self.dropped += rows


def _about(run_id: str, codec: RowCodec) -> dict[str, object]:
  about: dict[str, object] = {"run_id": run_id, "layout_version": LAYOUT_VERSION, "codec": to_dict(codec)}
  read: dict[str, object] = json.loads(json.dumps(about))
  return read


def _header(run_id: str, codec: RowCodec) -> bytes:
  text = json.dumps(_about(run_id, codec), sort_keys=True).encode()
  return _HEADER.pack(_MAGIC, len(text), zlib.crc32(text)) + text


def _offset_of(file: io.BufferedReader) -> int:
  """Where a part's frames begin; its header is whole."""
  _, size, _ = _HEADER.unpack(file.read(_HEADER.size))
  return _HEADER.size + int(size)


def _is_whole_head(head: bytes) -> bool:
  """Whether these bytes are the head of a frame as it was written."""
  return head.startswith(_FRAME_MAGIC) and _CRC.unpack_from(head, _FRAME.size)[0] == zlib.crc32(head[: _FRAME.size])


def _is_cut_short(rest: bytes) -> bool:
  """Whether what follows the whole frames is the beginning of another; these are its first bytes."""
  return len(rest) < _FRAME_BYTES or _is_whole_head(rest)


def _first_of(path: pathlib.Path) -> int:
  match = _NAME.fullmatch(path.name)
  assert match is not None
  return int(match[1])


def _frame_head(first: int, rows: int, checksum: int) -> bytes:
  head = _FRAME.pack(_FRAME_MAGIC, rows, first, checksum)
  return head + _CRC.pack(zlib.crc32(head))


def _write_at(path: pathlib.Path, offset: int, content: bytes, sync: bool = False) -> None:
  """Replaces everything from `offset` on; a new file is made where it is 0.

  No file is kept open, so nothing is left in doubt when a write fails: the next one begins at the same place.

  Raises:
    OSError: it cannot be written; the file has what it had before `offset`.
  """
  with path.open("r+b" if offset else "wb", buffering=0) as file:
    try:
      file.seek(offset)
      view = memoryview(content)
      while view:  # One call may write fewer bytes, where the disk fills up.
        view = view[file.write(view) :]
      file.truncate()
      if sync:
        os.fsync(file.fileno())
    except OSError:
      with contextlib.suppress(OSError):
        file.truncate(offset)
      raise


def _say(sentence: str) -> None:
  with contextlib.suppress(OSError):  # The log may be on the full disk.
    print(sentence, flush=True)
