"""How much of the machine's processors this process may use."""

import os
import pathlib
from collections.abc import Iterator

_ROOT = pathlib.Path("/")


def usable_cores(root: pathlib.Path = _ROOT) -> float:
  """Cores that this process may use: those that it may run on, at most the quota of its control groups.

  Args:
    root: of the file system, for tests.

  Returns:
    A number above 0; a container may have a part of a core.
  """
  return min([float(len(os.sched_getaffinity(0))), *_quotas(root)])


def half_of_the_cores(root: pathlib.Path = _ROOT) -> int:
  """Half of the usable cores, rounded down, at least 1."""
  return max(1, int(usable_cores(root) / 2))


def _quotas(root: pathlib.Path) -> Iterator[float]:
  """In cores, of every control group that this process is in and that has one."""
  for folder in _groups(root):
    # Version 2: "<microseconds> <period>", or "max <period>".
    yield from _cores(_words(folder / "cpu.max"))
    # Version 1: one number in each file; the quota is -1 without a limit.
    yield from _cores(_words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us"))


def _groups(root: pathlib.Path) -> Iterator[pathlib.Path]:
  """Folders of the groups of this process that may have a quota, parents included.

  In a container the paths may be the host's, and the container's own group is at the top. Not every
  folder exists.
  """
  mounts = root / "sys/fs/cgroup"
  try:
    lines = (root / "proc/self/cgroup").read_text().splitlines()
  except OSError:
    lines = ["0::/", "1:cpu:/"]
  for line in lines:
    _, controllers, path = line.split(":", 2)
    if not controllers:
      tops = [mounts, mounts / "unified"]
    elif "cpu" in controllers.split(","):
      tops = [mounts / controllers, mounts / "cpu"]
    else:
      continue
    group = pathlib.PurePosixPath(path.lstrip("/"))
    for top in tops:
      yield from (top / part for part in (group, *group.parents))


def _words(path: pathlib.Path) -> list[str]:
  try:
    return path.read_text().split()
  except OSError:
    return []


def _cores(words: list[str]) -> Iterator[float]:
  if len(words) == 2 and all(word.isdigit() and int(word) for word in words):
    yield int(words[0]) / int(words[1])
