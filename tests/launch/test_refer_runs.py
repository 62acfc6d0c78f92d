"""Runs of V-RACER and ReF-ER: the same run for the same seed, what they go with, exact resumes, a killed learner."""

import contextlib
import os
import signal
from typing import Any

import numpy as np
import pytest

import slipstream
from configs import from_dict, override, to_dict
from configs.methods import apply_method
from tests.launch.processes import KILL, START_SECONDS, address_of, cli, run_dir_of, status_of, wait_for
from tests.launch.test_memory_runs import memory_of, train_inline
from tests.launch.test_program import WORLD, attached_actors

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("undrawn")]

# A run of a few seconds; Pendulum's episodes have 200 steps, and all are truncated.
_SHORT = {
  "environment.name": "Pendulum-v1",
  "environment_steps": "600",
  "replay.capacity": "500",
  "replay.default.min_size": "200",
  "network.hidden_sizes": "[16]",
  "learner.batch_size": "16",
  "learner.learning_rate": "0.01",
  "learner.device": "CPU:0",
  "learner.jit_compile": "false",
  "evaluator.enabled": "false",
}


def _config(algorithm: str, **changes: Any) -> slipstream.RunConfig:
  config = slipstream.load_config(f"refer_{algorithm}_swimmer")
  return override(config, {**_SHORT, **{key.replace("__", "."): str(value) for key, value in changes.items()}})


def test_two_runs_of_one_seed_learn_the_same(tmp_path):
  config = _config("v_racer", replay__environment_steps_per_update=2)
  first, second = (train_inline(config, tmp_path / name) for name in "ab")
  assert first.status.gradient_steps == 200
  assert first.status.learner == second.status.learner
  assert 0 < first.status.learner["refer_beta"] < 1
  before, after = memory_of(first.run_dir), memory_of(second.run_dir)
  for name in ("log_ratio", "divergence", "value", "q_ret", "end_value"):
    np.testing.assert_array_equal(before[f"memory/columns/{name}"], after[f"memory/columns/{name}"], err_msg=name)
  # Whole episodes alone: the first of three was let go.
  assert len(before["memory/tables/0"]) == 400
  assert np.isfinite(before["memory/columns/q_ret"]).all()
  assert before["closeness/log_ratio_counts"].sum() == 400
  assert (first.run_dir / "log_ratios.png").exists()
  assert f"importance weights: {first.run_dir / 'log_ratios.png'}" in first.summary


@pytest.mark.parametrize(("algorithm", "method"), [("ddpg", "er"), ("naf", "refer")])
def test_other_algorithms_learn_with_and_without_the_rules(tmp_path, algorithm, method):
  run = train_inline(apply_method(_config(algorithm, environment_steps=300), method), tmp_path)
  learner = run.status.learner
  assert run.status.gradient_steps == 100
  assert all(np.isfinite(value) for value in learner.values())
  assert learner["refer_mean_divergence"] > 0
  assert (learner["refer_beta"] < 1) == (method == "refer")


def test_it_goes_with_event_tables_reaper_corrections_and_conflict_averse_gradients(tmp_path):
  replay = {
    "capacity": 800,
    "default": {"name": "default", "probability": 0.75, "capacity": 500, "min_size": 200, "selector": "prioritized"},
    "tables": [{"name": "upright", "probability": 0.25, "capacity": 100, "selector": "prioritized"}],
    "priority": {"criterion": "reaper", "normalize": "buffer"},
    "sampling": "memory",
    "unit": "episodes",
    "environment_steps_per_update": 1,
  }
  events = [
    {
      "name": "upright",
      "condition": "environments.conditions:Threshold",
      "history": 20,
      "arguments": {"of": "reward", "above": -8.0},
    }
  ]
  fields = to_dict(_config("ddpg", environment_steps=300))
  config: slipstream.RunConfig = from_dict({**fields, "replay": replay, "events": events})
  algorithm = {"learner.algorithm": "td3", "learner.bias_correction": "balance", "learner.cagrad.coefficient": "0.5"}
  config = override(config, algorithm)
  run = train_inline(config, tmp_path)
  assert run.status.gradient_steps == 100
  assert all(np.isfinite(value) for value in run.status.learner.values())
  tables = {table.name: table for table in run.status.tables}
  assert 0 < tables["upright"].size <= 100
  assert tables["default"].size == 200  # A whole episode; the second is under way.


