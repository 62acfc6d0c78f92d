"""The manifest: a server's description of its run, so that whoever joins needs only the server's address."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from acme import specs

from configs import RunConfig, UserError, from_dict, to_dict
from configs.versions import library_versions
from replay_server.contract import layout
from replay_server.contract.codec import RowCodec
from replay_server.contract.spec import spec_from_dict, spec_to_dict


class OtherLayout(UserError):
  """A manifest of another layout version than this code's.

  Attributes:
    version: of the manifest.
  """

  def __init__(self, version: object):
    """Words the message for a role that joins a server."""
    super().__init__(
      f"The server's data have layout version {version} and this installation writes {layout.LAYOUT_VERSION}: "
      "use the same release of slipstream on both sides."
    )
    self.version = version


@dataclasses.dataclass(frozen=True)
class Manifest:
  """A run, as its server describes it.

  Attributes:
    run_id: unique; it names the run directory.
    config: of the run.
    spec: of its environment, so that only processes that step the environment need it installed.
    codec: the row layout.
    inline: whether one process does everything; nobody can join then.
    layout_version: of the tables and rows; see docs/contract.md.
    versions: library -> version on the server's machine.
    settled: whether a running server stands by it. A checkpoint holds one that is not, for the server that resumes from it.
  """

  run_id: str
  config: RunConfig
  spec: specs.EnvironmentSpec
  codec: RowCodec
  inline: bool = False
  layout_version: int = layout.LAYOUT_VERSION
  versions: dict[str, str] = dataclasses.field(default_factory=library_versions)
  settled: bool = True

  @classmethod
  def of(cls, run_id: str, config: RunConfig, spec: specs.EnvironmentSpec, inline: bool = False) -> "Manifest":
    """The manifest of a run that this release serves; its rows follow from its config and its environment."""
    return cls(run_id, config, spec, layout.run_codec(config, spec), inline)

  def to_json(self) -> str:
    """The manifest as the text of the run table.

    Raises:
      UserError: the environment's spec holds something other than single numeric arrays.
    """
    fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
    parts = {"config": to_dict(self.config), "spec": spec_to_dict(self.spec), "codec": to_dict(self.codec)}
    return json.dumps({**fields, **parts})

  @classmethod
  def from_json(cls, text: str) -> "Manifest":
    """The manifest of a run table's text.

    Raises:
      OtherLayout: the server's layout version is not this code's.
    """
    data = json.loads(text)
    version = data.get("layout_version")
    if version != layout.LAYOUT_VERSION:
      raise OtherLayout(version)
    parts = {
      "config": from_dict(data["config"]),
      "spec": spec_from_dict(data["spec"]),
      "codec": from_dict(data["codec"], RowCodec),
    }
    return cls(**{**data, **parts})

  def check_codec(self, codec: RowCodec, arguments: Mapping[str, Any] | None = None) -> None:
    """Refuses rows that would not fit into this run's tables.

    Args:
      codec: made from the environment on this machine.
      arguments: as for `check_spec`.

    Raises:
      UserError: `codec` differs from the run's.
    """
    if codec == self.codec:
      return
    ours = {field.name: (field.dtype, field.shape) for field in codec.fields}
    theirs = {field.name: (field.dtype, field.shape) for field in self.codec.fields}
    name = next((name for name in theirs if ours.get(name) != theirs[name]), next(iter(theirs)))
    raise self._mismatch(name, ours.get(name), theirs[name], arguments)

  def check_spec(self, spec: specs.EnvironmentSpec, arguments: Mapping[str, Any] | None = None) -> None:
    """Refuses an environment that is not the run's: one whose rows would not fit, or whose actions differ.

    Bounds of observations may differ, as nothing depends on them.

    Args:
      spec: of the environment on this machine.
      arguments: with which it was made in place of those that the run's spec comes from; for the message.

    Raises:
      UserError: `spec` differs from the run's.
    """
    self.check_codec(layout.run_codec(self.config, spec), arguments)
    if spec.actions != self.spec.actions:
      raise self._mismatch("action", spec.actions, self.spec.actions, arguments)

  def _mismatch(self, name: str, ours: object, theirs: object, arguments: Mapping[str, Any] | None) -> UserError:
    if arguments:
      return UserError(
        f"Environment {self.config.environment.name!r} with the arguments {dict(arguments)} gives {name} as {ours}, but the run "
        f"stores {theirs}: leave out those that change its spaces."
      )
    return UserError(
      f"Environment {self.config.environment.name!r} gives {name} as {ours} on this machine, but run "
      f"{self.run_id} stores {theirs}: install the version of the environment that the run uses."
    )
