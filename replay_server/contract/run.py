"""What a server says of its run: the manifest, the status, and the steps that were taken."""

from collections.abc import Mapping
from typing import Any

from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest
from replay_server.contract.messages import decode_text, encode_text
from replay_server.contract.status import RunStatus, parse_status


def write_manifest(connection: Connection, manifest: Manifest) -> None:
  """Puts the manifest into the run table."""
  connection.writer().write(layout.RUN, [encode_text(manifest.to_json())])


def read_manifest(connection: Connection) -> Manifest | None:
  """The manifest in the run table; None where the server has just come up and not written it yet.

  Raises:
    ServerLost: the server does not answer.
    UserError: what answers is not a Slipstream server.
    OtherLayout: it is one of another layout version.
  """
  columns = connection.read(layout.RUN, "reading the run's manifest")
  return None if columns is None else Manifest.from_json(decode_text(columns[0]))


def read_live_status(connection: Connection) -> RunStatus | None:
  """What the status table of a running server says; None where nothing was written yet.

  Raises:
    ServerLost: the server does not answer.
  """
  columns = connection.read(layout.STATUS, "reading the run's status")
  return None if columns is None else parse_status(decode_text(columns[0]))


def environment_steps(tables: Mapping[str, Any], default_table: str) -> int:
  """The environment steps of a run, earlier parts of a resumed one included: every one was inserted into the default table.

  Args:
    tables: what `Connection.info` gave.
    default_table: its name.
  """
  return int(tables[default_table].rate_limiter_info.insert_stats.completed)
