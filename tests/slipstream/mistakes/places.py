"""What the command lines of the table are about: files of every kind, runs that are damaged in every way, and servers."""

import contextlib
import dataclasses
import functools
import json
import pathlib
import re
import shutil
import socket
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import reverb

from configs import override
from configs.files import FileLock
from consoles.client import Console
from replay_server.contract.connection import Connection
from replay_server.contract.messages import encode_text
from replay_server.process.server import ReplayServer
from slipstream.commands import COMMANDS
from slipstream.main import run
from tests.actors.running import SPEC, make_run
from tests.certificates import Authority, make_expired
from tests.consoles.serving import served, served_later
from tests.serving import serving, write_former_checkpoint, write_version_2

_TINY = (
  "--config.environment_steps=400 --config.replay.default.min_size=100 --config.actor.random_steps=100 "
  "--config.learner.updates_per_block=8 --config.network.hidden_sizes=[8] --config.evaluator.solved_evaluations=0 "
  "--config.environment.arguments.room_size=2 --config.environment.arguments.time_limit=12"
)
# Its world fails as `environment.arguments` says.
_FAULTY = {
  "name": "faulty",
  "environment": {"name": "tests.faulty_world:Faulty"},
  "events": [{"name": "ended", "condition": "environments.conditions:EpisodeEnd", "history": 3}],
  "replay": {
    "default": {"name": "default", "probability": 0.5, "min_size": 10},
    "tables": [{"name": "ended", "probability": 0.5}],
  },
}
_FILES = {
  "file": "",
  "full/file": "",
  "begun.json": "{",
  "list.json": "[1]",
  "faulty.json": json.dumps(_FAULTY),
  "deep.json": "[" * 100_000,
  "typing_error.json": '{"sed": 1}',
  "infinite.json": '{"environment_steps": 1e400}',
  "without.py": "CONFIG = 3",
  "returns_3.py": "def get_config():\n  return 3",
  "syntax.py": "def get_config(:",
  "exits.py": "raise SystemExit(3)",
  "text.npz": "no policy",
}


@dataclasses.dataclass(frozen=True)
class Places:
  """Where the command lines of the table find what they name.

  Attributes:
    folder: the working folder of every command.
    names: placeholder in the table -> what stands for it here.
  """

  folder: pathlib.Path
  names: Mapping[str, str]

  def fill_in(self, text: str) -> str:
    """`text` with the names of this run of the tests for the table's."""
    for placeholder, name in self.names.items():
      text = text.replace(placeholder, name)
    return text

  def take_out(self, text: str) -> str:
    """`text` with the table's names for those of this run of the tests, and for what no run can know."""
    for placeholder, name in self.names.items():
      text = text.replace(name, placeholder)
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{4}", "RUN_ID", text)
    text = re.sub(r"held by process \d+ on \S+ for \d+ s, who was heard [\d.]+ s ago", "held by WORKER", text)
    text = re.sub(r"(does not answer) \(.*?\):", r"\1 (WHY):", text)
    text = re.sub(r"(bytes and had) [\d,]+", r"\1 BYTES", text)
    return re.sub(r"(this machine has) [\d.]+ [kMGT]?B", r"\1 MEMORY", text)


@contextlib.contextmanager
def made_places(folder: pathlib.Path) -> Iterator[Places]:
  """Makes everything in `folder`; the servers end with the `with` statement."""
  _write_files(folder)
  finished = _finished_run(folder)
  shutil.copy(finished / "checkpoints" / "policy" / "latest.npz", folder / "policy.npz")
  _damage(folder, finished, _DAMAGES)
  in_memory = _finished_run(folder, "in_memory", "--config.replay.sampling=memory")
  _damage(folder, in_memory, _DAMAGES_IN_MEMORY)
  with contextlib.ExitStack() as stack:
    ports = {name: stack.enter_context(_SERVERS[name](folder)) for name in _SERVERS}
    lock = FileLock(folder / "locked" / finished.name / "checkpoints" / "replay.lock", "")
    stack.callback(lock.release)
    yield Places(
      folder,
      {
        "TMP": str(folder),
        "FINISHED": finished.name,
        "IN_MEMORY": in_memory.name,
        "COMMANDS": ", ".join(COMMANDS),
        **{name: str(port) for name, port in ports.items()},
      },
    )


def _write_files(folder: pathlib.Path) -> None:
  for name in ("empty", "full", "folder.json", "folder.npz", "folder.png"):
    (folder / name).mkdir()
  for name, text in _FILES.items():
    (folder / name).write_text(text)
  (folder / "secret").touch(mode=0o600)
  if shutil.which("openssl"):
    _make_certificates(folder)
  (folder / "bytes.json").write_bytes(b"\xff\xfe")
  (folder / "bytes.py").write_bytes(b"\xff\xfe")


