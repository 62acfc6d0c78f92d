"""The experiments with continuous actions: what they compare, for how long, and how it is measured."""

import dataclasses

import pytest

from configs import RunConfig
from experiments.definition import Experiment
from experiments.registry import find_experiment


def _configs(name: str, budget: str = "paper") -> tuple[Experiment, dict[str, RunConfig]]:
  experiment = find_experiment(name)
  return experiment, {
    method.name: experiment.config_of(method, experiment.budgets[budget], seed=0) for method in experiment.methods
  }


def test_pendulum_compares_the_three_algorithms_on_five_seeds_within_10_000_environment_steps():
  experiment, configs = _configs("pendulum")
  assert {name: config.learner.algorithm.NAME for name, config in configs.items()} == {
    "sac": "sac",
    "qr_sac": "qr_sac",
    "td3": "td3",
  }
  assert experiment.budgets["paper"].seeds == 5
  for config in configs.values():
    assert config.environment.name == "Pendulum-v1"
    # The last evaluation is at the budget's end, which counts the warm-up.
    assert 9_500 < config.environment_steps <= 10_000
    assert config.replay.environment_steps_per_update == 1
    assert config.evaluator.episodes == 10
  (threshold,) = experiment.thresholds
  assert (threshold.curve, threshold.at_least) == ("eval_return", -200)


def test_the_lunar_lander_compares_uniform_per_with_three_exponents_sset_and_qr_sac():
  experiment, configs = _configs("lunar_lander")
  assert list(configs) == ["uniform", "sset", "per_40", "per_65", "per_90", "sset_qr_sac"]
  assert experiment.reference == "uniform"
  assert experiment.budgets["paper"].seeds == 5
  for name, config in configs.items():
    assert config.environment.name == "LunarLanderContinuous-v3"
    assert config.environment_steps >= 100_000
    assert config.evaluator.episodes == 30
    assert ("qr_sac" if name == "sset_qr_sac" else "sac") == config.learner.algorithm.NAME
    selectors = {table.selector for table in config.replay.all_tables}
    assert selectors == {"prioritized" if name.startswith("per_") else "uniform"}
    assert bool(config.replay.tables) == name.startswith("sset")
  assert [configs[f"per_{name}"].replay.priority.exponent for name in (40, 65, 90)] == [0.4, 0.65, 0.9]
  for name in ("per_40", "per_65", "per_90"):
    # As the documentation says.
    priority = configs[name].replay.priority
    assert [priority.importance_exponent_at(updates) for updates in (0, 10_000, 90_000)] == [0.4, 1.0, 1.0]
  (threshold,) = experiment.thresholds
  assert (threshold.curve, threshold.at_least) == ("eval_return", 200)


def test_the_long_lunar_lander_differs_in_its_source_its_budget_and_its_batches():
  experiment, configs = _configs("lunar_lander_batches")
  assert list(configs) == ["uniform", "sset", "per_40", "per_90", "uniform_256", "sset_256"]
  assert (experiment.budgets["paper"].steps, experiment.budgets["paper"].seeds) == (300_000, 10)
  _, shorter = _configs("lunar_lander")
  for name, config in configs.items():
    assert config.replay.sampling == "memory"
    assert config.learner.batch_size == (256 if name.endswith("_256") else 32)
    assert config.environment_steps >= 300_000
    other = shorter[name.removesuffix("_256")]
    assert config.replay == dataclasses.replace(other.replay, sampling="memory")
    assert dataclasses.replace(config.learner, batch_size=32) == other.learner


