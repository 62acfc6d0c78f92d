"""The files that the recorder writes into a run directory."""

import csv
import dataclasses
import math
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from replay_server.contract.status import Evaluation, RunStatus, TableStatus
from replay_server.process import recorder as recorder_module
from replay_server.process.recorder import (
  BYTES_PER_SECOND,
  COLUMNS,
  METRICS_FILE,
  TENSORBOARD_FOLDER,
  Recorder,
  read_metrics,
  row_period_seconds,
)


def _evaluation(index: int, mean_return: float = 0.5) -> Evaluation:
  return Evaluation(
    environment_steps=100 * index,
    gradient_steps=10 * index,
    policy_version=index,
    mean_return=mean_return,
    mean_length=80.0,
    solved=index > 2,
    seconds=index + 1 / 3,
    train_return=float(index),
    train_length=20.0,
  )


def _table(name: str, size: int) -> TableStatus:
  return TableStatus(name, size, 1_000, size, inserts_per_second=12.5, samples_per_second=320.0)


def _status(steps: int = 100, **changes: Any) -> RunStatus:
  values: dict[str, Any] = {
    "run_id": "id",
    "name": "run",
    "phase": "running",
    "wall_seconds": steps / 100,
    "environment_steps": steps,
    "environment_steps_budget": 1_000,
    "gradient_steps": steps // 10,
    "policy_version": steps // 100,
    "environment_steps_per_second": 100.0,
    "gradient_steps_per_second": 10.0,
    "episodes": 3,
    "recent_return": -1.5,
    "recent_length": 90.0,
    "evaluations": (),
    "solved_streak": 0,
    "solved_evaluations": 4,
    "tables": (_table("default", steps), _table("done", 0)),
    "roles": (),
    "learner": {"loss": 0.25, "mean_q": 1.5, "grad_norm": 3.0},
  }
  return RunStatus(**{**values, **changes})


def _record(run_dir: pathlib.Path, *statuses: RunStatus) -> None:
  recorder = Recorder(run_dir)
  for status in statuses:
    recorder.record(status)
  recorder.close()


def _header(run_dir: pathlib.Path) -> list[str]:
  with (run_dir / METRICS_FILE).open(newline="") as file:
    return next(csv.reader(file))


def _column(run_dir: pathlib.Path, name: str) -> list[float | None]:
  return [row[name] for row in read_metrics(run_dir / METRICS_FILE)]


