"""The former form of configs: stored configs are read, and today's configs are written in it unchanged.

`former/*.json` were written by commit 95a86ec: whole configs (`to_dict`), and what differs from their defaults
(`without_defaults`).
"""

import copy
import json
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs import RunConfig, UserError, from_dict, from_json, override, to_dict, to_json, without_defaults
from configs.migration import MOVED_KEYS, former_form, upgraded

STORED = {path.stem: json.loads(path.read_text()) for path in (pathlib.Path(__file__).parent / "former").glob("*.json")}

_EPSILONS = st.floats(0, 1).filter(lambda value: value != 0.3)
_POSITIVE = st.floats(1e-6, 1e3)
_ACTOR_CRITICS = {"learner.policy_learning_rate": _POSITIVE, "learner.policy_l2": _POSITIVE}
_SAC = {
  **_ACTOR_CRITICS,
  "network.policy_dropout": st.floats(0.01, 0.99),
  "learner.sac.temperature": _POSITIVE.filter(lambda value: value != 1),
  "learner.sac.target_entropy": st.floats(-10, 10),
}
# Algorithm -> former key -> values other than the key's default.
FORMER: dict[str, dict[str, st.SearchStrategy[Any]]] = {
  "ddqn": {
    "network.dueling": st.just(True),
    "actor.epsilon": _EPSILONS,
    "actor.final_epsilon": _EPSILONS,
    "actor.epsilon_decay_updates": st.integers(1, 9_999),
    "actor.worker_epsilons": st.lists(_EPSILONS, min_size=1, max_size=3),
  },
  "sac": _SAC,
  "qr_sac": {
    **_SAC,
    "learner.sac.quantiles": st.integers(1, 31),
    "learner.sac.kappa": _POSITIVE.filter(lambda value: value != 1),
  },
  "td3": {
    **_ACTOR_CRITICS,
    "actor.action_noise": st.floats(0.2, 1),
    "learner.td3.policy_period": st.integers(3, 9),
    "learner.td3.target_period": st.integers(1, 9),
    "learner.td3.target_noise": st.floats(0.3, 1),
    "learner.td3.target_noise_clip": st.floats(0.6, 1),
  },
}
# Keys that have not moved.
_OTHERS: dict[str, st.SearchStrategy[Any]] = {
  "seed": st.integers(1, 100),
  "actor.random_steps": st.integers(0, 999),
  "network.normalize_observations": st.just(True),
  "learner.n_step": st.integers(2, 5),
  "learner.learning_rate": st.floats(1e-5, 5e-4),
}


def put(data: dict[str, Any], key: str, value: Any) -> None:
  *parents, last = key.split(".")
  for parent in parents:
    data = data.setdefault(parent, {})
  data[last] = value


@st.composite
def former_configs(draw) -> dict[str, dict[str, Any]]:
  """A config in the former form, whole and without its defaults."""
  name = draw(st.sampled_from(sorted(FORMER)))
  whole = copy.deepcopy(STORED["defaults"]["config"])
  short: dict[str, Any] = {}
  chosen = {key: draw(values) for key, values in {**FORMER[name], **_OTHERS}.items() if draw(st.booleans())}
  if name != "ddqn":
    chosen["learner.algorithm"] = name
  if "sac" in name and "learner.sac.target_entropy" not in chosen and draw(st.booleans()):
    chosen["learner.sac.learn_temperature"] = False
  for key, value in chosen.items():
    put(whole, key, value)
    put(short, key, value)
  return {"config": whole, "without_defaults": short}


def assert_is_read_and_written(stored: dict[str, Any]) -> None:
  config: RunConfig = from_dict(stored["config"])
  assert from_dict(stored["without_defaults"]) == config
  assert former_form(without_defaults(config)) == stored["without_defaults"]
  # Today's form is left as it is.
  assert upgraded(to_dict(config)) == to_dict(config)
  assert from_json(to_json(config)) == config


@pytest.mark.parametrize("name", STORED)
def test_a_stored_config_is_read_and_written_in_its_form(name):
  assert_is_read_and_written(STORED[name])
  assert ("ddqn" if name == "defaults" else name) == from_dict(STORED[name]["config"]).learner.algorithm.NAME


@given(former_configs())
def test_any_former_config_is_read_and_written_in_its_form(stored):
  assert_is_read_and_written(stored)


def test_every_key_that_moved_is_among_those_tried():
  tried = {key for keys in FORMER.values() for key in keys} | {"learner.sac.learn_temperature"}
  assert tried | {"learner.sac", "learner.td3"} == set(MOVED_KEYS)


def test_upgrading_does_not_change_its_input():
  data = copy.deepcopy(STORED["sac"]["config"])
  upgraded(data)
  assert data == STORED["sac"]["config"]


def test_a_nested_config_is_read_too():
  former = STORED["td3"]["config"]
  assert from_dict({"config": former}, dict[str, RunConfig]) == {"config": from_dict(former)}


@pytest.mark.parametrize("name", ["ddqn", "sac", "qr_sac", "td3"])
def test_an_algorithm_that_existed_then_is_written_as_its_name_at_its_defaults(name):
  former = former_form({"learner": {"algorithm": {"name": name}}})
  assert former == ({} if name == "ddqn" else {"learner": {"algorithm": name}})


@pytest.mark.parametrize("algorithm", [{"name": "naf", "noise": 1}, {"name": "sac", "critics": 5}])
def test_settings_that_did_not_exist_then_are_written_unchanged(algorithm):
  data = {"seed": 3, "learner": {"n_step": 3, "algorithm": algorithm}}
  assert former_form(copy.deepcopy(data)) == data


@pytest.mark.parametrize(
  ("data", "sentence"),
  [
    (
      {"actor": {"epsilon": 0.1}, "learner": {"algorithm": "sac"}},
      r"^actor\.epsilon is set, but the algorithm 'sac' does not use it: leave it out\.$",
    ),
    (
      {"learner": {"sac": {"temperature": 0.5}}},
      r"^learner\.sac\.temperature is set, but the algorithm 'ddqn' does not use it: leave it out\.$",
    ),
    (
      {"actor": {"epsilon": 0.1}, "learner": {"algorithm": {"name": "ddqn"}}},
      r"^The config has the former key 'actor\.epsilon' beside today's form of learner\.algorithm: write "
      r"'learner\.algorithm\.epsilon'\.$",
    ),
    ({"actor": {"epsilon": 0.1}, "learner": {"algorithm": "scx"}}, r"There is no algorithm 'scx'"),
    ({"learner": {"sac": {"temperature": 1.0, "foo": 1}}}, r"The config has no key 'learner\.sac'"),
    ({"actor": {"epsilon": 0.1}, "learner": 3}, r"The config's learner "),
    ({"actor": 3}, r"The config's actor "),
  ],
)
def test_a_former_config_that_makes_no_sense_is_refused(data, sentence):
  with pytest.raises(UserError, match=sentence):
    from_dict(data)


@pytest.mark.parametrize(
  ("key", "new"),
  [
    ("actor.epsilon", "learner.algorithm.epsilon"),
    ("network.dueling", "learner.algorithm.dueling"),
    ("learner.sac.temperature", "learner.algorithm.temperature"),
    ("learner.td3", "learner.algorithm"),
  ],
)
def test_an_override_by_a_former_key_is_refused_and_the_new_key_named(key, new):
  with pytest.raises(UserError, match=rf"^The config has no key '{key}' any more: write --config\.{new}\.$"):
    override(RunConfig(), {key: "1"})
