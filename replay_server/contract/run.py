"""A server's information about its run: the manifest, the status and the count of environment steps."""

from collections.abc import Mapping
from typing import Any

from configs import UserError
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest, OtherLayout
from replay_server.contract.messages import decode_text, encode_text
from replay_server.contract.status import RunStatus, parse_status


def write_manifest(connection: Connection, manifest: Manifest) -> None:
  """Puts the manifest into the run table."""
  connection.writer().write(layout.RUN, [encode_text(manifest.to_json())])


def read_manifest(connection: Connection) -> Manifest | None:
  """The manifest of a server's run, for whoever joins; None until the server has settled it.

  A server that resumes a run answers before it has replaced the manifest of its checkpoint, and a join may be that fast. It also
  takes back its manifest for as long as it writes a checkpoint.

  Raises:
    As `read_stored_manifest`.
  """
  manifest = read_stored_manifest(connection)
  return manifest if manifest is not None and manifest.settled else None


def read_stored_manifest(connection: Connection) -> Manifest | None:
  """The manifest in the run table, settled or not, for the server itself; None if there is none.

  Raises:
    ServerLost: the server does not answer.
    UserError: what answers is not a Slipstream server.
    OtherLayout: the manifest has another layout version.
  """
  columns = connection.read(layout.RUN, "reading the run's manifest")
  if columns is None:
    return None
  try:
    return Manifest.from_json(decode_text(columns[0]))
  except (OtherLayout, UserError):
    raise
  except Exception:  # Another Reverb server's table of the same name may hold anything.
    raise UserError(
      f"The server at {connection.address} has a table {layout.RUN!r} that holds no manifest of Slipstream's: name the address "
      "of a Slipstream server."
    ) from None


def read_live_status(connection: Connection) -> RunStatus | None:
  """The status in a running server's status table; None if none was written yet.

  Raises:
    ServerLost: the server does not answer.
  """
  columns = connection.read(layout.STATUS, "reading the run's status")
  return None if columns is None else parse_status(decode_text(columns[0]))


def samples_of(tables: Mapping[str, Any], table: str) -> int:
  """How many samples of `table` the server has given; `tables` is from `Connection.info`."""
  return int(tables[table].rate_limiter_info.sample_stats.completed)


def environment_steps(tables: Mapping[str, Any], default_table: str) -> int:
  """The environment steps of a run, earlier parts of a resumed run included: all that were inserted into the default table.

  Args:
    tables: from `Connection.info`.
    default_table: its name.
  """
  return int(tables[default_table].rate_limiter_info.insert_stats.completed)
