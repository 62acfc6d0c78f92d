"""ReaPER's experiments: their settings against its paper's Table 2, and runs that end when they are solved."""

import dataclasses

import pytest
from PIL import Image

from configs import DdqnConfig
from experiments.definition import Panel
from experiments.pictures import draw
from experiments.registry import find_experiment
from experiments.tables import summary_markdown
from tests.experiments.tiny import make_experiment, make_result


@pytest.mark.parametrize(
  ("world", "settings"),
  [
    ("cartpole", (2.3e-3, 50_000, 100_000, 64, 256, 2.0, 475.0)),
    ("acrobot", (6.3e-4, 100_000, 50_000, 128, 4, 1.0, -100.0)),
    ("lunar_lander", (6.3e-4, 100_000, 50_000, 128, 4, 1.0, 200.0)),
  ],
)
def test_the_settings_are_those_of_table_2(world, settings):
  experiment = find_experiment(f"reaper_{world}")
  budget = experiment.budgets["paper"]
  assert budget.seeds == 20
  priorities = {}
  for method in experiment.methods:
    config = experiment.config_of(method, budget, 0)
    replay, learner = config.replay, config.learner
    assert (
      learner.learning_rate,
      config.environment_steps,
      replay.capacity,
      learner.batch_size,
      replay.steps_per_round,
      replay.environment_steps_per_update,
      config.evaluator.solved_return,
    ) == settings
    assert isinstance(learner.algorithm, DdqnConfig)
    assert (learner.max_gradient_norm, learner.discount, learner.algorithm.td_loss) == (10.0, 0.99, "huber")
    assert (config.evaluator.episodes, config.evaluator.epsilon) == (5, 0.001)
    assert (replay.sampling, replay.default.min_size) == ("memory", 1_000)
    assert config.evaluator.solved_evaluations == 1
    priorities[method.name] = replay.default.selector, replay.priority
  assert priorities["uniform"][0] == "uniform"
  assert {selector for selector, _ in (priorities["per"], priorities["reaper"])} == {"prioritized"}
  per, reaper = priorities["per"][1], priorities["reaper"][1]
  assert (per.criterion, per.exponent, per.new_items) == ("td_error", 0.6, "largest")
  assert (reaper.criterion, reaper.exponent, reaper.reliability_exponent) == ("reaper", 0.4, 0.2)
  for priority in (per, reaper):
    assert priority.normalize == "buffer"
    assert priority.importance_exponent_at(0) == 0.4
    assert priority.importance_exponent_at(budget.steps) == 1.0


def test_epsilon_is_the_papers_at_the_first_update_and_at_the_end_of_its_fall():
  config = find_experiment("reaper_cartpole").config
  algorithm = config.learner.algorithm
  # It falls from 1 to .04 over 8,000 steps, 1,000 of which come before the first update.
  assert algorithm.epsilon_at(0, 0) == pytest.approx(1 - 0.96 / 8)
  assert algorithm.epsilon_at(0, 3_500) == algorithm.epsilon_at(0, 20_000) == pytest.approx(0.04)


def test_the_three_pairs_of_exponents_are_those_of_appendix_e():
  experiment = find_experiment("reaper_exponents")
  budget = experiment.budgets["paper"]
  assert budget.seeds == 10
  priorities = [experiment.config_of(method, budget, 0).replay.priority for method in experiment.methods]
  assert [(each.exponent, each.reliability_exponent) for each in priorities] == [(0.2, 0.4), (0.3, 0.3), (0.4, 0.2)]
  reaper = find_experiment("reaper_cartpole")
  # So that both experiments have these runs in common.
  assert reaper.config_of(reaper.methods[-1], budget, 3) == experiment.config_of(experiment.methods[-1], budget, 3)


def _ending() -> dict:
  returns = {"uniform": ([-1, -1, -1, -1], [-1, -1, -1, 1]), "sset": ([-1, 1], [-1, -1, 1])}
  return {name: [make_result(run, name, seed) for seed, run in enumerate(runs)] for name, runs in returns.items()}


def test_runs_that_end_when_solved_have_a_table_of_steps_and_a_picture_of_shares_and_no_means(tmp_path):
  experiment = make_experiment(panels=(), probes={}, recorded=(), ends_when_solved=True)
  methods = experiment.methods
  text = summary_markdown(experiment, methods, _ending(), experiment.budgets["quick"], "command")
  assert "| SSET | 2 of 2 | 250 ± 71 |" in text
  assert "last quarter" not in text
  draw(experiment, methods, _ending(), tmp_path / "ending.png")
  with Image.open(tmp_path / "ending.png") as picture:
    assert picture.size == pytest.approx((4.8 * 150, (3.4 + 0.9) * 150))


def test_a_run_ends_with_its_first_solved_evaluation():
  experiment = make_experiment(panels=(), probes={}, recorded=(), ends_when_solved=True)
  assert experiment.config_of(experiment.methods[0], experiment.budgets["quick"], 0).evaluator.solved_evaluations == 1


def test_panels_of_runs_that_end_at_different_steps_are_refused():
  with pytest.raises(ValueError, match="its panels would compare nothing"):
    dataclasses.replace(make_experiment(ends_when_solved=True, panels=()), panels=(Panel("eval_return", "return"),))
