"""Animations of greedy episodes while a run goes on."""

import contextlib
import dataclasses
import pathlib
import threading
import time
from collections.abc import Iterator

import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from configs import EnvironmentConfig, RunConfig, Stopped, UserError
from launch import videos
from launch.run_directory import RunDirectory
from launch.videos import VIDEOS_BOARD, Camera, camera_of, check_videos
from slipstream.main import run as run_command
from tests.actors.running import TIME_LIMIT, make_run, snapshot
from tests.serving import wait_for


def _config(period_seconds: float | None = 1e-6, environment: EnvironmentConfig | None = None) -> RunConfig:
  run = make_run()
  evaluator = dataclasses.replace(run.evaluator, video_period_seconds=period_seconds)
  return dataclasses.replace(run, evaluator=evaluator, environment=environment or run.environment)


@contextlib.contextmanager
def _camera(
  folder: pathlib.Path, period_seconds: float = 1e-6, stop: threading.Event | None = None
) -> Iterator[Camera]:
  with camera_of(_config(period_seconds), RunDirectory(folder), stop or threading.Event()) as camera:
    assert camera is not None
    yield camera


def _film(camera: Camera, environment_steps: int) -> None:
  before = time.monotonic()
  wait_for(lambda: time.monotonic() > before)  # The period of a microsecond.
  camera.film(snapshot(1), environment_steps)


def _names(folder: pathlib.Path) -> list[str]:
  return sorted(path.name for path in (folder / "videos").iterdir())


def _on_board(folder: pathlib.Path) -> dict[int, bytes]:
  """Environment steps -> animation, of what TensorBoard reads."""
  board = EventAccumulator(str(folder / VIDEOS_BOARD)).Reload()
  return {image.step: image.encoded_image_string for image in board.Images(videos.TAG)}


def test_a_film_is_the_same_animation_in_the_folder_and_in_tensorboard(tmp_path: pathlib.Path) -> None:
  with _camera(tmp_path) as camera:
    _film(camera, 500)
  (path,) = (tmp_path / "videos").iterdir()
  assert path.name == "steps_500.gif"
  assert _on_board(tmp_path) == {500: path.read_bytes()}
  with Image.open(path) as animation:
    assert max(animation.size) <= videos.MOST_PIXELS
    assert 1 < animation.n_frames <= TIME_LIMIT + 1  # type: ignore[attr-defined]  # Of an animation alone.


def test_only_the_last_films_are_kept(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(videos, "KEPT_VIDEOS", 2)
  (tmp_path / "videos").mkdir()
  (tmp_path / "videos" / "greedy_path.gif").write_bytes(b"of another kind")
  with _camera(tmp_path) as camera:
    for steps in (200, 300, 1_000, 1_100, 1_200, 1_300, 1_400):
      _film(camera, steps)
  assert _names(tmp_path) == ["greedy_path.gif", "steps_1300.gif", "steps_1400.gif"]
  assert list(_on_board(tmp_path)) == [1_200, 1_300, 1_400]


def test_nothing_is_filmed_before_the_period_has_passed(tmp_path: pathlib.Path) -> None:
  with _camera(tmp_path, period_seconds=1_000.0) as camera:
    camera.film(snapshot(1), 100)
    camera.film(snapshot(2), 200)
  assert _names(tmp_path) == ["steps_100.gif"]


def test_a_film_that_cannot_be_written_is_a_line_in_the_log_and_the_next_one_is_tried(
  tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  (tmp_path / "videos").write_text("")
  with _camera(tmp_path) as camera:
    _film(camera, 100)
    assert capsys.readouterr().out.startswith("The video could not be written ([Errno 17] File exists: ")
    (tmp_path / "videos").unlink()
    _film(camera, 200)
  assert _names(tmp_path) == ["steps_200.gif"]


def test_a_film_ends_when_the_run_stops(tmp_path: pathlib.Path) -> None:
  stop = threading.Event()
  stop.set()
  with _camera(tmp_path, stop=stop) as camera, pytest.raises(Stopped):
    camera.film(snapshot(1), 100)


def test_without_a_period_or_a_folder_there_is_no_camera(
  tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  with camera_of(_config(None), RunDirectory(tmp_path), threading.Event()) as camera:
    assert camera is None
  assert capsys.readouterr().out == ""
  with camera_of(_config(), None, threading.Event()) as camera:
    assert camera is None
  assert capsys.readouterr().out == "No videos are recorded: give --run_dir, the folder for them.\n"


def test_a_world_without_pictures_is_refused_only_if_it_is_to_be_filmed() -> None:
  blind = EnvironmentConfig("tests.faulty_world:Faulty")
  check_videos(_config(None, blind))
  check_videos(_config())
  with pytest.raises(UserError, match=r"^Environment 'tests\.faulty_world:Faulty' renders no pictures: let it support"):
    check_videos(_config(1.0, blind))


def test_an_inline_run_is_filmed_while_it_goes_on(tmp_path: pathlib.Path) -> None:
  command = (
    "train --config=three_rooms --inline --quiet --video_period_seconds=0.001 --config.environment_steps=400 "
    "--config.replay.default.min_size=100 --config.learner.updates_per_block=8 --config.network.hidden_sizes=[8] "
    "--config.environment.arguments.room_size=2 --config.environment.arguments.time_limit=12 "
    "--config.evaluator.period_updates=8 --config.evaluator.solved_evaluations=0"
  )
  assert run_command([*command.split(), f"--run_root={tmp_path}"]) == 0
  (directory,) = (tmp_path / "three_rooms").iterdir()
  filmed = [name for name in _names(directory) if name.startswith("steps_")]
  assert len(filmed) >= 2
  assert sorted(f"steps_{steps}.gif" for steps in _on_board(directory)) == filmed
