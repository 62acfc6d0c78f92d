"""The learner on a real server: counters, policies, checkpoints, and losses that are no longer finite."""

import dataclasses
import pathlib
import shutil
import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from acme import core, specs

from configs import (
  CagradConfig,
  DdpgConfig,
  NafConfig,
  NetworkConfig,
  PriorityConfig,
  ServerLost,
  TableSpec,
  Td3Config,
  UserError,
)
from configs.algorithms import ALGORITHMS, AlgorithmConfig
from learner import checkpoint as checkpoint_module
from learner.devices import choose_device
from learner.learner import Learner, make_learner
from learner.optimizer import Optimizer
from replay_server.contract import layout
from replay_server.contract.connection import ItemWriter
from replay_server.contract.policy import PolicySource, load_snapshot, save_snapshot
from tests.behaviours import storing
from tests.damage import files_in
from tests.learner.conftest import FIELDS, SPEC, TABLES, checkpointed
from tests.serving import wait_for

CONTINUOUS_SPEC = SPEC._replace(actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0, "action"))


def _published(filled: Any) -> Any:
  return PolicySource(filled.server.connection, "default").fetch()


def _step(learner: Learner) -> None:
  """Learns from a block, and waits until the server has a policy that was sent."""
  learner.step()
  learner.parts.publisher.finish()


def _latest(folder: pathlib.Path) -> str:
  """The name of the last checkpoint."""
  return sorted(path.name for path in (folder / "checkpoints" / "learner").iterdir())[-1]


class _Killed(BaseException):
  """Ends a learner like a signal."""


def _kill(*arguments: Any, **options: Any) -> None:
  raise _Killed


_KILLS = {
  "networks": (tf.train.Checkpoint, "write", _kill),
  "source": (np, "savez", _kill),
  "policy": (checkpoint_module, "save_snapshot", _kill),
  "counters": (pathlib.Path, "write_text", _kill),
  "rename": (pathlib.Path, "rename", _kill),
}


def _break(learner: Learner) -> None:
  """Makes weights NaN, as an update that overflows does."""
  variable = learner.parts.updates.algorithm.policy.trainable_variables[0]
  variable.assign(variable * np.nan)


def test_an_update_has_the_importance_weights_and_the_coefficient_of_its_gradient_step(
  make_config, serve, learn, monkeypatch
) -> None:
  tables = (TableSpec("default", 0.5, min_size=4, selector="prioritized"), TABLES[1])
  # Both schedules take four gradient steps, which are two blocks.
  priority = PriorityConfig(importance_exponent=0.2, final_importance_exponent=1.0, importance_updates=4)
  cagrad = CagradConfig(0.8, final_coefficient=0.0, updates=4)
  filled = serve(make_config(tables, {"priority": priority}, cagrad=cagrad, **FIELDS))
  filled.fill("default", range(10))
  filled.fill("done", range(5))
  learner = learn(filled)
  blocks, weights, coefficients = [], [], []
  source, updates = learner.parts.source, learner.parts.updates
  next_block, update_block = source.next_block, updates.update_block

  def drawing(*arguments: Any) -> Any:
    blocks.append(next_block(*arguments))
    return blocks[-1]

  def updating(rows: Any, loss_weights: Any, row_tables: Any, columns: Any, controls: Any, ahead: Any) -> Any:
    weights.append(loss_weights)
    coefficients.append(controls["cagrad_coefficient"])
    return update_block(rows, loss_weights, row_tables, columns, controls, ahead)

  monkeypatch.setattr(source, "next_block", drawing)
  monkeypatch.setattr(updates, "update_block", updating)
  for _ in range(3):
    learner.step()
  assert coefficients == pytest.approx([0.8, 0.4, 0.0])
  for block, found, beta in zip(blocks, weights, (0.2, 0.6, 1.0), strict=True):
    raw = np.where(block.tables == 0, (block.table_sizes * block.probabilities) ** -beta, 1.0)
    np.testing.assert_allclose(found, raw / raw.max(axis=1, keepdims=True), rtol=1e-5)
  # New priorities made the draws unequal, so the weights compared are not all 1.
  assert np.ptp(weights[-1]) > 1e-5


