"""docker/slurm's files without Slurm: the commands that they run, and what becomes of a job by its roles' exit codes.

Scripts stand in for Slurm's commands and for `slipstream`. `make test-slurm` runs the same files on a real Slurm.
"""

import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import time

import pytest

from configs.exit_codes import ExitCode, is_restarted
from slipstream.commands import COMMANDS

_ROOT = pathlib.Path(__file__).parents[2]
_FILES = _ROOT / "docker" / "slurm"
_SECONDS = 60.0

# Says what it was called with, and ends with the code in the file "<command>.code", or, without one, at SIGTERM with 143.
_SLIPSTREAM = """\
#!/bin/bash
here=$(dirname "$0")
echo "$@" >>"$here/called"
trap 'exit 143' TERM
while [[ ! -e $here/$1.code ]]; do sleep .05; done
exit "$(<"$here/$1.code")"
"""
_SQUEUE = '#!/bin/bash\necho "${JOB_STATE:-RUNNING}"\n'
_SRUN = '#!/bin/bash\ntrap "exit 143" TERM\nuntil [[ -e $(dirname "$0")/preempted ]]; do sleep .05; done\nexit 143\n'
_SCONTROL = '#!/bin/bash\necho "$@" >>"$(dirname "$0")/asked"\n'


class Job:
  """One of the files as a job, with stand-ins for all other commands."""

  def __init__(self, folder: pathlib.Path, file: str, *arguments: str, **variables: str):
    self.folder = folder
    stand_ins = {"slipstream": _SLIPSTREAM, "squeue": _SQUEUE, "scontrol": _SCONTROL, "srun": _SRUN}
    for name, text in stand_ins.items():
      (folder / name).write_text(text)
      (folder / name).chmod(0o755)
    self._process = subprocess.Popen(
      ["bash", str(_FILES / file), *arguments],
      env={
        "PATH": f"{folder}:/usr/bin:/bin",
        "SLIPSTREAM_COMMAND": str(folder / "slipstream"),
        "SLURM_SUBMIT_DIR": str(_ROOT),
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "1",
        **variables,
      },
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    )

  def end_role(self, command: str, code: int) -> None:
    """Lets a role end with this code."""
    (self.folder / f"{command}.partial").write_text(f"{code:d}")
    (self.folder / f"{command}.partial").rename(self.folder / f"{command}.code")

  def terminate(self) -> None:
    self._process.send_signal(signal.SIGTERM)

  def calls(self, count: int) -> list[list[str]]:
    """The command lines of the roles, once there are so many."""
    called = self.folder / "called"
    deadline = time.monotonic() + _SECONDS
    while len(lines := called.read_text().splitlines() if called.exists() else []) < count:
      assert time.monotonic() < deadline
      time.sleep(0.02)
    return sorted(shlex.split(line) for line in lines)

  def wait(self) -> tuple[int, list[str]]:
    """Its exit code, and what was asked of scontrol."""
    self.said, _ = self._process.communicate(timeout=_SECONDS)
    asked = self.folder / "asked"
    return self._process.returncode, asked.read_text().splitlines() if asked.exists() else []


def _parse(words):
  return COMMANDS[words[0]].parse(words[1:]).flags


def test_the_server_job_runs_three_roles_with_flags_that_they_take(tmp_path):
  flags = ["--config=three_rooms", "--config.seed=3", "--pythonpath=examples/corridor", "--allow_module=minigrid"]
  job = Job(tmp_path, "server.sbatch", "runs/first", *flags)
  evaluate, learn, serve = (_parse(words) for words in job.calls(3))
  assert (serve.run_dir, serve.port, serve.config) == ("runs/first", 0, "three_rooms")
  assert {values.pythonpath for values in (evaluate, learn, serve)} == {"examples/corridor"}
  assert evaluate.allow_module == ["minigrid"]
  for values in (evaluate, learn):
    assert (values.server, values.run_dir, values.server_timeout) == ("@runs/first", "runs/first", 900.0)
  for command in ("serve", "learn", "evaluate"):
    job.end_role(command, 0)
  assert job.wait() == (0, [])


def test_every_task_of_the_array_has_workers_with_indices_of_their_own(tmp_path):
  indices = []
  for task in range(2):
    (tmp_path / str(task)).mkdir()
    array = {"SLURM_ARRAY_JOB_ID": "8", "SLURM_ARRAY_TASK_ID": str(task), "SLURM_NTASKS": "3"}
    job = Job(tmp_path / str(task), "actors.sbatch", "runs/first", "--allow_module=minigrid", **array)
    for values in map(_parse, job.calls(3)):
      assert (values.server, values.allow_module) == ("@runs/first", ["minigrid"])
      indices.append(values.index)
    job.end_role("act", 0)
    assert job.wait() == (0, [])
  assert sorted(indices) == list(range(6))


