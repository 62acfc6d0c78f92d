"""The journal: what is written comes back, whatever happens to its files."""

import contextlib
import pathlib
import resource
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from configs import UserError
from replay_memory.journal import Journal, Needs
from replay_server.contract.layout import make_row_codec
from tests.damage import files_in
from tests.replay_memory.making import episode_rows, packed
from tests.serving import CODEC, make_spec

RUN = "run-1"


def _open(folder: pathlib.Path, part_rows: int = 10, **changes: int) -> Journal:
  return Journal(folder, RUN, CODEC, part_rows=part_rows, **changes)


def _rows(count: int, first: int = 0) -> np.ndarray:
  return packed(episode_rows(first + count))[first:]


def _numbers(journal: Journal, since: int = 0) -> list[int]:
  """The numbers of all rows that can be read; each row must be the one of its number."""
  found: list[int] = []
  for first, rows in journal.read(since):
    assert CODEC.unpack(rows)["step"].tolist() == list(range(first, first + len(rows)))
    found.extend(range(first, first + len(rows)))
  return found


def _write(folder: pathlib.Path, counts: Iterable[int], part_rows: int = 10) -> None:
  """Appends so many rows at a time, and ends as a process that is killed does."""
  journal = _open(folder, part_rows)
  for count in counts:
    journal.append(journal.end, _rows(count, journal.end))


def _names(folder: pathlib.Path) -> list[str]:
  return sorted(path.name for path in folder.iterdir())


def test_rows_come_back_in_their_order_from_parts_of_some_size(tmp_path: pathlib.Path) -> None:
  journal = _open(tmp_path / "journal")
  for count in (3, 4, 5, 1, 0, 12):
    journal.append(journal.end, _rows(count, journal.end))
  assert _numbers(journal) == list(range(25))
  journal.close()
  journal.close()
  assert _names(tmp_path / "journal") == ["rows_0.part", "rows_12.part"]
  again = _open(tmp_path / "journal")
  assert (again.end, again.findings, again.waiting) == (25, [], 0)
  assert _numbers(again) == list(range(25))
  assert _numbers(again, since=12) == list(range(12, 25))
  assert again.bytes == sum(path.stat().st_size for path in (tmp_path / "journal").iterdir())


def test_a_journal_that_is_opened_again_goes_on(tmp_path: pathlib.Path) -> None:
  for _ in range(3):
    _write(tmp_path, [2, 2])
  assert _names(tmp_path) == ["rows_0.part", "rows_4.part", "rows_8.part"]
  assert _numbers(_open(tmp_path)) == list(range(12))


def test_rows_that_are_in_the_journal_are_refused(tmp_path: pathlib.Path) -> None:
  journal = _open(tmp_path)
  journal.append(0, _rows(3))
  with pytest.raises(ValueError, match="which ends at 3"):
    journal.append(2, _rows(1, 2))


def test_a_process_may_be_killed_at_any_byte(tmp_path: pathlib.Path) -> None:
  _write(tmp_path / "whole", [2, 1])
  content = (tmp_path / "whole" / "rows_0.part").read_bytes()
  frame = 24 + 4 * CODEC.width
  ends = [len(content) - frame, len(content)]  # Of the two frames.
  for size in [*range(0, ends[0] - 2 * frame, 50), *range(ends[0] - 2 * frame, len(content))]:
    folder = tmp_path / str(size)
    folder.mkdir()
    (folder / "rows_0.part").write_bytes(content[:size])
    expected = 3 if size >= ends[1] else 2 if size >= ends[0] else 0
    journal = _open(folder)
    assert journal.end == expected
    assert _numbers(journal) == list(range(expected))
    journal.append(expected, _rows(2, expected))
    assert _numbers(journal) == list(range(expected + 2))
    closed = _open(folder)
    assert _numbers(closed) == list(range(expected + 2))
    assert closed.findings == []
    for path in folder.iterdir():
      path.unlink()


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_flipped_bit_costs_at_most_what_follows_it_in_its_part(tmp_path: pathlib.Path, is_closed: bool) -> None:
  whole = tmp_path / "whole"
  _write(whole, [2, 1, 2])
  _write(whole, [3])  # Closes the first part.
  files = files_in(whole)
  assert list(files) == ["rows_0.part", "rows_5.part"]
  closing = len(files["rows_0.part"]) - 24
  content = files["rows_0.part"] if is_closed else files["rows_0.part"][:closing]
  for at in range(0, len(content), 3):
    folder = tmp_path / str(at)
    folder.mkdir()
    damaged = bytearray(content)
    damaged[at] ^= 1 << at % 8
    (folder / "rows_0.part").write_bytes(damaged)
    (folder / "rows_5.part").write_bytes(files["rows_5.part"])
    journal = _open(folder)
    found = _numbers(journal)
    assert [number for number in found if number >= 5] == [5, 6, 7]
    assert journal.findings
    if at >= closing:
      assert found == list(range(8))
    journal.append(journal.end, _rows(1, journal.end))
    assert _numbers(journal)[-1] == 8
    # Damaged bytes are left as they are.
    kept = [path for path in folder.iterdir() if path.name.startswith("rows_0.")]
    assert kept[0].read_bytes().startswith(damaged)
    for path in folder.iterdir():
      path.unlink()


