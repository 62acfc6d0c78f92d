"""The pictures' colours."""

import pytest
from PIL import Image

from experiments.jobs import RunResult
from experiments.pictures import draw, styles_of
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


def test_a_panel_of_methods_that_were_not_run_is_left_out(tmp_path):
  experiment = find_experiment("potentials")
  columns = experiment.columns
  runs = [RunResult("0", "uniform", seed, columns, ((1.0,) * len(columns), (2.0,) * len(columns))) for seed in range(2)]
  sizes = []
  for methods in (experiment.select(["uniform"]), experiment.select(["uniform", "gap_free"])):
    path = tmp_path / f"{len(methods)}.png"
    draw(experiment, methods, {method.name: runs for method in methods}, path)
    with Image.open(path) as picture:
      sizes.append(picture.size)
  # Four panels in two rows, and six in three.
  assert sizes[0][0] == sizes[1][0]
  assert sizes[1][1] - sizes[0][1] == pytest.approx(3.4 * 150)