def test_learning_rates_fall_to_the_final_one_and_the_policys_own_by_the_same_factor(make_config, serve, learn) -> None:
  fields = {"learning_rate": 0.01, "final_learning_rate": 0.0, "learning_rate_decay_updates": 4}
  config = make_config(TABLES, algorithm=Td3Config(policy_learning_rate=0.02), **FIELDS | fields)
  filled = serve(config, spec=CONTINUOUS_SPEC)
  for table, steps in (("default", range(10)), ("done", range(5))):
    filled.fill(table, steps, action=np.zeros(2, np.float32))
  learner = learn(filled)
  algorithm = learner.parts.updates.algorithm
  critics, policy = (module for module in algorithm.submodules if isinstance(module, Optimizer))
  rates, weights = [], [algorithm.critics.trainable_variables[0].numpy()]
  for _ in range(3):
    learner.step()
    rates.append([float(critics.learning_rate), float(policy.learning_rate)])
    weights.append(algorithm.critics.trainable_variables[0].numpy())
  # Two updates a block.
  np.testing.assert_allclose(rates, [[0.01, 0.02], [0.005, 0.01], [0.0, 0.0]], rtol=1e-6)
  assert np.abs(weights[2] - weights[1]).max() > 0
  np.testing.assert_array_equal(weights[3], weights[2])


def test_steps_are_counted_and_policies_published_at_their_period(filled, learn) -> None:
  learner = learn(filled)
  assert (learner.gradient_steps, learner.policy_version) == (0, 1)
  published = []
  for _ in range(7):
    _step(learner)
    snapshot = _published(filled)
    published.append((learner.gradient_steps, snapshot.version, snapshot.learner_steps))
  # Two updates a block, a policy every six.
  assert published == [(2, 1, 0), (4, 1, 0), (6, 2, 6), (8, 2, 6), (10, 2, 6), (12, 3, 12), (14, 3, 12)]
  metrics = learner.metrics()
  assert (metrics["gradient_steps"], metrics["policy_version"]) == (14, 3)
  assert all(np.isfinite(value) for value in metrics.values())
  assert set(metrics) == {"loss", "mean_q", "mean_abs_td_error", "drawn_ahead", "gradient_steps", "policy_version"}


def test_policies_that_a_slow_link_delays_are_left_out_but_for_the_newest(
  make_config, serve, learn, monkeypatch
) -> None:
  filled = serve(make_config(TABLES, **{**FIELDS, "publish_period_updates": 2}))
  filled.fill("default", range(10))
  filled.fill("done", range(5))
  learner = learn(filled)
  publisher = learner.parts.publisher
  write, go_on = ItemWriter.write, threading.Event()

  def write_late(*arguments: Any) -> None:
    assert go_on.wait(30)
    write(*arguments)

  monkeypatch.setattr(ItemWriter, "write", write_late)
  for _ in range(4):  # Learns on while the first one is on its way.
    learner.step()
  assert learner.policy_version == 2
  assert publisher.is_sending
  go_on.set()
  publisher.finish()
  assert _published(filled).learner_steps == 2
  _step(learner)
  snapshot = _published(filled)
  assert (snapshot.version, snapshot.learner_steps) == (3, 10)
  assert publisher.published == 3
  go_on.clear()
  for _ in range(2):
    learner.step()
  threading.Timer(0.5, go_on.set).start()
  learner.close()
  snapshot = _published(filled)
  assert (snapshot.version, snapshot.learner_steps) == (5, 14)


def test_a_learner_that_waits_for_rows_notices_that_its_policy_did_not_arrive(
  make_config, serve, learn, monkeypatch
) -> None:
  filled = serve(make_config(TABLES, **FIELDS))  # Without rows.
  learner = learn(filled)
  write = ItemWriter.write

  def write_unless_second(writer: ItemWriter, table: str, columns: Any, *arguments: Any) -> None:
    if table == layout.POLICY and columns[2] == 2:
      raise ServerLost("The link broke.")
    write(writer, table, columns, *arguments)

  monkeypatch.setattr(ItemWriter, "write", write_unless_second)
  learner.publish(wait=False)
  thread = threading.Thread(target=learner.run)
  thread.start()
  wait_for(lambda: _published(filled).version == 3)
  wait_for(lambda: learner.state.startswith("waiting for workers"))
  filled.stop.set()
  thread.join(30)
  assert not thread.is_alive()