def test_a_damaged_payload_costs_its_frame_alone(tmp_path: pathlib.Path) -> None:
  _write(tmp_path, [2, 1, 2])
  path = tmp_path / "rows_0.part"
  content = bytearray(path.read_bytes())
  frame = 24 + 4 * CODEC.width
  content[-24 - 8 * CODEC.width - frame // 2] ^= 4
  path.unlink()
  _write(tmp_path, [])
  path.write_bytes(content)
  journal = _open(tmp_path)
  assert _numbers(journal) == [0, 1, 3, 4]
  assert journal.findings == ["rows_0.part: 1 of its 5 rows are damaged"]


@pytest.mark.parametrize("other", ["run", "layout"])
def test_another_run_or_layout_is_refused_with_a_sentence_and_nothing_is_changed(
  tmp_path: pathlib.Path, other: str
) -> None:
  _write(tmp_path, [2])
  before = files_in(tmp_path)
  codec = make_row_codec(make_spec((4,))) if other == "layout" else CODEC
  run = "run-2" if other == "run" else RUN
  sentence = {
    "run": r"is of run run-1, and this is run run-2: use the directory of this run; nothing was changed\.",
    "layout": r"has rows of another layout than this run's: resume with .* or start a new run; nothing was changed\.",
  }[other]
  with pytest.raises(UserError, match=sentence):
    Journal(tmp_path, run, codec)
  assert files_in(tmp_path) == before


def _needs(received: int, *numbers: int) -> Needs:
  return Needs(received, np.array(numbers, np.int64))


def test_parts_go_when_no_kept_checkpoint_needs_them(tmp_path: pathlib.Path) -> None:
  journal = _open(tmp_path, part_rows=2)
  for _ in range(5):
    journal.append(journal.end, _rows(2, journal.end))
  journal.forget_all_but([])
  assert len(_names(tmp_path)) == 5
  # Of the parts 0, 2, 4, 6 and 8, the checkpoint needs 2 and 4, and 6 and 8 to go on from there.
  older, newer = _needs(6, 3, 5), _needs(10, 4, 8, 9)
  journal.forget_all_but([older])
  assert _names(tmp_path) == ["rows_2.part", "rows_4.part", "rows_6.part", "rows_8.part"]
  journal.forget_all_but([older, newer])
  assert _names(tmp_path) == ["rows_2.part", "rows_4.part", "rows_6.part", "rows_8.part"]
  journal.forget_all_but([newer])
  assert _names(tmp_path) == ["rows_4.part", "rows_8.part"]
  journal.forget_all_but([_needs(10)])
  assert _names(tmp_path) == ["rows_8.part"]  # It is still open.
  assert _numbers(journal) == [8, 9]


def _sparse(folder: pathlib.Path) -> Journal:
  """Parts of 20 rows from 0, 20, 40, 60 and 80 on, in frames of five, the last of which is open."""
  journal = _open(folder, part_rows=20)
  for _ in range(20):
    journal.append(journal.end, _rows(5, journal.end))
  return journal


def test_neighbours_of_which_few_rows_are_needed_become_one_part(tmp_path: pathlib.Path) -> None:
  journal = _sparse(tmp_path)
  before = (tmp_path / "rows_60.part").stat()
  journal.forget_all_but([_needs(80, 3, 45, *range(60, 70)), _needs(90, 3, 4, *range(60, 70))])
  # Of 20 to 39 no row is needed, of 60 to 79 many are, and 80 to 99 came after a checkpoint.
  assert _names(tmp_path) == ["rows_0.part", "rows_60.part", "rows_80.part"]
  after = (tmp_path / "rows_60.part").stat()
  assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)  # Closed parts stay as they are.
  kept = [3, 4, 45, *range(60, 100)]
  assert _numbers(journal) == kept
  journal.append(100, _rows(5, 100))
  again = _open(tmp_path, part_rows=20)
  assert (_numbers(again), again.findings, again.end) == ([*kept, *range(100, 105)], [], 105)
  assert again.bytes == sum(path.stat().st_size for path in tmp_path.iterdir()) == journal.bytes + 24
  again.forget_all_but([_needs(105, 45, 101)])
  assert _numbers(again) == [45, 101]
  assert _names(tmp_path) == ["rows_0.part"]


def test_however_long_a_few_old_rows_are_needed_there_are_few_files(tmp_path: pathlib.Path) -> None:
  journal, needed, most = _open(tmp_path, part_rows=20), [], 0
  for _ in range(100):
    for _ in range(4):
      journal.append(journal.end, _rows(5, journal.end))
    needed.append(journal.end - 7)
    journal.forget_all_but([_needs(journal.end, *needed)])
    most = max(most, len(_names(tmp_path)))
  # 100 parts with a needed row each. A folded one with 20 / 8 rows or more is no longer folded.
  assert most <= 100 / 3 + 4
  assert set(needed) <= set(_numbers(journal))
  assert journal.bytes < 3 * (_header_bytes(tmp_path / "probe") + 5 * 24 + 5 * 4 * CODEC.width) * 100 / 3


