"""Experiments as they are declared."""

import dataclasses

import numpy as np
import pytest

from configs import UserError, from_json, to_json
from environments import load_reference
from experiments.definition import LateMeasure, Method, Panel, Threshold, environment_steps
from experiments.jobs import plan
from experiments.registry import EXPERIMENTS, find_budget, find_experiment
from replay_server.contract.layout import batch_shares
from tests.experiments.tiny import CONFIG, make_experiment


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_every_experiment_can_be_planned_at_every_budget(name):
  experiment = find_experiment(name)
  assert experiment.name == name
  assert {"quick", "paper"} <= set(experiment.budgets)
  assert experiment.reference in {method.name for method in experiment.methods}
  for reference in experiment.probes.values():
    load_reference(reference, "The probe")
  for budget in experiment.budgets.values():
    jobs = plan(experiment, experiment.methods, budget, seeds=1)
    # So that all curves end at the budget.
    for config in (job.config for job in jobs):
      block, period = config.learner.updates_per_block, config.evaluator.period_updates
      ratio = config.replay.environment_steps_per_update
      assert ratio is not None
      updates = round((config.environment_steps - config.replay.default.min_size) / ratio)
      assert (updates % period, period % block) == (0, 0)


def test_three_rooms_is_the_papers_figure():
  experiment = find_experiment("three_rooms")
  assert [method.name for method in experiment.methods] == ["uniform", "sset", "reverse_sweep", "per", "sset_per"]
  assert (experiment.budgets["paper"].steps, experiment.budgets["paper"].seeds) == (19_200, 30)
  config = experiment.config_of(experiment.methods[1], experiment.budgets["paper"], seed=7)
  assert (config.seed, config.environment_steps, config.environment.arguments) == (7, 193_000, {})
  assert config.replay.environment_steps_per_update == 10


def test_the_same_methods_on_the_server_and_from_memory_differ_in_nothing_else():
  servers, memories = (
    [experiment.config_of(method, experiment.budgets["paper"], seed=7) for method in experiment.methods]
    for experiment in map(find_experiment, ("three_rooms", "three_rooms_memory"))
  )
  assert len(servers) == 5
  for server, memory in zip(servers, memories, strict=True):
    replay = dataclasses.replace(memory.replay, sampling="server")
    assert memory.replay.sampling == "memory"
    assert dataclasses.replace(memory, replay=replay) == server


def test_exponents_of_importance_weights_differ_in_nothing_else():
  experiment, memory = find_experiment("importance"), find_experiment("three_rooms_memory")
  budget = experiment.budgets["paper"]
  configs = {method.name: experiment.config_of(method, budget, seed=7) for method in experiment.methods}
  # The same runs.
  others = {method.name: memory.config_of(method, budget, seed=7) for method in memory.methods}
  assert (configs["uniform"], configs["per"]) == (others["uniform_memory"], others["per_memory"])
  rising = configs["per"].replay
  assert (rising.priority.importance_exponent, rising.priority.final_importance_exponent) == (0.4, 1.0)
  for name, beta in {"per_beta_40": 0.4, "per_beta_0": 0.0}.items():
    priority = dataclasses.replace(rising.priority, importance_exponent=beta, final_importance_exponent=beta)
    assert configs[name] == dataclasses.replace(configs["per"], replay=dataclasses.replace(rising, priority=priority))


def test_methods_are_chosen_by_name_also_those_that_it_does_not_have_by_itself():
  experiment = make_experiment()
  assert experiment.select([]) == experiment.methods
  chosen = experiment.select(["goal_only", "sset", "sset"])
  assert [(method.name, method.label) for method in chosen] == [("goal_only", "goal only"), ("sset", "SSET")]


def test_a_method_may_be_any_change_of_the_config():
  def half(config):
    return dataclasses.replace(config, learner=dataclasses.replace(config.learner, learning_rate=5e-4))

  experiment = make_experiment(methods=(Method("half", "half the rate", half),))
  (method,) = experiment.select(["half"])
  assert experiment.config_of(method, experiment.budgets["quick"], 0).learner.learning_rate == 5e-4


