"""The methods that experiments compare: what each does to a config's events and tables."""

import dataclasses
from typing import Any

import pytest

from configs import (
  CagradConfig,
  DdpgConfig,
  EventSpec,
  PriorityConfig,
  RunConfig,
  TableSpec,
  Td3Config,
  UserError,
  from_json,
  load_config,
  to_json,
)
from configs.methods import METHODS, apply_method, method_of
from configs.mixup import MixupConfig, NeighborsConfig
from configs.refer import ReferConfig

# These need continuous actions.
RULED = {"er", "refer_1", "refer_2", "refer"}
MIXING = {"nmer", "sset_nmer", "nn_mixup", "mixup", "ct", "s4rl", "noise"}
THREE_ROOMS = load_config("three_rooms")


def config_for(name: str) -> RunConfig:
  """A config that the method can be applied to."""
  if name not in MIXING | RULED:
    return THREE_ROOMS
  learner = dataclasses.replace(THREE_ROOMS.learner, algorithm=Td3Config())
  actor = dataclasses.replace(THREE_ROOMS.actor, random_steps=0)
  return dataclasses.replace(THREE_ROOMS, learner=learner, actor=actor)


def shares(config: RunConfig) -> dict[str, tuple[float, int]]:
  """Table -> (share of a batch, capacity)."""
  return {table.name: (table.probability, config.replay.capacity_of(table)) for table in config.replay.all_tables}


def with_replay(**changes: Any) -> RunConfig:
  return dataclasses.replace(THREE_ROOMS, replay=dataclasses.replace(THREE_ROOMS.replay, **changes))


def test_uniform_has_one_table_with_all_of_the_capacity_and_watches_the_goal():
  config = apply_method(THREE_ROOMS, "uniform")
  assert shares(config) == {"default": (1.0, 20_000)}
  assert [(event.name, event.table) for event in config.events] == [("done", None)]
  assert config.evaluator.solved_event == "done"


def test_uniform_without_a_goal_event_has_no_events():
  evaluator = dataclasses.replace(THREE_ROOMS.evaluator, solved_event="")
  assert apply_method(dataclasses.replace(THREE_ROOMS, evaluator=evaluator), "uniform").events == ()


def test_uniform_adds_up_capacities_that_tables_have_of_their_own_and_samples_uniformly():
  config = with_replay(
    default=TableSpec("default", 0.5, min_size=100, selector="lifo"),
    tables=(TableSpec("at_gap", 0.2, capacity=500), TableSpec("done", 0.3, capacity=700)),
  )
  uniform = apply_method(config, "uniform")
  assert shares(uniform) == {"default": (1.0, 10_000 + 500 + 700)}
  assert uniform.replay.default.selector == "uniform"
  assert uniform.replay.default.min_size == 100


def test_sset_is_the_config_as_it_is_but_for_its_name():
  assert apply_method(THREE_ROOMS, "sset") == dataclasses.replace(THREE_ROOMS, method="sset")


def test_reverse_sweep_gives_the_goal_the_share_and_capacity_of_all_events():
  config = apply_method(THREE_ROOMS, "reverse_sweep")
  assert shares(config) == {"default": (0.5, 10_000), "done": (0.5, 10_000)}
  assert [(event.name, event.table, event.history) for event in config.events] == [("done", "done", 200)]


def test_reverse_sweep_keeps_a_table_that_the_goal_shared_and_adds_up_capacities():
  events = tuple(dataclasses.replace(event, table="all") for event in THREE_ROOMS.events)
  extra = EventSpec("more", "environments.three_rooms:at_gap", 10)
  tables = (TableSpec("all", 0.4, capacity=900), TableSpec("more", 0.1, capacity=100))
  config = dataclasses.replace(
    THREE_ROOMS, events=(*events, extra), replay=dataclasses.replace(THREE_ROOMS.replay, tables=tables)
  )
  swept = apply_method(config, "reverse_sweep")
  assert shares(swept) == {"default": (0.5, 10_000), "all": (0.5, 1_000)}
  assert [event.name for event in swept.events] == ["done"]


def test_goal_only_is_reverse_sweep_with_a_history_of_one_step():
  config = apply_method(THREE_ROOMS, "goal_only")
  assert config.replay == apply_method(THREE_ROOMS, "reverse_sweep").replay
  assert [(event.name, event.history) for event in config.events] == [("done", 1)]


def test_the_prioritised_methods_draw_by_td_error_from_every_table_and_change_nothing_else():
  for name, without in (("per", "uniform"), ("sset_per", "sset")):
    config = apply_method(THREE_ROOMS, name)
    assert {table.selector for table in config.replay.all_tables} == {"prioritized"}
    assert shares(config) == shares(apply_method(THREE_ROOMS, without))
    assert config.events == apply_method(THREE_ROOMS, without).events


