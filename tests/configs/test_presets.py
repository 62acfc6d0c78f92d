"""Presets by name, and configs from files."""

import pytest

from configs import PRESETS, RunConfig, UserError, load_config, to_json


@pytest.fixture
def write(tmp_path):
  def write_file(name, text):
    path = tmp_path / name
    path.write_text(text)
    return str(path)

  return write_file


def test_a_preset_is_found_by_its_name():
  assert load_config("three_rooms") == PRESETS["three_rooms"]()


def test_three_rooms_has_the_parameters_of_table_1():
  config = load_config("three_rooms")
  assert [event.history for event in config.events] == [200, 200]
  shares = {table.name: table.probability for table in config.replay.all_tables}
  assert shares == {"default": 0.5, "at_gap": 0.2, "done": 0.3}
  assert [config.replay.capacity_of(table) for table in config.replay.all_tables] == [10_000, 4_000, 6_000]
  assert config.network.hidden_sizes == (256,)
  assert (config.learner.learning_rate, config.learner.batch_size) == (1e-3, 32)
  assert (config.learner.target_update_rate, config.learner.discount) == (0.01, 0.99)
  assert (config.actor.epsilon, config.actor.workers) == (0.3, 2)


def test_a_python_file_gives_its_get_config(write):
  path = write("mine.py", "from configs import RunConfig\n\ndef get_config():\n  return RunConfig(seed=4)\n")
  assert load_config(path) == RunConfig(seed=4)


def test_a_json_file_gives_its_config(write):
  config = RunConfig(seed=4)
  assert load_config(write("mine.json", to_json(config))) == config


def test_the_file_of_a_preset_gives_the_preset():
  assert load_config("configs/three_rooms.py") == load_config("three_rooms")


@pytest.mark.parametrize(
  ("name", "sentence"),
  [
    (
      "three_room",
      r"There is no preset 'three_room': did you mean 'three_rooms'\? \(A file of your own ends in \.py or",
    ),
    ("qqqqqqqqqqq", r"There is no preset 'qqqqqqqqqqq': presets: .*three_rooms.*\. \(A file"),
    ("missing.py", r"There is no config file 'missing\.py': check the path, or name a preset \(.*three_rooms"),
    ("missing.json", r"There is no config file 'missing\.json'"),
  ],
)
def test_a_name_that_is_nothing_is_refused(name, sentence):
  with pytest.raises(UserError, match=sentence):
    load_config(name)


@pytest.mark.parametrize(
  ("text", "sentence"),
  [
    ("def get_config(:", r"The config file .*mine\.py cannot be run \(SyntaxError: "),
    ("1 / 0", r"The config file .*mine\.py cannot be run \(ZeroDivisionError: division by zero\): mend it\."),
    (
      "CONFIG = 3",
      r"The config file .*mine\.py has no function get_config\(\): add one that returns a slipstream\.RunConfig",
    ),
    (
      "def get_config():\n  return 3",
      r"get_config\(\) of .*mine\.py returned a int: it must return a slipstream\.RunConfig",
    ),
    ("from configs import RunConfig\nRunConfig(seed=-1)", r"^seed is -1: it must lie in"),
    ("from configs import RunConfig\n\ndef get_config():\n  return RunConfig(seed=-1)", r"^seed is -1: it must lie in"),
  ],
)
def test_a_python_file_that_gives_no_config_is_refused(write, text, sentence):
  with pytest.raises(UserError, match=sentence):
    load_config(write("mine.py", text))


@pytest.mark.parametrize(
  ("text", "sentence"), [("{", "is not JSON"), ("[]", "not a JSON object"), ('{"sed": 1}', "'seed'")]
)
def test_a_json_file_that_gives_no_config_is_refused(write, text, sentence):
  with pytest.raises(UserError, match=sentence):
    load_config(write("mine.json", text))
