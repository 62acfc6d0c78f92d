"""The replay server: a Reverb server with this project's tables, its snapshots and its manifest."""

import contextlib
import dataclasses
import datetime as dt
import errno
import pathlib
import secrets
import shutil
import socket
import threading
import time

import reverb
from acme import specs
from reverb.platform.checkpointers_lib import DefaultCheckpointer

from configs import RunConfig, UserError
from configs.changes import config_changes
from configs.files import FileLock
from configs.sealed_folder import Seal
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.local_rows import LocalRows
from replay_server.contract.manifest import Manifest, OtherLayout
from replay_server.contract.run import read_stored_manifest, write_manifest
from replay_server.contract.status import RunStatus
from replay_server.process.private_port import keep_private
from replay_server.process.snapshots import DONE_FILE, ServerSnapshots, StoredSnapshot
from replay_server.process.snapshots import has_checkpoint as has_checkpoint  # For those who start servers.
from replay_server.process.tables import make_tables

# Reverb copies some hundred thousand items a second, fewer on a busy machine.
CHECKPOINT_TIMEOUT_SECONDS = 600.0
START_TIMEOUT_SECONDS = 60.0


class CheckpointFailed(RuntimeError):
  """No snapshot was written; the message says why."""


class ReplayServer:
  """A running server; `stop` or the `with` statement ends it.

  Attributes:
    address: "host:port" for this machine.
    port: on which it listens.
    is_loopback_only: whether this machine reaches it by its loopback addresses alone.
    connection: to this server.
    manifest: of the run, as in the run table.
    restored: whether the tables came from a snapshot.
    resumed_from: number of that snapshot; 0 without one.
    resumed_at: when it was written, as a UNIX time; None without one.
    restored_status: the run's status in that snapshot; None without one.
    epoch: of this start of the server; another one for each.
    snapshot: number of the snapshot that was written last; 0 before the first.
  """

  def __init__(
    self,
    config: RunConfig,
    spec: specs.EnvironmentSpec,
    run_id: str,
    checkpoint_dir: pathlib.Path,
    port: int = 0,
    inline: bool = False,
    is_private: bool = False,
  ):
    """Starts the server, from the newest whole snapshot in `checkpoint_dir` if there is one.

    Prints which newer snapshots are damaged, and what of the config is not as it was in the snapshot.

    Args:
      config: of the run.
      spec: of its environment, which determines its rows.
      run_id: of the run.
      checkpoint_dir: for the server's part of this run's snapshots and nothing else; made if it does not exist.
      port: to listen on; 0 takes a free one.
      inline: whether the run is inline; the server then does not tie collecting to learning.
      is_private: whether only this host may connect, as far as the kernel can refuse others.

    Raises:
      UserError: the port is in use, another process serves this run, all snapshots are damaged, or the one to resume from is
        another run's, or does not fit the tables or this release.
    """
    check_port(port)
    checkpoint_dir.mkdir(parents=True, exist_ok=True)
    # Two servers would remove each other's snapshots. The lock lies beside the directory.
    self._lock = FileLock(
      checkpoint_dir.with_name(f"{checkpoint_dir.name}.lock"),
      f"Another process serves the run of {checkpoint_dir}: wait for its end, or use its address.",
    )
    self._is_private = is_private
    self.is_loopback_only = False
    try:
      self._start(Manifest.of(run_id, config, spec, inline), checkpoint_dir, port)
    except BaseException:
      self._lock.release()
      raise

  def _start(self, manifest: Manifest, checkpoint_dir: pathlib.Path, port: int) -> None:
    self._checkpoint_dir = checkpoint_dir
    self._is_writing = threading.Lock()
    self._snapshots = ServerSnapshots(checkpoint_dir, manifest.config.replay.snapshots_kept)
    self.epoch = secrets.token_hex(8)
    self.manifest = manifest
    stored = self._find_snapshot()
    if stored is not None:
      self._check_sampling(stored.config.replay.sampling)
    self.restored = stored is not None
    self.resumed_from = self.snapshot = stored.seal.number if stored else 0
    self.resumed_at = dt.datetime.fromisoformat(stored.seal.utc).timestamp() if stored else None
    self.restored_status: RunStatus | None = stored.status if stored else None
    self._make_staging()
    try:
      self._server = self._serve(stored, port)
    except BaseException:
      self._snapshots.close()
      raise
    self.port = int(self._server.port)
    if self._is_private:
      self._keep_private()
    self.address = f"localhost:{self.port}"
    self.connection = Connection(self.address, manifest.run_id)
    if manifest.inline and manifest.config.replay.sampling == "memory":
      self.connection.local_rows = rows = LocalRows(manifest.config.replay.default.name, manifest.codec.width)
      rows.inserted = self.restored_status.environment_steps if self.restored_status else 0
    try:
      self.connection.wait_until_up(START_TIMEOUT_SECONDS)  # On a busy machine the first answer takes long.
      # What was said to the server of the snapshot is not said to this one, nor by it. Whoever joins waits for the manifest.
      for table in (layout.STATUS, layout.HEARTBEATS) if self.restored else ():
        self.connection.clear(table)
      self._settle_manifest()
    except BaseException:
      self.stop()
      raise
    if stored is not None:
      self._report(stored)

  def _check_sampling(self, found: str) -> None:
    """Refuses tables of the other kind, which Reverb could not load."""
    asked = self.manifest.config.replay.sampling
    if found != asked:
      raise UserError(
        f"The checkpoint's tables are those of replay.sampling={found} and this config asks for replay.sampling={asked}: resume "
        "with what the run had, or start a new run; nothing of it was changed."
      )

  def _find_snapshot(self) -> StoredSnapshot | None:
    """The snapshot to resume from; None to begin with empty tables."""
    if self._snapshots.is_of_earlier_release():
      raise self._other_layout("an earlier layout version")
    stored = self._snapshots.newest()
    if stored is not None and stored.seal.run_id != self.manifest.run_id:
      raise self._other_run(stored.seal.run_id)
    if stored is not None and stored.seal.layout_version != layout.LAYOUT_VERSION:
      raise self._other_layout(f"layout version {stored.seal.layout_version}")
    return stored

  def _make_staging(self) -> None:
    try:
      self._snapshots.prepare()
    except OSError as error:
      raise UserError(
        f"The folder {self._checkpoint_dir} cannot be written ({error.strerror}): make it a folder that you may write."
      ) from None

  def _serve(self, stored: StoredSnapshot | None, port: int) -> reverb.Server:
    manifest = self.manifest
    tables = make_tables(manifest.run_id, manifest.config, manifest.codec, manifest.inline)
    # Reverb's default checkpointer would make a temporary directory for every server. The folder to write to is empty, so Reverb
    # reads the other one.
    checkpointer = DefaultCheckpointer(
      str(self._snapshots.staging), fallback_checkpoint_path=None if stored is None else str(stored.tables)
    )
    try:
      return reverb.Server(tables, port=port or None, checkpointer=checkpointer)
    except (RuntimeError, ValueError) as error:
      reason = str(error).splitlines()[0]
      raise UserError(
        f"The replay server cannot start ({reason}): if this run's tables were changed, give it a new run directory."
      ) from None

  def _keep_private(self) -> None:
    try:
      sockets, self.is_loopback_only = keep_private(self.port)
    except OSError as error:
      print(
        f"The kernel refuses to close port {self.port} to other hosts ({error.strerror}): close it yourself.",
        flush=True,
      )
      return
    assert sockets, f"Reverb does not listen on port {self.port}"

  def _report(self, stored: StoredSnapshot) -> None:
    changes = config_changes(stored.config, self.manifest.config)
    lines = [*stored.damaged, f"Resumed from snapshot {stored.seal.number} of {stored.seal.utc}."]
    if changes:
      lines += ["The config has changed since then:", *(f"  {change}" for change in changes)]
    with contextlib.suppress(OSError):  # The log may be on a full disk.
      print("\n".join(lines), flush=True)

  def _other_layout(self, has: str) -> UserError:
    return UserError(
      f"The checkpoint in {self._checkpoint_dir} has {has}, and this release of slipstream writes {layout.LAYOUT_VERSION}: "
      "resume the run with the release that began it, or start a new run; nothing of it was changed."
    )

  def _other_run(self, run_id: str) -> UserError:
    return UserError(
      f"The checkpoint belongs to run {run_id}, not to {self.manifest.run_id}: resume that run, or name another directory; "
      "nothing of it was changed."
    )

  def _settle_manifest(self) -> None:
    try:
      found = read_stored_manifest(self.connection)
    except OtherLayout as error:
      raise self._other_layout(f"layout version {error.version}") from None
    if found is not None:
      self._check_resumable(found)
    elif self.restored:  # Reverb begins with empty tables if it cannot read a checkpoint's files.
      raise UserError(
        f"Reverb cannot read snapshot {self.resumed_from} in {self._checkpoint_dir}: move its folder away to resume from the one "
        "before it, or start a new run; nothing of it was changed."
      )
    write_manifest(self.connection, self.manifest)

  def _check_resumable(self, found: Manifest) -> None:
    if found.run_id != self.manifest.run_id:
      raise self._other_run(found.run_id)
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

  @property
  def next_snapshot(self) -> int:
    """Number of the snapshot that `checkpoint` writes next."""
    return self._snapshots.next_number

  def checkpoint(self, status: str = "") -> float:
    """Writes the server's part of a snapshot; returns the seconds it took.

    A server that resumes restores all tables at once and answers from then on. So that no role can read the manifest of a
    checkpoint in place of the server's own, no checkpoint holds a settled one; roles that join meanwhile wait.

    Args:
      status: of the run as JSON, for the snapshot; "" for none.

    Raises:
      CheckpointFailed: it could not be written; the earlier ones stay.
      ServerLost: it did not finish in time.
    """
    if not self._is_writing.acquire(blocking=False):
      raise CheckpointFailed("The snapshot before this one is still being written: wait for its end.")
    number = self.next_snapshot
    try:
      began = time.monotonic()
      written = self._checkpoint_tables()
      self._seal(written, number, status)
    except BaseException:
      self._snapshots.note_failure(number)
      with contextlib.suppress(OSError):  # On a full disk, what was begun takes room that others need.
        self._clear_staging()
      raise
    finally:
      self._is_writing.release()
    self.snapshot = number
    return time.monotonic() - began

  def _checkpoint_tables(self) -> pathlib.Path:
    """Lets Reverb write its tables; returns the folder."""
    write_manifest(self.connection, dataclasses.replace(self.manifest, settled=False))
    try:
      self._clear_staging()
      path = self.connection.call(
        self.connection.client.checkpoint, "checkpointing the tables", CHECKPOINT_TIMEOUT_SECONDS
      )
    except (OSError, RuntimeError, LookupError, ValueError) as error:
      # Which of them depends on the status of Reverb's C++ code: a full disk is a RuntimeError or an IndexError, by the file.
      raise self._failed(error) from None
    finally:
      write_manifest(self.connection, self.manifest)
    written = pathlib.Path(path)
    if not (written / DONE_FILE).is_file():
      raise self._failed(FileNotFoundError(errno.ENOENT, f"Reverb left no {DONE_FILE}", path))
    return written

  def _clear_staging(self) -> None:
    """Removes what an earlier try has left; Reverb keeps the checkpoint whose name sorts last, and removes all others."""
    staging = self._snapshots.staging
    staging.mkdir(exist_ok=True)
    for path in staging.iterdir():
      shutil.rmtree(path, ignore_errors=True)

  def _seal(self, written: pathlib.Path, number: int, status: str) -> None:
    seal = Seal(self.manifest.run_id, number, self.epoch, self.manifest.layout_version, snapshot=number)
    try:
      self._snapshots.write(written, seal, self.manifest.config, status)
    except OSError as error:
      raise self._failed(error) from None

  def _failed(self, error: Exception) -> CheckpointFailed:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return CheckpointFailed(
      f"The tables could not be checkpointed to {self._checkpoint_dir} ({reason}): check whether the disk is full and the "
      "directory is writable."
    )

  def stop(self) -> None:
    """Stops the server; rows that are in no snapshot are lost."""
    self.connection.close()
    self._server.stop()
    self._snapshots.close()
    self._lock.release()


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