def _make_certificates(folder: pathlib.Path) -> None:
  ours, theirs = Authority(folder / "tls"), Authority(folder / "other")
  ours.run("server", "localhost")
  ours.run("role", "alice", "bob")
  make_expired(ours)
  theirs.run("role", "mallory")


def _finished_run(folder: pathlib.Path, root: str = "runs", *changes: str) -> pathlib.Path:
  """The directory of a short run."""
  command = ["train", "--config=three_rooms", "--inline", "--quiet", f"--run_root={folder / root}", *_TINY.split()]
  assert run([*command, *changes]) == 0
  (directory,) = (folder / root / "three_rooms").iterdir()
  return directory


def _damage(
  folder: pathlib.Path, finished: pathlib.Path, damages: Mapping[str, Callable[[pathlib.Path], None]]
) -> None:
  for name, damage in damages.items():
    copy = folder / name / finished.name
    shutil.copytree(finished, copy)
    damage(copy)


def _as_file(path: str) -> Callable[[pathlib.Path], None]:
  def damage(directory: pathlib.Path) -> None:
    shutil.rmtree(directory / path)
    (directory / path).write_text("")

  return damage


def _with_content(pattern: str, content: bytes) -> Callable[[pathlib.Path], None]:
  def damage(directory: pathlib.Path) -> None:
    for path in list(directory.glob(pattern)):
      path.unlink()  # Some are hard links to each other.
      path.write_bytes(content)

  return damage


def _without(path: str) -> Callable[[pathlib.Path], None]:
  return lambda directory: shutil.rmtree(directory / path)


def _renamed(directory: pathlib.Path) -> None:
  directory.rename(directory.with_name("another_name"))


def _with_lock_folder(directory: pathlib.Path) -> None:
  (directory / "checkpoints" / "replay.lock").unlink(missing_ok=True)
  (directory / "checkpoints" / "replay.lock").mkdir()


def _of_former_release(directory: pathlib.Path) -> None:
  shutil.rmtree(directory / "checkpoints" / "replay")
  write_former_checkpoint(directory / "checkpoints" / "replay")


def _with_header(**changes: Any) -> Callable[[pathlib.Path], None]:
  """Changes what the learner's files of rows say of themselves; see `replay_memory/journal.py`."""

  def damage(directory: pathlib.Path) -> None:
    header = struct.Struct("<8sII")
    for path in (directory / "checkpoints" / "learner" / "rows").iterdir():
      content = path.read_bytes()
      magic, size, _ = header.unpack_from(content)
      end = header.size + size
      text = json.dumps({**json.loads(content[header.size : end]), **changes}).encode()
      path.write_bytes(header.pack(magic, len(text), zlib.crc32(text)) + text + content[end:])

  return damage


# Folder of a copy of the finished run -> how it is damaged.
_DAMAGES: Mapping[str, Callable[[pathlib.Path], None]] = {
  "locked": lambda directory: None,
  "renamed": _renamed,
  "logs_is_a_file": _as_file("logs"),
  "videos_is_a_file": _as_file("videos"),
  "learner_is_a_file": _as_file("checkpoints/learner"),
  "lock_is_a_folder": _with_lock_folder,
  "config_is_begun": _with_content("config.json", b"{"),
  "config_is_bytes": _with_content("config.json", b"\xff\xfe"),
  "status_is_begun": _with_content("status.json", b"{"),
  "networks_are_bytes": _with_content("checkpoints/learner/*/networks*", b"junk"),
  "source_is_bytes": _with_content("checkpoints/learner/*/source.npz", b"junk"),
  "counters_are_bytes": _with_content("checkpoints/learner/*/counters.json", b"junk"),
  "policies_are_bytes": _with_content("checkpoints/policy/*.npz", b"PK\x03\x04junk"),
  "no_policy": _without("checkpoints/policy"),
  "no_tables": _without("checkpoints/replay"),
  "tables_are_bytes": _with_content("checkpoints/replay/*/tables/*.tfrecord", b"junk"),
  "seal_is_missing": lambda directory: (directory / "checkpoints" / "replay" / "000001" / "snapshot.json").unlink(),
  "former_release": _of_former_release,
}

# The same of the run whose learner has its own memory.
_DAMAGES_IN_MEMORY: Mapping[str, Callable[[pathlib.Path], None]] = {
  "rows_of_another_run": _with_header(run_id="20260101-000000-beef"),
  "rows_of_another_layout": _with_header(layout_version=5),
}


