"""Jobs and results: a result is taken for exactly the run that it is of."""

import dataclasses
import json
import math

import pytest

from configs import override
from experiments.jobs import Job, plan, read_job, read_result, result_path, write_job, write_result
from tests.experiments.tiny import BUDGET, CONFIG, make_experiment, make_result

JOB = Job("uniform", 3, CONFIG, {"summed_q": "experiments.probes:summed_q"})


def test_the_plan_has_every_seed_of_every_method_the_first_seeds_first():
  experiment = make_experiment()
  jobs = plan(experiment, experiment.methods, BUDGET, seeds=2)
  assert [(job.method, job.seed, job.config.seed) for job in jobs] == [
    ("uniform", 0, 0),
    ("sset", 0, 0),
    ("uniform", 1, 1),
    ("sset", 1, 1),
  ]
  assert len({job.stem for job in jobs}) == 4
  # 200 steps before the first update, then ten an update; and no run ends because it is solved.
  assert {job.config.environment_steps for job in jobs} == {200 + 3200}
  assert {job.config.evaluator.solved_evaluations for job in jobs} == {0}
  assert jobs[0].config.replay.tables == ()


@pytest.mark.parametrize(
  "other",
  [
    dataclasses.replace(JOB, config=override(CONFIG, {"seed": "1"})),
    dataclasses.replace(JOB, config=override(CONFIG, {"learner.learning_rate": "0.002"})),
    dataclasses.replace(JOB, probes={}),
    dataclasses.replace(JOB, recorded=("train_return",)),
  ],
  ids=["seed", "learning rate", "probes", "recorded"],
)
def test_another_config_is_another_job(tmp_path, other):
  assert other.digest != JOB.digest
  path = result_path(tmp_path, JOB)
  write_result(path, dataclasses.replace(make_result([1.0]), digest=JOB.digest))
  assert read_result(path, JOB) is not None
  # Even where the file is there under the other one's name.
  path.replace(result_path(tmp_path, other))
  assert read_result(result_path(tmp_path, other), other) is None


def test_a_job_is_the_same_on_the_other_side_of_a_file(tmp_path):
  config = dataclasses.replace(CONFIG, replay=dataclasses.replace(CONFIG.replay, environment_steps_per_update=10))
  job = dataclasses.replace(JOB, config=config, recorded=("train_return", "loss"))
  write_job(tmp_path / "job.json", job)
  assert read_job(tmp_path / "job.json") == job


def test_a_result_comes_back_as_it_was_with_what_was_not_measured(tmp_path):
  result = dataclasses.replace(make_result([1.0, math.nan, -0.10000000149]), digest=JOB.digest)
  write_result(tmp_path / "result.json", result)
  read = read_result(tmp_path / "result.json", JOB)
  assert read is not None
  assert math.isnan(read.column("eval_return")[1])
  assert [read.column("eval_return")[index] for index in (0, 2)] == [1.0, -0.1]
  assert dataclasses.replace(read, points=()) == dataclasses.replace(result, points=())


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"digest": 3}', json.dumps({"points": 3})])
def test_a_file_that_is_no_result_counts_as_none(tmp_path, text):
  (tmp_path / "result.json").write_text(text)
  assert read_result(tmp_path / "result.json", JOB) is None
  assert read_result(tmp_path / "missing.json", JOB) is None
