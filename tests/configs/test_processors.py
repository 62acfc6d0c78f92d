"""How many cores a process may use, from control groups of both versions."""

import os
import pathlib
from collections.abc import Mapping

import pytest

from configs.processors import half_of_the_cores, usable_cores

_TWO = {
  "proc/self/cgroup": "0::/slice/job\n",
  "sys/fs/cgroup/cpu.max": "max 100000\n",
  "sys/fs/cgroup/slice/job/cpu.max": "75000 100000\n",
}
_PARENT = {**_TWO, "sys/fs/cgroup/slice/cpu.max": "50000 100000\n"}
_ONE = {
  "proc/self/cgroup": "9:name=systemd:/\n4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n",
  "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "60000\n",
  "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000\n",
}
# The paths are the host's, and the container sees its own group at the top.
_CONTAINER = {
  "proc/self/cgroup": "3:cpu,cpuacct:/docker/1\n",
  "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "25000\n",
  "sys/fs/cgroup/cpu/cpu.cfs_period_us": "50000\n",
}
_UNLIMITED = {
  "proc/self/cgroup": "3:cpu:/\n0::/\n",
  "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
  "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
  "sys/fs/cgroup/unified/cpu.max": "max 100000\n",
}
_UNREADABLE = {"sys/fs/cgroup/cpu.max": "\n"}


def _machine(root: pathlib.Path, files: Mapping[str, str]) -> pathlib.Path:
  for name, text in files.items():
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
  return root


@pytest.mark.parametrize(
  ("files", "cores"),
  [(_TWO, 0.75), (_PARENT, 0.5), (_ONE, 0.6), (_CONTAINER, 0.5)],
  ids=["v2", "parent", "v1", "container"],
)
def test_the_quota_of_a_control_group_bounds_the_cores(
  tmp_path: pathlib.Path, files: Mapping[str, str], cores: float
) -> None:
  assert usable_cores(_machine(tmp_path, files)) == cores
  assert half_of_the_cores(tmp_path) == 1


@pytest.mark.parametrize("files", [{}, _UNLIMITED, _UNREADABLE], ids=["none", "unlimited", "unreadable"])
def test_without_a_quota_the_cores_are_those_that_the_process_may_run_on(
  tmp_path: pathlib.Path, files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(10, 17)))
  assert usable_cores(_machine(tmp_path, files)) == 7
  assert half_of_the_cores(tmp_path) == 3


def test_a_quota_above_the_cores_changes_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
  assert usable_cores(_machine(tmp_path, {"sys/fs/cgroup/cpu.max": "900000 100000\n"})) == 2
