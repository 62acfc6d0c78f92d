"""Configs as JSON, and overrides by path."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs import (
  PRESETS,
  EnvironmentConfig,
  EvaluatorConfig,
  RunConfig,
  TableSpec,
  UserError,
  from_dict,
  from_json,
  override,
  to_dict,
  to_json,
  without_defaults,
)
from configs.serialization import parse_value


@pytest.fixture
def config():
  return PRESETS["three_rooms"]()


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_survives_json(name):
  config = PRESETS[name]()
  assert from_json(to_json(config)) == config


@given(
  st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=5), max_size=3),
  st.integers(0, 2**31 - 1),
)
def test_arguments_and_seeds_survive_json(arguments, seed):
  config = RunConfig(seed=seed, environment=EnvironmentConfig("three_rooms", arguments))
  assert from_json(to_json(config)) == config


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_without_its_defaults_is_the_same_preset(name):
  config = PRESETS[name]()
  assert from_dict(without_defaults(config)) == config
  assert len(json.dumps(without_defaults(config))) < 0.65 * len(json.dumps(to_dict(config)))


def test_only_values_that_differ_from_the_default_are_kept():
  assert without_defaults(RunConfig()) == {}
  config = RunConfig(seed=3, evaluator=EvaluatorConfig(episodes=2))
  assert without_defaults(config) == {"seed": 3, "evaluator": {"episodes": 2}}
  assert without_defaults(TableSpec("goal", 0.25)) == {"name": "goal", "probability": 0.25}
  preset = without_defaults(PRESETS["three_rooms"]())
  assert [sorted(table) for table in preset["replay"]["tables"]] == [["name", "probability"]] * 2


def test_a_config_that_json_cannot_hold_is_refused():
  for value in (object(), float("nan")):
    with pytest.raises(
      UserError, match=r"The config holds a value that is not JSON \(.*\): use numbers, strings, lists and"
    ):
      to_dict(RunConfig(environment=EnvironmentConfig("three_rooms", {"value": value})))


@pytest.mark.parametrize(
  ("text", "sentence"),
  [
    ("{", r"The config is not JSON \(.*\): correct it, or write one with --print_config\."),
    ("[" * 100_000, r"The config is not JSON \(maximum recursion depth"),
    (f'{{"seed": 1{"0" * 5_000}}}', r"The config is not JSON \(Exceeds the limit"),
    ("[1]", r"The config is not a JSON object: begin it with {, as the output of --print_config does\."),
    ('{"sed": 1}', r"The config has no key 'sed': did you mean 'seed'\?"),
    ('{"learner": {"batchsize": 1}}', r"The config has no key 'learner\.batchsize': did you mean 'batch_size'\?"),
    ('{"qqqqqq": 1}', r"The config has no key 'qqqqqq': known here: name, seed, "),
    ('{"seed": "1"}', r"The config's seed is not valid: '1' is not a whole number\."),
    ('{"seed": 1.5}', r"The config's seed is not valid: 1\.5 is not a whole number\."),
    ('{"seed": true}', r"The config's seed is not valid: True is not a whole number\."),
    ('{"name": 3}', r"The config's name is not valid: 3 is not a string\."),
    (
      '{"learner": {"bias_correction": "exact"}}',
      r"The config's learner\.bias_correction is not valid: 'exact' is not one of none, counts, priority_sum, balance\.",
    ),
    (
      '{"learner": {"algorithm": ["ddqn"]}}',
      r"The config's learner\.algorithm is not valid: \['ddqn'\] is neither the name of an algorithm nor an object with one",
    ),
    (
      '{"learner": {"prefetch": "false"}}',
      r"The config's learner\.prefetch is not valid: 'false' is not true or false\.",
    ),
    ('{"learner": {"discount": "high"}}', r"The config's learner\.discount is not valid: 'high' is not a number\."),
    (
      '{"network": {"hidden_sizes": [8, "a"]}}',
      r"The config's network\.hidden_sizes\.1 is not valid: 'a' is not a whole",
    ),
    ('{"learner": {"discount": 2}}', r"^learner\.discount is 2\.0: it must lie in \[0, 1\]\.$"),
    ('{"environment_steps": 1e400}', r"The config's environment_steps is not valid: inf is not a whole number\."),
    (
      f'{{"learner": {{"discount": 1{"0" * 400}}}}}',
      r"learner\.discount is not valid: a number of 401 digits is larger",
    ),
    ('{"learner": 3}', r"The config's learner is not valid: 3 is not an object of names and values\."),
    (
      '{"environment": {"arguments": 3}}',
      r"environment\.arguments is not valid: 3 is not an object of names and values\.",
    ),
    ('{"network": {"hidden_sizes": "abc"}}', r"The config's network\.hidden_sizes is not valid: 'abc' is not a list\."),
    ('{"events": [3]}', r"The config's events\.0 is not valid: 3 is not an object of names and values\."),
    ('{"events": [{"name": "a"}]}', r"The config's events\.0\.condition is missing"),
  ],
)
def test_data_that_is_not_a_config_is_refused_and_the_place_is_named(text, sentence):
  with pytest.raises(UserError, match=sentence):
    from_json(text)


def test_a_whole_float_is_a_whole_number():
  assert from_dict({"environment_steps": 1e6}).environment_steps == 1_000_000
  assert isinstance(from_dict({"environment_steps": 1e6}).environment_steps, int)


def test_a_missing_field_has_its_default():
  assert from_dict({}) == RunConfig()


@pytest.mark.parametrize(
  ("text", "value"),
  [
    ("3", 3),
    ("1e-3", 0.001),
    ("true", True),
    ("False", False),
    ("none", None),
    ("null", None),
    ("(1, 2)", [1, 2]),
    ("[1, 2]", [1, 2]),
    ("'3'", "3"),
    ("CartPole-v1", "CartPole-v1"),
    ("a b", "a b"),
  ],
)
def test_a_value_of_the_command_line_is_a_literal_or_a_text(text, value):
  assert parse_value(text) == value
  assert type(parse_value(text)) is type(value)


def test_overrides_reach_every_depth(config):
  changed = override(
    config,
    {
      "name": "123",
      "learner.batch_size": "64",
      "network.hidden_sizes": "(8, 8)",
      "actor.policy_period_steps": "7",
      "replay.environment_steps_per_update": "none",
      "replay.tables.done.capacity": "500",
      "replay.tables.0.min_size": "5",
      "events.1.history": "20",
      "environment.arguments.room_size": "3",
    },
  )
  assert (changed.name, changed.learner.batch_size, changed.network.hidden_sizes) == ("123", 64, (8, 8))
  assert (changed.actor.policy_period_steps, changed.replay.environment_steps_per_update) == (7, None)
  assert (changed.replay.tables[1].capacity, changed.replay.tables[0].min_size) == (500, 5)
  assert (changed.events[1].history, changed.environment.arguments) == (20, {"room_size": 3})


def test_overrides_that_are_valid_only_together_are_taken_together(config):
  changed = override(config, {"replay.tables.done.probability": "0.2", "replay.tables.at_gap.probability": "0.3"})
  assert [table.probability for table in changed.replay.tables] == [0.3, 0.2]


def test_an_override_leaves_the_config_alone(config):
  before = to_json(config)
  override(config, {"seed": "5", "environment.arguments.room_size": "3"})
  assert to_json(config) == before


def test_a_list_is_replaced_by_index(config):
  assert override(config, {"network.hidden_sizes.0": "64"}).network.hidden_sizes == (64,)


@pytest.mark.parametrize(
  ("path", "value", "sentence"),
  [
    ("sed", "1", r"The config has no key 'sed': did you mean 'seed'\?"),
    ("lerner.batch_size", "1", r"The config has no key 'lerner': did you mean 'learner'"),
    ("learner.batchsize", "1", r"The config has no key 'learner\.batchsize': did you mean 'batch_size'\?"),
    ("learner.qqqqqq", "1", r"The config has no key 'learner\.qqqqqq': known here: algorithm, batch_size, "),
    ("replay.tables.goal.capacity", "1", r"The config has no key 'replay\.tables\.goal': known here: at_gap, done\."),
    ("replay.tables.7.capacity", "1", r"The config has no key 'replay\.tables\.7': known here: at_gap, done\."),
    ("network.hidden_sizes.4", "1", r"The config has no key 'network\.hidden_sizes\.4': known here: 0\."),
    ("seed.value", "1", r"The config's 'seed' is a value and has no key 'value': write --config\.seed=VALUE\."),
    ("seed", "abc", r"The config's seed is not valid: 'abc' is not a whole number\."),
    ("replay.default.probability", "0.4", r"The table probabilities sum to 0\.9, not 1"),
    ("events.done.history", "100000", r"Event 'done' has a history of 100000 steps"),
  ],
)
def test_an_override_that_is_not_valid_is_refused(config, path, value, sentence):
  with pytest.raises(UserError, match=sentence):
    override(config, {path: value})


def test_json_is_plain_and_indented(config):
  text = to_json(config)
  assert json.loads(text)["replay"]["tables"][0]["name"] == "at_gap"
  assert text.startswith('{\n  "name": "three_rooms"')
