"""Inline runs: one process, exact environment steps per update, the same seed the same run."""

import dataclasses
import itertools
import re
import threading

import numpy as np
import pytest

import slipstream
from actors.worker import RolloutWorker
from configs import load_config, override
from launch.inline import run_inline
from launch.run_directory import create_run_directory, open_run_directory
from launch.view.run_view import RunView
from learner.learner import Learner
from replay_server.contract.policy import load_snapshot
from replay_server.contract.run import read_manifest
from replay_server.process.server import ReplayServer
from tests.launch.processes import KILL, START_SECONDS, cli, run_dir_of, wait_for

SMALL_WORLD = {
  "environment.arguments.room_size": "2",
  "environment.arguments.time_limit": "100",
  "replay.default.min_size": "200",
  "actor.random_steps": "200",
  "learner.updates_per_block": "8",
  "evaluator.period_updates": "64",
}


def small_world(**changes: str) -> slipstream.RunConfig:
  return override(
    load_config("three_rooms"), {**SMALL_WORLD, **{key.replace("__", "."): v for key, v in changes.items()}}
  )


def test_an_inline_run_solves_its_world_from_python(tmp_path, capfd):
  outcome = slipstream.train(small_world(), run_root=tmp_path, inline=True)
  assert outcome.solved
  assert outcome.exit_code == 0
  assert outcome.status.solved_streak == 4
  for name in ("learning_curve.png", "greedy_path.png", "metrics.csv", "logs/inline"):
    assert (outcome.run_dir / name).stat().st_size > 0
  output = capfd.readouterr()
  assert "reverb/cc" not in output.out + output.err
  assert "solved" in output.out
  with pytest.raises(slipstream.UserError, match=r"is solved, by 4 evaluations in a row: to resume it anyway"):
    slipstream.train(resume=str(outcome.run_dir), inline=True, quiet=True)


def test_gradient_steps_follow_environment_steps_exactly_and_the_budget_is_kept_and_a_run_goes_on(tmp_path):
  config = small_world(environment_steps="1000", evaluator__solved_evaluations="1000")
  outcome = slipstream.train(config, run_root=tmp_path, inline=True, quiet=True)
  assert outcome.exit_code == 3
  assert outcome.status.phase == "exhausted"
  assert outcome.status.environment_steps == 1000
  # 800 steps after the minimum of 200, ten an update, in blocks of eight.
  assert outcome.status.gradient_steps == 80

  with pytest.raises(
    slipstream.UserError, match=r"has taken 1,000 environment steps, and its budget is 1,000: give it more"
  ):
    slipstream.train(resume=str(outcome.run_dir), inline=True, quiet=True)
  more = override(config, {"environment_steps": "1320"})
  resumed = slipstream.train(more, resume=str(outcome.run_dir), inline=True, quiet=True)
  # The new budget was stored.
  with pytest.raises(slipstream.UserError, match=r"has taken 1,320 environment steps, and its budget is 1,320"):
    slipstream.train(resume=str(outcome.run_dir), inline=True, quiet=True)
  assert resumed.run_dir == outcome.run_dir
  assert resumed.status.environment_steps == 1320
  assert resumed.status.gradient_steps == 112
  assert resumed.status.policy_version > outcome.status.policy_version
  assert resumed.status.wall_seconds > outcome.status.wall_seconds


def test_a_status_by_the_clock_does_not_end_a_run_before_its_last_block(tmp_path, monkeypatch):
  class SendsAtOnce(RolloutWorker):
    def step(self):
      super().step()
      self.flush()

  monkeypatch.setattr("launch.inline.RolloutWorker", SendsAtOnce)
  monkeypatch.setattr("launch.inline.TICK_SECONDS", 0.0)
  config = small_world(environment_steps="280", evaluator__solved_evaluations="1000")
  status = run_inline(config, create_run_directory(config, tmp_path), threading.Event(), RunView(quiet=True))
  assert (status.phase, status.environment_steps, status.gradient_steps) == ("exhausted", 280, 8)


@pytest.mark.parametrize("n_step", ["1", "3"])
def test_a_run_ends_at_its_budget_where_no_update_is_due(tmp_path, n_step):
  config = small_world(environment_steps="1003", evaluator__solved_evaluations="1000", learner__n_step=n_step)
  outcome = slipstream.train(config, run_root=tmp_path, inline=True, quiet=True)
  assert outcome.status.environment_steps == 1003
  assert outcome.exit_code == 3