def test_the_published_policy_is_the_online_network_and_steps_change_it(filled, learn) -> None:
  learner = learn(filled)
  before = _published(filled).weights
  np.testing.assert_array_equal(before, learner.get_variables([])[0])
  for _ in range(3):
    _step(learner)
  after = _published(filled).weights
  np.testing.assert_array_equal(after, learner.get_variables([])[0])
  assert np.abs(after - before).max() > 1e-3


def test_it_is_an_acme_learner(filled, learn) -> None:
  learner = learn(filled)
  assert isinstance(learner, core.Learner)
  (weights,) = learner.get_variables(["policy"])
  np.testing.assert_array_equal(weights, _published(filled).weights)
  learner.run(3)
  assert learner.gradient_steps == 6


def test_a_checkpoint_holds_networks_optimiser_and_counters(filled, learn) -> None:
  learner = learn(filled)
  for _ in range(4):
    learner.step()
  learner.close()
  saved = checkpointed(learner)
  # The counter of steps, and two moments for each weight and each bias.
  assert len(saved["optimizers"]) == 1 + 2 * 4
  assert [array for array in saved["optimizers"] if array.shape == ()] == [8]
  restored = learn(filled, seed=1)
  assert restored.gradient_steps == 8
  for name, arrays in checkpointed(restored).items():
    for ours, theirs in zip(arrays, saved[name], strict=True):
      np.testing.assert_array_equal(ours, theirs, err_msg=name)
  assert any((one != two).any() for one, two in zip(saved["policy"], saved["target"], strict=True))


def test_priorities_are_learned_published_and_kept_in_the_checkpoint(make_config, serve, learn) -> None:
  tables = (TableSpec("default", 0.5, min_size=4), TableSpec("done", 0.5, capacity=50, selector="prioritized"))
  filled = serve(make_config(tables, **FIELDS))
  filled.fill("default", range(10))
  filled.fill("done", range(5), reward=40.0)
  learner = learn(filled)
  assert _published(filled).priorities == (1, 1)
  for _ in range(3):
    _step(learner)
  published = _published(filled).priorities
  assert published[0] == 1
  # Every row's error is near its reward at first.
  assert 35 < published[1] < 45
  assert learner.metrics()["refused_priorities"] == 0
  connection = filled.server.connection
  drawn = connection.client.sample(connection.wire_name("done"), 20)
  priorities = [item[0].info.priority for item in drawn]
  # A row that no block has drawn yet has kept the 1 with which it was filled in.
  assert {priority for priority in priorities if priority != 1}
  assert all(30 < priority < 45 for priority in priorities if priority != 1)
  learner.close()
  assert learn(filled).parts.source.new_item_priorities == published


def test_the_policy_file_beside_a_checkpoint_is_the_network_with_its_config_and_spec(filled, learn, tmp_path) -> None:
  learner = learn(filled)
  learner.run(3)
  stored = load_snapshot(tmp_path / "checkpoints" / "policy" / "latest.npz")
  snapshot = stored.snapshot
  assert (snapshot.version, snapshot.learner_steps) == (2, 6)
  assert (stored.config, stored.spec) == (filled.config, filled.spec)
  np.testing.assert_array_equal(snapshot.weights, learner.get_variables([])[0])


def test_a_learner_without_a_checkpoint_continues_after_the_published_version(filled, learn) -> None:
  first = learn(filled, "one")
  for _ in range(6):
    _step(first)
  assert _published(filled).version == 3
  second = learn(filled, "another")
  assert (second.gradient_steps, second.policy_version, _published(filled).version) == (0, 4, 4)


def test_a_learner_with_an_older_checkpoint_continues_after_the_published_version(filled, learn) -> None:
  first = learn(filled)
  _step(first)
  first.save()
  for _ in range(5):
    _step(first)
  assert _published(filled).version == 3
  first.parts.checkpoints.close()  # As if it had been killed.
  second = learn(filled)
  assert (second.gradient_steps, second.policy_version) == (2, 4)
  snapshot = _published(filled)
  assert (snapshot.version, snapshot.learner_steps) == (4, 2)


