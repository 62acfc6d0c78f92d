"""What the end of a run leaves for people and for scripts."""

import dataclasses
import json
import math
import operator
import pathlib
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image

from configs import load_config, override
from configs.algorithms import ALGORITHMS
from launch import drawing, report
from launch.finish import finish
from launch.run_directory import RunDirectory
from replay_server.contract.status import Evaluation, RunStatus, TableStatus
from replay_server.process.recorder import METRICS_FILE

_WHITE, _RED = 255, (200, 0, 0)


def _status(**changes: Any) -> RunStatus:
  status = RunStatus(
    run_id="id",
    name="three_rooms",
    phase="exhausted",
    wall_seconds=123.4567,
    environment_steps=1_000,
    environment_steps_budget=1_000,
    gradient_steps=100,
    policy_version=3,
    environment_steps_per_second=10.0,
    gradient_steps_per_second=1.0,
    episodes=12,
    recent_return=-0.5,
    recent_length=80.0,
    evaluations=(Evaluation(900, 90, 3, 0.75, 20.0, True, 100.0),),
    solved_streak=1,
    solved_evaluations=4,
    tables=(_table("default", 1_000), _table("at_gap", 50), _table("done", 0)),
    roles=(),
    learner={},
  )
  return dataclasses.replace(status, **changes)


def _table(name: str, size: int) -> TableStatus:
  return TableStatus(name, size, 1_000, size, 0.0, 0.0)


def _write_metrics(run_dir: pathlib.Path, rows: list[str]) -> None:
  header = "environment_steps,recent_return,eval_return,eval_solved"
  (run_dir / METRICS_FILE).write_text("\n".join([header, *rows, ""]))


def _write_config(run_dir: pathlib.Path, name: str, solved_evaluations: int) -> None:
  config = {"name": name, "evaluator": {"solved_evaluations": solved_evaluations}}
  (run_dir / "config.json").write_text(json.dumps(config))


def _titles(run_dir: pathlib.Path) -> tuple[str, str]:
  """The titles at the left and at the right of the curve: the run's name, and where it was solved."""
  (axes,) = drawing.draw_learning_curve(run_dir).axes
  return axes.get_title(loc="left"), axes.get_title(loc="right")


def _has_colour(path: pathlib.Path, colour: str) -> bool:
  wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
  with Image.open(path) as picture:
    return bool((np.asarray(picture.convert("RGB")) == wanted).all(axis=-1).sum() > 20)


def _colours(path: pathlib.Path) -> tuple[bool, bool, bool]:
  """Whether the curve shows the training line, the evaluator's and the mark where it was solved."""
  return (
    _has_colour(path, drawing.TRAIN_COLOUR),
    _has_colour(path, drawing.EVALUATOR_COLOUR),
    _has_colour(path, drawing.SOLVED_COLOUR),
  )


@pytest.mark.parametrize(
  ("rows", "shown"),
  [
    ([], (False, False, False)),
    (["100,,,"], (False, False, False)),
    (["100,-1,,"], (True, False, False)),
    (["100,,0.5,0"], (False, True, False)),
    (["100,-1,,", "200,-0.5,,", "200,,0.5,1", "300,,0.7,1"], (True, True, True)),
    (["100,-1,,", "200,-0.5,,", "200,,0.5,1", "300,,0.7,0"], (True, True, False)),
  ],
)
def test_the_curve_shows_what_was_measured(
  tmp_path: pathlib.Path, rows: list[str], shown: tuple[bool, bool, bool]
) -> None:
  _write_config(tmp_path, "run", 2)
  _write_metrics(tmp_path, rows)
  path = drawing.save_learning_curve(tmp_path)
  assert path == tmp_path / "learning_curve.png"
  with Image.open(path) as picture:
    assert picture.size == (1050, 600)
  assert _colours(path) == shown


def test_importance_weights_are_drawn_between_their_limits(tmp_path: pathlib.Path) -> None:
  _write_config(tmp_path, "run", 2)
  for number in (9, 10):
    folder = tmp_path / "checkpoints" / "learner" / f"checkpoint_{number}"
    folder.mkdir(parents=True)
    kept = {"log_ratio_counts": [number, 30, 10], "log_ratio_edges": [-1.5, -0.5, 0.5, 1.5], "largest_ratio": math.e}
    np.savez(folder / "source.npz", **{f"closeness/{name}": np.array(value) for name, value in kept.items()})
  assert drawing.save_log_ratios(tmp_path) == tmp_path / "log_ratios.png"
  (axes,) = drawing.draw_log_ratios(np.array([10, 30, 10]), np.array([-1.5, -0.5, 0.5, 1.5]), math.e, "run").axes
  assert [np.asarray(line.get_xdata())[0] for line in axes.lines] == [-1.0, 1.0]
  assert (axes.get_title("left"), axes.get_title("right")) == ("run", "c_max 2.72, 50 steps in memory")


