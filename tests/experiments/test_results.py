"""The committed results: each belongs to its experiment's present definition, and its table follows from its curves."""

import csv
import pathlib
import shlex

import numpy as np
import pytest

from experiments import manifold
from experiments.curves import read_curves, with_peers
from experiments.jobs import plan
from experiments.registry import CALCULATIONS, EXPERIMENTS, find_budget, find_experiment, find_seeds
from experiments.statistics import difference_of_means, steps_to
from experiments.tables import summary_markdown

RESULTS = pathlib.Path(__file__).parents[2] / "docs" / "results"


def _options(command: str) -> dict[str, str]:
  return dict(word.removeprefix("--").split("=", 1) for word in shlex.split(command)[3:])


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if (RESULTS / f"{name}.csv").exists()])
def test_a_committed_result_is_what_its_command_gives(name):
  experiment = find_experiment(name)
  text = (RESULTS / f"{name}.md").read_text()
  (command,) = [line.strip() for line in text.splitlines() if line.startswith("    slipstream")]
  options = _options(command)
  assert command.startswith(f"slipstream experiment {name} ")
  assert options["out"] == "docs/results"
  budget = find_budget(experiment, options["budget"])
  methods = experiment.select(options["methods"].split(",") if "methods" in options else [])
  jobs = plan(experiment, methods, budget, int(options.get("seeds", budget.seeds)))

  assert f"## {name}\n    {command}\n" in (RESULTS / "README.md").read_text()

  runs = read_curves(RESULTS / f"{name}.csv")
  assert sorted((run.method, run.seed, run.digest) for run in runs) == sorted(
    (job.method, job.seed, job.digest) for job in jobs
  )
  results = {method.name: [run for run in runs if run.method == method.name] for method in methods}
  assert summary_markdown(experiment, *with_peers(experiment, methods, results, RESULTS), budget, command) == text
  assert (RESULTS / f"{name}.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["three_rooms", "two_rooms"])
def test_sset_takes_fewer_updates_than_uniform_replay_beyond_doubt(name):
  (threshold,) = find_experiment(name).thresholds
  runs = read_curves(RESULTS / f"{name}.csv")
  ours, theirs = (
    np.minimum([steps_to(run, threshold) for run in runs if run.method == method], runs[0].column("gradient_steps")[-1])
    for method in ("sset", "uniform")
  )
  assert len(ours) == len(theirs) == 30
  assert difference_of_means(ours, theirs).high < 0


def test_nothing_else_lies_there():
  names = {path.stem for path in RESULTS.iterdir() if path.is_file()} - {"README"}
  peers = {pathlib.Path(peer.file).stem for name in EXPERIMENTS for peer in find_experiment(name).peers}
  assert names <= {*EXPERIMENTS, *CALCULATIONS, *peers}


@pytest.mark.parametrize("name", CALCULATIONS)
def test_a_committed_calculation_is_what_its_command_gives(name, tmp_path, monkeypatch):
  # Of the slow one a part: every method in one world.
  monkeypatch.setattr(manifold, "WORLDS", ("Hopper",))
  monkeypatch.setattr(manifold, "SIZES", (1_000, 3_000))
  text = (RESULTS / f"{name}.md").read_text()
  (command,) = [line.strip() for line in text.splitlines() if line.startswith("    slipstream")]
  assert command == f"slipstream experiment {name} --budget=paper --out=docs/results"
  assert f"## {name}\n    {command}\n" in (RESULTS / "README.md").read_text()
  calculation = CALCULATIONS[name]()
  seeds = 1
  assert seeds < find_seeds(calculation, "paper")
  calculation.write(seeds, tmp_path, command)
  computed, committed = (_measured(folder / f"{name}.csv") for folder in (tmp_path, RESULTS))
  assert {key: committed[key] for key in computed} == {
    # Another processor rounds otherwise, and of two rows that are equally near takes the other one.
    key: [pytest.approx(value, rel=0.05, abs=1e-4) if isinstance(value, float) else value for value in values]
    for key, values in computed.items()
  }


def _measured(path: pathlib.Path) -> dict[tuple[str, ...], list[int | float]]:
  """What was measured, by the columns before and with the seed; counts are whole numbers."""
  with path.open(newline="") as file:
    header, *rows = csv.reader(file)
  keys = header.index("seed") + 1
  return {tuple(row[:keys]): [int(cell) if cell.isdecimal() else float(cell) for cell in row[keys:]] for row in rows}
