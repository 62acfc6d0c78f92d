"""NMER's experiments: every run's settings against its paper's tables, and steps that are comparable across replay ratios."""

import pytest

from configs import RunConfig, SacConfig, Td3Config
from configs.presets.nmer import TUNED
from experiments.definition import Experiment
from experiments.registry import EXPERIMENTS, find_experiment

NMER = [name for name in EXPERIMENTS if name.startswith("nmer")]


def configs_of(experiment: Experiment, budget: str) -> dict[str, RunConfig]:
  return {method.name: experiment.config_of(method, experiment.budgets[budget], 0) for method in experiment.methods}


@pytest.mark.parametrize("budget", ["quick", "small", "paper"])
@pytest.mark.parametrize("name", NMER)
def test_all_methods_sample_from_the_memory_and_are_evaluated_at_the_same_steps(name: str, budget: str) -> None:
  experiment = find_experiment(name)
  configs = configs_of(experiment, budget)
  assert {config.replay.sampling for config in configs.values()} == {"memory"}
  assert len({config.environment_steps for config in configs.values()}) == 1
  periods = {
    round(config.evaluator.period_updates * (config.replay.environment_steps_per_update or 0), 6)
    for config in configs.values()
  }
  assert len(periods) == 1
  for config in configs.values():
    assert config.evaluator.period_updates % config.learner.updates_per_block == 0
  if experiment.over == "environment_steps":
    config = next(iter(configs.values()))
    assert periods == {(experiment.budgets[budget].steps - config.replay.default.min_size) / 50}


@pytest.mark.parametrize("algorithm", ["sac", "td3"])
def test_the_papers_budget_gives_each_buffer_its_own_best_row(algorithm: str) -> None:
  for world, rows in TUNED[algorithm].items():  # type: ignore[index]  # Names of the table's keys.
    experiment = find_experiment(f"nmer_{algorithm}_{world.lower()}")
    configs = configs_of(experiment, "paper")
    assert set(configs) == set(rows) | (set() if algorithm == "sac" else {"nn_mixup", "mixup", "s4rl", "noise"})
    for method, config in configs.items():
      row = rows.get(method, rows["nmer"])  # type: ignore[call-overload]  # The others have NMER's.
      kind = config.learner.algorithm
      assert isinstance(kind, (SacConfig, Td3Config))
      assert config.replay.environment_steps_per_update == pytest.approx(1 / row.updates_per_step)
      assert (kind.policy_l2, config.learner.max_gradient_norm) == (row.policy_l2, row.max_gradient_norm)
    assert configs["nmer"].learner.mixup.neighbors.count == rows["nmer"].neighbors
    small = configs_of(experiment, "small")
    assert {config.replay.environment_steps_per_update for config in small.values()} == {1.0}


def test_ratios_and_neighbours_are_those_of_the_ablations() -> None:
  ratios = configs_of(find_experiment("nmer_ratio"), "small")
  assert {name: round(1 / (config.replay.environment_steps_per_update or 1)) for name, config in ratios.items()} == {
    f"{buffer}_{ratio}": ratio for buffer in ("uniform", "ct", "nmer") for ratio in (1, 5, 20)
  }
  mixups = {
    name: config.learner.mixup for name, config in configs_of(find_experiment("nmer_neighbors"), "small").items()
  }
  counts = {name: mixup.neighbors.count for name, mixup in mixups.items() if name.startswith("neighbors_")}
  assert counts == {"neighbors_1": 1, "neighbors_5": 5, "neighbors_10": 10, "neighbors_25": 25}
  assert mixups["mixup"].kind == "mixup"
  assert [mixups[f"fraction_{percent}"].fraction for percent in (25, 50, 75)] == [0.25, 0.5, 0.75]
  assert [mixups[f"growth_{percent}"].neighbors.growth for percent in (0, 25)] == [0.0, 0.25]