def test_a_run_goes_on_with_its_estimates_and_its_beta(tmp_path):
  config = _config("v_racer", environment_steps=400)
  stopped = train_inline(config, tmp_path)
  assert stopped.status.gradient_steps == 200
  before = memory_of(stopped.run_dir)
  assert {"closeness/closeness", "rewards/scale", "returns/swept_with"} <= before.keys()
  longer = train_inline(override(config, {"environment_steps": "440"}), tmp_path, resume=str(stopped.run_dir))
  assert longer.status.gradient_steps == 240
  assert all(np.isfinite(value) for value in longer.status.learner.values())
  after = memory_of(stopped.run_dir)
  # The third episode is under way: the table is as it was, and the values of its rows have moved on.
  assert before["memory/sequences"].tolist() == after["memory/sequences"][:400].tolist()
  q_ret = [state["memory/columns/q_ret"][:400] for state in (before, after)]
  assert np.abs(q_ret[1] - q_ret[0]).mean() < np.abs(q_ret[0]).mean()
  assert (q_ret[0] != q_ret[1]).any()


def test_a_local_run_with_an_attached_worker_and_a_killed_learner_keeps_every_row_whole_episodes_and_beta(tmp_path):
  # Nearly all steps are far-policy soon, so beta falls with every update, from 1 on.
  of_refer = {"learner.refer.limit": "0.01", "learner.refer.tolerance": "0.001", "learner.learning_rate": "0.002"}
  small = {
    **{key: value for key, value in _SHORT.items() if not key.startswith(("environment", "replay.capacity"))},
    **of_refer,
    "environment.name": "slow_world:slow_pendulum",
    "environment.arguments.steps": "100",
    "environment_steps": "100000000",
    "replay.environment_steps_per_update": "2",
    "learner.checkpoint_period_seconds": "5",
  }
  config = ["--config=refer_ddpg_swimmer", WORLD, *(f"--config.{key}={value}" for key, value in small.items())]
  with contextlib.ExitStack() as stack:
    begin = [*config, "--config.actor.workers=2", f"--run_root={tmp_path}"]
    run = stack.enter_context(cli(tmp_path, "train", "train", *begin))
    run_dir = run_dir_of(run)
    checkpoints = run_dir / "checkpoints" / "learner"
    stack.enter_context(cli(tmp_path, "attach", "attach", f"--server={address_of(run)}", WORLD))
    wait_for(lambda: attached_actors(run_dir) == 1, START_SECONDS, "the attached worker")
    wait_for(lambda: any(checkpoints.glob("checkpoint_*[0-9]")), START_SECONDS, "a checkpoint")
    saved = _newest(checkpoints)
    learned = status_of(run_dir)["gradient_steps"]
    before = wait_for(lambda: _with_beta_below(run_dir, 0.6, learned), START_SECONDS, "a beta that has moved")
    (learner,) = [role for role in before["roles"] if role["role"] == "learner"]
    os.kill(learner["pid"], KILL)
    has_received_since = _newest(checkpoints) == saved
    again = wait_for(lambda: _with_lives(run_dir, 2), START_SECONDS, "the learner again")
    assert again["tables"][0]["size"] >= 200  # Its heartbeats never say that the tables are empty.
    again = wait_for(lambda: _with_updates(run_dir, before["gradient_steps"] + 100), START_SECONDS, "further updates")
    assert again["learner"]["refer_beta"] < before["learner"]["refer_beta"]
    run.send(signal.SIGTERM)
    assert run.wait(120) == 143, run.output()
  status, memory = status_of(run_dir), memory_of(run_dir)
  lost = status["learner"].get("memory_lost_rows", 0)
  stored = status["tables"][0]["inserted"] + status["learner"].get("memory_repeated_rows", 0)
  # The learner counts rows when it reports, a moment before the run ends, and three episodes are under way.
  assert 0 <= status["environment_steps"] - status["unread_steps"] - stored - lost <= 2_000
  assert lost <= 4_096
  # Whole episodes, but for rows that were on their way when the learner was killed.
  is_stored = np.isin(memory["memory/sequences"], memory["memory/tables/0"])
  _, lengths = np.unique(memory["memory/rows/record"][is_stored], return_counts=True)
  assert lengths.max() == 100
  assert (100 - lengths).sum() <= lost
  log = "".join(path.read_text() for path in (run_dir / "logs" / "learner").iterdir())
  assert ("transitions that it had received after its checkpoint" in log) or not has_received_since
  assert "Traceback" not in log


def _newest(checkpoints):
  return max(int(path.name[11:]) for path in checkpoints.glob("checkpoint_*[0-9]"))


def _with_lives(run_dir, lives):
  status = status_of(run_dir)
  return status if status["lives"]["learner"] == lives else None


def _with_beta_below(run_dir, beta, updates):
  status = _with_updates(run_dir, updates + 1)
  return status if status and status["learner"]["refer_beta"] < beta else None


def _with_updates(run_dir, updates):
  status = status_of(run_dir)
  return status if status["gradient_steps"] >= updates and "refer_beta" in status["learner"] else None