def test_a_server_that_lost_its_tables_gets_versions_after_the_checkpoints(filled, learn, make_config, serve) -> None:
  first = learn(filled)
  first.run(6)
  assert first.policy_version == 3
  emptied = serve(make_config(TABLES, **FIELDS))
  assert _published(emptied) is None
  assert learn(emptied).policy_version == _published(emptied).version == 4


def test_another_runs_checkpoint_is_refused_and_left_as_it_was(
  filled, learn, make_config, serve, tmp_path: pathlib.Path
) -> None:
  learn(filled).run(2)
  before = files_in(tmp_path / "checkpoints")
  other = serve(make_config(TABLES, **FIELDS), run_id="other")
  with pytest.raises(
    UserError, match=r"belongs to run run, and the server holds run other: use .*; nothing was changed\."
  ):
    learn(other)
  assert files_in(tmp_path / "checkpoints") == before
  assert _published(other) is None


def test_two_learners_do_not_write_to_one_directory(filled, learn) -> None:
  first = learn(filled)
  with pytest.raises(UserError, match="Another learner writes its checkpoints to"):
    learn(filled)
  first.close()
  assert learn(filled).policy_version == 2


def test_a_checkpoint_of_other_networks_is_refused(filled, learn, tmp_path: pathlib.Path) -> None:
  learn(filled).run(2)
  before = files_in(tmp_path / "checkpoints")
  config = dataclasses.replace(filled.config, network=NetworkConfig((16,)))
  manifest = dataclasses.replace(filled.server.manifest, config=config)
  with pytest.raises(UserError, match=r"are not those of the config: resume with the algorithm and the network"):
    make_learner(filled.server.connection, manifest, 0, filled.stop, tmp_path / "checkpoints")
  assert files_in(tmp_path / "checkpoints") == before


def test_a_checkpoint_of_other_tables_is_refused(filled, learn, make_config, serve, tmp_path: pathlib.Path) -> None:
  learn(filled).run(2)
  before = files_in(tmp_path / "checkpoints")
  more = serve(make_config((*TABLES[:1], *(TableSpec(name, 0.25, capacity=50) for name in ("done", "gap"))), **FIELDS))
  with pytest.raises(UserError, match=r"checkpoint is of 2 tables, and the config has 3: resume with the tables"):
    learn(more)
  assert files_in(tmp_path / "checkpoints") == before


@pytest.mark.parametrize("moment", ["networks", "source", "policy", "counters", "rename"])
def test_a_learner_that_is_killed_while_it_writes_leaves_the_previous_checkpoint_intact(
  filled, learn, monkeypatch, tmp_path: pathlib.Path, moment: str
) -> None:
  learner = learn(filled)
  learner.step()
  learner.save()
  good, name = checkpointed(learner), _latest(tmp_path)
  learner.step()
  with monkeypatch.context() as patch:
    patch.setattr(*_KILLS[moment])
    patch.setattr(shutil, "rmtree", lambda *arguments, **options: None)  # A killed process cleans nothing up.
    with pytest.raises(_Killed):
      learner.save()
  learner.parts.checkpoints.close()
  restored = learn(filled, seed=1)
  assert restored.gradient_steps == 2
  for part, arrays in checkpointed(restored).items():
    for ours, theirs in zip(arrays, good[part], strict=True):
      np.testing.assert_array_equal(ours, theirs, err_msg=part)
  restored.save()
  # The incomplete checkpoint is gone, and the previous one stays.
  assert sorted(path.name for path in (tmp_path / "checkpoints" / "learner").iterdir()) == [name, "checkpoint_2"]


@pytest.mark.parametrize(
  "error", [OSError(28, "No space left"), tf.errors.ResourceExhaustedError(None, None, "No space left")]
)
def test_a_checkpoint_that_cannot_be_written_is_reported_and_tried_again(
  make_config, serve, learn, monkeypatch, capsys, tmp_path: pathlib.Path, error: Exception
) -> None:
  filled = serve(make_config(TABLES, checkpoint_period_seconds=1e-6, **FIELDS))
  filled.fill("default", range(10))
  learner = learn(filled)
  failures = [error]

  def full_once(*arguments) -> None:
    if failures:
      raise failures.pop()
    save_snapshot(*arguments)

  monkeypatch.setattr(checkpoint_module, "save_snapshot", full_once)
  learner.run(2)
  assert capsys.readouterr().out.count("No space left): learning continues, and the next try is in 1e-06 s") == 1
  assert (tmp_path / "checkpoints" / "policy" / "latest.npz").is_file()
  assert learn(filled).gradient_steps == learner.gradient_steps == 4