def test_a_fold_that_is_cut_short_anywhere_loses_nothing(tmp_path: pathlib.Path) -> None:
  needs = [_needs(80, 3, 25, 45, 46)]
  _sparse(tmp_path / "before")
  journal = _sparse(tmp_path / "after")
  journal.forget_all_but(needs)
  before, after = files_in(tmp_path / "before"), files_in(tmp_path / "after")
  assert after.keys() == {"rows_0.part", "rows_80.part"}
  folded = after["rows_0.part"]
  # While the file is written; when it has the first part's place; and while the others are removed.
  moments = [
    *({**before, "rows_0.partial": folded[:size]} for size in range(0, len(folded) + 1, 40)),
    {**before, "rows_0.part": folded},
    {name: content for name, content in {**before, "rows_0.part": folded}.items() if name != "rows_20.part"},
  ]
  for number, files in enumerate(moments):
    folder = tmp_path / str(number)
    folder.mkdir()
    for name, content in files.items():
      (folder / name).write_bytes(content)
    again = _open(folder, part_rows=20)
    assert "rows_0.partial" not in _names(folder)
    assert {3, 25, 45, 46, *range(80, 100)} <= set(_numbers(again))
    again.forget_all_but(needs)
    assert (_numbers(again), again.findings) == ([3, 25, 45, 46, *range(80, 100)], [])
    assert files_in(folder)["rows_0.part"] == folded


def test_what_is_damaged_is_not_folded(tmp_path: pathlib.Path) -> None:
  journal = _sparse(tmp_path)
  path = tmp_path / "rows_20.part"
  content = bytearray(path.read_bytes())
  content[_header_bytes(tmp_path / "probe") + 30] ^= 4  # In the rows 20 to 24.
  path.write_bytes(content)
  for _ in range(2):
    journal.forget_all_but([_needs(80, 3, 22, 26, 45, 61)])
  assert path.read_bytes() == content
  assert _names(tmp_path) == ["probe", "rows_0.part", "rows_20.part", "rows_40.part", "rows_80.part"]
  assert _numbers(journal) == [3, *range(25, 40), 45, 61, *range(80, 100)]


def test_on_a_full_disk_nothing_is_folded(tmp_path: pathlib.Path) -> None:
  journal = _sparse(tmp_path)
  before = files_in(tmp_path)
  with _largest_file(100):
    journal.forget_all_but([_needs(80, 3, 25, 45, 61)])
  assert files_in(tmp_path) == before
  assert _numbers(journal) == list(range(100))
  journal.forget_all_but([_needs(80, 3, 25, 45, 61)])
  assert _numbers(journal) == [3, 25, 45, 61, *range(80, 100)]


@contextlib.contextmanager
def _largest_file(size: int) -> Iterator[None]:
  """No file can grow beyond so many bytes, as on a full disk."""
  soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
  try:
    yield
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _header_bytes(folder: pathlib.Path) -> int:
  _write(folder, [1])
  return (folder / "rows_0.part").stat().st_size - 24 - 4 * CODEC.width


def test_a_full_disk_ends_nothing_and_loses_nothing(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
  header = _header_bytes(tmp_path / "probe")
  for room in range(header - 50, header + 600, 7):
    folder = tmp_path / str(room)
    journal = _open(folder, part_rows=4)
    with _largest_file(room):
      for _ in range(6):
        journal.append(journal.end, _rows(2, journal.end))
      journal.sync()
      waiting = journal.waiting
      assert _numbers(journal) == list(range(12 - waiting))
      assert _numbers(_open(folder)) == list(range(12 - waiting))
    assert journal.end == 12
    journal.append(12, _rows(1, 12))
    assert (journal.waiting, journal.dropped) == (0, 0)
    assert _numbers(journal) == _numbers(_open(folder)) == list(range(13))
    said = capsys.readouterr().out.splitlines()
    assert len(said) == (2 if waiting else 0)
    if waiting:
      assert said[0].startswith(f"The replay memory's journal in {folder} cannot be written (File too large): its rows")
      assert said[1] == f"The replay memory's journal in {folder} is written again."


def test_only_so_many_rows_wait_for_a_full_disk(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
  journal = _open(tmp_path, most_waiting=5)
  with _largest_file(10):
    for _ in range(6):
      journal.append(journal.end, _rows(2, journal.end))
  assert (journal.waiting, journal.dropped) == (4, 8)
  journal.append(12, _rows(1, 12))
  assert _numbers(_open(tmp_path)) == [8, 9, 10, 11, 12]
  said = capsys.readouterr().out.splitlines()
  assert [line.split(" ", 3)[:3] for line in said] == [
    ["The", "replay", "memory's"],
    ["More", "than", "5"],
    ["The", "replay", "memory's"],
  ]
