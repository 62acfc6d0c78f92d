"""Measures of episodes: what is taken, and their means."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.measures import MOST_MEASURES, as_measures, mean_measures


def test_numbers_of_every_kind_become_floats() -> None:
  given_numbers = {
    "won": True,
    "lap": np.float32(0.5),
    "out": np.int64(3),
    "clean": np.bool_(False),
    "m": np.array(2.0),
  }
  measures = as_measures(given_numbers)
  assert measures == {"won": 1.0, "lap": 0.5, "out": 3.0, "clean": 0.0, "m": 2.0}
  assert {type(value) for value in measures.values()} == {float}


@pytest.mark.parametrize(
  ("measures", "fault"),
  [
    (3.0, "they are a float"),
    ([("a", 1.0)], "they are a list"),
    ({1: 1.0}, "'1' is no name"),
    ({"": 1.0}, "'' is no name"),
    ({"a" * 65: 1.0}, "is no name of at most 64"),
    ({"tür": 1.0}, "'tür' is no name"),
    ({"a": math.inf}, "'a' is inf"),
    ({"a": 10**400}, "'a' is 1000"),
    ({"a": None}, r"'a' is None \(NoneType\)"),
    ({"a": np.zeros(1)}, r"'a' is \[0\.\] \(ndarray\)"),
    ({"a": 1j}, r"'a' is 1j \(complex\)"),
    ({f"m{index}": 0.0 for index in range(MOST_MEASURES + 1)}, "they are 33, more than 32"),
  ],
)
def test_everything_else_is_refused(measures: Any, fault: str) -> None:
  with pytest.raises(ValueError, match=fault):
    as_measures(measures)


def test_a_mean_is_over_the_episodes_that_have_the_measure() -> None:
  assert mean_measures([{"won": 1.0}, {"won": 0.0, "lap": 93.0}, {}, {"lap": 95.0}]) == {"won": 0.5, "lap": 94.0}
  assert mean_measures([]) == {}


_EPISODE = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.floats(-1e6, 1e6))


@given(st.lists(_EPISODE, max_size=20))
def test_each_mean_lies_between_the_least_and_the_greatest(episodes: list[dict[str, float]]) -> None:
  means = mean_measures(episodes)
  assert set(means) == set().union(*episodes)
  for name, mean in means.items():
    values = [episode[name] for episode in episodes if name in episode]
    assert min(values) - 1e-6 <= mean <= max(values) + 1e-6
