"""The manifest: what a server tells whoever joins, so that an address is all that anyone needs to know."""

import dataclasses
import json

from configs import RunConfig, UserError, from_dict, to_dict
from configs.versions import library_versions
from replay_server.contract import layout
from replay_server.contract.codec import RowCodec
from replay_server.contract.connection import Connection
from replay_server.contract.messages import decode_text, encode_text


@dataclasses.dataclass(frozen=True)
class Manifest:
  """A run, as its server describes it.

  Attributes:
    run_id: unique; it names the run directory.
    config: of the run.
    codec: the row layout.
    inline: whether the run's own process does everything (nobody else may learn).
    layout_version: of the tables and rows; see docs/contract.md.
    versions: library -> version on the server's machine.
  """

  run_id: str
  config: RunConfig
  codec: RowCodec
  inline: bool = False
  layout_version: int = layout.LAYOUT_VERSION
  versions: dict[str, str] = dataclasses.field(default_factory=library_versions)

  def to_json(self) -> str:
    """The manifest as the text of the run table."""
    return json.dumps(to_dict(self))

  @classmethod
  def from_json(cls, text: str) -> "Manifest":
    """The manifest of a run table's text.

    Raises:
      UserError: the server's layout version is not this code's.
    """
    data = json.loads(text)
    version = data.get("layout_version")
    if version != layout.LAYOUT_VERSION:
      raise UserError(
        f"The server's data have layout version {version} and this installation writes {layout.LAYOUT_VERSION}: "
        "use the same release of slipstream on both sides."
      )
    return from_dict(data, cls)

  def check_codec(self, codec: RowCodec) -> None:
    """Refuses an environment whose rows would not fit into this run's tables.

    Raises:
      UserError: `codec`, made from the environment on this machine, differs from the run's.
    """
    if codec == self.codec:
      return
    ours = {field.name: (field.dtype, field.shape) for field in codec.fields}
    theirs = {field.name: (field.dtype, field.shape) for field in self.codec.fields}
    name = next((name for name in theirs if ours.get(name) != theirs[name]), next(iter(theirs)))
    raise UserError(
      f"Environment {self.config.environment.name!r} gives {name} as {ours.get(name)} on this machine, but run "
      f"{self.run_id} stores {theirs[name]}: install the environment's version of the run here."
    )


def write_manifest(connection: Connection, manifest: Manifest) -> None:
  """Puts the manifest into the run table."""
  connection.writer().write(layout.RUN, [encode_text(manifest.to_json())])


def read_manifest(connection: Connection) -> Manifest | None:
  """The manifest in the run table; None where the server has just come up and not written it yet.

  Raises:
    ServerLost: the server does not answer.
    UserError: what answers is not a Slipstream server, or of another layout version.
  """
  columns = connection.read(layout.RUN, "reading the run's manifest")
  return None if columns is None else Manifest.from_json(decode_text(columns[0]))