def test_what_a_run_stores_as_its_config_is_what_was_asked_for(tmp_path, monkeypatch):
  config = small_world(environment_steps="1000", evaluator__solved_evaluations="1000")
  assert config.learner.prefetch  # An inline run does not prefetch, but must not store that.
  directory = create_run_directory(config, tmp_path)
  manifests = []

  class Reads(ReplayServer):
    def stop(self):
      manifests.append(read_manifest(self.connection))
      super().stop()

  monkeypatch.setattr("launch.inline.ReplayServer", Reads)
  run_inline(config, directory, threading.Event(), RunView(quiet=True))
  policies = directory.checkpoints / "policy"
  assert [manifest and manifest.config for manifest in manifests] == [config]
  assert directory.read_config() == config
  assert load_snapshot(policies / "latest.npz").config == config
  assert load_snapshot(policies / "best.npz").config == config


def test_the_same_seed_begins_the_same_run_and_another_seed_another(tmp_path):
  config = small_world(environment_steps="200", evaluator__solved_evaluations="1000")

  def begin(seed: int) -> tuple[np.ndarray, float | None, int]:
    outcome = slipstream.train(
      override(config, {"seed": str(seed)}), run_root=tmp_path / str(seed), inline=True, quiet=True
    )
    stored = load_snapshot(outcome.run_dir / "checkpoints" / "policy" / "latest.npz")
    return stored.snapshot.weights, outcome.status.recent_return, outcome.status.episodes

  first, again, other = begin(1), begin(1), begin(2)
  np.testing.assert_array_equal(first[0], again[0])
  assert first[1:] == again[1:]
  assert not np.array_equal(first[0], other[0])


def known_sizes(run_dir):
  """How many steps of each table the learner's last checkpoint knows."""
  folders = (run_dir / "checkpoints" / "learner").glob("checkpoint_*")
  latest = max(folders, key=lambda folder: int(folder.name.removeprefix("checkpoint_")))
  held = np.load(latest / "source.npz")
  return [len(held[f"correction/table_{index}"]) for index in range(3)]


def test_a_stopped_inline_run_writes_its_checkpoints(tmp_path):
  config = small_world(evaluator__solved_evaluations="1000")
  directory = create_run_directory(config, tmp_path)
  stop = threading.Event()

  class StopsSoon(RunView):
    def update(self, status):
      if status.gradient_steps > 16:
        stop.set()

  status = run_inline(config, directory, stop, StopsSoon(quiet=True))
  assert status.phase == "stopping"
  assert any(directory.replay_checkpoint.iterdir())
  assert list((directory.checkpoints / "learner").glob("checkpoint_*"))


def test_a_world_that_fails_loses_nothing_of_what_was_learned(tmp_path, monkeypatch):
  config = small_world(environment_steps="1000", evaluator__solved_evaluations="1000")
  directory = create_run_directory(config, tmp_path)
  step, taken = RolloutWorker.step, itertools.count(1)

  def fail_at_last(self, *args):
    if next(taken) > 600:
      raise slipstream.UserError("The world failed.")
    return step(self, *args)

  monkeypatch.setattr(RolloutWorker, "step", fail_at_last)
  with pytest.raises(slipstream.UserError, match="The world failed"):
    run_inline(config, directory, threading.Event(), RunView(quiet=True))
  monkeypatch.undo()
  status = run_inline(config, open_run_directory(str(directory.path)), threading.Event(), RunView(quiet=True))
  # As without the failure, ten steps an update after the minimum of 200.
  assert (status.environment_steps, status.gradient_steps) == (1000, 80)


def test_a_run_that_diverges_says_where_its_loss_broke(tmp_path):
  config = small_world(learner__learning_rate="1e30", evaluator__solved_evaluations="1000")
  sentence = r"The loss is not finite after 8 gradient steps \(rows of the block: \d+ of default"
  with pytest.raises(slipstream.UserError, match=sentence):
    slipstream.train(config, run_root=tmp_path, inline=True, quiet=True)


def test_windows_of_several_steps_that_are_still_open_hold_nothing_up(tmp_path):
  # The minimum of transitions is reached eight steps late, as four windows are open in each of the two environments.
  config = small_world(
    environment_steps="260",
    evaluator__solved_evaluations="1000",
    learner__n_step="5",
    learner__updates_per_block="1",
    actor__environments="2",
    replay__environment_steps_per_update="1",
  )
  outcome = slipstream.train(config, run_root=tmp_path, inline=True, quiet=True)
  assert outcome.status.phase == "exhausted"
  # One for each step after the minimum, less the windows that are still open at the end.
  assert 60 <= outcome.status.gradient_steps <= 68


