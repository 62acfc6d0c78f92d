"""Sealed folders: complete or absent, and every damage is noticed."""

import contextlib
import os
import pathlib
import re
import shutil

import pytest

from configs.sealed_folder import (
  SEAL_FILE,
  Damaged,
  Seal,
  numbered_folders,
  read_seal,
  remove_partials,
  remove_sealed,
  verify,
  write_sealed,
)
from tests.damage import DAMAGES, files_in

SEAL = Seal("run", 3, "epoch", 5, snapshot=2)


def _fill(folder: pathlib.Path) -> None:
  (folder / "inner").mkdir()
  (folder / "inner" / "numbers").write_bytes(bytes(range(256)))
  (folder / "text").write_text("a text\n" * 9)
  (folder / "empty").write_text("")


def _nothing(folder: pathlib.Path) -> None:
  pass


def _write(final: pathlib.Path) -> None:
  write_sealed(final, SEAL, _fill, _nothing)


def test_a_folder_comes_with_its_seal_and_nothing_beside_it(tmp_path: pathlib.Path) -> None:
  final = tmp_path / "deep" / "000003"
  _write(final)
  seal = verify(final)
  assert seal == read_seal(final)
  assert (seal.run_id, seal.number, seal.epoch, seal.layout_version, seal.snapshot) == ("run", 3, "epoch", 5, 2)
  assert seal.utc.endswith("+00:00")
  assert {name: facts.bytes for name, facts in seal.files.items()} == {"empty": 0, "inner/numbers": 256, "text": 63}
  # As sha256sum prints it.
  assert seal.files["empty"].sha256.startswith("e3b0c44298fc1c149afbf4c8996fb924")
  assert [path.name for path in final.parent.iterdir()] == ["000003"]


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", ["inner/numbers", "text", SEAL_FILE])
def test_every_file_that_is_damaged_is_named(tmp_path: pathlib.Path, name: str, how: str) -> None:
  _write(tmp_path / "000001")
  DAMAGES[how](tmp_path / "000001" / name)
  with pytest.raises(Damaged, match=f"^{re.escape(name)} (is|has) "):
    verify(tmp_path / "000001")


def test_no_bit_of_a_seal_can_change_its_meaning(tmp_path: pathlib.Path) -> None:
  _write(tmp_path / "000001")
  path, seal = tmp_path / "000001" / SEAL_FILE, read_seal(tmp_path / "000001")
  content = path.read_bytes()
  for position in range(len(content)):
    changed = bytearray(content)
    changed[position] ^= 1 << position % 8
    path.write_bytes(changed)
    with contextlib.suppress(Damaged):
      assert read_seal(tmp_path / "000001") == seal


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", '{"seal_sha256": 3}', "[" * 100_000])
def test_what_is_no_seal_is_damaged(tmp_path: pathlib.Path, text: str) -> None:
  (tmp_path / SEAL_FILE).write_text(text)
  with pytest.raises(Damaged, match="is damaged"):
    read_seal(tmp_path)


class _Killed(BaseException):
  """Ends a writer like a signal."""


@pytest.mark.parametrize("moment", ["fsync", "rename"])
def test_a_writer_that_is_killed_leaves_nothing_under_the_name(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
  def killed(*arguments: object, **options: object) -> None:
    raise _Killed

  with monkeypatch.context() as patch:
    patch.setattr(*(os, "fsync", killed) if moment == "fsync" else (pathlib.Path, "rename", killed))
    patch.setattr(shutil, "rmtree", lambda *arguments, **options: None)  # A killed process cleans nothing up.
    with pytest.raises(_Killed):
      _write(tmp_path / "000001")
  assert [path.name for path in tmp_path.iterdir()] == ["000001.partial"]
  _write(tmp_path / "000001")
  assert [path.name for path in tmp_path.iterdir()] == ["000001"]
  verify(tmp_path / "000001")


def test_what_cannot_be_written_leaves_nothing(tmp_path: pathlib.Path) -> None:
  def full(folder: pathlib.Path) -> None:
    (folder / "begun").write_text("x")
    raise OSError(28, "No space left on device")

  with pytest.raises(OSError, match="No space left"):
    write_sealed(tmp_path / "000001", SEAL, full, _nothing)
  assert not list(tmp_path.iterdir())


def test_what_does_not_read_back_is_not_kept(tmp_path: pathlib.Path) -> None:
  def check(folder: pathlib.Path) -> None:
    assert (folder / "text").is_file()
    raise Damaged("text cannot be read")

  with pytest.raises(OSError, match="text cannot be read, just after it was written"):
    write_sealed(tmp_path / "000001", SEAL, _fill, check)
  assert not list(tmp_path.iterdir())


def test_every_file_and_folder_is_synced_before_the_name_is_given(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  events: list[str] = []
  fsync, rename = os.fsync, pathlib.Path.rename

  def syncing(descriptor: int) -> None:
    events.append(pathlib.Path(f"/proc/self/fd/{descriptor}").readlink().name)
    fsync(descriptor)

  def renaming(path: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    events.append("renamed")
    return rename(path, target)

  monkeypatch.setattr(os, "fsync", syncing)
  monkeypatch.setattr(pathlib.Path, "rename", renaming)
  _write(tmp_path / "000001")
  before, after = events[: events.index("renamed")], events[events.index("renamed") + 1 :]
  assert {"numbers", "text", "empty", SEAL_FILE, "inner", "000001.partial"} <= set(before)
  assert after == [tmp_path.name]


def test_folders_are_found_by_number_and_removed_whole(tmp_path: pathlib.Path) -> None:
  for name in ("000010", "000009", "000100.partial", "mine"):
    (tmp_path / name).mkdir()
  (tmp_path / "000011").write_text("a file")
  pattern = re.compile(r"(\d{6})")
  assert list(numbered_folders(tmp_path, pattern)) == [9, 10]
  assert numbered_folders(tmp_path / "missing", pattern) == numbered_folders(tmp_path / "000011", pattern) == {}
  remove_sealed(tmp_path / "000009")
  remove_partials(tmp_path)
  assert sorted(path.name for path in tmp_path.iterdir()) == ["000010", "000011", "mine"]


def test_a_folder_that_is_removed_in_part_is_no_folder_any_more(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  _write(tmp_path / "000001")
  before = files_in(tmp_path / "000001")
  with monkeypatch.context() as patch:
    patch.setattr(shutil, "rmtree", lambda *arguments, **options: None)
    remove_sealed(tmp_path / "000001")
  assert [path.name for path in tmp_path.iterdir()] == ["000001.partial"]
  assert files_in(tmp_path / "000001.partial") == before
  remove_partials(tmp_path)
  assert not list(tmp_path.iterdir())
