"""The run directory and the places of its files."""

from launch.run_directory import Failure, take_failures, write_failure


def test_failures_of_a_launcher_that_was_killed_are_reported_once_and_a_broken_one_names_its_log(tmp_path):
  write_failure(tmp_path, Failure("learner", "It diverged.", 2))
  (tmp_path / "actor_0.failure.json").write_text("")
  assert {failure.role: failure.exit_code for failure in take_failures(tmp_path)} == {"learner": 2, "actor_0": 1}
  assert take_failures(tmp_path) == []
  write_failure(
    tmp_path / "missing", Failure("learner", "It diverged.", 2)
  )  # This cannot be written, and does not raise.