def test_checkpoints_are_written_at_their_period_while_it_learns(make_config, serve, learn, tmp_path) -> None:
  filled = serve(make_config(TABLES, checkpoint_period_seconds=1e-6, **FIELDS))
  filled.fill("default", range(10))
  learner = learn(filled)
  learner.run(3)
  # One after each block and one at the end; two are kept.
  kept = sorted(path.name for path in (tmp_path / "checkpoints" / "learner").iterdir())
  assert kept == ["checkpoint_3", "checkpoint_4"]


def test_a_loss_that_is_not_finite_names_the_tables_and_leaves_the_last_checkpoint(
  filled, learn, tmp_path: pathlib.Path
) -> None:
  learner = learn(filled)
  for _ in range(3):
    _step(learner)
  learner.save()
  good, before = checkpointed(learner), files_in(tmp_path / "checkpoints")
  version = _published(filled).version
  # These rewards are finite, but their squares are not. They are in 20 of 25 rows, so a block soon has one.
  filled.fill("done", range(20), reward=3e38)
  sentence = r"The loss is not finite after \d+ gradient steps \(rows of the block: 4 of default, 4 of done\)"
  with pytest.raises(UserError, match=sentence):
    learner.run()
  assert not np.isfinite(learner.get_variables([])[0]).all()
  # As launch/inline.py does, whatever ends its run.
  learner.close()
  assert files_in(tmp_path / "checkpoints") == before
  assert _published(filled).version == version
  assert np.isfinite(_published(filled).weights).all()
  restored = learn(filled)
  for name, arrays in checkpointed(restored).items():
    for ours, theirs in zip(arrays, good[name], strict=True):
      np.testing.assert_array_equal(ours, theirs, err_msg=name)


@pytest.mark.parametrize("algorithm", ["sac", "qr_sac", "td3", "ddpg", "naf"])
def test_a_critics_loss_that_is_not_finite_does_so_too(
  make_config, serve, learn, tmp_path: pathlib.Path, algorithm: str
) -> None:
  filled = serve(make_config(TABLES, algorithm=ALGORITHMS[algorithm](), **FIELDS), spec=CONTINUOUS_SPEC)
  filled.fill("default", range(10), action=np.array([0.5, -0.5], np.float32))
  filled.fill("done", range(5), action=np.array([0.5, -0.5], np.float32))
  learner = learn(filled)
  learner.step()
  learner.save()
  good = checkpointed(learner)
  before = files_in(tmp_path / "checkpoints")
  filled.fill("done", range(20), action=np.array([0.5, -0.5], np.float32), reward=3e38)
  sentence = r"The loss is not finite after \d+ gradient steps \(rows of the block: 4 of default, 4 of done\)"
  with pytest.raises(UserError, match=sentence):
    learner.run()
  assert files_in(tmp_path / "checkpoints") == before
  for name, arrays in checkpointed(learn(filled)).items():
    for ours, theirs in zip(arrays, good[name], strict=True):
      np.testing.assert_array_equal(ours, theirs, err_msg=name)


@pytest.mark.parametrize("kind", [Td3Config, DdpgConfig, NafConfig], ids=lambda kind: kind.NAME)
def test_rows_with_a_behaviour_are_learned_from_although_their_actions_leave_the_bounds(
  make_config, serve, learn, monkeypatch: pytest.MonkeyPatch, kind: type[AlgorithmConfig]
) -> None:
  config = make_config(TABLES)
  learner_config = dataclasses.replace(config.learner, algorithm=storing(kind(), monkeypatch), **FIELDS)
  actor = dataclasses.replace(config.actor, random_steps=0)
  filled = serve(dataclasses.replace(config, learner=learner_config, actor=actor), spec=CONTINUOUS_SPEC)
  values = {"action": np.array([1.5, -2.0], np.float32), "behaviour": np.array([1.3, -1.9, 0.1, 0.2], np.float32)}
  filled.fill("default", range(10), **values)
  filled.fill("done", range(5), **values)
  learner = learn(filled)
  learner.run(num_steps=2)
  assert learner.gradient_steps == 4
  assert not any("unusable" in name for name in learner.metrics())


