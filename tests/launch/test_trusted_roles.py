"""A local run's roles may import what its own config names, and nothing else."""

import pathlib

import pytest

from configs import load_config, override
from launch.program import role_commands
from launch.run_directory import create_run_directory


@pytest.mark.parametrize(
  ("environment", "allowed"),
  [("three_rooms", []), ("CartPole-v1", []), ("tests.faulty_world:Faulty", ["--allow_module=tests"])],
)
def test_roles_that_make_the_environment_may_import_what_the_config_names(
  environment: str, allowed: list[str], tmp_path: pathlib.Path
) -> None:
  config = override(load_config("three_rooms"), {"environment.name": environment})
  commands = role_commands(config, create_run_directory(config, tmp_path), "localhost:1")
  for role, words in commands.items():
    given = [word for word in words if word.startswith("--allow_module")]
    assert given == (allowed if role.startswith(("actor", "evaluator")) else []), role
