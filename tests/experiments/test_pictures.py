"""What the pictures show."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from experiments.definition import eval_measure
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


def test_late_measures_have_panels_after_the_others_also_where_no_run_has_a_value(tmp_path):
  experiment = find_experiment("slingshot")
  won, margin = (experiment.recorded.index(eval_measure(name)) for name in ("won", "margin"))
  values = np.ones((2, len(experiment.columns)))
  values[:, 1] = 100, 200
  start = len(experiment.columns) - len(experiment.recorded)
  values[:, start + won] = 0
  lost = RunResult("0", "uniform", 0, experiment.columns, tuple(map(tuple, values)))
  values[:, start + won] = 1
  values[:, start + margin] = 14, 18
  winning = RunResult("0", "sset", 0, experiment.columns, tuple(map(tuple, values)))
  path = tmp_path / "races.png"
  draw(experiment, experiment.select(["uniform", "sset"]), {"uniform": [lost, lost], "sset": [winning, lost]}, path)
  with Image.open(path) as picture:
    width, height = picture.size
  # Four panels in two rows.
  assert width == pytest.approx(9.6 * 150)
  assert height == pytest.approx((2 * 3.4 + 0.9) * 150)


@pytest.mark.parametrize(("seeds", "lines"), [(2, 3), (3, 1)])
def test_a_band_of_few_seeds_neither_hides_the_curves_nor_makes_the_axis_longer(tmp_path, monkeypatch, seeds, lines):
  experiment = find_experiment("potentials")
  kept = []
  monkeypatch.setattr(Figure, "savefig", lambda self, path: kept.append(self))
  rows = [np.full((4, len(experiment.columns)), 10.0 * seed) for seed in range(seeds)]
  for values in rows:
    values[:, 1] = np.arange(4)
  runs = [
    RunResult("0", "uniform", seed, experiment.columns, tuple(map(tuple, values))) for seed, values in enumerate(rows)
  ]
  draw(experiment, experiment.select(["uniform"]), {"uniform": runs}, tmp_path / "few.png")
  axes = kept[0].axes[0]
  assert len(axes.lines) == lines
  span = 10 * (seeds - 1)
  assert -0.06 * span < axes.get_ylim()[0] < axes.get_ylim()[1] < 1.06 * span


def test_divergences_are_drawn_on_a_logarithmic_axis_on_which_small_ones_show_beside_large_ones(tmp_path, monkeypatch):
  experiment = find_experiment("refer_v_racer_swimmer")
  kept = []
  monkeypatch.setattr(Figure, "savefig", lambda self, path: kept.append(self))
  column = experiment.columns.index("learner/refer_mean_divergence")
  runs = {}
  for method, divergence in (("er", 400.0), ("refer", 0.4)):
    values = np.ones((2, len(experiment.columns)))
    values[:, 0] = 1, 2
    values[:, column] = divergence
    runs[method] = [RunResult("0", method, seed, experiment.columns, tuple(map(tuple, values))) for seed in range(3)]
  draw(experiment, experiment.select(["er", "refer"]), runs, tmp_path / "refer.png")
  scales = {axes.get_ylabel(): axes.get_yscale() for axes in kept[0].axes}
  assert scales["mean KL(μ || π) over memory, nats"] == scales["KL over memory, last fifth"] == "log"
  assert scales["return of training episodes"] == "linear"
  (panel,) = [axes for axes in kept[0].axes if axes.get_ylabel() == "mean KL(μ || π) over memory, nats"]
  low, high = panel.get_ylim()
  assert low < 0.4
  assert high > 400


@pytest.mark.parametrize("named", [False, True])
def test_points_of_late_measures_have_names_where_methods_share_a_colour(tmp_path, monkeypatch, named):
  experiment = find_experiment("refer_sensitivity")
  methods = experiment.methods if named else experiment.methods[:2]
  kept = []
  monkeypatch.setattr(Figure, "savefig", lambda self, path: kept.append(self))
  values = np.ones((2, len(experiment.columns)))
  values[:, 0] = 1, 2
  runs = {
    method.name: [RunResult("0", method.name, seed, experiment.columns, tuple(map(tuple, values))) for seed in range(2)]
    for method in methods
  }
  draw(experiment, methods, runs, tmp_path / "late.png")
  (late,) = [axes for axes in kept[0].axes if axes.get_ylabel() == "return, last fifth"]
  assert [text.get_text() for text in late.get_xticklabels()] == ([method.label for method in methods] if named else [])
  if named:
    assert late.get_xticks()[:2].tolist() == [0.5, 3.5]  # In the middle of a method's two points.
