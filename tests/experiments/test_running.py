"""Whole experiments in real processes: what they leave, what is run again, and how they end."""

import concurrent.futures
import contextlib
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from PIL import Image

from configs import UserError, override
from experiments.command import run_experiment, take_in
from experiments.definition import Method, Peer, known_method
from experiments.jobs import plan, read_result, result_path
from experiments.pool import Folder, run_jobs
from tests.experiments.tiny import BUDGET, CONFIG, make_experiment
from tests.launch.processes import INTERRUPT, KILL, START_SECONDS, alive, assert_all_gone, cli, wait_for

pytestmark = pytest.mark.timeout(600)


def run(experiment, folder, seeds=2, processes=2):
  return run_experiment(
    experiment, experiment.methods, BUDGET, seeds, processes, Folder(folder), "slipstream experiment tiny"
  )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """The folder of an experiment with two methods and two seeds that ran to its end."""
  folder = tmp_path_factory.mktemp("tiny")
  assert run(make_experiment(), folder) == 0
  return folder


def test_a_peers_runs_are_shown_beside_the_experiments_and_are_not_in_its_csv(finished, tmp_path):
  folder = tmp_path / "tiny"
  shutil.copytree(finished, folder)
  (folder / "ppo.csv").write_text("method,seed,config,gradient_steps,eval_return\nppo,0,0,100,1.5\nppo,0,0,200,2.5\n")
  assert run(make_experiment(peers=(Peer("ppo", "PPO", "ppo.csv"),)), folder) == 0
  assert (folder / "tiny.csv").read_text() == (finished / "tiny.csv").read_text()
  assert (folder / "tiny.png").read_bytes() != (finished / "tiny.png").read_bytes()
  assert "| PPO | - | 2.50 |" in (folder / "tiny.md").read_text()


def test_an_experiment_leaves_a_csv_of_all_curves(finished):
  with (finished / "tiny.csv").open(newline="") as file:
    rows = list(csv.DictReader(file))
  assert list(rows[0]) == [
    "method",
    "seed",
    "config",
    "environment_steps",
    "gradient_steps",
    "eval_return",
    "eval_length",
    "eval_solved",
    "train_return",
    "eval/measures/way",
    "summed_q",
  ]
  for name in ("uniform", "sset"):
    for seed in ("0", "1"):
      curve = [row for row in rows if (row["method"], row["seed"]) == (name, seed)]
      assert [int(row["gradient_steps"]) for row in curve] == [64, 128, 192, 256, 320]
      assert [int(row["environment_steps"]) for row in curve] == [840, 1480, 2120, 2760, 3400]
      assert all(row["summed_q"] for row in curve)
      # Episodes take at most a hundred steps, at -.1 each.
      assert all(-10.1 < float(row["train_return"]) < 1 for row in curve)
      # An evaluation has one episode, and only one that reaches the goal has this measure.
      ways = [row["eval_length"] if row["eval_solved"] == "1" else "" for row in curve]
      assert [row["eval/measures/way"] for row in curve] == ways
      assert all((row["eval_solved"] == "1") == (float(row["eval_return"]) > -9.9) for row in curve)
  assert len(rows) == 20


def test_an_experiment_leaves_a_picture_and_a_table_and_no_work(finished):
  with Image.open(finished / "tiny.png") as picture:
    assert picture.size[0] > 1000
    # Both methods' colours are there.
    assert {(0, 0, 0), (0, 0x72, 0xB2)} <= {colour for _, colour in picture.convert("RGB").getcolors(1 << 24) or ()}
  table = (finished / "tiny.md").read_text()
  assert "| Uniform ER | " in table
  assert "| SSET | " in table
  assert "slipstream experiment tiny" in table
  assert "| method | `summed_q` | `eval_return` |" in table
  assert sorted(path.name for path in finished.iterdir()) == ["runs", "tiny.csv", "tiny.md", "tiny.png"]
  # Four runs' results, and the lock of writers.
  assert sorted(path.suffix for path in (finished / "runs").iterdir()) == [*[".json"] * 4, ".lock"]


def test_what_is_done_is_not_run_again_and_a_changed_config_is_not_mixed_in(finished, capsys):
  before = {path: path.stat().st_mtime_ns for path in (finished / "runs").iterdir()}
  assert run(make_experiment(), finished) == 0
  assert {path: path.stat().st_mtime_ns for path in (finished / "runs").iterdir()} == before
  assert "4 runs, 4 of them done before" in capsys.readouterr().out

  changed = make_experiment(
    override(CONFIG, {"learner.learning_rate": "0.01"}), methods=(known_method("sset", "SSET"),)
  )
  assert run(changed, finished, seeds=1) == 0
  after = set((finished / "runs").iterdir())
  assert len(after - set(before)) == 1
  with (finished / "tiny.csv").open() as file:
    assert len(file.readlines()) == 1 + 5


