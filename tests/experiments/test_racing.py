"""The races' experiments: what they compare, for how long, and how it is measured."""

import dataclasses

import pytest

from configs import RunConfig
from experiments.definition import Experiment
from experiments.racing import EPOCH
from experiments.registry import find_experiment


def _configs(name: str) -> tuple[Experiment, dict[str, RunConfig]]:
  experiment = find_experiment(name)
  return experiment, {
    method.name: experiment.config_of(method, experiment.budgets["paper"], seed=3) for method in experiment.methods
  }


def test_the_slingshot_compares_uniform_replay_with_sset_with_and_without_weights():
  _, configs = _configs("slingshot")
  assert list(configs) == ["uniform", "sset", "uncorrected"]
  assert (configs["uniform"].events, configs["uniform"].replay.tables) == ((), ())
  assert [config.learner.bias_correction for config in configs.values()] == ["none", "balance", "none"]
  # Nothing else differs.
  assert dataclasses.replace(configs["uncorrected"], learner=configs["sset"].learner) == configs["sset"]


def test_three_thresholds_of_the_slipstream_are_compared_and_share_runs_with_the_slingshot():
  _, configs = _configs("slingshot_thresholds")
  thresholds = {name: dict(config.events[0].arguments)["above"] for name, config in configs.items()}
  assert thresholds == {"sset": 0.7, "slipstream_10": 0.1, "slipstream_90": 0.9}
  for name in ("slipstream_10", "slipstream_90"):
    assert dataclasses.replace(configs[name], events=configs["sset"].events) == configs["sset"]
  assert configs["sset"] == _configs("slingshot")[1]["sset"]


def test_the_time_trial_compares_uniform_replay_with_two_lengths_on_course():
  _, configs = _configs("time_trial")
  assert list(configs) == ["uniform", "sset", "one_second"]
  assert {name: event.history for name, config in configs.items() for event in config.events} == {
    "sset": 70,
    "one_second": 50,
  }
  (event,) = configs["one_second"].events
  assert event.arguments["second"]["arguments"]["steps"] == 10
  assert dataclasses.replace(configs["one_second"], events=configs["sset"].events) == configs["sset"]


@pytest.mark.parametrize(
  ("name", "evaluated"), [("slingshot", {"distance": 35.0, "balance": 0.0}), ("time_trial", {"laps": 3})]
)
def test_the_methods_of_a_race_share_seeds_memory_capacity_and_evaluations(name, evaluated):
  experiment, configs = _configs(name)
  capacities = {sum(map(config.replay.capacity_of, config.replay.all_tables)) for config in configs.values()}
  assert len(capacities) == 1
  for config in configs.values():
    assert config.seed == 3
    assert config.replay.sampling == "memory"
    assert config.evaluator.environment_arguments == evaluated
    # One episode every five epochs, as in the paper.
    assert (config.evaluator.period_updates, config.evaluator.episodes) == (5 * EPOCH, 1)
  # The last fifth and half are whole numbers of evaluations.
  assert experiment.budgets["paper"].steps % (10 * 5 * EPOCH) == 0


def test_the_races_panels_are_the_papers():
  slingshot, time_trial = find_experiment("slingshot"), find_experiment("time_trial")
  assert (slingshot.panels[0].curve, slingshot.panels[0].cumulative) == ("eval/measures/won", True)
  (margin,) = slingshot.late
  assert (margin.curve, margin.part, margin.given) == ("eval/measures/margin", 0.2, "eval/measures/won")
  assert (time_trial.panels[0].curve, time_trial.panels[0].cumulative) == ("eval/measures/off_course_count", True)
  assert [(measure.curve, measure.part, measure.given) for measure in time_trial.late] == [
    ("eval/measures/clean", 0.5, ""),
    ("eval/measures/best_lap", 0.5, ""),
  ]