@contextlib.contextmanager
def _nobody(folder: pathlib.Path) -> Iterator[int]:
  del folder
  with socket.socket() as bound:  # But not listening, so nobody answers, and nobody else can take the port.
    bound.bind(("localhost", 0))
    yield bound.getsockname()[1]


@contextlib.contextmanager
def _silent(folder: pathlib.Path) -> Iterator[int]:
  """Accepts connections and says nothing, like a server of something else."""
  del folder
  with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
    yield server.getsockname()[1]


@contextlib.contextmanager
def _foreign(folder: pathlib.Path) -> Iterator[int]:
  """A Reverb server with tables of its own."""
  del folder
  server = reverb.Server([reverb.Table.queue("other", 1)])
  try:
    yield server.port
  finally:
    server.stop()


@contextlib.contextmanager
def _bare(folder: pathlib.Path) -> Iterator[int]:
  """A server of this project's tables that holds no run."""
  del folder
  server = reverb.Server([reverb.Table.queue(name, 1) for name in ("run", "status")])
  try:
    yield server.port
  finally:
    server.stop()


@contextlib.contextmanager
def _theirs(folder: pathlib.Path) -> Iterator[int]:
  """A Reverb server of another project, with a table of the same name."""
  with _bare(folder) as port:
    Connection(f"localhost:{port}").writer().write("run", [encode_text("theirs")])
    yield port


def _port(server: ReplayServer) -> int:
  return int(server.address.rpartition(":")[2])


@contextlib.contextmanager
def _inline(folder: pathlib.Path) -> Iterator[int]:
  with serving(make_run(), folder / "inline", SPEC, inline=True) as server:
    yield _port(server)


@contextlib.contextmanager
def _version_2(folder: pathlib.Path) -> Iterator[int]:
  with serving(make_run(), folder / "version_2", SPEC) as server:
    write_version_2(server.connection, make_run(), "run")
    yield _port(server)


@contextlib.contextmanager
def _elsewhere(folder: pathlib.Path) -> Iterator[int]:
  """A run whose world is installed on another machine only."""
  config = override(make_run(), {"environment.name": "their_worlds:Maze", "environment.arguments": "{}"})
  with serving(config, folder / "elsewhere", SPEC) as server:
    yield _port(server)


@contextlib.contextmanager
def _other_world(folder: pathlib.Path) -> Iterator[int]:
  """A run whose world gives other observations on this machine."""
  config = override(make_run(), {"environment.name": "CartPole-v1", "environment.arguments": "{}"})
  with serving(config, folder / "other_world", SPEC) as server:
    yield _port(server)


@contextlib.contextmanager
def _running(folder: pathlib.Path) -> Iterator[int]:
  with serving(make_run(), folder / "running", SPEC) as server:
    yield _port(server)


@contextlib.contextmanager
def _warming_up(folder: pathlib.Path) -> Iterator[int]:
  """A run whose workers begin without a policy."""
  with serving(make_run(random_steps=1_000_000), folder / "warming_up", SPEC) as server:
    yield _port(server)


@contextlib.contextmanager
def _console(folder: pathlib.Path, world: str = "three_rooms") -> Iterator[int]:
  del folder
  with served(world) as console:
    yield int(console.address.rpartition(":")[2])


@contextlib.contextmanager
def _later(folder: pathlib.Path) -> Iterator[int]:
  """A console of another version of the protocol."""
  del folder
  with served_later() as address:
    yield int(address.rpartition(":")[2])


@contextlib.contextmanager
def _held(folder: pathlib.Path) -> Iterator[int]:
  """A console on which another worker plays."""
  with _console(folder) as port, contextlib.closing(Console(f"localhost:{port}")) as other:
    other.reset()
    yield port


# Placeholder -> the port that stands for it.
_SERVERS: Mapping[str, Callable[[pathlib.Path], contextlib.AbstractContextManager[int]]] = {
  "NOBODY": _nobody,
  "SILENT": _silent,
  "FOREIGN": _foreign,
  "BARE": _bare,
  "THEIRS": _theirs,
  "INLINE": _inline,
  "VERSION_2": _version_2,
  "ELSEWHERE": _elsewhere,
  "OTHER_WORLD": _other_world,
  "RUNNING": _running,
  "WARMING_UP": _warming_up,
  "PLAYS_ROOMS": _console,
  "PLAYS_CART_POLE": functools.partial(_console, world="CartPole-v1"),
  "SPEAKS_LATER": _later,
  "HELD": _held,
}
