"""The tables, from results made by hand."""

from collections.abc import Sequence

from experiments.definition import LateMeasure, Panel
from experiments.tables import summary_markdown
from tests.experiments.tiny import BUDGET, make_columns, make_experiment, make_result

EXPERIMENT = make_experiment(panels=(Panel("eval_return", "return"),), probes={}, recorded=())


def _rows(**finals: Sequence[float]) -> list[str]:
  """The tables' rows of runs that end at these returns; one that ends above 0 is solved there, at step 400."""
  results = {
    method: [make_result([-9, -9, -9, final], method, seed) for seed, final in enumerate(values)]
    for method, values in finals.items()
  }
  text = summary_markdown(EXPERIMENT, EXPERIMENT.methods, results, BUDGET, "slipstream experiment tiny")
  return [line for line in text.splitlines() if line.startswith("|")]


def test_the_last_quarter_is_compared_with_the_references():
  rows = _rows(uniform=[-1, -2, -3], sset=[-4, -6, -8])
  # Student's t with two degrees of freedom is 4.303, Welch's with 2.94 is 3.221, and the standard errors are sqrt(1/3), sqrt(4/3)
  # and sqrt(5/3).
  assert rows[-5:] == [
    "| Uniform ER | -2.00 [-4.48, 0.48] |",
    "| SSET | -6.00 [-10.97, -1.03] |",
    "| less `uniform`'s | `eval_return` |",
    "| --- | --- |",
    "| SSET | -4.00 [-8.16, +0.16] |",
  ]


def test_a_method_whose_runs_are_all_equal_has_no_brackets():
  rows = _rows(uniform=[-1, -2, -3], sset=[-4, -4, -4])
  assert "| SSET | 0 of 3 | 320 ± 0 | 320 | +0 | 0.50 [0.13, 0.87] |" in rows
  assert rows[-4:] == [
    "| SSET | -4.00 |",
    "| less `uniform`'s | `eval_return` |",
    "| --- | --- |",
    "| SSET | -2.00 |",
  ]


def test_nothing_is_compared_without_the_reference():
  rows = _rows(sset=[-4, -6])
  assert rows[-1].startswith("| SSET | -5.00 [")
  assert sum(row.startswith("| method |") for row in rows) == 2


def test_sums_and_late_measures_are_given_run_by_run():
  experiment = make_experiment(
    panels=(Panel("won", "cumulative wins", cumulative=True),),
    thresholds=(),
    late=(LateMeasure("margin", "margin, m", "m ahead where it won", 0.5, given="won"),),
    probes={},
    recorded=("won", "margin"),
  )
  results = {
    "uniform": [make_columns({"won": [0, 0, 0, 0], "margin": [-9, -9, -9, -9]}, "uniform", seed) for seed in range(2)],
    "sset": [
      make_columns({"won": [0, 1, 0, 1], "margin": [-9, 20, -3, 14]}, "sset", 0),
      make_columns({"won": [1, 1, 1, 1], "margin": [1, 2, 16, 18]}, "sset", 1),
      make_columns({"won": [1, 0, 0, 0], "margin": [1, -2, -6, -8]}, "sset", 2),
    ],
  }
  lines = summary_markdown(experiment, experiment.methods, results, BUDGET, "slipstream experiment tiny").splitlines()
  rows = lines[lines.index("## Run by run") :]
  # Of 14 and 17 the standard error is 1.5, and t is 12.706 with one degree of freedom; of 2, 4, 1 they are .8819 and 4.303.
  assert rows[2:6] == [
    "| method | sum of `won` | m ahead where it won, last 50% |",
    "| --- | --- | --- |",
    "| Uniform ER | 0.00: 0.00, 0.00 | -: -, - |",
    "| SSET | 2.33 [-1.46, 6.13]: 2.00, 4.00, 1.00 | 15.50 [-3.56, 34.56]: 14.00, 17.00, - |",
  ]
