"""What differs between two configs, in words."""

from configs import load_config, override
from configs.changes import config_changes


def test_equal_configs_differ_in_nothing() -> None:
  assert config_changes(load_config("three_rooms"), load_config("three_rooms")) == []


def test_each_field_that_differs_has_a_line() -> None:
  old = load_config("three_rooms")
  table = old.replay.tables[0]
  changes = {
    "learner.learning_rate": "0.5",
    "environment_steps": "123",
    f"replay.tables.{table.name}.capacity": "7777",
    "learner.algorithm": "td3",
  }
  lines = config_changes(old, override(old, changes))
  assert f"environment_steps: {old.environment_steps} -> 123" in lines
  assert f"learner.learning_rate: {old.learner.learning_rate} -> 0.5" in lines
  assert f"replay.tables.{table.name}.capacity: {table.capacity} -> 7777" in lines
  assert f"learner.algorithm.name: {old.learner.algorithm.NAME} -> td3" in lines
  assert any(line.endswith("-> absent") for line in lines)  # Fields that the other algorithm does not have.
  assert lines == sorted(lines)
