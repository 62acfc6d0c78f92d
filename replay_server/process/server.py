"""The replay server: a Reverb server with this project's tables, its checkpoints and its manifest."""

import dataclasses
import datetime as dt
import errno
import pathlib
import re
import shutil
import socket
import time

import reverb
from acme import specs
from reverb.platform.checkpointers_lib import DefaultCheckpointer

from configs import RunConfig, UserError
from configs.files import FileLock
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest, OtherLayout
from replay_server.contract.run import read_stored_manifest, write_manifest
from replay_server.process.tables import make_tables

CHECKPOINT_TIMEOUT_SECONDS = 300.0

# The file that Reverb writes last into a checkpoint.
_DONE_FILE = "DONE"
# A checkpoint's folder is named after its local time; only folders with such names are ever removed or renamed.
_CHECKPOINT_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*")


class CheckpointFailed(RuntimeError):
  """The tables were not checkpointed; the message says why."""


class ReplayServer:
  """A running server; `stop` or the `with` statement ends it.

  Attributes:
    address: "host:port" for this machine.
    connection: to this server.
    manifest: of the run, as in the run table.
    restored: whether the tables came from a checkpoint.
  """

  def __init__(
    self,
    config: RunConfig,
    spec: specs.EnvironmentSpec,
    run_id: str,
    checkpoint_dir: pathlib.Path,
    port: int = 0,
    inline: bool = False,
  ):
    """Starts the server, from the checkpoint in `checkpoint_dir` if there is one.

    Args:
      config: of the run.
      spec: of its environment, which determines its rows.
      run_id: of the run.
      checkpoint_dir: for this run's tables and nothing else; made if it does not exist.
      port: to listen on; 0 takes a free one.
      inline: whether the run is inline; the server then does not tie collecting to learning.

    Raises:
      UserError: the port is in use, another process serves this run, or the checkpoint is another run's, damaged, or does not
        fit the tables or this release.
    """
    check_port(port)
    checkpoint_dir.mkdir(parents=True, exist_ok=True)
    # Two servers would remove each other's checkpoints. The lock lies beside the directory, whose content is Reverb's.
    self._lock = FileLock(
      checkpoint_dir.with_name(f"{checkpoint_dir.name}.lock"),
      f"Another process serves the run of {checkpoint_dir}: wait for its end, or use its address.",
    )
    try:
      self._start(Manifest.of(run_id, config, spec, inline), checkpoint_dir, port)
    except BaseException:
      self._lock.release()
      raise

  def _start(self, manifest: Manifest, checkpoint_dir: pathlib.Path, port: int) -> None:
    self._checkpoint_dir = checkpoint_dir
    self.restored = has_checkpoint(checkpoint_dir)
    self.manifest = manifest
    tables = make_tables(manifest.config, manifest.codec, manifest.inline)
    try:
      # Reverb's default checkpointer would make a temporary directory for every server.
      self._server = reverb.Server(tables, port=port or None, checkpointer=DefaultCheckpointer(str(checkpoint_dir)))
    except (RuntimeError, ValueError) as error:
      reason = str(error).splitlines()[0]
      raise UserError(
        f"The replay server cannot start ({reason}): if this run's tables were changed, give it a new run directory."
      ) from None
    self.address = f"localhost:{self._server.port}"
    self.connection = Connection(self.address)
    try:
      self._settle_manifest()
      # Only now is the checkpoint known to be this run's; another run's is left alone.
      tidy_checkpoints(checkpoint_dir)
    except BaseException:
      self.stop()
      raise

  def _settle_manifest(self) -> None:
    try:
      found = read_stored_manifest(self.connection)
    except OtherLayout as error:
      raise UserError(
        f"The checkpoint in {self._checkpoint_dir} has layout version {error.version}, and this release of slipstream writes "
        f"{layout.LAYOUT_VERSION}: resume the run with the release that began it, or start a new run; nothing of it was changed."
      ) from None
    if found is not None:
      self._check_resumable(found)
    elif self.restored:  # Reverb begins with empty tables if it cannot read a checkpoint's files.
      raise UserError(
        f"The checkpoint in {self._checkpoint_dir} cannot be read: move the last folder there away to resume from the one before "
        "it, or start a new run; nothing of it was changed."
      )
    write_manifest(self.connection, self.manifest)

  def _check_resumable(self, found: Manifest) -> None:
    if found.run_id != self.manifest.run_id:
      raise UserError(
        f"The checkpoint belongs to run {found.run_id}, not to {self.manifest.run_id}: resume that run, or name another "
        "directory; nothing of it was changed."
      )
    found.check_codec(self.manifest.codec)
    found.check_spec(self.manifest.spec)
    difference = layout.first_difference(*(layout.all_shapes(run.config, run.inline) for run in (found, self.manifest)))
    if difference:
      raise UserError(
        f"The checkpoint's {difference}: Reverb keeps tables as they were checkpointed, so resume with what the run had, "
        "or start a new run; nothing of it was changed."
      )

  def __enter__(self) -> "ReplayServer":
    return self

  def __exit__(self, *_: object) -> None:
    self.stop()

  def checkpoint(self) -> float:
    """Writes the tables to the checkpoint directory; returns the seconds it took.

    A server that resumes restores all tables at once and answers from then on. So that no role can read the manifest of a
    checkpoint in place of the server's own, no checkpoint holds a settled one; roles that join meanwhile wait.

    Raises:
      CheckpointFailed: it could not be written.
      ServerLost: it did not finish in time.
    """
    began = time.monotonic()
    write_manifest(self.connection, dataclasses.replace(self.manifest, settled=False))
    try:
      self._write_checkpoint()
    finally:
      write_manifest(self.connection, self.manifest)
    return time.monotonic() - began

  def _write_checkpoint(self) -> None:
    try:
      tidy_checkpoints(self._checkpoint_dir)
      path = self.connection.call(
        self.connection.client.checkpoint, "checkpointing the tables", CHECKPOINT_TIMEOUT_SECONDS
      )
    except (OSError, RuntimeError) as error:
      reason = str(error).splitlines()[0] if str(error) else type(error).__name__
      raise CheckpointFailed(
        f"The tables could not be checkpointed to {self._checkpoint_dir} ({reason}): check whether the disk is full and "
        "the directory is writable."
      ) from None
    if not (pathlib.Path(path) / _DONE_FILE).is_file():
      raise CheckpointFailed(
        f"The checkpoint {path} was removed as soon as it was written, as the name of another folder sorts after it: move all "
        f"other folders out of {self._checkpoint_dir}."
      )

  def stop(self) -> None:
    """Stops the server; rows that are in no checkpoint are lost."""
    self.connection.close()
    self._server.stop()
    self._lock.release()