def test_an_inline_run_that_is_killed_goes_on_from_its_last_checkpoint(tmp_path):
  changes = {**SMALL_WORLD, "evaluator.solved_evaluations": "1000", "replay.checkpoint_period_seconds": "2"}
  arguments = [f"--config.{key}={value}" for key, value in changes.items()]
  with cli(
    tmp_path, "killed", "train", "--config=three_rooms", "--inline", f"--run_root={tmp_path}", *arguments
  ) as run:
    directory = run_dir_of(run)
    log = directory / "logs" / "inline"

    def saved() -> int:
      return max(map(int, re.findall(r"Learner checkpointed at gradient step (\d+)", log.read_text())), default=0)

    wait_for(saved, START_SECONDS, "a checkpoint with updates in it")
    run.send(KILL)
    run.wait(30)
  gradient_steps = saved()

  found = []

  class Looks(RunView):
    def update(self, status):
      found.append((status.environment_steps, status.gradient_steps))

  budget = 200 + 10 * (gradient_steps + 24)
  config = override(small_world(evaluator__solved_evaluations="1000"), {"environment_steps": str(budget)})
  run_inline(config, open_run_directory(str(directory)), threading.Event(), Looks(quiet=True))
  # Tables and learner were saved at the same moment.
  assert found[0][1] == gradient_steps
  assert 0 <= found[0][0] - 200 - 10 * gradient_steps <= 80
  assert found[-1] == (budget, gradient_steps + 24)


def test_steps_and_updates_come_in_rounds(tmp_path, monkeypatch):
  taken: list[tuple[int, int]] = []
  worker_steps = learned = 0
  step_worker, step_learner = RolloutWorker.step, Learner.step

  def count_worker(self, *args):
    nonlocal worker_steps
    worker_steps += 1
    return step_worker(self, *args)

  def count_learner(self, *args):
    nonlocal learned
    learned += 1
    taken.append((worker_steps, learned))
    return step_learner(self, *args)

  monkeypatch.setattr(RolloutWorker, "step", count_worker)
  monkeypatch.setattr(Learner, "step", count_learner)
  config = override(
    load_config("reaper_cartpole"),
    {
      "environment_steps": "1000",
      "replay.default.min_size": "200",
      "replay.steps_per_round": "256",
      "replay.environment_steps_per_update": "4",
      "network.hidden_sizes": "(8,)",
      "evaluator.solved_evaluations": "1000",
    },
  )
  outcome = slipstream.train(config, run_root=tmp_path, inline=True, quiet=True)
  # Three rounds of 256 steps after the first 200, and 64 updates after each.
  assert outcome.status.gradient_steps == 192
  assert [steps for steps, _ in taken] == [456] * 64 + [712] * 64 + [968] * 64


def test_training_nothing_is_refused():
  with pytest.raises(slipstream.UserError, match="nothing to train"):
    slipstream.train()


def test_priorities_corrections_and_conflict_averse_gradients_work_together_and_a_run_goes_on_with_them(tmp_path):
  config = small_world(environment_steps="1000", evaluator__solved_evaluations="1000", learner__n_step="3")
  replay, learner = config.replay, config.learner
  config = dataclasses.replace(
    config,
    replay=dataclasses.replace(
      replay,
      default=dataclasses.replace(replay.default, selector="prioritized"),
      tables=tuple(dataclasses.replace(table, selector="prioritized") for table in replay.tables),
    ),
    learner=dataclasses.replace(
      learner, bias_correction="balance", cagrad=slipstream.CagradConfig(0.5, final_coefficient=0.0, updates=100)
    ),
  )
  outcome = slipstream.train(config, run_root=tmp_path, inline=True, quiet=True)
  assert outcome.status.gradient_steps == 80
  assert outcome.status.learner["refused_priorities"] == 0
  assert np.isfinite(outcome.status.learner["loss"])
  sizes = known_sizes(outcome.run_dir)
  # The learner reads messages when it draws a block, so those of the last steps, less than a block's eighty, are unread.
  for size, table in zip(sizes, outcome.status.tables, strict=True):
    assert table.size - 80 <= size <= table.size
  assert sizes[0] >= 920
  assert sizes[1] > 0

  more = override(config, {"environment_steps": "1320"})
  resumed = slipstream.train(more, resume=str(outcome.run_dir), inline=True, quiet=True)
  assert resumed.status.gradient_steps == 112
  for size, table in zip(known_sizes(outcome.run_dir), resumed.status.tables, strict=True):
    assert table.size - 80 <= size <= table.size