def test_there_is_no_picture_of_importance_weights_without_any(tmp_path: pathlib.Path) -> None:
  assert drawing.save_log_ratios(tmp_path) is None
  folder = tmp_path / "checkpoints" / "learner" / "checkpoint_1"
  folder.mkdir(parents=True)
  np.savez(folder / "source.npz", updates=np.zeros(3))
  assert drawing.save_log_ratios(tmp_path) is None


def test_the_curve_needs_neither_a_config_nor_metrics(tmp_path: pathlib.Path) -> None:
  assert _colours(drawing.save_learning_curve(tmp_path)) == (False, False, False)


def test_the_curve_is_named_after_the_config_or_else_the_directory(tmp_path: pathlib.Path) -> None:
  _write_metrics(tmp_path, [f"{steps},,1,1" for steps in range(1, 6)])
  assert _titles(tmp_path) == (tmp_path.name, "")
  _write_config(tmp_path, "three_rooms", 4)
  assert _titles(tmp_path) == ("three_rooms", "solved at 4 steps")
  (tmp_path / "config.json").write_text("[")
  assert _titles(tmp_path) == (tmp_path.name, "")


@pytest.mark.parametrize(
  ("rows", "mark"),
  [
    (["1,,,1", "2,,,1"], "solved at 2 steps"),
    (["1,,,1", "2,,,0", "3,,,1"], ""),
    (["1,,,1", "2,,,0", "3,,,1", "4,,,1", "5,,,1"], "solved at 4 steps"),
    (["1,,,"], ""),
  ],
)
def test_a_run_is_solved_at_the_evaluation_that_completes_the_streak(
  tmp_path: pathlib.Path, rows: list[str], mark: str
) -> None:
  _write_config(tmp_path, "run", 2)
  _write_metrics(tmp_path, rows)
  assert _titles(tmp_path) == ("run", mark)


def test_a_run_without_a_known_goal_is_never_marked_solved(tmp_path: pathlib.Path) -> None:
  _write_config(tmp_path, "run", 0)
  _write_metrics(tmp_path, ["1,,,0", "2,,,1"])
  assert _titles(tmp_path) == ("run", "")


def test_rows_that_a_resumed_run_went_through_again_are_left_out(tmp_path: pathlib.Path) -> None:
  _write_metrics(tmp_path, [f"{steps},,1,0" for steps in (1, 2, 3, 2, 2, 4)])
  (axes,) = drawing.draw_learning_curve(tmp_path).axes
  (line,) = axes.get_lines()
  assert np.asarray(line.get_xdata()).tolist() == [1, 2, 2, 2, 4]


def test_the_summary_of_a_solved_run_says_after_how_much_and_gives_no_advice(tmp_path: pathlib.Path) -> None:
  text = report.summarise(_status(phase="solved", solved_streak=4), tmp_path)
  assert text.splitlines() == [
    "three_rooms is solved: 4 evaluations in a row.",
    "  1,000 environment steps, 100 gradient steps, 12 episodes in 2 min 03 s",
    "  last evaluation: return 0.75, training: return -0.5",
  ]


def test_the_summary_names_what_lies_in_the_run_directory(tmp_path: pathlib.Path) -> None:
  (tmp_path / "checkpoints").mkdir()
  (tmp_path / "learning_curve.png").touch()
  text = report.summarise(_status(phase="solved"), tmp_path)
  assert f"checkpoints: {tmp_path / 'checkpoints'}" in text
  assert f"learning curve: {tmp_path / 'learning_curve.png'}" in text
  assert "greedy" not in text


def test_the_advice_names_the_event_tables_that_are_empty_and_no_other(tmp_path: pathlib.Path) -> None:
  text = report.summarise(_status(), tmp_path)
  assert text.startswith("three_rooms is not solved: 1 of 4 solved evaluations in a row.")
  assert "Event table 'done' is empty" in text
  assert "'at_gap'" not in text
  assert "'default'" not in text


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_advice_names_nothing_but_fields_that_a_run_of_every_algorithm_has(
  tmp_path: pathlib.Path, algorithm: str
) -> None:
  text = report.summarise(_status(gradient_steps=0, evaluations=()), tmp_path)
  paths = re.findall(r"--config\.(\w+(?:\.\w+)*)", text)
  assert "actor.random_steps" in paths
  # V-RACER needs more than its name.
  preset = "refer_v_racer_swimmer" if algorithm == "v_racer" else "three_rooms"
  config = override(load_config(preset), {"learner.algorithm": algorithm})
  for path in paths:
    operator.attrgetter(path)(config)


def test_the_advice_for_a_used_up_budget_is_a_command_that_can_be_pasted(tmp_path: pathlib.Path) -> None:
  run_dir = tmp_path / "a folder"
  text = report.summarise(_status(), run_dir)
  assert f"slipstream train --resume='{run_dir}' --config.environment_steps=2000" in text
  assert str(run_dir / "learning_curve.png") in text


