"""What the worlds noted, and what the tables of a snapshot hold, compared by the worlds' own numbers."""

import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tests.faults.world import EPISODE_SCALE, LIFE_SCALE, STEP_SCALE

_ROOT = pathlib.Path(__file__).parents[2]
_READ_SECONDS = 600
# A worker that waited for longer between an episode's last step and the next `reset` may have given its rows up meanwhile.
SURE_SECONDS = 1.0

Step = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class Episode:
  """An episode that ended.

  Attributes:
    life: of its world.
    number: in this life.
    steps: its length.
    ended_at: UNIX time of its last step.
    confirmed_at: UNIX time at which the worker went on, which it does when the server has confirmed all rows.
  """

  life: int
  number: int
  steps: int
  ended_at: float
  confirmed_at: float

  @property
  def is_sure(self) -> bool:
    """Whether the worker went on at once, so that the rows must have been confirmed."""
    return self.confirmed_at - self.ended_at < SURE_SECONDS


@dataclasses.dataclass(frozen=True)
class Count:
  """Rows of the default table against the worlds' notes.

  Attributes:
    confirmed: rows that must be there.
    lost: of these, those that are not.
    duplicates: rows beyond the first of a step.
    rows: in the table.
  """

  confirmed: int
  lost: int
  duplicates: int
  rows: int


def read_ledgers(folder: pathlib.Path) -> list[Episode]:
  """The episodes that the worlds noted in `folder`, by the time at which they were confirmed."""
  episodes = []
  for path in folder.glob("*.csv"):
    for line in path.read_text().splitlines():
      life, number, steps, ended_at, confirmed_at = line.split(",")
      episodes.append(Episode(int(life), int(number), int(steps), float(ended_at), float(confirmed_at)))
  return sorted(episodes, key=lambda episode: episode.confirmed_at)


def compare(episodes: Iterable[Episode], rows: Iterable[Step]) -> Count:
  """Counts rows that are missing or doubled.

  Args:
    episodes: whose rows must be in the table, where they are sure.
    rows: of the table: life, episode and step, the step from 0.
  """
  counted = Counter(rows)
  expected = [
    (episode.life, episode.number, step) for episode in episodes if episode.is_sure for step in range(episode.steps)
  ]
  return Count(
    confirmed=len(expected),
    lost=sum(step not in counted for step in expected),
    duplicates=sum(count - 1 for count in counted.values()),
    rows=counted.total(),
  )


def newest_tables(run_dir: pathlib.Path) -> pathlib.Path | None:
  """The folder with the tables that were written last, complete; None if there is none."""
  done = (run_dir / "checkpoints" / "replay").rglob("DONE")
  complete = [mark for mark in done if not any(part.endswith(".partial") for part in mark.parts)]
  return max(complete, key=lambda mark: mark.stat().st_mtime_ns).parent if complete else None


def read_rows(run_dir: pathlib.Path) -> list[Step]:
  """The rows of the default table in the newest snapshot; see `dumped_rows`."""
  return [(life, episode, step) for life, episode, step in dumped_rows(run_dir, "tests.faults.ledger")]


def dumped_rows(run_dir: pathlib.Path, module: str, environment: Mapping[str, str] | None = None) -> Any:
  """What a module writes as JSON of the newest snapshot, read in another process by Reverb and the row codec.

  Args:
    run_dir: of the run.
    module: is run with the run directory, the folder of the tables, and the file to write.
    environment: of that process; None for this one's.

  Raises:
    RuntimeError: there is no snapshot, or it cannot be read.
  """
  tables = newest_tables(run_dir)
  if tables is None:
    raise RuntimeError(f"{run_dir} has no tables")
  with tempfile.TemporaryDirectory() as folder:
    # A name of Reverb's own form, so that it takes it for its latest checkpoint.
    shutil.copytree(tables, pathlib.Path(folder) / "tables" / "2000-01-01T00:00:00.000000+00:00")
    result = pathlib.Path(folder) / "rows.json"
    command = [sys.executable, "-m", module, str(run_dir), f"{folder}/tables", str(result)]
    done = subprocess.run(
      command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=_READ_SECONDS, check=False
    )
    if done.returncode:
      raise RuntimeError(f"the tables of {tables} cannot be read: {done.stderr[-2000:]}")
    return json.loads(result.read_text())


def unpacked_rows(run_dir: pathlib.Path, folder: pathlib.Path) -> Iterator[Mapping[str, Any]]:
  """The rows of a run's default table, field -> value, from a folder of Reverb's checkpoints.

  It must hold at least its min_size.
  """
  import reverb
  from reverb.platform.checkpointers_lib import DefaultCheckpointer

  from configs import load_config
  from launch.roles import row_codec
  from replay_server.contract.layout import wire_name
  from replay_server.contract.reverb_api import Sampler
  from replay_server.process.tables import make_tables

  config = load_config(str(run_dir / "config.json"))
  codec = row_codec(config)
  name = wire_name(run_dir.name, config.replay.default.name)
  tables = make_tables(run_dir.name, config, codec, False)
  server = reverb.Server(tables, port=None, checkpointer=DefaultCheckpointer(str(folder)))
  client = reverb.Client(f"localhost:{server.port}")
  # A restored table keeps its selector, which may draw an item twice. So what was drawn is removed, until that would leave less
  # than the table must hold to be drawn from; then it is drawn from until all have come.
  least = config.replay.default.min_size
  seen: set[int] = set()
  while (size := client.server_info(timeout=30)[name].current_size) > len(seen):
    sampler = Sampler(client, name, size, 64)
    drawn = {sample.key: sample.columns[0] for sample in (sampler.next() for _ in range(size))}
    yield from (codec.unpack(row.reshape(-1)) for key, row in drawn.items() if key not in seen)
    if size - len(drawn.keys() | seen) >= least:
      client.mutate_priorities(name, deletes=[*drawn.keys() | seen])
      seen = set()
    else:
      seen |= drawn.keys()


def _dump(run_dir: pathlib.Path, folder: pathlib.Path, result: pathlib.Path) -> None:
  steps: list[list[int]] = []
  for row in unpacked_rows(run_dir, folder):
    observation = np.asarray(row["observation"], np.float64)
    if not ((observation >= 0) & (observation <= 1)).all():
      continue  # No row of the world, but one of `tests.faults.poison`.
    scaled = observation[:3] * (LIFE_SCALE, EPISODE_SCALE, STEP_SCALE)
    steps.append([int(number) for number in np.rint(scaled)])
  result.write_text(json.dumps(steps))


if __name__ == "__main__":
  import os

  _dump(*map(pathlib.Path, sys.argv[1:4]))
  sys.stdout.flush()
  os._exit(0)  # Without waiting for Reverb's threads.