def test_the_csv_alone_is_enough_to_go_on_from(finished, tmp_path, capsys):
  experiment = make_experiment()
  assert run(experiment, finished) == 0
  text = (finished / "tiny.csv").read_text()
  (tmp_path / "tiny.csv").write_text(text)
  assert run(experiment, tmp_path) == 0
  assert "4 runs, 4 of them done before" in capsys.readouterr().out
  assert (tmp_path / "tiny.csv").read_text() == text
  assert (tmp_path / "tiny.md").read_text() == (finished / "tiny.md").read_text()
  # What is asked for is written, and the rest is kept.
  assert run(experiment, tmp_path, seeds=1) == 0
  assert len((tmp_path / "tiny.csv").read_text().splitlines()) == 1 + 2 * 5
  assert run(experiment, tmp_path) == 0
  assert (tmp_path / "tiny.csv").read_text() == text


def test_runs_that_another_experiments_csv_has_are_not_repeated(finished, tmp_path, capsys):
  # With labels of its own; the file has one method more than is asked for.
  text = (finished / "tiny.csv").read_text()
  (tmp_path / "three_rooms.csv").write_text(text.replace("uniform,", "uniform_memory,"))
  assert run(make_experiment(methods=(known_method("uniform", "Uniform ER"),)), tmp_path) == 0
  assert "2 runs, 2 of them done before" in capsys.readouterr().out
  lines = (tmp_path / "tiny.csv").read_text().splitlines()
  assert lines == [line for line in text.splitlines() if not line.startswith("sset,")]
  assert len(list((tmp_path / "runs").glob("*.json"))) == 2


def test_commands_that_start_at_once_take_in_the_same_csv_one_after_the_other(finished, tmp_path):
  shutil.copy(finished / "tiny.csv", tmp_path)
  jobs = plan(make_experiment(), make_experiment().methods, BUDGET, seeds=2)
  folder = Folder(tmp_path)
  with concurrent.futures.ThreadPoolExecutor(8) as commands:
    started = [commands.submit(take_in, ["tiny"], folder, {job.digest for job in jobs}) for _ in range(40)]
  for command in started:
    command.result()
  assert all(folder.done(job) for job in jobs)
  assert not list(folder.results.glob("*.partial"))


def test_a_command_that_waits_in_vain_for_another_to_write_says_so(tmp_path, monkeypatch):
  monkeypatch.setattr("experiments.pool._WRITER_SECONDS", 0.0)
  folder = Folder(tmp_path)
  folder.results.mkdir()
  message = f"Another command has been writing in {tmp_path} for 0 s: try again when it has ended."
  with folder.writing(), pytest.raises(UserError, match=re.escape(message)):
    take_in(["tiny"], folder)
  take_in(["tiny"], folder)


def test_a_run_that_fails_says_why_and_the_others_go_on(tmp_path, capsys):
  def in_a_world_that_is_not_there(config):
    return override(config, {"environment.name": "three_roms"})

  methods = (Method("lost", "lost", in_a_world_that_is_not_there), known_method("uniform"))
  assert run(make_experiment(methods=methods), tmp_path, seeds=1) == 1
  output = capsys.readouterr().out
  assert "lost, seed 0, failed: There is no environment 'three_roms': did you mean 'three_rooms'" in output
  assert "1 of 2 runs failed" in output
  assert "slipstream experiment tiny" in output
  with (tmp_path / "tiny.csv").open(newline="") as file:
    assert {row["method"] for row in csv.DictReader(file)} == {"uniform"}
  # The log of the run that failed stays.
  assert len(list((tmp_path / "work").glob("lost-0-*/logs/output"))) == 1


def test_what_another_command_runs_is_waited_for_and_not_run_again(finished, tmp_path):
  folder = Folder(tmp_path)
  (job,) = plan(make_experiment(), [known_method("uniform")], BUDGET, seeds=1)
  folder.results.mkdir()
  lock = folder.lock(job)
  assert lock is not None
  seen, ended = [], []

  def look(progress):
    seen.append(progress)
    if len(seen) == 3:
      shutil.copy(result_path(finished / "runs", job), folder.results)
      folder.unlock(job, lock)

  assert run_jobs([job], folder, 2, threading.Event(), look, lambda job, sentence: ended.append((job, sentence))) == []
  assert ended == [(job, "")]
  assert {(len(progress.fractions), progress.waiting, progress.elsewhere) for progress in seen[:3]} == {(0, 1, 1)}
  assert [path.name for path in folder.results.iterdir()] == [result_path(folder.results, job).name]
  assert not folder.work.exists()


def test_a_run_follows_the_one_that_ended_before_anything_is_said_to_be_waited_for(tmp_path):
  folder = Folder(tmp_path)
  jobs = plan(make_experiment(), [known_method("uniform")], BUDGET, seeds=3)
  folder.results.mkdir()
  lock = folder.lock(jobs[0])
  assert lock is not None
  stop = threading.Event()
  seen = []

  def look(progress):
    seen.append((len(progress.fractions), progress.waiting, progress.elsewhere))
    if seen[-1] != seen[0]:
      stop.set()

  run_jobs(jobs, folder, 1, stop, look, lambda job, sentence: None)
  # Another command runs the first; the second runs while the third waits, and then the third.
  assert list(dict.fromkeys(seen)) == [(1, 2, 1), (1, 1, 1)]
  folder.unlock(jobs[0], lock)


