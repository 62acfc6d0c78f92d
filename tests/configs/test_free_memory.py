import pathlib

import pytest

from configs import free_memory as memory


def test_a_containers_limit_counts_if_it_has_one(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  limit = tmp_path / "memory.max"
  monkeypatch.setattr(memory, "CGROUP_LIMITS", (str(tmp_path / "missing"), str(limit)))
  limit.write_text("max\n")
  machine = memory.available_bytes()
  assert machine > 12_345
  limit.write_text("12345\n")
  assert memory.available_bytes() == 12_345


@pytest.mark.parametrize(
  ("count", "text"),
  [
    (0, "0 B"),
    (999, "999 B"),
    (1_000, "1 kB"),
    (12_345, "12.3 kB"),
    (999_400, "999 kB"),
    (999_700, "1 MB"),
    (5 * 10**9, "5 GB"),
    (2 * 10**12, "2 TB"),
  ],
)
def test_bytes_are_written_in_a_readable_unit(count: int, text: str) -> None:
  assert memory.format_bytes(count) == text
