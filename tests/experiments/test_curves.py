"""The CSV of curves: what it holds comes back."""

import dataclasses
import math

import pytest

from configs import UserError
from experiments.curves import curves_csv, read_curves, with_peers
from experiments.definition import Peer
from tests.experiments.tiny import make_experiment, make_result

EXPERIMENT = dataclasses.replace(make_experiment(), probes={}, recorded=(), panels=())


def test_runs_come_back_as_they_were_with_what_was_not_measured(tmp_path):
  runs = [make_result([1.0, -0.1], seed=0), make_result([0.5, 0.25, 2.0], seed=1)]
  other = dataclasses.replace(make_result([3.0], method="sset"), digest="ba9876543210")
  (tmp_path / "tiny.csv").write_text(curves_csv(EXPERIMENT, {"uniform": runs, "sset": [other], "per": []}))
  assert read_curves(tmp_path / "tiny.csv") == [*runs, other]

  (tmp_path / "tiny.csv").write_text(curves_csv(EXPERIMENT, {"uniform": [make_result([math.nan, 1.0])]}))
  (read,) = read_curves(tmp_path / "tiny.csv")
  assert math.isnan(read.column("eval_return")[0])
  assert read.column("eval_return")[1] == 1.0


def test_no_file_has_no_runs(tmp_path):
  assert read_curves(tmp_path / "tiny.csv") == []


def test_runs_of_a_peer_whose_file_is_there_lack_what_it_has_not_measured(tmp_path):
  peers = (Peer("ppo", "PPO", "other.csv"), Peer("acer", "ACER", "none.csv"))
  experiment = dataclasses.replace(EXPERIMENT, peers=peers)
  ours = {"uniform": [make_result([1.0])]}
  assert with_peers(experiment, experiment.methods, ours, tmp_path) == ([*experiment.methods], ours)
  (tmp_path / "other.csv").write_text("method,seed,config,gradient_steps,eval_return\nppo,0,0,100,1.5\nppo,0,0,200,\n")
  methods, runs = with_peers(experiment, experiment.methods, ours, tmp_path)
  assert [method.label for method in methods[len(experiment.methods) :]] == ["PPO"]
  (run,) = runs["ppo"]
  assert runs == {**ours, "ppo": [run]}
  assert run.columns == experiment.columns
  assert run.column("gradient_steps") == [100, 200]
  assert run.column("eval_return") == pytest.approx([1.5, math.nan], nan_ok=True)
  assert run.column("environment_steps") == pytest.approx([math.nan, math.nan], nan_ok=True)


@pytest.mark.parametrize(
  ("text", "reason"),
  [
    ("", "does not begin with the columns method, seed, config"),
    ("method,seed\n", "does not begin with"),
    ("method,seed,config,eval_return\nuniform,0,01ab\n", "line 2 is not a run's"),
    ("method,seed,config,eval_return\nuniform,0,01ab,one\n", "could not convert"),
    ("method,seed,config,eval_return\nuniform,zero,01ab,1\n", "invalid literal"),
    ("method,seed,config,eval_return\n../uniform,0,01ab,1\n", "line 2 is not a run's"),
    ("method,seed,config,eval_return\nuniform,0,../01,1\n", "line 2 is not a run's"),
  ],
)
def test_another_file_is_refused(tmp_path, text, reason):
  (tmp_path / "tiny.csv").write_text(text)
  with pytest.raises(UserError, match="is not a CSV file of an experiment's runs") as error:
    read_curves(tmp_path / "tiny.csv")
  assert reason in str(error.value)