def test_the_advice_for_a_stopped_run_is_to_go_on(tmp_path: pathlib.Path) -> None:
  text = report.summarise(_status(phase="stopping", environment_steps=400), tmp_path)
  assert "was stopped at 400 of 1,000 environment steps" in text
  assert text.endswith(f"slipstream train --resume={tmp_path}")


def test_the_advice_says_which_role_did_nothing(tmp_path: pathlib.Path) -> None:
  text = report.summarise(_status(gradient_steps=0, evaluations=()), tmp_path)
  assert "made no gradient step" in text
  assert "No evaluation finished" in text
  usual = report.summarise(_status(), tmp_path)
  assert "made no gradient step" not in usual
  assert "No evaluation finished" not in usual


def test_a_run_without_a_goal_is_done_when_its_budget_is_used_up(tmp_path: pathlib.Path) -> None:
  text = report.summarise(_status(solved_evaluations=0, solved_streak=0), tmp_path)
  assert text.startswith("three_rooms is done")
  assert "solved" not in text
  assert "What to do next" not in text


def test_the_result_line_is_json_after_a_word() -> None:
  word, _, text = report.result_line(_status(), pathlib.Path("runs/a")).partition(" ")
  assert word == "RESULT"
  assert json.loads(text) == {
    "solved": False,
    "environment_steps": 1_000,
    "gradient_steps": 100,
    "wall_seconds": 123.457,
    "eval_return": 0.75,
    "run_dir": "runs/a",
    "phase": "exhausted",
    "run_id": "id",
  }


@pytest.mark.parametrize(
  "evaluations", [(), (Evaluation(900, 90, 3, math.nan, 20.0, False, 100.0),)], ids=["none", "nan"]
)
def test_the_result_line_has_null_for_a_return_that_was_not_measured(evaluations: tuple[Evaluation, ...]) -> None:
  def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")

  line = report.result_line(_status(phase="solved", evaluations=evaluations), pathlib.Path("a"))
  result = json.loads(line.removeprefix("RESULT "), parse_constant=refuse)
  assert result["eval_return"] is None
  assert result["solved"] is True


def _walk(steps: int) -> list[np.ndarray]:
  """A red square that moves one cell to the right each frame, over white with a black first row."""
  frames = []
  for step in range(steps):
    frame = np.full((20, 10 * steps, 3), _WHITE, np.uint8)
    frame[0] = 0
    frame[5:15, 10 * step : 10 * step + 10] = _RED
    frames.append(frame)
  return frames


def test_the_path_picture_shows_every_place_the_fainter_the_earlier_over_a_background_left_alone() -> None:
  picture = report.path_picture(_walk(6))
  assert picture.dtype == np.uint8
  assert picture.shape == (20, 60, 3)
  greens = picture[10, 5::10, 1].astype(int)
  assert (np.diff(greens) < 0).all()
  assert greens[0] < _WHITE
  assert tuple(picture[10, 55]) == _RED
  assert (picture[0] == 0).all()
  assert (picture[2] == _WHITE).all()


def test_a_long_episode_is_thinned_but_keeps_its_first_and_last_place() -> None:
  picture = report.path_picture(_walk(300))
  assert picture[10, 5, 1] < _WHITE
  assert tuple(picture[10, -5]) == _RED


def test_the_picture_of_one_frame_is_that_frame() -> None:
  (frame,) = _walk(1)
  assert (report.path_picture([frame]) == frame).all()


def test_pictures_of_no_frames_are_refused(tmp_path: pathlib.Path) -> None:
  with pytest.raises(ValueError, match="no frames"):
    report.path_picture([])
  with pytest.raises(ValueError, match="no frames"):
    report.greedy_path_gif([], tmp_path / "a.gif")


def test_the_pictures_can_be_read_again(tmp_path: pathlib.Path) -> None:
  frames = _walk(6)
  path = report.greedy_path_png(frames, tmp_path / "a.png")
  with Image.open(path) as picture:
    assert (np.asarray(picture) == report.path_picture(frames)).all()
  with Image.open(report.greedy_path_gif(frames, tmp_path / "a.gif", frames_per_second=20)) as video:
    assert video.n_frames == 6  # type: ignore[attr-defined]  # Pillow types what it opens as a still image.
    assert video.info["duration"] == 50
    video.seek(5)
    assert video.info["duration"] == 1500
    assert tuple(np.asarray(video.convert("RGB"))[10, 55]) == _RED


def test_pictures_that_cannot_be_written_are_a_note_and_do_not_cost_the_run_its_result(tmp_path: pathlib.Path) -> None:
  (tmp_path / "learning_curve.png").mkdir()
  outcome = finish(_status(phase="exhausted"), RunDirectory(tmp_path))
  assert "\n  no learning curve: [Errno 21] Is a directory" in outcome.summary
  assert outcome.result.startswith("RESULT {")