def test_per_rank_is_per_with_a_ranked_table_from_the_learners_memory():
  config, per = apply_method(THREE_ROOMS, "per_rank"), apply_method(THREE_ROOMS, "per")
  assert config.replay.sampling == "memory"
  default = dataclasses.replace(config.replay.default, selector="prioritized")
  replay = dataclasses.replace(config.replay, sampling="server", default=default)
  assert config.replay.default.selector == "ranked"
  assert dataclasses.replace(config, method="per", replay=replay) == per
  assert apply_method(config, "uniform").replay.default.selector == "uniform"


@pytest.mark.parametrize(
  ("name", "rules", "noise"),
  [
    ("er", "watched", "ornstein_uhlenbeck"),
    ("refer_1", "first", "gaussian"),
    ("refer_2", "second", "gaussian"),
    ("refer", "both", "gaussian"),
  ],
)
def test_refers_methods_are_uniform_replay_from_memory_with_its_rules(name, rules, noise):
  config = apply_method(load_config("refer_ddpg_swimmer"), name)
  assert config.learner.refer.rules == rules
  assert isinstance(config.learner.algorithm, DdpgConfig)
  assert config.learner.algorithm.noise == noise
  assert (config.replay.sampling, config.replay.unit) == ("memory", "episodes")
  # Other methods keep what the rows hold, and drop the rules.
  assert apply_method(config, "uniform").learner.refer.rules == "watched"


def test_a_config_with_ranked_tables_is_that_of_no_method_if_some_are_not_or_there_are_event_tables():
  ranked = dataclasses.replace(THREE_ROOMS.replay.default, selector="ranked")
  tables = tuple(dataclasses.replace(table, selector="ranked") for table in THREE_ROOMS.replay.tables)
  for each in (tables, THREE_ROOMS.replay.tables):
    assert method_of(with_replay(sampling="memory", default=ranked, tables=each)) == "other"


def test_reaper_draws_by_reliability_from_the_learners_memory_with_the_papers_exponents():
  for name, without in (("reaper", "per"), ("sset_reaper", "sset_per")):
    config, per = apply_method(THREE_ROOMS, name), apply_method(THREE_ROOMS, without)
    assert (config.replay.all_tables, config.events) == (per.replay.all_tables, per.events)
    priority = config.replay.priority
    assert config.replay.sampling == "memory"
    assert (priority.criterion, priority.exponent, priority.reliability_exponent) == ("reaper", 0.4, 0.2)
    assert method_of(dataclasses.replace(config, method="")) == name


def test_exponents_of_a_config_with_reaper_are_kept_and_other_methods_undo_its_criterion():
  priority = PriorityConfig(criterion="reaper", exponent=0.3, reliability_exponent=0.3)
  config = dataclasses.replace(
    apply_method(THREE_ROOMS, "sset_reaper"),
    replay=dataclasses.replace(apply_method(THREE_ROOMS, "sset_reaper").replay, priority=priority),
  )
  assert apply_method(config, "reaper").replay.priority == priority
  for name in ("uniform", "per", "sset_per"):
    assert apply_method(config, name).replay.priority.criterion == "td_error"


def test_methods_that_mix_change_uniform_replay_by_their_mixture_alone():
  config = load_config("nmer_td3_halfcheetah")
  plain = apply_method(config, "uniform")
  kinds = {
    "nmer": "neighbors",
    "nn_mixup": "neighbors",
    "mixup": "mixup",
    "ct": "continuous",
    "s4rl": "s4rl",
    "noise": "noise",
  }
  for name, kind in kinds.items():
    mixed = apply_method(config, name)
    mixup = mixed.learner.mixup
    assert mixup.kind == kind
    assert mixup.neighbors.count == (1 if name == "nn_mixup" else 10)
    assert mixed.replay.sampling == ("server" if name in ("s4rl", "noise") else "memory")
    assert method_of(dataclasses.replace(mixed, method="")) == name
    # Another method undoes it.
    undone = apply_method(mixed, "uniform")
    replay = dataclasses.replace(undone.replay, sampling="server")
    learner = dataclasses.replace(undone.learner, mixup=plain.learner.mixup)
    assert undone.learner.mixup.kind == "none"
    assert dataclasses.replace(undone, replay=replay, learner=learner) == plain


def test_a_mixtures_own_settings_are_kept_and_sset_goes_with_it():
  config = load_config("lunar_lander_continuous")
  mixup = MixupConfig(neighbors=NeighborsConfig(25, 0.0), alpha=0.75, fraction=0.5)
  config = dataclasses.replace(config, learner=dataclasses.replace(config.learner, mixup=mixup))
  both = apply_method(config, "sset_nmer")
  assert both.learner.mixup == dataclasses.replace(mixup, kind="neighbors")
  assert both.replay.tables == config.replay.tables
  assert method_of(dataclasses.replace(both, method="")) == "sset_nmer"
  learner = dataclasses.replace(both.learner, mixup=dataclasses.replace(mixup, kind="noise"))
  assert method_of(dataclasses.replace(both, method="", learner=learner)) == "other"


