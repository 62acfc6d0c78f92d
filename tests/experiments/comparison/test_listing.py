"""`slipstream runs`: which runs it finds, and how it sorts, filters and prints them."""

import dataclasses
import io
import json
import os
import pathlib

import pytest
from rich.console import Console

from experiments.comparison.finding import find_runs
from experiments.comparison.listing import fitting_table
from slipstream.main import run
from tests.experiments.comparison.storing import make_config, store_experiment, store_run
from tests.experiments.tiny import make_result


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
  """Three runs, one of which was killed at once, and an experiment with two runs."""
  store_run(tmp_path, make_config("uniform", seed="1"), [-5, -2], "running")
  store_run(tmp_path, make_config("sset", seed="2", learner__learning_rate="0.5"), [-5, 3, 1], "solved")
  broken = store_run(tmp_path, make_config("per", seed="3"))
  (broken / "config.json").write_text("{")
  results = [make_result([-1.0, 2.0], "sset"), dataclasses.replace(make_result([-3.0], seed=1), digest="ba9876543210")]
  store_experiment(tmp_path / "experiments" / "tiny" / "quick", results)
  return tmp_path


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
  assert run(("runs", *arguments, "--json")) == 0
  output = capsys.readouterr()
  assert output.err == ""
  rows: list[dict[str, object]] = json.loads(output.out)
  return rows


def test_every_run_has_a_row_whatever_its_state(capsys: pytest.CaptureFixture[str], root: pathlib.Path) -> None:
  assert run(("runs", str(root))) == 0
  output = capsys.readouterr()
  assert output.err == ""
  lines = output.out.splitlines()
  assert len(lines) == 2 + 5 + 1
  (killed,) = [line.split() for line in lines if "uniform" in line and "killed" in line]
  assert killed[0] == "three_rooms"
  assert killed[4:] == ["uniform", "1", "200", "20", "-2", "-2", "no", "killed"]
  (solved,) = [line.split() for line in lines if line.split()[-1:] == ["solved"]]
  assert solved[4:] == ["sset", "2", "300", "30", "3", "1", "yes", "solved"]
  (broken,) = [line for line in lines if "config.json is damaged" in line]
  assert broken.split()[4:6] == ["-", "-"]
  (result,) = [line.split() for line in lines if "0123456789ab" in line]
  assert result[0] == "tiny"
  assert result[4:] == ["sset", "0", "2,000", "200", "2", "2", "yes", "exhausted"]
  assert lines[-1] == f"5 runs in {root}"


@pytest.mark.parametrize(
  ("width", "missing"), [(140, ()), (110, ("when (UTC)",)), (80, ("when (UTC)", "gradient steps", "best return"))]
)
def test_a_narrow_terminal_has_fewer_columns_and_whole_rows(
  root: pathlib.Path, width: int, missing: tuple[str, ...]
) -> None:
  runs = [stored for stored in find_runs(root) if not stored.notes]
  console = Console(width=width, file=io.StringIO())
  table, left_out = fitting_table(runs, console)
  assert left_out[: len(missing)] == missing
  with console.capture() as capture:
    console.print(table)
  assert len(capture.get().splitlines()) == 2 + len(runs)
  assert all(stored.run_id in capture.get() for stored in runs)


def test_json_has_all_columns_and_the_config(capsys: pytest.CaptureFixture[str], root: pathlib.Path) -> None:
  (row,) = listed(capsys, str(root), "--filter=phase=solved")
  assert isinstance(row["config"], dict)
  assert row["config"]["learner"]["learning_rate"] == 0.5
  assert (row["solved"], row["notes"]) == (True, None)
  assert pathlib.Path(str(row["run_dir"])).name == row["run_id"]


@pytest.mark.parametrize(
  ("sort", "column", "values"),
  [
    ("best_return", "best_return", [-3, -2, 2, 3, None]),
    ("-best_return", "best_return", [3, 2, -2, -3, None]),
    ("method", "method", ["sset", "sset", "uniform", "uniform", None]),
    ("-config.learner.learning_rate", "seed", [2, 1]),
  ],
)
def test_rows_are_sorted_and_those_without_a_value_come_last(
  capsys: pytest.CaptureFixture[str], root: pathlib.Path, sort: str, column: str, values: list[object]
) -> None:
  assert [row[column] for row in listed(capsys, str(root), f"--sort={sort}")][: len(values)] == values


