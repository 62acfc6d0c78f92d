"""The run directory, runs/<name>/<run id>/, and the places of its files."""

import dataclasses
import datetime as dt
import errno
import json
import os
import pathlib
import secrets
import sys
import tempfile

from configs import RunConfig, UserError, to_json
from configs.files import replace_text
from configs.loading import read_config_file
from configs.specs import check_name
from configs.versions import library_versions

_FAILURE_SUFFIX = ".failure.json"
# What a new file system holds.
_IGNORED = ("lost+found",)


@dataclasses.dataclass(frozen=True)
class RunDirectory:
  """Paths of one run.

  Attributes:
    path: of the directory; its name is the run id.
  """

  path: pathlib.Path

  @property
  def run_id(self) -> str:
    """The run's id."""
    return self.path.name

  @property
  def is_begun(self) -> bool:
    """Whether this directory holds a run."""
    return self.config.is_file()

  @property
  def config(self) -> pathlib.Path:
    """The config as JSON."""
    return self.path / "config.json"

  @property
  def server(self) -> pathlib.Path:
    """Says where the run's server is, see `launch.server_place`."""
    return self.path / "server.json"

  @property
  def checkpoints(self) -> pathlib.Path:
    """Holds learner/, policy/ and replay/."""
    return self.path / "checkpoints"

  @property
  def replay_checkpoint(self) -> pathlib.Path:
    """The server's own directory of checkpoints."""
    return self.checkpoints / "replay"

  @property
  def logs(self) -> pathlib.Path:
    """What each role printed, and why it failed if it did."""
    return self.path / "logs"

  @property
  def videos(self) -> pathlib.Path:
    """Recorded episodes."""
    return self.path / "videos"

  def read_config(self) -> RunConfig:
    """The run's config.

    Raises:
      UserError: this is no run directory.
    """
    if not self.is_begun:
      raise UserError(f"{self.path} is not a run directory (it has no config.json): name one below runs/.")
    return read_config_file(self.config)

  def check_writable(self, what_to_do: str) -> None:
    """Makes the folders that every role needs, and checks that files can be written there.

    Args:
      what_to_do: the end of the sentence if that fails.

    Raises:
      UserError: a folder cannot be made or written.
    """
    try:
      for folder in (self.path, self.logs, self.checkpoints):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
          pass
      for folder in (self.replay_checkpoint, self.checkpoints / "learner", self.checkpoints / "policy"):
        if folder.exists() and not folder.is_dir():
          raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    except OSError as error:
      raise UserError(f"The run directory {self.path} cannot be written ({_reason(error)}): {what_to_do}") from None

  def write_config(self, config: RunConfig) -> None:
    """Stores the config that the run now has, overrides included, for the next time it is resumed."""
    replace_text(self.config, to_json(config))


def _reason(error: OSError) -> str:
  return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)


def create_run_directory(config: RunConfig, root: pathlib.Path) -> RunDirectory:
  """Makes a new run's directory below `root`, with its config and the versions of its libraries.

  Raises:
    UserError: it cannot be written.
  """
  while True:
    now = dt.datetime.now(dt.timezone.utc).strftime("%Y%m%d-%H%M%S")
    path = root / config.name / f"{now}-{secrets.token_hex(2)}"
    if not path.exists():  # Of several runs of one second, two may draw the same name.
      return begin_run_directory(config, path, "--run_root")


def begin_run_directory(config: RunConfig, path: pathlib.Path, flag: str) -> RunDirectory:
  """Makes a new or empty folder a new run's directory, with its config and the versions of its libraries.

  Args:
    config: of the run.
    path: of the folder; its name becomes the run's id.
    flag: that chose the place, for the sentences.

  Raises:
    UserError: the folder cannot be written, its name is no name for a run, or it holds other files.
  """
  run = RunDirectory(path.resolve())
  check_name("Run", run.run_id)
  try:
    if run.path.is_dir() and any(entry.name not in _IGNORED for entry in run.path.iterdir()):
      raise UserError(
        f"{run.path} holds files, but no run: name a new or an empty folder, or a run directory, with {flag}."
      )
    run.logs.mkdir(parents=True, exist_ok=True)
    (run.path / "versions.txt").write_text(
      "".join(f"{name}=={version}\n" for name, version in library_versions().items())
    )
    run.write_config(config)  # Last, as it makes the folder a run directory.
  except OSError as error:
    raise UserError(
      f"The run directory {run.path} cannot be written ({error.strerror}): choose another place with {flag}."
    ) from None
  return run


def open_run_directory(path: str) -> RunDirectory:
  """The directory of an earlier run that is to be resumed.

  Raises:
    UserError: `path` is not a run directory, cannot be written, or the run's tables were never checkpointed.
  """
  from replay_server.process.server import has_checkpoint  # Here, so that a command's help does not load Reverb.

  run = RunDirectory(pathlib.Path(path).resolve())
  run.read_config()
  if not has_checkpoint(run.replay_checkpoint):
    raise UserError(
      f"Run {run.run_id} ended before its tables were checkpointed, so it cannot be resumed: start a new one."
    )
  run.check_writable("make it a folder that you may write, or resume a copy of it.")
  return run


@dataclasses.dataclass(frozen=True)
class Failure:
  """Why a role failed.

  Attributes:
    role: name of its process.
    sentence: the reason, for the user.
    exit_code: of the process.
    trace: the traceback of the user's own code, if that is what failed; else empty.
  """

  role: str
  sentence: str
  exit_code: int
  trace: str = ""


def failure_file(logs: pathlib.Path, role: str) -> pathlib.Path:
  """The file in which a launcher looks for the failure of a role."""
  return logs / f"{role}{_FAILURE_SUFFIX}"


def role_of(path: pathlib.Path) -> str:
  """The role whose `failure_file` this is."""
  return path.name.removesuffix(_FAILURE_SUFFIX)


def write_failure(path: pathlib.Path, failure: Failure) -> None:
  """Writes a failure to a `failure_file`; prints a sentence if that is impossible, as on a full disk."""
  try:
    replace_text(path, json.dumps(dataclasses.asdict(failure)))
  except OSError as error:
    print(f"{path} cannot be written ({error.strerror}).", file=sys.stderr, flush=True)


def take_failures(logs: pathlib.Path) -> list[Failure]:
  """Reads and removes the failures of a run's roles, oldest first, so that none is reported twice."""
  paths = sorted(logs.glob(f"*{_FAILURE_SUFFIX}"), key=lambda path: path.stat().st_mtime)
  failures = [_read_failure(path) for path in paths]
  for path in paths:
    path.unlink()
  return failures


def _read_failure(path: pathlib.Path) -> Failure:
  try:
    return Failure(**json.loads(path.read_text()))
  except (ValueError, TypeError):
    role = role_of(path)
    return Failure(role, f"It failed and left no reason: see the logs in {path.parent}.", 1)
