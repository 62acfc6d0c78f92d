"""Corrections for the bias of event tables, in a world with one random outcome: an event with probability .5.

A tenth of all steps start in the state with this outcome, and half of these lead to the event. The event table holds exactly
the steps with the event and supplies half of every batch. By hand: .5 * .05 + .5 * 1 = .525 of the rows have the event and
.5 * .05 = .025 the other outcome. So without a correction the event's probability seems to be .525 / .55 = .955, and not .5.
"""

import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

import dm_env
import numpy as np
import pytest
import tensorflow as tf

from configs import RunConfig, ServerLost, TableSpec, UserError, load_config, override
from environments.timestep import EventTimeStep
from learner.learner import Learner, make_learner
from learner.weights import corrections
from learner.weights.corrections import balance_weights, count_weights, priority_sum_weights
from learner.weights.membership import Membership
from tests.serving import adding

TABLES = [TableSpec("default", 0.5), TableSpec("goal", 0.5)]
EPISODES, LENGTH = 200, 10
PREDICTED = {"none": 0.525 / 0.55, "counts": 0.887, "priority_sum": 0.875, "balance": 0.5}


def _estimate(weights: np.ndarray) -> float:
  """The event's apparent probability, where rows with the event and rows with the other outcome have these weights."""
  event, other = weights * [0.525, 0.025]
  return float(event / (event + other))


def test_lemma_2_by_hand() -> None:
  # Half of the pair's transitions are in no event's history: 1 - .5 * .5 in the event table and 1 / (1 - .5) outside.
  weights = count_weights(np.array([True, False]), np.array([0.5, 0.5]), 0.5)
  assert weights.tolist() == [0.75, 2.0]
  assert _estimate(weights) == pytest.approx(PREDICTED["counts"], abs=1e-3)


def test_priority_sums_by_hand() -> None:
  # The mean of the priorities 1.5 and .5 is .05 * 1.5 + .95 * .5 = .55.
  weights = priority_sum_weights(np.array([True, False]), 0.05, 0.5)
  np.testing.assert_allclose(weights, [0.55 / 1.5, 0.55 / 0.5])
  assert _estimate(weights) == pytest.approx(PREDICTED["priority_sum"], abs=1e-3)


def test_balance_by_hand() -> None:
  # 2,000 steps, 100 of them in the event table; a step that only the event table still holds gets 0.
  holds = np.array([[True, True], [True, False], [False, True]])
  weights = balance_weights(holds, np.array([0.5, 0.5]), np.array([2_000, 100]))
  np.testing.assert_allclose(weights, [(1 / 2_000) / (0.5 / 2_000 + 0.5 / 100), 2.0, 0.0])
  assert _estimate(weights[:2]) == pytest.approx(0.5)
  assert weights[:2] @ [0.5 * 0.05 + 0.5, 0.5 * 0.95] == pytest.approx(1)


def test_balance_leaves_out_tables_that_are_not_ready() -> None:
  weights = balance_weights(np.array([[True, True]]), np.array([1.0, 0.0]), np.array([10, 0]))
  assert weights.tolist() == [1.0]


def _collect(filled: Any, episodes: int = EPISODES, writer_id: int = 1) -> None:
  """Writes episodes; every second one has the event, and the reward 1, at its first step."""
  with adding(filled.server, writer_id, report_histories=True) as (adder, _):
    for episode in range(episodes):
      adder.add_first(EventTimeStep(dm_env.StepType.FIRST, None, None, _observation(0)))
      for step in range(LENGTH):
        last = step == LENGTH - 1
        event = step == 0 and episode % 2 == 0
        kind = dm_env.StepType.LAST if last else dm_env.StepType.MID
        timestep = EventTimeStep(kind, float(event), 0.0 if last else 1.0, _observation(step + 1), int(event), last)
        adder.add(np.asarray(0, np.int32), timestep)


def _observation(step: int) -> np.ndarray:
  return np.array([step == 0, step / LENGTH], np.float32)


def _config(make_config: Any, correction: str, **learner: Any) -> RunConfig:
  config: RunConfig = make_config(
    TABLES,
    {"capacity": 8_000},
    bias_correction=correction,
    discount=0.0,
    **{"batch_size": 256, "learning_rate": 0.01, "updates_per_block": 32, "prefetch": False, **learner},
  )
  return config


def _learner(filled: Any, folder: pathlib.Path) -> Learner:
  server = filled.server
  return make_learner(server.connection, server.manifest, 0, filled.stop, folder / "checkpoints")


def _state(learner: Learner) -> dict[str, np.ndarray]:
  """The correction's state, as in a checkpoint."""
  state = learner.parts.source.state().items()
  return {name.removeprefix("correction/"): value for name, value in state if name.startswith("correction/")}


def _known(learner: Learner, capacities: Sequence[int]) -> Membership:
  """The tables' contents as the learner knows them."""
  state, known = _state(learner), Membership(capacities)
  known.restore(state, state["added"].tolist())
  return known


def _sizes(learner: Learner) -> list[int]:
  return [len(_state(learner)[f"table_{table}"]) for table in range(2)]


@pytest.mark.compiled
@pytest.mark.parametrize("correction", PREDICTED)
def test_values_are_biased_or_corrected_as_predicted(make_config, serve, spec, tmp_path, correction: str) -> None:
  filled = serve(_config(make_config, correction))
  _collect(filled)
  learner = _learner(filled, tmp_path)
  try:
    values = []
    for block in range(24):  # A single value is off by about .03 (standard deviation), the mean of 16 by .008.
      learner.step()
      if block >= 8:
        values.append(float(learner.parts.updates.algorithm.policy.values(tf.constant(_observation(0)[None]))[0, 0]))
  finally:
    learner.parts.source.close()
  assert np.mean(values) == pytest.approx(PREDICTED[correction], abs=0.03)