def _scalars(run_dir: pathlib.Path) -> dict[str, list[tuple[int, float]]]:
  events = EventAccumulator(str(run_dir / TENSORBOARD_FOLDER))
  events.Reload()
  return {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_a_status_becomes_a_row_with_every_column(tmp_path: pathlib.Path) -> None:
  _record(tmp_path, _status())
  measures = ("size", "inserts_per_second", "samples_per_second")
  assert _header(tmp_path) == [
    *COLUMNS,
    *(f"{table}/{measure}" for table in ("default", "done") for measure in measures),
  ]
  (row,) = read_metrics(tmp_path / METRICS_FILE)
  assert row == {
    "seconds": 1.0,
    "environment_steps": 100,
    "gradient_steps": 10,
    "policy_version": 1,
    "environment_steps_per_second": 100.0,
    "gradient_steps_per_second": 10.0,
    "episodes": 3,
    "recent_return": -1.5,
    "recent_length": 90.0,
    "train_return": None,
    "train_length": None,
    "eval_return": None,
    "eval_length": None,
    "eval_solved": None,
    "loss": 0.25,
    "mean_q": 1.5,
    "default/size": 100,
    "default/inserts_per_second": 12.5,
    "default/samples_per_second": 320.0,
    "done/size": 0,
    "done/inserts_per_second": 12.5,
    "done/samples_per_second": 320.0,
  }


def test_measures_that_come_later_add_columns_and_have_tags_of_the_same_names(tmp_path: pathlib.Path) -> None:
  one = _evaluation(1)
  two = dataclasses.replace(_evaluation(2), measures={"won": 0.5})
  _record(
    tmp_path,
    _status(),
    _status(200, recent_measures={"won": 0.25}, evaluations=(one,)),
    _status(300, recent_measures={"won": 0.75, "lap": 93.5}, evaluations=(one, two)),
  )
  _record(tmp_path, _status(400, recent_measures={"size": 1.0}, tables=(_table("rollout", 9),)))
  assert _column(tmp_path, "environment_steps") == [100, 100, 200, 200, 300, 400]
  assert _column(tmp_path, "rollout/measures/won") == [None, None, 0.25, None, 0.75, None]
  assert _column(tmp_path, "rollout/measures/lap") == [None, None, None, None, 93.5, None]
  assert _column(tmp_path, "eval/measures/won") == [None, None, None, 0.5, None, None]
  assert _column(tmp_path, "rollout/measures/size") == [None] * 5 + [1.0]
  assert _column(tmp_path, "rollout/size") == [None] * 5 + [9]
  assert _column(tmp_path, "recent_return") == [-1.5, None, -1.5, None, -1.5, -1.5]
  assert (tmp_path / METRICS_FILE).read_text().count("seconds,environment_steps") == 1
  scalars = _scalars(tmp_path)
  assert scalars["rollout/measures/won"] == [(200, 0.25), (300, 0.75)]
  assert scalars["eval/measures/won"] == [(200, 0.5)]


def test_a_status_in_which_only_the_clock_and_rates_moved_adds_no_row(tmp_path: pathlib.Path) -> None:
  _record(tmp_path, _status(), _status(wall_seconds=9.0, environment_steps_per_second=0.0), _status(200))
  assert _column(tmp_path, "environment_steps") == [100, 200]


def test_each_evaluation_gets_one_row_of_its_own(tmp_path: pathlib.Path) -> None:
  one, two, three = _evaluation(1, 0.1), _evaluation(2, 0.2), _evaluation(3, 0.3)
  _record(
    tmp_path,
    _status(),
    _status(evaluations=(one,)),
    _status(evaluations=(one, two, three)),
    _status(200, evaluations=(three,)),
  )
  assert _column(tmp_path, "eval_return") == [None, 0.1, 0.2, 0.3, None]
  assert _column(tmp_path, "eval_solved") == [None, 0, 0, 1, None]
  assert _column(tmp_path, "environment_steps") == [100, 100, 200, 300, 200]
  assert _column(tmp_path, "recent_return") == [-1.5, None, None, None, -1.5]
  assert _column(tmp_path, "train_return") == [None, 1, 2, 3, None]


def test_a_resumed_run_continues_the_file_with_one_header_and_no_evaluation_twice(tmp_path: pathlib.Path) -> None:
  _record(tmp_path, _status(100, evaluations=(_evaluation(1),)))
  _record(tmp_path, _status(200, evaluations=(_evaluation(1), _evaluation(2))))
  assert (tmp_path / METRICS_FILE).read_text().count("seconds,environment_steps") == 1
  assert _column(tmp_path, "eval_return") == [0.5, None, 0.5, None]
  assert _column(tmp_path, "environment_steps") == [100, 100, 200, 200]
  assert _column(tmp_path, "policy_version") == [1, 1, 2, 2]


def test_a_resumed_run_with_another_table_keeps_the_old_columns_and_adds_its_own(tmp_path: pathlib.Path) -> None:
  _record(tmp_path, _status(100))
  _record(tmp_path, _status(200, tables=(_table("default", 200), _table("key", 7))))
  assert _header(tmp_path)[-3:] == ["key/size", "key/inserts_per_second", "key/samples_per_second"]
  assert _column(tmp_path, "default/size") == [100, 200]
  assert _column(tmp_path, "done/size") == [0, None]
  assert _column(tmp_path, "key/size") == [None, 7]


def test_a_row_that_a_crash_cut_off_is_not_read_and_is_dropped_on_resume(tmp_path: pathlib.Path) -> None:
  _record(tmp_path, _status(100))
  with (tmp_path / METRICS_FILE).open("a") as file:
    file.write("2,1234")  # Perhaps of 123456.
  assert _column(tmp_path, "environment_steps") == [100]
  _record(tmp_path, _status(200))
  assert _column(tmp_path, "environment_steps") == [100, 200]


def test_what_a_power_failure_left_in_the_file_is_dropped_on_resume(
  tmp_path: pathlib.Path,
) -> None:
  _record(tmp_path, _status(100))
  path = tmp_path / METRICS_FILE
  path.write_bytes(path.read_bytes() + b"1.5,2\0\0\xff\xfe,")
  _record(tmp_path, _status(200))
  assert [row["environment_steps"] for row in read_metrics(path)] == [100, 200]


def test_a_row_can_be_read_before_the_recorder_is_closed(tmp_path: pathlib.Path) -> None:
  recorder = Recorder(tmp_path)
  recorder.record(_status())
  assert _column(tmp_path, "environment_steps") == [100]
  assert _scalars(tmp_path)["time/fps"] == [(100, 100.0)]
  recorder.close()
  recorder.close()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_empty_in_the_csv_and_missing_in_tensorboard(
  tmp_path: pathlib.Path, value: float
) -> None:
  _record(tmp_path, _status(learner={"loss": value, "mean_q": 1.5}, evaluations=(_evaluation(1, value),)))
  assert _column(tmp_path, "loss") == [None, None]
  assert _column(tmp_path, "eval_return") == [None, None]
  assert _column(tmp_path, "eval_solved") == [0, None]
  text = (tmp_path / METRICS_FILE).read_text()
  assert "nan" not in text
  assert "inf" not in text
  scalars = _scalars(tmp_path)
  assert "train/loss" not in scalars
  assert "eval/mean_reward" not in scalars
  assert scalars["train/mean_q"] == [(100, 1.5)]


def test_tensorboard_has_the_tags_of_stable_baselines_at_environment_steps(tmp_path: pathlib.Path) -> None:
  _record(tmp_path, _status(500, evaluations=(_evaluation(1, 0.25), _evaluation(2, 0.5))))
  scalars = _scalars(tmp_path)
  assert scalars.pop("eval/mean_reward") == [(100, 0.25), (200, 0.5)]
  assert scalars.pop("eval/mean_ep_length") == [(100, 80.0), (200, 80.0)]
  assert scalars == {
    "rollout/ep_rew_mean": [(500, -1.5)],
    "rollout/ep_len_mean": [(500, 90.0)],
    "time/fps": [(500, 100.0)],
    "train/n_updates": [(500, 50.0)],
    "train/loss": [(500, 0.25)],
    "train/mean_q": [(500, 1.5)],
    "train/grad_norm": [(500, 3.0)],
    "replay/default/size": [(500, 500.0)],
    "replay/default/inserts_per_second": [(500, 12.5)],
    "replay/default/samples_per_second": [(500, 320.0)],
    "replay/done/size": [(500, 0.0)],
    "replay/done/inserts_per_second": [(500, 12.5)],
    "replay/done/samples_per_second": [(500, 320.0)],
  }


def test_a_run_resumed_at_an_older_checkpoint_hides_its_later_points_in_tensorboard(
  tmp_path: pathlib.Path,
) -> None:
  _record(tmp_path, *(_status(steps) for steps in (100, 200, 300, 400)))
  _record(tmp_path, _status(250), _status(350))
  assert [step for step, _ in _scalars(tmp_path)["time/fps"]] == [100, 200, 250, 350]


def _evaluated_at(seconds: float) -> Evaluation:
  return dataclasses.replace(_evaluation(round(seconds)), seconds=seconds)


def _size(run_dir: pathlib.Path) -> int:
  return sum(path.stat().st_size for path in (run_dir / METRICS_FILE, *(run_dir / TENSORBOARD_FOLDER).iterdir()))


def test_rows_of_a_long_run_lie_apart_in_proportion_to_its_time(tmp_path: pathlib.Path) -> None:
  _record(tmp_path, *(_status(steps) for steps in range(10_000, 20_000, 10)))  # A tick every tenth of a second.
  seconds = _column(tmp_path, "seconds")
  assert seconds[:3] == pytest.approx([100, 100.6, 101.2], abs=0.01)
  gaps = np.diff(np.array(seconds[:-1], float))
  assert gaps.min() > 100 / 200
  assert gaps.max() < 200 / 200 + 0.11
  assert seconds[-1] == 199.9  # The last one in any case.
  assert [step for step, _ in _scalars(tmp_path)["time/fps"]] == _column(tmp_path, "environment_steps")


def test_the_period_of_rows_grows_until_a_row_costs_what_a_day_allows() -> None:
  assert row_period_seconds(0, 37, 36) == 0
  assert row_period_seconds(100, 37, 36) == 0.5
  assert row_period_seconds(1e6, 37, 36) == row_period_seconds(2e6, 37, 36) == (370 + 1440) / BYTES_PER_SECOND


def test_the_end_of_a_run_is_written_at_once(tmp_path: pathlib.Path) -> None:
  recorder = Recorder(tmp_path)
  evaluations = (_evaluated_at(100_000), _evaluated_at(100_001))
  recorder.record(_status(10_000_000, evaluations=evaluations[:1]))
  recorder.record(_status(10_000_100, evaluations=evaluations))
  assert _column(tmp_path, "environment_steps") == [10_000_000, 10_000_000]
  recorder.record(_status(10_000_101, evaluations=evaluations, phase="solved"))
  assert _column(tmp_path, "environment_steps") == [10_000_000, 10_000_000, 10_000_100, 10_000_101]
  recorder.close()
  assert len(_column(tmp_path, "seconds")) == 4


def test_evaluations_that_come_thick_in_a_long_run_are_thinned_and_the_last_is_kept(tmp_path: pathlib.Path) -> None:
  times = [50_000.0 + second for second in range(12)]
  recorder = Recorder(tmp_path)
  for count in range(1, len(times) + 1):
    recorder.record(_status(evaluations=tuple(map(_evaluated_at, times[:count]))))
  recorder.close()
  rows = [row["seconds"] for row in read_metrics(tmp_path / METRICS_FILE) if row["eval_solved"] is not None]
  assert rows == [50_000, 50_006, 50_011]
  # A resumed run knows which ones it has passed over.
  _record(tmp_path, _status(200, evaluations=(*map(_evaluated_at, times), _evaluated_at(50_020))))
  rows = [row["seconds"] for row in read_metrics(tmp_path / METRICS_FILE) if row["eval_solved"] is not None]
  assert rows == [50_000, 50_006, 50_011, 50_020]


@pytest.mark.parametrize("event_tables", [6, 31])
def test_the_record_of_a_day_stays_below_20_mb(tmp_path: pathlib.Path, event_tables: int) -> None:
  names = (
    "loss",
    "mean_q",
    "policy_loss",
    "entropy",
    "temperature",
    "mean_abs_td_error",
    "drawn_ahead",
    "refused_priorities",
  )
  generator = np.random.default_rng(0)

  def status(seconds: float) -> RunStatus:
    tables = (
      TableStatus(f"at_event_{table}", int(seconds), 10**6, 10**7, *generator.random(2))
      for table in range(event_tables + 1)
    )
    return _status(
      int(1e7 + seconds),
      wall_seconds=seconds,
      tables=tuple(tables),
      learner={name: float(generator.random()) for name in names},
      evaluations=(dataclasses.replace(_evaluated_at(seconds), mean_return=float(generator.random())),),
    )

  # The middle of every hour stands for the hour, with a tick and an evaluation each second.
  recorder, grown = Recorder(tmp_path), 0.0
  for hour in range(24):
    began, before = 3600 * hour + 1800.0, 0
    for tick in range(300):
      recorder.record(status(began + tick))
      before = before or _size(tmp_path)  # The first row of an hour is the jump's.
    grown += (_size(tmp_path) - before) * 3600 / 300
  recorder.close()
  assert 4e6 < grown < 20e6


def test_a_file_that_does_not_exist_has_no_rows(tmp_path: pathlib.Path) -> None:
  assert read_metrics(tmp_path / METRICS_FILE) == []


def test_a_cell_that_is_not_a_number_reads_as_empty(tmp_path: pathlib.Path) -> None:
  (tmp_path / METRICS_FILE).write_text("seconds,loss\n1,oops\n2,nan\n3,0.5\n")
  assert _column(tmp_path, "loss") == [None, None, 0.5]


def test_damaged_bytes_and_cells_too_many_or_too_few_do_not_hide_other_rows(tmp_path: pathlib.Path) -> None:
  (tmp_path / METRICS_FILE).write_bytes(b'seconds,loss\n1,0.25\n2\n3,0.5,7,8\n\xff"\xfe,0.75\n\n5,1\n\0\0\0')
  assert _column(tmp_path, "seconds") == [1, 2, 3, None, 5]
  assert _column(tmp_path, "loss") == [0.25, None, 0.5, 0.75, 1]
  (tmp_path / METRICS_FILE).write_bytes(b"")
  assert read_metrics(tmp_path / METRICS_FILE) == []


def test_reading_metrics_does_not_load_tensorflow() -> None:
  code = "import sys, replay_server.process.recorder; sys.exit('tensorflow' in sys.modules)"
  assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("log", "steps"), [("CsvLog", [100, 300]), ("BoardLog", [100, 200, 300])])
def test_after_a_record_that_could_not_be_written_the_next_one_appends_to_the_files(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, log: str, steps: list[int]
) -> None:
  def full(*_: object) -> None:
    raise OSError("No space left on device")

  recorder = Recorder(tmp_path)
  recorder.record(_status(100))
  with monkeypatch.context() as patch:
    patch.setattr(getattr(recorder_module, log), "write", full)
    for _ in range(2):
      with pytest.raises(OSError, match="No space left"):
        recorder.record(_status(200, evaluations=(_evaluation(1),)))
  recorder.record(_status(300, evaluations=(_evaluation(1),)))
  recorder.close()
  rows = read_metrics(tmp_path / METRICS_FILE)
  assert [row["environment_steps"] for row in rows if row["eval_return"] is None] == steps
  assert len([row for row in rows if row["eval_return"] is not None]) == 1