def test_critics_that_are_not_finite_are_not_saved(make_config, serve, learn, tmp_path: pathlib.Path) -> None:
  filled = serve(make_config(TABLES, algorithm=ALGORITHMS["sac"](), **FIELDS), spec=CONTINUOUS_SPEC)
  learner = learn(filled)
  learner.save()
  before = files_in(tmp_path / "checkpoints")
  # The policy is still finite: it has not learned from these critics yet.
  variable = learner.parts.updates.algorithm.critics.variables[0]
  variable.assign(variable * np.inf)
  with pytest.raises(UserError, match="The networks are not finite after 0 gradient steps"):
    learner.save()
  assert files_in(tmp_path / "checkpoints") == before


@pytest.mark.parametrize("act", ["publish", "save", "close"])
def test_weights_that_are_not_finite_are_neither_published_nor_saved(filled, learn, tmp_path, act: str) -> None:
  learner = learn(filled)
  learner.step()
  learner.save()
  before = files_in(tmp_path / "checkpoints")
  _break(learner)
  with pytest.raises(UserError, match="The weights are not finite after 2 gradient steps"):
    getattr(learner, act)()
  learner.close()
  assert files_in(tmp_path / "checkpoints") == before
  snapshot = _published(filled)
  assert snapshot.version == 1
  assert np.isfinite(snapshot.weights).all()


def test_a_run_that_is_stopped_while_it_waits_writes_its_checkpoint(make_config, serve, learn, tmp_path) -> None:
  filled = serve(make_config(TABLES, **FIELDS))
  filled.stop.set()
  learner = learn(filled)
  learner.run()
  assert _latest(tmp_path) == "checkpoint_1"


def test_a_run_whose_server_is_lost_writes_its_checkpoint(make_config, serve, learn, tmp_path: pathlib.Path) -> None:
  filled = serve(make_config(TABLES, **FIELDS))
  filled.fill("default", range(10))  # The other table is empty, so every draw asks for its size.
  learner = learn(filled)
  learner.step()
  filled.server.stop()

  def watch() -> None:  # The process's watchdog, not the learner, decides that the server is lost for good.
    try:
      wait_for(lambda: learner.state.startswith("waiting for"), 60)
    finally:
      filled.stop.set()

  watchdog = threading.Thread(target=watch)
  watchdog.start()
  learner.run()
  watchdog.join()
  assert _latest(tmp_path) == "checkpoint_1"


def test_its_state_says_what_it_is_doing(make_config, serve, learn) -> None:
  filled = serve(make_config(TABLES, **FIELDS))
  learner = learn(filled)
  assert learner.state == "starting"
  filled.fill("default", range(4))
  learner.step()
  assert learner.state == "learning"


def test_the_learner_of_an_inline_run_draws_nothing_ahead(make_config, serve, learn) -> None:
  filled = serve(make_config(TABLES, **{**FIELDS, "updates_per_block": 1, "prefetch": True}))
  filled.server.manifest = dataclasses.replace(filled.server.manifest, inline=True)
  filled.fill("default", range(8))
  learner = learn(filled)
  learner.step()
  assert learner.metrics()["drawn_ahead"] == 0


def test_the_next_block_is_drawn_from_when_the_update_of_the_last_one_is_computed(make_config, serve, learn) -> None:
  filled = serve(make_config(TABLES, **{**FIELDS, "updates_per_block": 1, "prefetch": True}))
  filled.fill("default", range(8))
  learner = learn(filled)
  learner.step()
  wait_for(lambda: learner.parts.source.metrics()["drawn_ahead"] > 0)


def test_a_device_that_is_not_there_is_refused_by_a_sentence() -> None:
  assert choose_device("CPU:0") == "CPU:0"
  assert choose_device("") in ("CPU:0", "GPU:0")
  with pytest.raises(UserError, match=r"TensorFlow sees no device 'GPU:7', only CPU:0.*: choose one, or leave"):
    choose_device("GPU:7")
