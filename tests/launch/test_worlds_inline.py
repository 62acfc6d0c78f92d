"""The presets of the MiniGrid worlds train, and leave their pictures."""

import pytest

import slipstream
from configs import load_config, override

SHORT = {
  "environment_steps": "600",
  "environment.arguments.time_limit": "60",
  "replay.default.min_size": "200",
  "actor.random_steps": "200",
  "learner.updates_per_block": "8",
  "evaluator.period_updates": "32",
  "evaluator.episodes": "1",
  "evaluator.solved_evaluations": "1000",
}


@pytest.mark.parametrize("preset", ["two_rooms", "obstacle_course", "randomised_skills"])
def test_a_preset_trains_and_leaves_a_picture_and_an_animation(preset, tmp_path):
  outcome = slipstream.train(override(load_config(preset), SHORT), run_root=tmp_path, inline=True, quiet=True)
  assert outcome.status.environment_steps == 600
  # 400 steps after the minimum of 200, ten an update.
  assert outcome.status.gradient_steps == 40
  assert outcome.status.evaluations
  for name in ("greedy_path.png", "videos/greedy_path.gif"):
    assert (outcome.run_dir / name).stat().st_size > 0