def has_checkpoint(directory: pathlib.Path) -> bool:
  """Whether `directory` has a complete checkpoint of tables."""
  return bool(_checkpoints(directory))


def _checkpoints(directory: pathlib.Path) -> list[pathlib.Path]:
  return sorted(done.parent for done in directory.glob(f"*/{_DONE_FILE}"))


def tidy_checkpoints(directory: pathlib.Path) -> None:
  """Makes sure that the name of the next checkpoint in `directory` sorts last.

  Reverb keeps and loads the checkpoint whose name sorts last. An incomplete one would displace a complete one, and is removed.
  After the clock was set back, an old one would displace every new one, and is renamed to a time just before now.
  """
  for folder in directory.iterdir():
    if _CHECKPOINT_NAME.fullmatch(folder.name) and folder.is_dir() and not (folder / _DONE_FILE).exists():
      shutil.rmtree(folder)
  now = dt.datetime.now().astimezone()
  future = [
    folder
    for folder in _checkpoints(directory)
    if _CHECKPOINT_NAME.fullmatch(folder.name) and folder.name >= _name(now)
  ]
  for index, folder in enumerate(future):
    folder.rename(directory / _name(now - dt.timedelta(microseconds=len(future) - index)))


def _name(time_of: dt.datetime) -> str:
  return time_of.isoformat(timespec="microseconds")


def check_port(port: int) -> None:
  """Refuses a port that is taken.

  Raises:
    UserError: `port` does not exist or is in use.
  """
  if not 0 <= port < 65_536:
    raise UserError(f"The port {port} does not exist: use one from 1 to 65535, or 0 for a free one.")
  if not port:
    return
  # Reverb would share a port that is in use, and clients would reach either server.
  try:
    with socket.create_server(("", port)):
      return
  except OSError as error:
    if error.errno == errno.EADDRINUSE:
      sentence = f"Port {port} is in use: stop the process that listens there, or choose another port with --port."
    else:
      sentence = f"Port {port} cannot be listened on ({error.strerror}): choose another port with --port."
    raise UserError(sentence) from None
