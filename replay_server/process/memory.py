"""How much memory a server's tables will take, so that a run that does not fit is refused before it begins."""

import pathlib

import psutil

from configs import RunConfig, UserError
from replay_server.contract.codec import RowCodec

# Measured by `make bench` (server bytes per step and per extra reference), rounded up.
STEP_OVERHEAD_BYTES = 1_800
REFERENCE_BYTES = 1_000
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def estimate_bytes(config: RunConfig, codec: RowCodec) -> int:
  """Bytes that full tables take at most, which is when no two tables share a step."""
  step = 4 * codec.width + STEP_OVERHEAD_BYTES + REFERENCE_BYTES
  return step * sum(config.replay.capacity_of(table) for table in config.replay.all_tables)


def available_bytes() -> int:
  """Bytes of memory that are free on this machine; at most the limit of this process's container."""
  available = int(psutil.virtual_memory().available)
  for name in CGROUP_LIMITS:
    path = pathlib.Path(name)
    if path.is_file() and (text := path.read_text().strip()).isdigit():
      available = min(available, int(text))
  return available


def check_memory(config: RunConfig, codec: RowCodec) -> str:
  """A sentence that says how much memory the tables will take.

  Raises:
    UserError: this machine does not have that much.
  """
  needed, available = estimate_bytes(config, codec), available_bytes()
  if needed > available:
    raise UserError(
      f"The tables would take up to {format_bytes(needed)} of memory when full, and this machine has {format_bytes(available)} "
      "left: lower replay.capacity (or the tables' own capacities)."
    )
  return f"Full tables take up to {format_bytes(needed)} of memory on the server ({format_bytes(available)} are free)."


def format_bytes(count: int) -> str:
  """`count` bytes in a readable unit, such as "12.3 kB"."""
  value = float(count)
  for unit in ("B", "kB", "MB", "GB"):
    if value < 999.5:  # 999.5 would be rounded to 1e+03.
      return f"{value:.3g} {unit}"
    value /= 1000
  return f"{value:,.3g} TB"
