"""The file that keeps the rows of a memory: parts that are only appended to.

A part is `rows_<number of its first row>.part`, all numbers little-endian:

- a header: `SLIPROWS`, uint32 bytes of the text, uint32 CRC-32 of the text, and the text: JSON of run, layout and row;
- frames, one for each call of `append`: `FRAM`, uint32 rows, int64 number of the first row in the stream, uint32 CRC-32 of the
  payload, uint32 CRC-32 of these 20 bytes; then the rows as they are, float32 [rows, width];
- in a closed part a last frame of 0 rows. Its first number is that after the last row, and its payload's CRC-32 is that of the
  CRC-32s of all payloads. So it stands for every byte of the part, and a part that lacks a frame is noticed.

A process that is killed leaves a frame that is not whole; the next one cuts it off and closes the part. Nobody writes to a closed
part, so a checkpoint needs no copy of it: it has the numbers of its rows, and finds them in whichever part they are.

A part of which nobody needs a row is removed. A table that keeps a few old rows would keep all parts for ever, so neighbours of
which few rows are needed are folded into one: those rows are written to a new file, which takes the first one's place in one step
and makes the others unneeded. A process that is killed in between leaves rows that are there twice, and the next fold ends it.

A frame whose payload is damaged is left out; if its head is, so is the rest of its part. A part whose header is damaged is set
aside as `rows_<number>.damaged`. Nothing else that is damaged is changed, and no such part is folded.
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
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from configs import UserError
from configs.sealed_folder import sync_folder
from configs.serialization import to_dict
from replay_server.contract.codec import WORD_BYTES, Packed, RowCodec
from replay_server.contract.layout import LAYOUT_VERSION

# Rows after which a part is closed and another begins.
PART_ROWS = 65_536
# A part is folded if fewer of its rows are needed than one in so many of these.
SPARSE = 8
_MOST_WAITING_BYTES = 1 << 29

_PARTIAL = ".partial"
_NAME = re.compile(r"rows_(\d+)\.part")
_MAGIC = b"SLIPROWS"
_HEADER = struct.Struct("<8sII")
_FRAME = struct.Struct("<4sIqI")
_CRC = struct.Struct("<I")
_FRAME_MAGIC = b"FRAM"
_FRAME_BYTES = _FRAME.size + _CRC.size


@dataclasses.dataclass(frozen=True)
class Needs:
  """What a checkpoint that is kept needs of the journal: these rows, and every one that was received after it.

  Attributes:
    received: number of the next row of the stream.
    sequences: int64 [n], ascending, the numbers of its rows.
  """

  received: int
  sequences: npt.NDArray[np.int64]


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

  def places(self, sequences: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where in `sequences`, int64 [n], ascending, the numbers of its rows are: int64 [found], ascending."""
    firsts, counts = np.array(self.ranges, np.int64).reshape(-1, 2).T
    begins, ends = np.searchsorted(sequences, firsts), np.searchsorted(sequences, firsts + counts)
    found: npt.NDArray[np.int64] = np.concatenate(
      [np.arange(begin, end) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True) if begin < end]
      or [np.empty(0, np.int64)]
    )
    return found


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
    most_waiting: int | None = None,
    part_rows: int = PART_ROWS,
  ):
    """Opens the folder, which may not exist; closes what a process that was killed left open.

    Args:
      folder: of the journal alone.
      run_id: of the run.
      codec: of the rows.
      most_waiting: rows that wait in memory at most, while none can be written; the oldest are given up first. By default
        what takes half a gigabyte.
      part_rows: rows after which another part begins.

    Raises:
      UserError: the folder has rows of another run or layout, or cannot be read. No file was changed.
    """
    self._folder = folder
    self._width = codec.width
    self._header = _header(run_id, codec)
    self._about = _about(run_id, codec)
    self._most_waiting = _MOST_WAITING_BYTES // (WORD_BYTES * codec.width) if most_waiting is None else most_waiting
    self._part_rows = part_rows
    self._waiting: deque[tuple[int, Packed]] = deque()
    self._open: _Part | None = None
    self._has_failed = False
    self._unfoldable: set[pathlib.Path] = set()
    self.findings: list[str] = []
    self.waiting = 0
    self.dropped = 0
    self._parts = self._scan()
    self._remove_partials()
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

  def forget_all_but(self, kept: Sequence[Needs]) -> None:
    """Removes the closed parts that no checkpoint needs, and folds those of which few rows are needed.

    Parts with a row that was received after the oldest checkpoint stay as they are.

    Args:
      kept: what the kept checkpoints need; nothing is removed where there are none. The newest must have every row of the memory
        that was received before it.
    """
    if not kept:
      return
    oldest = min(needs.received for needs in kept)
    wanted = np.unique(np.concatenate([needs.sequences for needs in kept]))
    is_found = np.zeros(len(wanted), bool)
    # Neighbours that are folded into one, each with the numbers of its rows that are needed and are in no part before it.
    group: list[tuple[_Part, npt.NDArray[np.int64]]] = []
    for part in list(self._parts):
      places = part.places(wanted)
      needed = wanted[places[~is_found[places]]]
      is_found[places] = True
      is_old = part.end <= oldest
      if is_old and not len(needed):
        self._remove(part)
        continue
      can_be_folded = is_old and part.is_closed and part.path not in self._unfoldable
      is_sparse = can_be_folded and len(needed) < self._part_rows / SPARSE
      if not is_sparse or sum(len(each) for _, each in group) + len(needed) > self._part_rows:
        self._fold(group)
        group = []
      if is_sparse:
        group.append((part, needed))
    self._fold(group)

  def _remove(self, part: _Part) -> None:
    with contextlib.suppress(OSError):
      part.path.unlink()
      self._parts.remove(part)

  def _fold(self, group: Sequence[tuple[_Part, npt.NDArray[np.int64]]]) -> None:
    """Puts the needed rows of some neighbours into the place of the first; on a failing disk they stay as they are."""
    if not group or (len(group) == 1 and len(group[0][1]) >= group[0][0].rows / SPARSE):
      return
    path = group[0][0].path
    partial = path.with_suffix(_PARTIAL)
    with contextlib.suppress(OSError):
      folded = self._copy_needed(group, partial)
      if folded is not None:
        partial.replace(path)
        self._parts[self._parts.index(group[0][0])] = dataclasses.replace(folded, path=path)
        sync_folder(self._folder)
        for part, _ in group[1:]:
          self._remove(part)
        return
    with contextlib.suppress(OSError):
      partial.unlink(missing_ok=True)

  def _copy_needed(self, group: Sequence[tuple[_Part, npt.NDArray[np.int64]]], path: pathlib.Path) -> _Part | None:
    """Writes a closed part with the needed rows of others; None, and that is noted, if one of them cannot be read whole.

    Raises:
      OSError: it cannot be written.
    """
    folded = _Part(path, [], len(self._header))
    with path.open("wb") as file:
      file.write(self._header)
      for part, needed in group:
        copied = 0
        for first, rows in self._needed_runs(part, needed):
          frame, checksum = _frame(first, rows)
          file.write(frame)
          folded.add(first, len(rows), checksum, len(frame) - _FRAME_BYTES)
          copied += len(rows)
        if copied < len(needed):
          self._unfoldable.add(part.path)
          return None
      file.write(_frame_head(folded.end, 0, folded.digest))
      file.flush()
      os.fsync(file.fileno())
    return dataclasses.replace(folded, bytes=folded.bytes + _FRAME_BYTES, is_closed=True)

  def _needed_runs(self, part: _Part, needed: npt.NDArray[np.int64]) -> Iterator[tuple[int, Packed]]:
    """The number of the first row, and the rows, of each run of needed rows that can be read."""
    for first, rows in self._read(part):
      begin, end = np.searchsorted(needed, (first, first + len(rows)))
      numbers = needed[begin:end]
      for run in np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1):
        if len(run):
          yield int(run[0]), rows[run[0] - first : run[-1] + 1 - first]

  def read(self, since: int = 0) -> Iterator[tuple[int, Packed]]:
    """The number of the first row, and the rows, of all whole frames on the disk, in the order of their numbers.

    After a fold that a kill cut short some rows come again, later than others with higher numbers.

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

  def _remove_partials(self) -> None:
    """Removes what a fold that did not end left behind."""
    for path in self._folder.glob(f"rows_*{_PARTIAL}"):
      with contextlib.suppress(OSError):
        path.unlink()

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
    frame, checksum = _frame(first, rows)
    part = self._open
    if part is None:
      self._folder.mkdir(parents=True, exist_ok=True)
      part = _Part(self._folder / f"rows_{first}.part", [], len(self._header))
      _write_at(part.path, 0, self._header + frame)
    else:
      _write_at(part.path, part.bytes, frame)
    part.add(first, len(rows), checksum, len(frame) - _FRAME_BYTES)
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
    if self.waiting > self._most_waiting and not self.dropped:
      _say(
        f"More than {self._most_waiting:,} rows wait for the replay memory's journal in {self._folder}: the oldest will be "
        "missing when the learner is started again; make room on the disk."
      )
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


def _frame(first: int, rows: Packed) -> tuple[bytes, int]:
  """A frame of rows, and the checksum of its payload."""
  payload = np.ascontiguousarray(rows, np.float32).tobytes()
  checksum = zlib.crc32(payload)
  return _frame_head(first, len(rows), checksum) + payload, checksum


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