@pytest.mark.parametrize(
  ("find", "sentence"),
  [
    (lambda: find_experiment("three_room"), r"There is no experiment 'three_room': did you mean 'three_rooms'\?"),
    (lambda: find_experiment("zzz"), r"There is no experiment 'zzz': there are three_rooms"),
    (lambda: find_budget(make_experiment(), "quik"), r"'tiny' has no budget 'quik': did you mean 'quick'\?"),
    (lambda: make_experiment().select(["unifrom"]), r"'tiny' has no method 'unifrom': did you mean 'uniform'\?"),
    (lambda: make_experiment().select(["zzz"]), r"'tiny' has no method 'zzz': there are uniform, per, per_rank, sset"),
  ],
)
def test_an_unknown_name_is_refused_with_the_nearest(find, sentence):
  with pytest.raises(UserError, match=sentence):
    find()


def test_curves_that_nothing_measures_and_names_that_occur_twice_are_refused():
  with pytest.raises(ValueError, match="no curve 'reutrn'"):
    make_experiment(panels=(Panel("reutrn", "return"),))
  with pytest.raises(ValueError, match="no curve 'solved'"):
    make_experiment(thresholds=(Threshold("solved", 1, ""),))
  with pytest.raises(ValueError, match="no curve 'margin'"):
    make_experiment(late=(LateMeasure("margin", "", "", 0.2),))
  with pytest.raises(ValueError, match="no curve 'won'"):
    make_experiment(late=(LateMeasure("eval_return", "", "", 0.2, given="won"),))
  with pytest.raises(ValueError, match="two methods of one name"):
    make_experiment(methods=make_experiment().methods * 2)


def test_environment_steps_are_those_of_an_inline_run():
  assert environment_steps(CONFIG, 320) == 200 + 3200


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_every_method_of_every_experiment_travels_as_json(name):
  experiment = find_experiment(name)
  for budget in experiment.budgets.values():
    for method in experiment.methods:
      config = experiment.config_of(method, budget, seed=3)
      assert from_json(to_json(config)) == config


def test_methods_of_one_experiment_differ():
  for name in EXPERIMENTS:
    experiment = find_experiment(name)
    configs = [experiment.config_of(method, experiment.budgets["paper"], seed=0) for method in experiment.methods]
    assert len({to_json(config) for config in configs}) == len(configs)


def test_shares_of_the_weights_experiment_are_half_of_a_batch_with_a_row_each():
  experiment = find_experiment("weights")
  for method in experiment.methods[1:]:
    config = experiment.config_of(method, experiment.budgets["paper"], seed=0)
    assert config.replay.default.probability == 0.5
    shares = {table.name: table.probability for table in config.replay.tables}
    batch_size = config.learner.batch_size
    long_run = batch_shares(np.array([0.5, *shares.values()]), batch_size, config.replay.at_least_one)
    assert np.all(long_run * batch_size >= 1)
    assert sum(shares.values()) == pytest.approx(0.5)
    if method.name in ("door", "done"):
      assert shares[{"door": "at_door", "done": "done"}[method.name]] == 0.4


def test_experiments_of_one_world_have_runs_in_common():
  def digests(name, methods):
    experiment = find_experiment(name)
    jobs = plan(experiment, experiment.select(methods), experiment.budgets["paper"], seeds=1)
    return [job.digest for job in jobs]

  assert digests("obstacle_course", ["uniform", "per", "sset"]) == digests("forgetting", ["uniform", "per", "sset"])
  course = digests("obstacle_course", ["uniform", "sset", "reverse_sweep"])
  assert course == digests("histories", ["uniform", "sset", "done_50"])
  assert course[:2] == digests("weights", ["uniform", "sset"])
  assert digests("randomised_skills", ["uniform", "sset"]) == digests("cagrad", ["uniform", "sset"])
  assert digests("two_rooms", ["uniform", "pbs", "sset"]) == digests("bad_events", ["uniform", "pbs", "gap_goal_70"])