@pytest.mark.parametrize(
  ("name", "world", "reached", "more", "sampling", "seeds"),
  [
    ("halfcheetah", "HalfCheetah-v5", 3_000, ["sset_quarter"], "memory", 10),
    ("hopper", "Hopper-v5", 1_000, [], "server", 3),
    ("walker2d", "Walker2d-v5", 1_000, ["sset_lower"], "memory", 3),
    ("humanoid", "Humanoid-v5", 300, ["sset_lower"], "memory", 3),
  ],
)
def test_mujocos_worlds_compare_uniform_replay_with_sset(name, world, reached, more, sampling, seeds):
  experiment, configs = _configs(name)
  assert list(configs) == ["uniform", "sset", *more]
  assert experiment.budgets["paper"].seeds == seeds
  for config in configs.values():
    assert config.replay.sampling == sampling
    assert (config.environment.name, config.learner.algorithm.NAME) == (world, "sac")
    assert config.environment_steps >= 100_000
    assert experiment.budgets["paper"].steps >= 100_000
    assert config.evaluator.episodes == 30
  tables = 4 if name == "walker2d" else 3
  assert [len(config.replay.tables) for config in configs.values()] == [0, tables, *(tables for _ in more)]
  (threshold,) = experiment.thresholds
  assert (threshold.curve, threshold.at_least) == ("eval_return", reached)


def test_half_cheetah_also_has_a_quarter_of_table_2s_rewards_with_the_same_shares():
  _, configs = _configs("halfcheetah")
  own, quarter = configs["sset"], configs["sset_quarter"]
  assert [dict(event.arguments)["above"] for event in own.events] == [8, 12, 16]
  assert [dict(event.arguments)["above"] for event in quarter.events] == [2, 3, 4]
  assert [table.name for table in quarter.replay.tables] == [f"reward_above_{reward}" for reward in (2, 3, 4)]
  for table, other in zip(own.replay.all_tables, quarter.replay.all_tables, strict=True):
    assert (table.probability, table.min_size) == (other.probability, other.min_size)
  assert quarter.learner == own.learner


@pytest.mark.parametrize("name", ["pendulum", "lunar_lander", "lunar_lander_batches", "halfcheetah", "hopper"])
@pytest.mark.parametrize("budget", ["quick", "paper"])
def test_the_panel_says_over_how_many_episodes_a_return_is_and_the_last_one_is_at_the_budgets_end(name, budget):
  experiment, configs = _configs(name, budget)
  (panel,) = [panel for panel in experiment.panels if panel.curve == "eval_return"]
  for config in configs.values():
    assert panel.label == f"return ({config.evaluator.episodes} episodes)"
    assert experiment.budgets[budget].steps % config.evaluator.period_updates == 0
    # Each run goes on, solved or not.
    assert config.evaluator.solved_evaluations == 0


@pytest.mark.parametrize(
  ("name", "rewards", "shares"),
  [("walker2d", [2, 2.5, 3, 3.5], [0.2, 0.1, 0.05, 0.05]), ("humanoid", [5, 5.5, 6.25], [0.2, 0.1, 0.1])],
)
def test_lower_rewards_and_lengths_of_histories_are_compared_from_the_learners_memory(name, rewards, shares):
  _, worlds = _configs(name)
  _, histories = _configs(f"{name}_histories")
  assert list(histories) == ["uniform", "history_1", "history_50", "sset_lower"]
  # The same runs.
  assert [histories[method] for method in ("uniform", "sset_lower")] == [worlds["uniform"], worlds["sset_lower"]]
  for method, length in {"history_1": 1, "history_50": 50, "sset_lower": 200}.items():
    config = histories[method]
    assert config.replay.sampling == "memory"
    assert {event.history for event in config.events} == {length}
    assert [dict(event.arguments)["above"] for event in config.events] == rewards
    assert [table.probability for table in config.replay.tables] == shares


def test_hoppers_histories_differ_in_nothing_else():
  _, configs = _configs("hopper_histories")
  assert list(configs) == ["uniform", "history_50", "sset"]
  longer = configs["sset"]
  assert longer.replay.sampling == "memory"
  assert {event.history for event in longer.events} == {200}
  events = tuple(dataclasses.replace(event, history=50) for event in longer.events)
  assert configs["history_50"] == dataclasses.replace(longer, events=events)