@pytest.mark.parametrize(
  ("filters", "seeds"),
  [
    (["method=sset"], [0, 2]),
    (["method!=sset"], [1, 1, None]),
    (["method=s*"], [0, 2]),
    (["best_return>-2"], [0, 2]),
    (["best_return>=-2", "name=three_rooms"], [1, 2]),
    (["environment_steps<300"], [1, None]),
    (["solved=true"], [0, 2]),
    (["method=none"], [None]),
    (["config.learner.learning_rate=5e-1"], [2]),
    (["when>2100"], []),
  ],
)
def test_only_rows_that_meet_every_filter_are_shown(
  capsys: pytest.CaptureFixture[str], root: pathlib.Path, filters: list[str], seeds: list[int | None]
) -> None:
  rows = listed(capsys, str(root), *(f"--filter={text}" for text in filters))
  assert sorted((row["seed"] for row in rows), key=str) == seeds


def test_an_experiment_that_was_interrupted_has_its_runs_without_a_csv(
  capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
  store_experiment(tmp_path / "two_rooms" / "quick", [make_result([1.0])], listed=False)
  (tmp_path / "two_rooms" / "quick" / "runs" / "ba9876543210.json").write_text('{"digest": "ba98')
  damaged, whole = listed(capsys, str(tmp_path), "--sort=phase")[::-1]
  assert (whole["name"], whole["method"], whole["phase"]) == ("two_rooms", "uniform", "exhausted")
  assert (damaged["run_id"], damaged["phase"], damaged["notes"]) == (
    "ba9876543210",
    "unknown",
    "ba9876543210.json is damaged",
  )


def test_a_csv_that_is_cut_off_is_one_row_with_a_note(
  capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
  (tmp_path / "old.csv").write_text("method,seed,config,gradient_steps\nuniform,0")
  (row,) = listed(capsys, str(tmp_path))
  assert (row["name"], row["phase"], row["notes"]) == ("old", "unknown", "old.csv is damaged")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_may_not_be_read_does_not_hide_the_others(
  capsys: pytest.CaptureFixture[str], root: pathlib.Path
) -> None:
  (root / "secret").mkdir(mode=0)
  assert len(listed(capsys, str(root))) == 5
  assert run(("runs", str(root / "secret"))) == 2
  assert "secret cannot be read (Permission denied): name another." in capsys.readouterr().err


def test_the_committed_results_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
  results = pathlib.Path(__file__).resolve().parents[3] / "docs" / "results"
  rows = listed(capsys, str(results), "--filter=name=hopper", "--filter=method=sset")
  assert sorted(str(row["seed"]) for row in rows) == ["0", "1", "2"]
  assert {row["solved"] for row in rows} == {None}  # Hopper has no goal.


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    (["nowhere"], "There is no folder nowhere: name one that holds runs, such as the --run_root of 'train'."),
    (["."], "There are no runs in .: name a folder that holds some, or start one with 'slipstream train'."),
    (["{root}", "--sort=best_retrun"], "Runs have no column 'best_retrun': did you mean 'best_return'?"),
    (["{root}", "--filter=metod=sset"], "Runs have no column 'metod': did you mean 'method'?"),
    (
      ["{root}", "--filter=sset"],
      "--filter=sset is no condition: write COLUMN=VALUE, or one of !=, <, <=, > and >= between them.",
    ),
    (
      ["{root}", "--filter=config.learning_rate=1"],
      "No run's config has a field 'learning_rate': did you mean 'learner.learning_rate'?",
    ),
    (["{root}", "--sort=config.xyz"], "No run's config has a field 'xyz': a run's config.json holds them all."),
    (["{root}", "more"], "'more' is not a flag of 'slipstream runs': flags begin with --."),
  ],
)
def test_a_mistake_is_one_sentence(
  capsys: pytest.CaptureFixture[str],
  root: pathlib.Path,
  tmp_path_factory: pytest.TempPathFactory,
  monkeypatch: pytest.MonkeyPatch,
  arguments: list[str],
  sentence: str,
) -> None:
  monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
  assert run(("runs", *(word.format(root=root) for word in arguments))) == 2
  output = capsys.readouterr()
  assert output.out == ""
  assert output.err.rstrip("\n") == sentence