def test_every_worker_has_a_console_beside_it_that_leaves_after_it(tmp_path):
  array = {"SLURM_ARRAY_JOB_ID": "8", "SLURM_ARRAY_TASK_ID": "1", "SLURM_NTASKS": "2"}
  console = "--world=slingshot --pace=real"
  job = Job(tmp_path, "actors.sbatch", "runs/first", "--allow_module=mine", SLIPSTREAM_CONSOLE=console, **array)
  *workers, first, second = map(_parse, job.calls(4))
  assert {(values.world, values.pace, values.host) for values in (first, second)} == {
    ("slingshot", "real", "127.0.0.1")
  }
  assert {values.console for values in workers} == {f"localhost:{values.port}" for values in (first, second)}
  assert first.port != second.port
  assert [values.index for values in workers] == [2, 3]
  job.end_role("act", 0)
  assert job.wait() == (0, [])  # Although the consoles end with 143.
  ended = re.findall(r"(\w+) has ended with (\d+)", job.said)
  assert sorted(ended) == [("actor_2", "0"), ("actor_3", "0"), ("console_2", "143"), ("console_3", "143")]
  assert [name.partition("_")[0] for name, _ in ended] == ["actor", "actor", "console", "console"]


def test_a_console_that_dies_takes_its_task_with_it_which_is_started_again(tmp_path):
  job = Job(tmp_path, "actors.sbatch", "runs/first", SLIPSTREAM_CONSOLE="--world=slingshot")
  job.calls(2)
  job.end_role("console", 137)
  assert job.wait() == (137, ["requeue 7"])
  assert "actor_0 has ended with 143" in job.said


def test_a_task_with_consoles_that_is_told_to_leave_is_started_again(tmp_path):
  job = Job(tmp_path, "actors.sbatch", "runs/first", SLIPSTREAM_CONSOLE="--world=slingshot")
  job.calls(2)
  job.terminate()
  assert job.wait() == (143, ["requeue 7"])


def test_the_evaluator_has_a_console_that_leaves_after_it(tmp_path):
  job = Job(tmp_path, "server.sbatch", "runs/first", "--config=slingshot", SLIPSTREAM_CONSOLE="--world=slingshot")
  console, evaluate, *_ = map(_parse, job.calls(4))
  assert evaluate.console == f"localhost:{console.port}"
  for command in ("serve", "learn", "evaluate"):
    job.end_role(command, 0)
  assert job.wait() == (0, [])
  assert re.findall(r"(\w+) has ended with (\d+)", job.said)[-1] == ("console", "143")


@pytest.mark.parametrize("file", ["server.sbatch", "actors.sbatch"])
def test_a_job_without_a_run_directory_says_so(tmp_path, file):
  job = Job(tmp_path, file, "--config=three_rooms")
  assert job.wait() == (2, [])
  assert "No run directory is given: sbatch " in job.said


@pytest.mark.parametrize("code", [*ExitCode, 139], ids=str)
def test_a_job_is_started_again_by_the_table_of_exit_codes(tmp_path, code):
  job = Job(tmp_path, "actors.sbatch", "runs/first", SLURM_ARRAY_JOB_ID="8", SLURM_ARRAY_TASK_ID="3")
  job.calls(1)
  job.end_role("act", code)
  assert job.wait() == (code, ["requeue 8_3"] if is_restarted(code) else [])


@pytest.mark.parametrize(("code", "is_again"), [(1, False), (4, False), (143, True)])
def test_a_job_that_fails_is_started_again_a_limited_number_of_times_and_one_that_left_always(tmp_path, code, is_again):
  job = Job(tmp_path, "actors.sbatch", "runs/first", MAX_RESTARTS="2", SLURM_RESTART_COUNT="2")
  job.calls(1)
  job.end_role("act", code)
  assert job.wait() == (code, ["requeue 7"] if is_again else [])


def test_at_sigterm_the_server_leaves_first_and_the_job_is_started_again(tmp_path):
  job = Job(tmp_path, "server.sbatch", "runs/first", "--config=three_rooms")
  job.calls(3)
  job.terminate()
  assert job.wait() == (143, ["requeue 7"])
  ended = re.findall(r"(\w+) has ended with (\d+)", job.said)
  assert ended[0] == ("server", "143")
  assert sorted(ended) == [("evaluator", "143"), ("learner", "143"), ("server", "143")]


def test_a_server_that_is_to_be_preempted_leaves_at_once(tmp_path):
  job = Job(tmp_path, "server.sbatch", "runs/first", "--config=three_rooms")
  job.calls(3)
  (tmp_path / "preempted").touch()
  assert job.wait() == (143, ["requeue 7"])


def test_a_learner_that_fails_takes_the_job_with_it_in_good_order(tmp_path):
  job = Job(tmp_path, "server.sbatch", "runs/first", "--config=three_rooms")
  job.calls(3)
  job.end_role("learn", 2)
  assert job.wait() == (2, [])
  assert "server has ended with 143" in job.said


def test_a_job_that_was_cancelled_is_not_started_again(tmp_path):
  job = Job(tmp_path, "actors.sbatch", "runs/first", JOB_STATE="COMPLETING")
  job.calls(1)
  job.terminate()
  assert job.wait() == (143, [])
  assert "Slurm ends job 7 (completing)" in job.said


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="there is no shellcheck")
def test_shellcheck_finds_nothing():
  files = sorted(map(str, _FILES.iterdir()))
  done = subprocess.run(
    ["shellcheck", "--external-sources", f"--source-path={_ROOT}", *files], capture_output=True, text=True, check=False
  )
  assert done.stdout == ""
