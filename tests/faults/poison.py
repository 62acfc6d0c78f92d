"""`python -m tests.faults.poison HOST:PORT` writes to a run what only a broken client would."""

import json
import sys
from collections.abc import Callable

import numpy as np
import reverb

from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.messages import encode_text
from replay_server.contract.run import read_manifest

_FLUSH_MS = 2_000
_ROWS = 5


def poison(address: str) -> None:
  """Writes messages of a newer release, and rows that are NaN, misshapen or of another layout, or have a huge priority."""
  connection = Connection(address)
  connection.wait_until_up(30)
  manifest = read_manifest(connection)
  assert manifest is not None
  default, width = manifest.config.replay.default.name, manifest.codec.width
  messages = connection.writer()
  beat = {"type": "Heartbeat", "name": "newer", "role": "actor", "unknown_to_this_release": 1}
  for text in (json.dumps(beat), "no JSON", json.dumps([1, 2])):
    messages.write(layout.HEARTBEATS, [encode_text(text)])
  rows = {
    "NaN": np.full(width, np.nan, np.float32),
    "of another layout": np.arange(width, dtype=np.float32) * 1e9,
    "of another width": np.zeros(width + 3, np.float32),
    "of another type": np.zeros(width, np.float64),
  }
  for name, row in rows.items():
    for _ in range(_ROWS):
      _try(name, lambda row=row: _write(connection, default, row, 1.0))  # type: ignore[misc]  # mypy cannot infer a default's type.
  _try("with a priority of 1e30", lambda: _write(connection, default, rows["NaN"], 1e30))


def _write(connection: Connection, table: str, row: np.ndarray, priority: float) -> None:
  """With Reverb's own client, which checks less than Slipstream's."""
  with connection.client.trajectory_writer(num_keep_alive_refs=1) as writer:
    writer.append([row])
    writer.create_item(connection.wire_name(table), priority, [column[-1] for column in writer.history])
    writer.flush(0, _FLUSH_MS)


def _try(name: str, write: Callable[[], None]) -> None:
  try:
    write()
  except (ValueError, TypeError, RuntimeError, reverb.ReverbError) as error:
    print(f"Refused {name}: {str(error).splitlines()[0][:120]}")
  else:
    print(f"Written: {name}.")


if __name__ == "__main__":
  poison(sys.argv[1])
