"""Damages files as disks and people do."""

import pathlib
from collections.abc import Callable, Mapping


def cut(path: pathlib.Path) -> None:
  """Takes the last bytes away."""
  content = path.read_bytes()
  path.unlink()  # It may be a hard link to another file.
  path.write_bytes(content[: -max(1, len(content) // 3)])


def flip(path: pathlib.Path) -> None:
  """Changes one bit."""
  content = bytearray(path.read_bytes())
  content[len(content) // 2] ^= 1
  path.unlink()
  path.write_bytes(content)


def remove(path: pathlib.Path) -> None:
  """Removes it."""
  path.unlink()


DAMAGES: Mapping[str, Callable[[pathlib.Path], None]] = {"cut": cut, "flipped": flip, "removed": remove}


def files_in(folder: pathlib.Path) -> dict[str, bytes]:
  """Relative path -> content of every file in a folder."""
  return {
    path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
  }
