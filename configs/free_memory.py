"""How much memory this machine has left."""

import pathlib

import psutil

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def available_bytes() -> int:
  """Bytes of memory that are free on this machine; at most the limit of this process's container."""
  available = int(psutil.virtual_memory().available)
  for name in CGROUP_LIMITS:
    path = pathlib.Path(name)
    if path.is_file() and (text := path.read_text().strip()).isdigit():
      available = min(available, int(text))
  return available


def format_bytes(count: int) -> str:
  """`count` bytes in a readable unit, such as "12.3 kB"."""
  value = float(count)
  for unit in ("B", "kB", "MB", "GB"):
    if value < 999.5:  # 999.5 would be rounded to 1e+03.
      return f"{value:.3g} {unit}"
    value /= 1000
  return f"{value:,.3g} TB"
