"""Faults of snapshots: killed while one is written, a full disk, damaged files."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from tests.faults.case import Case, Outcome, Row, chosen, try_cases
from tests.faults.fleet import (
  LAST_NEWS_SECONDS,
  CaseFailed,
  Fleet,
  Role,
  environment,
  is_left_over,
  slipstream,
  wait_for,
)
from tests.serving import free_port

_DISK_MEGABYTES = 200
_TRIES = 10


def run(folder: pathlib.Path, only: str = "") -> list[Row]:
  """Tries the `chosen` cases on one run."""
  fleet = Fleet(folder / "fleet", workers=2)
  with _small_disk(fleet.run_dir):
    return try_cases(chosen(CASES, only), fleet)


@contextlib.contextmanager
def _small_disk(path: pathlib.Path) -> Iterator[None]:
  """A file system of its own, so that it can be full; without root the folder is an ordinary one."""
  path.mkdir(parents=True, exist_ok=True)
  mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MEGABYTES}m", "tmpfs", str(path)]
  mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
  try:
    yield
  finally:
    if mounted:
      subprocess.run(["umount", "--lazy", str(path)], capture_output=True)


def _kill_while_writing(fleet: Fleet) -> Outcome:
  """SIGKILL as soon as a part is seen that is being written; a snapshot of small tables takes milliseconds, so it is tried."""
  for _ in range(_TRIES):
    safe = fleet.snapshot()
    asking = threading.Thread(target=_ask_quietly, args=(fleet,))
    asking.start()
    deadline = time.monotonic() + 10
    caught = False
    while time.monotonic() < deadline and not caught:
      caught = any((fleet.run_dir / "checkpoints").rglob("*.partial"))
    if caught:
      fleet.signal(signal.SIGKILL, "server")
    since = time.time()
    asking.join()
    if caught:
      steps, updates = fleet.recovery(since)
      left = [path.name for path in fleet.run_dir.rglob("*") if is_left_over(path)]
      return Outcome(steps, updates, fleet.judge.count(before=safe), f"incomplete parts left: {len(left)}")
  raise CaseFailed(f"in {_TRIES} tries no part was seen that was being written")


def _ask_quietly(fleet: Fleet) -> None:
  with contextlib.suppress(CaseFailed):
    fleet.run_command("snapshot", f"--server={fleet.address}")


def _fill_disk(fleet: Fleet) -> Outcome:
  if not os.path.ismount(fleet.run_dir):
    raise CaseFailed("a full disk needs root, to mount a small one")
  filler = fleet.run_dir / "filler"
  fleet.snapshot()
  with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
    while file.write(b"\0" * 65_536) == 65_536:
      pass
  began = time.time()
  asking = threading.Thread(target=_ask_quietly, args=(fleet,))
  asking.start()
  try:
    wait_for(lambda: "check whether the disk is full" in fleet.roles["server"].last_words(), "the server says so")
    time.sleep(5)
    if not fleet.roles["server"].is_running:
      raise CaseFailed("the server has ended")
  finally:
    filler.unlink()
  steps, _ = fleet.recovery(began)
  asking.join()
  return Outcome(steps, None, fleet.judge.count(), "the server said so once and went on")


def _damage_tables(fleet: Fleet) -> Outcome:
  """Each file of the newest snapshot of a copy is cut, and one bit of it is flipped; the one before is taken."""
  for _ in range(2):
    fleet.snapshot()
  tried, slowest = 0, 0.0
  newest = _newest(fleet.run_dir / "checkpoints" / "replay")
  for path in sorted(one for one in newest.rglob("*") if one.is_file()):
    for damage in (_cut, _flip):
      if not path.stat().st_size:
        continue
      relative = path.relative_to(fleet.run_dir)
      seconds = _serve_copy(fleet, lambda copy, relative=relative, damage=damage: damage(copy / relative))  # type: ignore[misc]
      slowest, tried = max(slowest, seconds), tried + 1
  return Outcome(notes=f"{tried} damaged files, each named; served from the snapshot before within {slowest:.0f} s")


def _serve_copy(fleet: Fleet, damage: Callable[[pathlib.Path], None]) -> float:
  copy = fleet.folder / "copies" / "run"
  shutil.rmtree(copy, ignore_errors=True)
  shutil.copytree(fleet.run_dir, copy, ignore=shutil.ignore_patterns("*.lock", "*.partial"))
  damage(copy)
  port = free_port()
  role = Role(
    "copy", slipstream("serve", f"--run_dir={copy}", f"--port={port}"), None, environment(), fleet.folder / "copy.log"
  )
  role.log.unlink(missing_ok=True)
  role.start()
  try:
    return wait_for(lambda: _is_served(role), "a damaged copy is served")
  finally:
    assert role.process is not None
    role.process.kill()
    role.process.wait()
    shutil.rmtree(copy)


def _is_served(role: Role) -> bool:
  if not role.is_running:
    raise CaseFailed(f"the server of a damaged copy has ended: {role.last_words()}")
  words = role.log.read_text(errors="replace")
  if "Serving run" not in words:
    return False
  if "damaged" not in words:
    raise CaseFailed(f"the damaged file is not named: {words[-300:]}")
  return True


def _damage_all(fleet: Fleet) -> Outcome:
  """Of a copy no snapshot is whole: one sentence, exit code 2, and nothing is changed."""
  copy = fleet.folder / "copies" / "run"
  shutil.rmtree(copy, ignore_errors=True)
  shutil.copytree(fleet.run_dir, copy, ignore=shutil.ignore_patterns("*.lock", "*.partial"))
  for path in (copy / "checkpoints" / "replay").rglob("*"):
    if path.is_file() and path.name.endswith("tfrecord"):
      _cut(path)
  before = _state(copy)
  done = fleet.run_command("serve", f"--run_dir={copy}", f"--port={free_port()}")
  if done.returncode != 2 or "Traceback" in done.stdout:
    raise CaseFailed(f"ended with {done.returncode}: {done.stdout[-300:]}")
  if _state(copy) != before:
    raise CaseFailed("the damaged snapshots were changed")
  shutil.rmtree(copy)
  return Outcome(notes=done.stdout.strip().splitlines()[-1][:200])


def _damage_learner(fleet: Fleet) -> Outcome:
  """The newest checkpoint of the learner is damaged while it is down; it goes on from the one before, and names the other."""
  folder = fleet.folder / "learner" / "checkpoints" / "learner"
  log = fleet.roles["learner"].log
  slowest = (0.0, 0.0)
  for name, damage in _LEARNER_DAMAGE:
    wait_for(lambda: len([one for one in folder.iterdir() if one.is_dir()]) > 1, "the learner has two checkpoints", 120)
    with fleet.unsupervised("learner"):
      fleet.signal(signal.SIGTERM, "learner")
      fleet.wait_ended("learner")
      newest = _newest(folder)
      paths = list(newest.rglob(name))
      if not paths:
        raise CaseFailed(f"a checkpoint of the learner has no file {name}")
      for path in paths:
        damage(path)
      written = log.stat().st_size
    began = time.time()
    time.sleep(LAST_NEWS_SECONDS)
    slowest = max(slowest, fleet.recovery(began))
    words = log.read_bytes()[written:].decode(errors="replace")
    if "Traceback" in words or newest.name not in words:
      raise CaseFailed(f"{name} was damaged, and the learner does not name {newest.name}: {words}")
  return Outcome(*slowest, notes=f"{len(_LEARNER_DAMAGE)} kinds of damage, one after the other, each checkpoint named")


def _newest(folder: pathlib.Path) -> pathlib.Path:
  found = (one for one in folder.iterdir() if one.is_dir() and not is_left_over(one))
  return max(found, key=lambda one: (len(one.name), one.name))


def _cut(path: pathlib.Path) -> None:
  data = path.read_bytes()
  path.write_bytes(data[: len(data) // 2])


def _empty(path: pathlib.Path) -> None:
  path.write_bytes(b"")


def _flip(path: pathlib.Path) -> None:
  data = bytearray(path.read_bytes())
  data[len(data) // 2] ^= 1
  path.write_bytes(data)


def _state(folder: pathlib.Path) -> dict[str, int]:
  return {str(path): path.stat().st_size for path in (folder / "checkpoints" / "replay").rglob("*") if path.is_file()}


_LEARNER_DAMAGE: Sequence[tuple[str, Callable[[pathlib.Path], None]]] = (
  ("*.data*", _cut),
  ("*.index", _empty),
  ("counters.json", _empty),
  ("*.npz", _flip),
  ("snapshot.json", _cut),
)

CASES = [
  Case("snapshot", "SIGKILL of the server while it writes a snapshot", _kill_while_writing),
  Case("snapshot", "the disk is full when a snapshot is due", _fill_disk),
  Case("snapshot", "each file of the newest snapshot of the tables is cut, or one bit of it flipped", _damage_tables),
  Case("snapshot", "every snapshot of the tables is damaged", _damage_all),
  Case("snapshot", "files of the learner's newest checkpoint are damaged", _damage_learner),
]
