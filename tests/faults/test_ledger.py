"""How the fault suite counts rows, with a real server's tables."""

import pathlib

import numpy as np

from configs import to_json
from launch.roles import environment_spec
from replay_server.process.server import ReplayServer
from tests.faults.fleet import make_config
from tests.faults.ledger import Count, Episode, compare, read_ledgers, read_rows
from tests.faults.world import EPISODE_SCALE, LEDGER, LIFE_SCALE, STEP_SCALE, Counted
from tests.serving import fill


def _episode(number: int, steps: int, waited: float = 0.0) -> Episode:
  return Episode(7, number, steps, 100.0, 100.0 + waited)


def _observation(life: int, episode: int, step: int) -> np.ndarray:
  return np.array([life / LIFE_SCALE, episode / EPISODE_SCALE, step / STEP_SCALE, 0.0], np.float32)


def test_rows_lost_and_doubled_are_counted_by_the_worlds_numbers() -> None:
  rows = [(7, 0, 0), (7, 0, 1), (7, 0, 1), (7, 2, 0)]
  episodes = [_episode(0, 3), _episode(1, 2), _episode(2, 1), _episode(3, 5, waited=2.0)]
  assert compare(episodes, rows) == Count(confirmed=6, lost=3, duplicates=1, rows=4)


def test_a_world_notes_an_episode_when_the_next_one_begins(tmp_path: pathlib.Path, monkeypatch) -> None:
  monkeypatch.setenv(LEDGER, str(tmp_path))
  world = Counted(length=5, pause=0.0)
  first, _ = world.reset()
  while not any(world.step(0)[2:4]):
    pass
  assert read_ledgers(tmp_path) == []
  world.reset()
  world.step(1)
  world.reset()  # An episode that has not ended was not confirmed.
  (noted,) = read_ledgers(tmp_path)
  assert (noted.life, noted.number, noted.steps, noted.is_sure) == (round(first[0] * LIFE_SCALE), 0, 5, True)


def test_every_row_of_a_snapshot_is_read_once(tmp_path: pathlib.Path) -> None:
  config, run_dir = make_config(workers=1), tmp_path / "a_run"
  steps = [(life, episode, step) for life in (3, 2**20 - 1) for episode in (0, 1_000) for step in range(100)]
  with ReplayServer(config, environment_spec(config), "a_run", run_dir / "checkpoints" / "replay") as server:
    (run_dir / "config.json").write_text(to_json(config))
    fill(server.connection, server.manifest.codec, "default", [{"observation": _observation(*step)} for step in steps])
    fill(
      server.connection,
      server.manifest.codec,
      "default",
      [{"observation": _observation(3, 0, 0)}],
    )
    server.checkpoint()
  assert sorted(read_rows(run_dir)) == sorted([*steps, (3, 0, 0)])