def test_methods_that_mix_need_continuous_actions():
  for name in MIXING:
    with pytest.raises(
      UserError, match=r"^learner\.mixup\.kind is '\w+', which changes actions, but those of 'ddqn' are "
    ):
      apply_method(THREE_ROOMS, name)


def test_the_methods_that_shape_keep_the_potential_and_all_others_drop_it():
  environment = dataclasses.replace(
    THREE_ROOMS.environment,
    potential="environments.potentials:AtCells",
    potential_arguments={"cells": [[5, 0]]},
  )
  config = dataclasses.replace(THREE_ROOMS, environment=environment)
  for name in set(METHODS) - MIXING - RULED:
    assert apply_method(config, name).environment == (environment if "pbs" in name else THREE_ROOMS.environment)
  assert apply_method(config, "sset_pbs").replay == THREE_ROOMS.replay
  assert apply_method(config, "pbs").replay == apply_method(THREE_ROOMS, "uniform").replay


def test_cagrad_is_sset_with_a_coefficient_which_a_method_without_event_tables_drops():
  config = apply_method(THREE_ROOMS, "cagrad")
  assert config.learner.cagrad == CagradConfig(0.5)
  own = dataclasses.replace(
    THREE_ROOMS,
    learner=dataclasses.replace(THREE_ROOMS.learner, cagrad=CagradConfig(0.9, 0.0), bias_correction="balance"),
  )
  assert apply_method(own, "cagrad") == dataclasses.replace(own, method="cagrad")
  assert apply_method(own, "uniform").learner == THREE_ROOMS.learner


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"pbs", "sset_pbs"}))
def test_every_method_changes_only_its_own_settings_and_survives_json(name):
  before = config_for(name)
  config = apply_method(before, name)
  learner = dataclasses.replace(config.learner, cagrad=CagradConfig(), mixup=MixupConfig(), refer=ReferConfig())
  same = dataclasses.replace(config, events=before.events, replay=before.replay, learner=learner)
  assert same == dataclasses.replace(before, method=name)
  assert from_json(to_json(config)) == config


@pytest.mark.parametrize(
  ("name", "config", "sentence"),
  [
    ("unifrom", THREE_ROOMS, r"There is no method 'unifrom': did you mean 'uniform'\?"),
    (
      "zzz",
      THREE_ROOMS,
      r"There is no method 'zzz': there are uniform, per, per_rank, sset, sset_per, reaper, sset_reaper, nmer\b",
    ),
    ("pbs", THREE_ROOMS, r"The config 'three_rooms' has no potential to shape rewards by: name one"),
    ("sset", RunConfig(), r"The config 'run' has no event tables for SSET: add events and their tables\."),
    ("reverse_sweep", RunConfig(), r"The config 'run' has no goal event: name one that feeds a table in evaluator"),
    ("goal_only", apply_method(THREE_ROOMS, "uniform"), r"The config 'three_rooms' has no goal event"),
  ],
)
def test_a_method_that_cannot_be_applied_is_refused(name, config, sentence):
  with pytest.raises(UserError, match=sentence):
    apply_method(config, name)


def with_potential(config: RunConfig) -> RunConfig:
  potential: dict[str, Any] = {
    "potential": "environments.potentials:AtCells",
    "potential_arguments": {"cells": [[6, 1]]},
  }
  return dataclasses.replace(config, environment=dataclasses.replace(config.environment, **potential))


@pytest.mark.parametrize("name", METHODS)
def test_a_config_names_the_method_that_made_it_and_keeps_the_name_in_its_file(name):
  config = apply_method(with_potential(config_for(name)), name)
  assert method_of(config) == name
  assert from_json(to_json(config)).method == name


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("reverse_sweep", "goal_only")])
def test_a_config_that_names_no_method_has_that_of_its_tables(name):
  config = METHODS[name](with_potential(config_for(name)))
  assert config.method == ""
  assert method_of(config) == name


def test_a_goals_table_alone_is_sset_and_what_no_method_makes_is_another():
  assert method_of(METHODS["goal_only"](THREE_ROOMS)) == "sset"
  assert method_of(with_replay(default=dataclasses.replace(THREE_ROOMS.replay.default, selector="fifo"))) == "other"
  assert (
    method_of(with_replay(default=dataclasses.replace(THREE_ROOMS.replay.default, selector="prioritized"))) == "other"
  )
  assert method_of(with_potential(METHODS["per"](THREE_ROOMS))) == "other"


def test_a_method_may_be_any_label_but_no_sentence():
  assert method_of(dataclasses.replace(THREE_ROOMS, method="my-idea.2")) == "my-idea.2"
  with pytest.raises(UserError, match=r"Method name 'my idea' is not valid"):
    dataclasses.replace(THREE_ROOMS, method="my idea")
