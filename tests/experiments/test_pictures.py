"""The pictures' colours."""

import pytest

from experiments.pictures import styles_of
from experiments.registry import EXPERIMENTS, find_experiment


def test_a_method_has_the_same_colour_whatever_it_is_compared_with():
  alone = styles_of(["sset"])["sset"]
  assert styles_of(["uniform", "per", "sset"])["sset"] == alone
  assert styles_of(["done_1", "sset", "uniform"])["sset"] == alone


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_two_curves_of_an_experiment_look_alike(name):
  methods = [method.name for method in find_experiment(name).methods]
  styles = styles_of(methods)
  assert len(set(styles.values())) == len(methods)