@pytest.mark.parametrize("spare", [0, 1], ids=["a core each", "more runs than cores"])
def test_every_run_has_a_core_of_its_own_while_there_are_enough(tmp_path, spare):
  cores = sorted(os.sched_getaffinity(0))
  jobs = plan(make_experiment(), [known_method("uniform")], BUDGET, seeds=len(cores) + spare)
  stop = threading.Event()
  found: list[list[int]] = []

  def look(progress):
    if len(progress.fractions) == len(jobs):
      assert [Folder(tmp_path).lock(job) for job in jobs] == [None] * len(jobs)
      found.extend(
        sorted(child.cpu_affinity()) for child in psutil.Process().children() if "one_run" in child.cmdline()[2]
      )
      stop.set()

  run_jobs(jobs, Folder(tmp_path), len(jobs), stop, look, lambda job, sentence: None)
  assert sorted(found) == ([cores] * len(jobs) if spare else [[core] for core in cores])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_run_takes_a_core_that_no_other_command_has_taken(tmp_path):
  cores = os.sched_getaffinity(0)
  first, second = sorted(cores)[:2]
  others = [
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)", "experiments.one_run"])
    for _ in range(5)  # So many that runs which are under way elsewhere do not matter.
  ]
  try:
    for other in others:
      os.sched_setaffinity(other.pid, {first})
    stop = threading.Event()
    found: list[list[int]] = []

    def look(progress):
      children = [child for child in psutil.Process().children() if "-m" in child.cmdline()]
      if children:
        found.extend(child.cpu_affinity() for child in children)
        stop.set()

    jobs = plan(make_experiment(), [known_method("uniform")], BUDGET, seeds=1)
    os.sched_setaffinity(0, {first, second})
    run_jobs(jobs, Folder(tmp_path), 1, stop, look, lambda job, sentence: None)
  finally:
    os.sched_setaffinity(0, cores)
    for other in others:
      other.kill()
      other.wait()
  assert found == [[second]]


def test_a_killed_run_is_reported_and_starts_anew_the_next_time(tmp_path):
  folder = Folder(tmp_path)
  experiment = make_experiment(methods=(known_method("uniform"),))
  victim, other = plan(experiment, experiment.methods, BUDGET, seeds=2)

  def kill(progress):
    if progress.fractions.get(victim.stem):
      for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
          if any(victim.stem in word for word in child.cmdline()):
            child.kill()

  stop = threading.Event()
  failed = run_jobs([victim, other], folder, 2, stop, kill, lambda job, sentence: None)
  assert [(run.job, "code -9" in run.sentence) for run in failed] == [(victim, True)]
  assert folder.done(other)
  assert not folder.done(victim)
  (folder.work / victim.stem / "left").touch()
  assert run_jobs([victim], folder, 2, stop, lambda progress: None, lambda job, sentence: None) == []
  result = read_result(result_path(folder.results, victim), victim)
  assert result is not None
  assert result.column("gradient_steps")[0] == 64
  assert not folder.work.exists()


def _under_way(command, folder):
  """The processes of two runs, once both have taken steps."""
  wait_for(lambda: len(list(folder.glob("work/*/status.json"))) == 2, START_SECONDS, "two runs")
  return [child.pid for child in command.children()]


def test_an_interrupt_ends_all_runs_and_says_how_to_go_on(tmp_path):
  folder = tmp_path / "out"
  with cli(tmp_path, "log", "experiment", "three_rooms", "--jobs=2", f"--out={folder}") as command:
    pids = _under_way(command, folder)
    assert len(pids) >= 2
    began = time.monotonic()
    command.send(INTERRUPT)
    assert command.wait(10) == 130
    assert time.monotonic() - began < 5
    assert_all_gone(pids, timeout=1)
  said = command.output().strip().splitlines()[-1]
  # Five methods with four seeds.
  assert "Interrupted: 0 of 20 runs are done and kept. Go on with: slipstream experiment three_rooms" in said
  assert f"--jobs=2 --out={folder}" in said
  assert list(folder.glob("work/*")) == []


def test_runs_end_by_themselves_when_the_command_is_killed(tmp_path):
  folder = tmp_path / "out"
  with cli(tmp_path, "log", "experiment", "three_rooms", "--jobs=2", f"--out={folder}") as command:
    pids = _under_way(command, folder)
    command.send(KILL)
    command.wait(10)
    try:
      assert_all_gone(pids, timeout=20)
    finally:
      for pid in filter(alive, pids):
        psutil.Process(pid).send_signal(signal.SIGKILL)
  assert list(folder.glob("runs/*.json")) == []
