"""How much room a server's tables will take, in memory and in snapshots, so that a run that does not fit is refused at once."""

from configs import RunConfig, UserError
from configs.free_memory import available_bytes, format_bytes
from replay_server.contract import layout
from replay_server.contract.codec import RowCodec

# Measured by `make bench` (server bytes per step and per extra reference), rounded up.
STEP_OVERHEAD_BYTES = 1_800
REFERENCE_BYTES = 1_000
# What a snapshot has of a row besides its numbers: Reverb's records of the row and of its item, rounded up.
SNAPSHOT_ROW_BYTES = 160
# Reverb writes each table's items into one protobuf message, which may not be larger.
MOST_TABLE_BYTES = 2**31 - 1
# Bytes of an item there at most, besides the name of its table: two random numbers of 64 bits, the priority, the time, and how
# often it was sampled. The same for every selector.
ITEM_BYTES = 65
# Of the run's id, with which the name of a table begins there: 20261123-044406-abcd and a slash.
RUN_ID_BYTES = 21


def estimate_bytes(config: RunConfig, codec: RowCodec) -> int:
  """Bytes that full tables take at most, which is when no two tables share a step."""
  step = 4 * codec.width + STEP_OVERHEAD_BYTES + REFERENCE_BYTES
  return step * sum(capacity for _, capacity in _tables(config))


def estimate_snapshot_bytes(config: RunConfig, codec: RowCodec) -> int:
  """Bytes on the disk that a snapshot of full tables takes at most, which is when no two tables share a step."""
  return (4 * codec.width + SNAPSHOT_ROW_BYTES) * sum(capacity for _, capacity in _tables(config))


def _tables(config: RunConfig) -> list[tuple[str, int]]:
  """Name and capacity of every table of transitions."""
  return [(shape.name, shape.capacity) for shape in layout.table_shapes(config, inline=False)]


def check_memory(config: RunConfig, codec: RowCodec) -> str:
  """A sentence that says how much memory the tables will take, and how much of the disk a snapshot of them.

  Raises:
    UserError: this machine does not have that much, or a table is too large for a snapshot.
  """
  needed, available = estimate_bytes(config, codec), available_bytes()
  if needed > available:
    raise UserError(
      f"The tables would take up to {format_bytes(needed)} of memory when full, and this machine has {format_bytes(available)} "
      "left: lower replay.capacity (or the tables' own capacities)."
    )
  check_table_sizes(config)
  return (
    f"Full tables take up to {format_bytes(needed)} of memory on the server ({format_bytes(available)} are free), and each of "
    f"{config.replay.snapshots_kept} snapshots up to {format_bytes(estimate_snapshot_bytes(config, codec))} of the disk."
  )


def check_table_sizes(config: RunConfig) -> None:
  """Refuses tables of which no snapshot could be written once they are full.

  Raises:
    UserError: a table has room for too many items.
  """
  for name, capacity in _tables(config):
    item = ITEM_BYTES + RUN_ID_BYTES + len(name)
    if capacity * item > MOST_TABLE_BYTES:
      raise UserError(
        f"Table {name!r} has room for {capacity:,} items of up to {item} bytes each, so {format_bytes(capacity * item)} in "
        f"one message of a snapshot, which holds at most 2 GiB ({format_bytes(MOST_TABLE_BYTES)}): lower its capacity to "
        f"{MOST_TABLE_BYTES // item:,} or less (its capacity, replay.capacity, its probability)."
      )
