"""What a run directory tells about its run, in whatever state the run left it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from configs.changes import flat_config
from configs.files import FileLock
from launch.stored_run import StoredRun, current_rows, is_run_directory, read_run, solved_at
from tests.experiments.comparison.storing import age, make_config, store_run
from tests.launch.processes import own_pid
from tests.serving import wait_for


def test_a_run_that_is_over_tells_all(tmp_path: pathlib.Path) -> None:
  config = make_config("uniform", seed="3", evaluator__solved_evaluations="2")
  run = read_run(store_run(tmp_path, config, [-5, -1, 2, 3, 1], "solved"))
  assert (run.name, run.method, run.seed, run.phase) == ("three_rooms", "uniform", 3, "solved")
  assert (run.environment_steps, run.gradient_steps) == (500, 50)
  assert (run.best_return, run.last_return) == (3, 1)
  assert (run.solved, run.solved_at) == (True, 400)
  assert run.notes == ()
  assert "numpy" in run.versions
  assert run.when is not None
  assert f"{run.when:%Y%m%d-%H%M%S}" == run.run_id[:15]
  steps, returns = run.curve("gradient_steps", "eval_return")
  np.testing.assert_array_equal(steps, [10, 20, 30, 40, 50])
  np.testing.assert_array_equal(returns, [-5, -1, 2, 3, 1])


def test_a_run_without_a_goal_is_neither_solved_nor_unsolved(tmp_path: pathlib.Path) -> None:
  goalless = make_config(evaluator__solved_event="")
  assert read_run(store_run(tmp_path, goalless, [1, 2])).solved is None
  assert read_run(store_run(tmp_path, make_config(), [-1])).solved is False


@pytest.mark.parametrize(
  ("phase", "shown"),
  [("running", "killed"), ("stopping", "stopped"), ("solved", "solved"), ("exhausted", "exhausted"), ("", "unknown")],
)
def test_a_run_that_no_process_serves_has_ended(tmp_path: pathlib.Path, phase: str, shown: str) -> None:
  assert read_run(store_run(tmp_path, make_config(), [1], phase)).phase == shown


def test_a_run_whose_server_has_left_was_not_killed(tmp_path: pathlib.Path) -> None:
  path = store_run(tmp_path, make_config(), [1], "running")
  status = json.loads((path / "status.json").read_text())
  (path / "status.json").write_text(json.dumps({**status, "is_leaving": True}))
  age(path / "status.json")
  assert read_run(path).phase == "left"


@pytest.mark.parametrize("phase", ["running", "stopping"])
def test_a_run_is_alive_while_its_lock_is_held_or_its_status_is_fresh(tmp_path: pathlib.Path, phase: str) -> None:
  path = store_run(tmp_path, make_config(), [1], phase)
  (path / "checkpoints").mkdir()
  lock = FileLock(path / "checkpoints" / "replay.lock", "taken")
  assert read_run(path).phase == phase
  lock.release()
  assert read_run(path).phase != phase
  (path / "status.json").touch()
  assert read_run(path).phase == phase


def test_reading_a_run_that_goes_on_leaves_its_lock_alone(tmp_path: pathlib.Path) -> None:
  path = store_run(tmp_path, make_config(), [1], "running")
  (path / "checkpoints").mkdir()
  read_run(path)
  FileLock(path / "checkpoints" / "replay.lock", "taken").release()


def test_a_run_without_a_status_is_starting_or_was_killed(tmp_path: pathlib.Path) -> None:
  path = store_run(tmp_path, make_config())
  (path / "status.json").unlink()
  (path / "metrics.csv").unlink()
  assert read_run(path).phase == "starting"
  age(path / "config.json")
  run = read_run(path)
  assert (run.phase, run.notes, run.environment_steps) == ("killed", ("it ended before its first status",), None)


@pytest.mark.parametrize(
  ("file", "content", "note"),
  [
    ("config.json", None, "config.json is missing"),
    ("config.json", "[1]", "config.json is damaged"),
    ("config.json", '{"name": "three_ro', "config.json is damaged"),
    ("config.json", '{"name": "old", "tables": 3}', "config.json is from another version"),
    ("status.json", "", "status.json is damaged"),
  ],
)
def test_what_cannot_be_read_is_noted_and_the_rest_is_shown(
  tmp_path: pathlib.Path, file: str, content: str | None, note: str
) -> None:
  path = store_run(tmp_path, make_config(), [1, 2])
  (path / file).unlink() if content is None else (path / file).write_text(content)
  run = read_run(path)
  assert run.notes == (note,)
  assert run.name == ("old" if content and "old" in content else "three_rooms")
  assert (run.best_return, run.environment_steps) == (2, 200)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_no_damage_to_any_file_stops_the_reading(tmp_path: pathlib.Path, data: st.DataObject) -> None:
  path = tmp_path / "20260102-030405-ab12"
  if not path.exists():
    store_run(tmp_path, make_config(), [1, 2]).rename(path)
  file = path / data.draw(st.sampled_from(["config.json", "status.json", "metrics.csv", "versions.txt"]))
  whole = file.read_bytes()
  start = data.draw(st.integers(0, len(whole)))
  junk = data.draw(
    st.one_of(st.binary(max_size=8), st.sampled_from([b'"', b"\0" * 9, b"1e999", b"NaN", b"[" * 9999, b"null"]))
  )
  try:
    file.write_bytes(whole[:start] + junk + whole[start + data.draw(st.integers(0, 40)) :])
    assert isinstance(read_run(path), StoredRun)
  finally:
    file.write_bytes(whole)


def test_two_marks_make_a_run_directory(tmp_path: pathlib.Path) -> None:
  (tmp_path / "config.json").touch()
  assert not is_run_directory(tmp_path)  # Many programs have such a file.
  (tmp_path / "logs").mkdir()
  assert is_run_directory(tmp_path)


def test_rows_that_a_resumed_run_repeated_are_left_out(tmp_path: pathlib.Path) -> None:
  rows: list[dict[str, Any]] = [{"environment_steps": steps, "nth": nth} for nth, steps in enumerate([1, 5, 9, 4, 6])]
  assert [row["nth"] for row in current_rows(rows)] == [0, 3, 4]


def test_a_streak_is_solved_at_the_evaluation_that_completes_it() -> None:
  rows: list[dict[str, Any]] = [
    {"environment_steps": steps, "eval_solved": solved} for steps, solved in enumerate([1, 0, None, 1, None, 1, 1])
  ]
  assert solved_at(rows, 2) == 5
  assert solved_at(rows, 4) is None


def test_fields_are_spelt_as_on_the_command_line(tmp_path: pathlib.Path) -> None:
  fields = dict(flat_config(read_run(store_run(tmp_path, make_config())).config))
  assert fields["events.done.history"] == 200
  assert fields["replay.tables.done.probability"] == 0.3
  assert fields["learner.algorithm.name"] == "ddqn"
  assert fields["network.hidden_sizes"] == list(make_config().network.hidden_sizes)


def test_a_real_run_is_seen_while_it_runs_and_after_it_was_killed(tmp_path: pathlib.Path) -> None:
  command = [
    sys.executable,
    "-m",
    "slipstream",
    "train",
    "--config=three_rooms",
    "--inline",
    "--quiet",
    "--method=uniform",
  ]
  run = subprocess.Popen([*command, f"--run_root={tmp_path}"], stdout=subprocess.DEVNULL)
  try:
    wait_for(lambda: any(tmp_path.glob("*/*/metrics.csv")), seconds=120)
    (path,) = tmp_path.glob("*/*")
    wait_for(lambda: (read_run(path).gradient_steps or 0) > 0, seconds=120)
    shown = read_run(path)
    assert (shown.phase, shown.method, shown.notes) == ("running", "uniform", ())
  finally:
    os.kill(own_pid(run.pid), signal.SIGKILL)
    run.wait()
  age(path / "status.json")
  killed = read_run(path)
  assert killed.phase == "killed"
  assert killed.environment_steps == json.loads((path / "status.json").read_text())["environment_steps"]
