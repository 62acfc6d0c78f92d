"""Exact search against all distances in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay_memory.kernels import NONE
from replay_memory.nearest import ExactIndex


def test_by_hand() -> None:
  points = np.array([[0, 0], [3, 4], [1, 0], [0, 2]], np.float32)
  index = ExactIndex(points)
  queries = np.array([[0, 0], [3, 3], [0, 1.5]], np.float32)
  # Squares of distances: 0 25 1 4, 18 1 13 10, and 2.25 15.25 3.25 .25.
  assert index.search(queries, 3).tolist() == [[0, 2, 3], [1, 3, 2], [3, 0, 2]]
  assert index.search(queries[:1], 6).tolist() == [[0, 2, 3, 1, NONE, NONE]]


def test_an_index_without_a_point_finds_none() -> None:
  assert ExactIndex(np.empty((0, 3), np.float32)).search(np.zeros((2, 3), np.float32), 2).tolist() == [[NONE] * 2] * 2


@settings(deadline=None)
@given(
  count=st.sampled_from([1, 2, 511, 512, 513, 1_100]),
  components=st.sampled_from([1, 7, 8, 9, 23]),
  queries=st.integers(0, 5),
  nearest=st.integers(1, 12),
  seed=st.integers(0, 2**32 - 1),
)
def test_it_finds_the_nearest_whatever_the_sizes(
  count: int, components: int, queries: int, nearest: int, seed: int
) -> None:
  rng = np.random.default_rng(seed)
  points = rng.normal(size=(count, components)).astype(np.float32)
  asked = rng.normal(size=(queries, components)).astype(np.float32)
  places = ExactIndex(points).search(asked, nearest)
  assert places.shape == (queries, nearest)
  distances = np.linalg.norm(points[None].astype(np.float64) - asked[:, None].astype(np.float64), axis=2)
  found = min(nearest, count)
  assert (places[:, found:] == NONE).all()
  for own, row in zip(distances, places[:, :found], strict=True):
    assert len(set(row.tolist())) == found
    assert own[row] == pytest.approx(np.sort(own)[:found], rel=1e-4, abs=1e-3)