def test_workers_reports_match_the_tables_contents(make_config, serve, spec, tmp_path) -> None:
  tables = [TableSpec("default", 0.5, capacity=300), TableSpec("goal", 0.5, 20)]
  filled = serve(make_config(tables, bias_correction="balance", prefetch=False))
  _collect(filled)
  learner = _learner(filled, tmp_path)
  learner.step()  # Reads the reports.
  before = _known(learner, (300, 20))
  learner.close()  # Reports are read only once, so the checkpoint must hold them.
  again = _learner(filled, tmp_path)
  again.parts.source.close()
  for known in (before, _known(again, (300, 20))):
    assert known.sizes.tolist() == [300, 20]
    # The default table holds the last 30 episodes; the event table the first step of every second of the last 40.
    episodes = np.arange(EPISODES, dtype=np.int64)[:, None] + (1 << 32)
    masks = known.tables_of(np.repeat(episodes, LENGTH, 1), np.repeat(np.arange(LENGTH)[None], EPISODES, 0))
    expected = np.zeros((EPISODES, LENGTH), int)
    expected[-30:] |= 1
    expected[-40::2, 0] |= 2
    np.testing.assert_array_equal(masks, expected)
    assert known.events_in_default == 15


def test_a_server_restored_from_an_older_checkpoint_may_repeat_reports(make_config, serve, spec, tmp_path) -> None:
  tables = [TableSpec("default", 0.5, capacity=300), TableSpec("goal", 0.5, 20)]
  config = make_config(tables, bias_correction="balance", prefetch=False)
  filled = serve(config)
  _collect(filled, episodes=20)
  filled.server.checkpoint()
  _collect(filled, episodes=4, writer_id=2)
  learner = _learner(filled, tmp_path)
  learner.step()  # Reads the reports of both.
  assert _sizes(learner) == [240, 12]
  learner.close()

  # Of a copy, because the first server still runs and locks its own directory.
  restored = serve(config, directory=shutil.copytree(filled.directory, tmp_path / "copy"))
  again = _learner(restored, tmp_path)
  assert _sizes(again) == [200, 10]
  again.step()  # Reads the reports in the server's checkpoint again.
  assert _sizes(again) == [200, 10]
  _collect(restored, episodes=20, writer_id=3)
  again.step()
  info = restored.server.connection.info()
  assert _sizes(again) == [info[name].current_size for name in ("default", "goal")] == [300, 20]
  again.close()


def test_a_server_that_does_not_answer_for_a_moment_is_asked_again(
  make_config, serve, spec, tmp_path, monkeypatch
) -> None:
  filled = serve(_config(make_config, "balance"))
  _collect(filled, episodes=20)
  learner = _learner(filled, tmp_path)

  def silent(*arguments: Any) -> None:
    raise ServerLost("no answer")

  with monkeypatch.context() as patch:
    patch.setattr(filled.server.connection, "read_many", silent)
    learner.step()
  assert _sizes(learner) == [0, 0]
  learner.step()
  assert _sizes(learner) == [200, 10]
  learner.parts.source.close()


def test_a_resumed_learner_continues_its_counts(make_config, serve, spec, tmp_path) -> None:
  filled = serve(_config(make_config, "counts"))
  _collect(filled)
  learner = _learner(filled, tmp_path)
  learner.step()
  learner.close()
  pairs, counts = _state(learner)["pairs"], _state(learner)["pair_counts"]
  # Ten states; half of the rows of 32 batches of 256 are from the default table.
  assert len(pairs) == LENGTH
  assert counts[:, 0].sum() == 32 * 128
  again = _learner(filled, tmp_path)
  again.parts.source.close()
  np.testing.assert_array_equal(_state(again)["pairs"], pairs)
  np.testing.assert_array_equal(_state(again)["pair_counts"], counts)


def test_too_many_pairs_to_count_are_refused(make_config, serve, spec, tmp_path, monkeypatch) -> None:
  monkeypatch.setattr(corrections, "MAX_PAIRS", 5)
  filled = serve(_config(make_config, "counts", batch_size=64))
  _collect(filled)
  learner = _learner(filled, tmp_path)
  with pytest.raises(UserError, match="this world has more than 5 pairs of state and action: use 'balance'"):
    learner.step()
  learner.parts.source.close()


@pytest.mark.parametrize(
  ("tables", "correction", "message"),
  [
    (TABLES, "exact", r"learner\.bias_correction is 'exact': use one of none, counts, priority_sum, balance\."),
    ([TableSpec("default", 1.0)], "balance", r"there are no event tables whose bias it would correct"),
    (
      [TABLES[0], TableSpec("goal", 0.5, selector="lifo")],
      "balance",
      r"table 'goal' has the selector 'lifo': a correction needs",
    ),
    (
      [TableSpec("default", 0.5, selector="prioritized"), TABLES[1]],
      "counts",
      r"needs uniform draws from the default table: give that table .* 'uniform'",
    ),
  ],
)
def test_corrections_that_make_no_sense_are_refused(make_config, tables, correction: str, message: str) -> None:
  with pytest.raises(UserError, match=message):
    make_config(tables, bias_correction=correction)


def test_counting_pairs_of_continuous_actions_is_refused() -> None:
  config = load_config("lunar_lander_continuous")
  with pytest.raises(UserError, match=r"the actions of 'sac' are continuous: use 'balance' or 'priority_sum'\."):
    override(config, {"learner.bias_correction": "counts"})
  assert override(config, {"learner.bias_correction": "balance"}).learner.bias_correction == "balance"
