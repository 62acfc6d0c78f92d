"""Rows that no algorithm can learn from: they are found, replaced, counted, and end a run that has too many of them."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import hypothesis
import numpy as np
import pytest
from acme import specs
from hypothesis import strategies as st

from actors.row_writer import RowWriter
from configs import DdqnConfig, SacConfig, TableSpec, UserError
from configs.specs import Selector
from learner.learner import Learner, make_learner
from learner.sources.block import Block
from learner.sources.quotas import tables_of_rows
from learner.sources.row_check import RowCheck
from learner.sources.usable_rows import LEAST_ROWS, UsableRows
from replay_server.contract.codec import RowCodec
from replay_server.contract.connection import Connection
from replay_server.contract.layout import make_row_codec
from replay_server.contract.manifest import Manifest
from tests.learner.conftest import SPEC
from tests.serving import config_of

CODEC = make_row_codec(SPEC)
CONTINUOUS = SPEC._replace(actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0, "action"))
WRITER = 7


def _packed(codec: RowCodec, **values: Any) -> np.ndarray:
  """A row that a client of another make packed, float32 [width]: nothing of it was checked."""
  row = np.zeros(codec.width, np.float32)
  for field in codec.fields:
    words = row[field.offset : field.offset + field.words]
    words.view(field.dtype)[: field.elements] = np.ravel(values.get(field.name, 1 if field.name == "discount" else 0))
  return row


@pytest.mark.parametrize(
  ("spec", "values", "reason"),
  [
    (SPEC, {"action": 3}, "its action is 3, and the run's is from 0 to 2"),
    (SPEC, {"action": -1}, "its action is -1, and the run's is from 0 to 2"),
    (SPEC, {"reward": np.nan}, "its reward is nan"),
    (SPEC, {"reward": -np.inf}, "its reward is -inf"),
    (SPEC, {"observation": [0, np.nan]}, "its observation is [ 0. nan]"),
    (SPEC, {"next_observation": [np.inf, 0]}, "its next_observation is [inf  0.]"),
    (SPEC, {"discount": 1.5}, "its discount is 1.5, and the run's is from 0. to 1."),
    (SPEC, {"discount": -0.5}, "its discount is -0.5, and the run's is from 0. to 1."),
    (CONTINUOUS, {"action": [0.5, 1.5]}, "its action is [0.5 1.5], and the run's is from -1. to 1."),
    (CONTINUOUS, {"action": [np.nan, 0]}, "its action is [nan  0.]"),
  ],
)
def test_a_row_that_cannot_be_learned_from_is_found_among_others_and_described(
  spec: specs.EnvironmentSpec, values: Mapping[str, Any], reason: str
) -> None:
  codec = make_row_codec(spec)
  check = RowCheck(codec, spec)
  usable = [_packed(codec, reward=-1e30), _packed(codec, action=1, discount=0.0, episode=-1, step=-1)]
  rows = np.stack([usable[0], _packed(codec, **values), usable[1], usable[0]]).reshape(2, 2, codec.width)
  assert check.unusable(rows).tolist() == [[False, True], [False, False]]
  assert check.reason(rows[0, 1]) == reason


@pytest.mark.parametrize(
  ("action", "behaviour", "is_usable"),
  [
    ([0.5, 1.5], [0.4, 1.2, 0.1, 0.1], True),  # Outside the bounds, but at three deviations of the mean.
    ([0.5, -7.0], [0.4, -7.2, 0.1, 0.1], True),
    ([0.5, 1.5], [0.4, 1.19, 0.1, 0.1], False),
    ([0.75, 0.0], [0.4, 0.0, 0.1, 0.1], False),
    ([0.4, 0.0], [0.4, 0.0, 0.1, 0.0], False),  # A Gaussian has a deviation.
    ([0.4, 0.0], [0.4, 0.0, -0.1, 0.1], False),
    ([0.4, 0.0], [np.nan, 0.0, 0.1, 0.1], False),
  ],
)
def test_where_rows_hold_their_behaviour_an_action_lies_near_its_mean_instead_of_in_the_bounds(
  action: list[float], behaviour: list[float], is_usable: bool
) -> None:
  codec = make_row_codec(CONTINUOUS, {"behaviour": ("float32", (4,))})
  check = RowCheck(codec, CONTINUOUS, stores_behaviour=True)
  row = _packed(codec, action=action, behaviour=behaviour)
  assert check.unusable(np.stack([row, row])[None]).tolist() == [[not is_usable] * 2]
  if not is_usable:
    assert check.reason(row).startswith(("its action is [", "its behaviour is [nan"))


def test_rounding_does_not_make_a_row_unusable() -> None:
  codec = make_row_codec(CONTINUOUS)
  row = _packed(
    codec, action=[np.nextafter(np.float32(1), np.float32(2)), -1], discount=np.float32(1) + np.float32(1e-7)
  )
  assert not RowCheck(codec, CONTINUOUS).unusable(row[None]).any()


def test_floats_of_other_widths_are_checked_too() -> None:
  spec = SPEC._replace(observations=specs.Array((3,), np.float64))
  codec = make_row_codec(spec)
  rows = np.stack([_packed(codec), _packed(codec, observation=[0, 0, np.nan])])
  assert RowCheck(codec, spec).unusable(rows).tolist() == [False, True]


TABLES = (TableSpec("default", 0.5, min_size=4), TableSpec("done", 0.5, capacity=50))


def _usable_rows() -> UsableRows:
  return UsableRows(Connection("localhost:1"), Manifest.of("run", config_of(TABLES), SPEC))


def _block(quotas: np.ndarray, bad: np.ndarray) -> Block:
  """A block whose rows are numbered by their step, their handles, probabilities and table sizes."""
  numbers = np.arange(bad.size)
  actions = np.where(bad.ravel(), 9, 0)
  rows = np.stack([_packed(CODEC, step=n, action=actions[n], episode=WRITER << 32) for n in numbers])
  numbered = numbers.reshape(bad.shape)
  return Block(
    rows=rows.reshape(*bad.shape, CODEC.width),
    tables=tables_of_rows(quotas),
    handles=numbered.astype(np.uint64),
    probabilities=numbered / 1000,
    table_sizes=numbered.astype(np.int64),
    quotas=quotas,
    shares=np.array([0.5, 0.5]),
    columns={"extra": numbered.astype(np.float32)},
  )


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=60, deadline=None)
def test_a_block_keeps_its_shape_and_its_usable_rows_and_gets_others_of_the_same_table(data: st.DataObject) -> None:
  batches, batch = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
  first = np.array(data.draw(st.lists(st.integers(0, batch), min_size=batches, max_size=batches)))
  quotas = np.stack([first, batch - first], axis=1)
  mask = data.draw(st.lists(st.booleans(), min_size=batches * batch, max_size=batches * batch))
  bad = np.array(mask).reshape(batches, batch)
  block = _block(quotas, bad)
  try:
    replaced = _usable_rows().replace(block)
  except UserError:
    assert bad.sum() >= LEAST_ROWS
    return
  if bad.all():
    assert replaced is None
    return
  assert replaced is not None
  fields = CODEC.unpack(replaced.rows)
  numbers = fields["step"]
  assert not bad.ravel()[numbers].any()
  assert (fields["action"] == 0).all()
  # Everything about a row moved with it.
  np.testing.assert_array_equal(replaced.tables, block.tables.ravel()[numbers])
  np.testing.assert_array_equal(replaced.handles, numbers)
  np.testing.assert_array_equal(replaced.probabilities, numbers / 1000)
  np.testing.assert_array_equal(replaced.table_sizes, numbers)
  np.testing.assert_array_equal(replaced.columns["extra"], numbers)
  # Batches stay sorted by table, and quotas count their rows.
  np.testing.assert_array_equal(replaced.tables, tables_of_rows(replaced.quotas))
  # No usable row is lost, and a table keeps its rows as long as it has a usable one.
  assert set(np.flatnonzero(~bad)) <= set(numbers.ravel())
  if all((~bad)[block.tables == table].any() for table in np.unique(block.tables)):
    np.testing.assert_array_equal(replaced.quotas, quotas)


def test_a_block_without_an_unusable_row_is_returned_as_it_is() -> None:
  usable = _usable_rows()
  block = _block(np.array([[2, 2]]), np.zeros((1, 4), bool))
  assert usable.replace(block) is block
  assert usable.metrics() == {}


def test_a_restored_part_goes_on_with_its_random_numbers() -> None:
  block = _block(np.array([[16, 0]]), np.arange(16)[None] < 8)
  whole, restored, fresh = _usable_rows(), _usable_rows(), _usable_rows()
  whole.replace(block)
  restored.restore(whole.state())
  expected, found, other = whole.replace(block), restored.replace(block), fresh.replace(block)
  assert expected is not None
  assert found is not None
  assert other is not None
  np.testing.assert_array_equal(found.handles, expected.handles)
  assert (other.handles != expected.handles).any()


def test_a_run_ends_when_more_than_a_hundredth_of_what_it_draws_is_unusable() -> None:
  usable = _usable_rows()
  quotas = np.full((1, 2), 500)

  def draw(bad: int) -> None:
    usable.replace(_block(quotas, np.arange(1_000)[None] < bad))

  for _ in range(30):
    draw(10)
  assert usable.metrics() == {"unusable_rows": 300, f"unusable_rows/{WRITER}": 300}
  draw(0)
  # The last twenty blocks will be one without any, eighteen with ten, and one with 21.
  for _ in range(18):
    draw(10)
  with pytest.raises(
    UserError, match=r"Of the last 20,000 rows drawn, 201 .*example, its action is 9.* Writer 7 wrote"
  ):
    draw(21)


def test_few_different_rows_never_end_a_run_however_often_they_are_drawn() -> None:
  usable = _usable_rows()
  bad = np.zeros((1, 40), bool)
  bad[0, : LEAST_ROWS - 1] = True  # About half of what is drawn.
  for _ in range(1_000):
    assert usable.replace(_block(np.array([[20, 20]]), bad)) is not None
  bad[0, LEAST_ROWS - 1] = True
  with pytest.raises(UserError, match="cannot be learned from"):
    usable.replace(_block(np.array([[20, 20]]), bad))


@pytest.fixture(name="learn")
def _learn(make_config, serve, tmp_path) -> Iterator[Any]:
  """A learner of tables that hold rows, some of them from a faulty client."""
  with contextlib.ExitStack() as stack:

    def learn(
      good: int, bad: int, spec: specs.EnvironmentSpec = SPEC, selector: Selector = "uniform"
    ) -> tuple[Any, Learner]:
      tables = [TableSpec("default", 0.5, selector=selector, min_size=4), TableSpec("done", 0.5, capacity=50)]
      algorithm = DdqnConfig() if spec is SPEC else SacConfig()
      fields = {"batch_size": 16, "updates_per_block": 4, "prefetch": False, "algorithm": algorithm}
      filled = serve(make_config(tables, **fields), spec=spec)
      action = {} if spec is SPEC else {"action": np.zeros(2, np.float32)}
      filled.fill("default", range(good), **action)
      filled.fill("done", range(20), **action)
      wrong = 1.7 if spec is not SPEC else 99
      with contextlib.closing(RowWriter(filled.server.connection, 1, threading.Event())) as writer:
        for step in range(bad):
          row = _packed(filled.codec, action=wrong, step=step, episode=WRITER << 32)
          writer.create_item("default", writer.append(row))
        writer.flush()
      learner = make_learner(filled.server.connection, filled.server.manifest, 0, filled.stop, tmp_path / "learner")
      stack.callback(learner.parts.source.close)
      return filled, learner

    yield learn


@pytest.mark.compiled
@pytest.mark.parametrize("spec", [SPEC, CONTINUOUS], ids=["discrete", "continuous"])
def test_a_learner_goes_on_with_few_unusable_rows_and_reports_who_wrote_them(learn, spec) -> None:
  _, learner = learn(good=100, bad=3, spec=spec)
  for _ in range(50):
    learner.step()
  metrics = learner.metrics()
  assert metrics["unusable_rows"] == metrics[f"unusable_rows/{WRITER}"] > 0
  assert np.isfinite(metrics["loss"])
  assert all(ahead >= 0 for ahead in learner.parts.source.drawn_ahead().values())


@pytest.mark.compiled
@pytest.mark.parametrize("spec", [SPEC, CONTINUOUS], ids=["discrete", "continuous"])
def test_a_learner_with_many_unusable_rows_ends_with_a_sentence(learn, spec) -> None:
  _, learner = learn(good=50, bad=50, spec=spec)
  with pytest.raises(UserError, match=f"cannot be learned from; for example, its action is .* Writer {WRITER} wrote"):
    learner.run()


@pytest.mark.compiled
def test_an_unusable_row_of_a_prioritised_table_is_not_drawn_again(learn) -> None:
  filled, learner = learn(good=20, bad=LEAST_ROWS - 1, selector="prioritized")
  for _ in range(60):
    learner.step()
  found = learner.metrics()["unusable_rows"]
  for _ in range(20):
    learner.step()
  assert learner.metrics()["unusable_rows"] == found
  connection = filled.server.connection
  items = connection.client.sample(connection.wire_name("default"), 200, emit_timesteps=False)
  rows = np.stack([np.ravel(item.data[0]) for item in items])
  assert not RowCheck(filled.codec, SPEC).unusable(rows).any()
