"""Runs whose learner has its own memory: the same run for the same seed, and exact resumes."""

import dataclasses

import numpy as np
import pytest

import slipstream
from configs import override
from configs.methods import apply_method
from tests.launch.test_inline import small_world

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("undrawn")]


def _in_memory(**changes: str) -> slipstream.RunConfig:
  return small_world(replay__sampling="memory", **changes)


def train_inline(config: slipstream.RunConfig, folder, **arguments):
  return slipstream.train(config, run_root=folder, inline=True, quiet=True, **arguments)


def memory_of(run_dir) -> dict[str, np.ndarray]:
  """What the newest checkpoint holds of the source, but for the names of files."""
  folders = sorted((run_dir / "checkpoints" / "learner").glob("checkpoint_*"), key=lambda path: int(path.name[11:]))
  with np.load(folders[-1] / "source.npz") as file:
    return {name: file[name] for name in file.files if not name.startswith("journal/")}


def test_a_run_solves_its_world_without_a_transition_on_the_server(tmp_path):
  outcome = train_inline(_in_memory(), tmp_path)
  assert outcome.solved
  tables = {table.name: table for table in outcome.status.tables}
  assert tables["default"].inserted == outcome.status.environment_steps
  assert 0 < tables["done"].size < tables["default"].size
  assert outcome.status.unread_steps is not None


@pytest.mark.parametrize("method", ["sset", "sset_reaper"])
def test_two_runs_of_one_seed_are_the_same_to_the_last_digit(tmp_path, method):
  config = apply_method(_in_memory(environment_steps="1000", evaluator__solved_evaluations="0"), method)
  first, second = (train_inline(config, tmp_path / name) for name in "ab")
  for run in (first, second):
    assert (run.status.environment_steps, run.status.gradient_steps) == (1000, 80)
  assert first.status.learner == second.status.learner
  evaluations = [[dataclasses.replace(each, seconds=0.0) for each in run.status.evaluations] for run in (first, second)]
  assert evaluations[0] == evaluations[1]
  before, after = memory_of(first.run_dir), memory_of(second.run_dir)
  assert before.keys() == after.keys()
  for name in before.keys() - {"memory/episodes/identity"}:  # Writers have random ids.
    np.testing.assert_array_equal(before[name], after[name], err_msg=name)


def test_two_runs_with_ranks_of_one_seed_learn_the_same(tmp_path):
  short = {"environment_steps": "700", "replay.default.min_size": "200", "replay.priority.ranking_period_updates": "30"}
  config = override(apply_method(slipstream.load_config("cartpole"), "per_rank"), short)
  first, second = (train_inline(config, tmp_path / name) for name in "ab")
  assert first.status.gradient_steps >= 64
  assert first.status.learner == second.status.learner
  before, after = memory_of(first.run_dir), memory_of(second.run_dir)
  assert np.isfinite(before["memory/columns/ranked_error"]).any()
  for name in ("memory/columns/ranked_error", "memory/weights/0", "ranks/0"):
    np.testing.assert_array_equal(before[name], after[name], err_msg=name)


def test_ranks_go_with_event_tables_corrections_and_conflict_averse_gradients(tmp_path):
  config = _in_memory(
    environment_steps="600",
    evaluator__solved_evaluations="0",
    learner__bias_correction="balance",
    learner__cagrad__coefficient="0.5",
    replay__default__selector="ranked",
    replay__tables__at_gap__selector="ranked",
    replay__priority__normalize="buffer",
    replay__priority__ranking_period_updates="10",
  )
  run = train_inline(config, tmp_path)
  assert run.status.gradient_steps == 40
  assert all(np.isfinite(value) for value in run.status.learner.values())
  memory = memory_of(run.run_dir)
  assert "ranks/2" not in memory  # The goal's table is uniform.
  for table in (0, 1):
    weights = memory[f"memory/weights/{table}"]
    assert len(memory[f"ranks/{table}"]) > 0
    assert 0 < weights.min() < weights.max() == 1.0


def test_two_runs_with_mixed_rows_of_one_seed_learn_the_same(tmp_path):
  pendulum = {"environment_steps": "700", "learner.updates_per_block": "20", "evaluator.period_updates": "100"}
  config = apply_method(override(slipstream.load_config("pendulum_td3"), pendulum), "nmer")
  first, second = (train_inline(config, tmp_path / name) for name in "ab")
  losses = [dict(run.status.learner) for run in (first, second)]
  assert losses[0].pop("mixup_seconds_per_update") > 0
  losses[1].pop("mixup_seconds_per_update")
  assert first.status.gradient_steps >= 100
  assert losses[0] == losses[1]
  evaluations = [[dataclasses.replace(each, seconds=0.0) for each in run.status.evaluations] for run in (first, second)]
  assert evaluations[0] == evaluations[1] != []


def test_a_run_that_is_stopped_half_way_goes_on_with_the_tables_that_it_had(tmp_path):
  config = _in_memory(environment_steps="600", evaluator__solved_evaluations="0")
  stopped = train_inline(config, tmp_path)
  before = memory_of(stopped.run_dir)
  # Within ten steps no block is due, so only rows are added, if any.
  resumed = train_inline(override(config, {"environment_steps": "601"}), tmp_path, resume=str(stopped.run_dir))
  after = memory_of(stopped.run_dir)
  assert resumed.status.gradient_steps == stopped.status.gradient_steps == 40
  for name, array in before.items():
    found = after[name][: len(array)] if array.ndim else after[name]
    np.testing.assert_array_equal(array, found, err_msg=name)
