"""The run directory and the places of its files."""

import secrets

from configs import load_config
from launch.run_directory import Failure, create_run_directory, failure_file, take_failures, write_failure


def test_runs_of_the_same_second_have_directories_of_their_own(tmp_path, monkeypatch):
  drawn = iter(["aaaa", "aaaa", "aaaa", "bbbb", "aaaa", "bbbb", "cccc"] * 2)
  monkeypatch.setattr(secrets, "token_hex", lambda count: next(drawn))
  runs = [create_run_directory(load_config("three_rooms"), tmp_path) for _ in range(3)]
  assert len({run.path for run in runs}) == 3


def test_failures_of_a_launcher_that_was_killed_are_reported_once_and_a_broken_one_names_its_log(tmp_path):
  write_failure(failure_file(tmp_path, "learner"), Failure("learner", "It diverged.", 2))
  (tmp_path / "actor_0.failure.json").write_text("")
  assert {failure.role: failure.exit_code for failure in take_failures(tmp_path)} == {"learner": 2, "actor_0": 1}
  assert take_failures(tmp_path) == []
  write_failure(
    failure_file(tmp_path / "missing", "learner"), Failure("learner", "It diverged.", 2)
  )  # This cannot be written, and does not raise.
