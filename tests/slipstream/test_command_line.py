"""The command line: what it prints, and what it leaves alone. The table of mistakes is `test_mistakes.py`'s."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import load_config, to_json
from configs.sealed_folder import Seal, write_sealed
from launch.attach import argument_words
from launch.roles import environment_spec
from launch.run_directory import create_run_directory
from replay_server.contract.layout import LAYOUT_VERSION
from replay_server.process.server import ReplayServer
from slipstream.commands import COMMANDS
from slipstream.commands.act import index_from
from slipstream.commands.command import split_overrides
from slipstream.commands.flags import given_environment
from slipstream.main import run
from tests.damage import files_in
from tests.serving import checkpoint_version_2, wait_for


@pytest.fixture
def port_in_use():
  with socket.socket(socket.AF_INET6) as taken:
    taken.bind(("", 0))
    taken.listen()
    yield taken.getsockname()[1]


def mistake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
  """The one sentence that a mistaken command line prints."""
  assert run(arguments) == 2
  output = capsys.readouterr()
  assert output.out == ""
  assert "Traceback" not in output.err
  lines = output.err.strip().splitlines()
  assert len(lines) == 1
  assert lines[0].endswith((".", "?", ")"))
  return lines[0]


@pytest.mark.parametrize("command", ["train", "serve"])
def test_a_port_in_use_is_named(capsys, tmp_path, port_in_use, command):
  path = tmp_path / "runs"
  said = mistake(capsys, command, "--config=three_rooms", f"--port={port_in_use}", f"--run_root={path}")
  assert f"Port {port_in_use} is in use" in said
  assert not path.exists()


@pytest.fixture
def checkpointed_run(tmp_path):
  """The directory of a run whose tables were checkpointed."""
  config = load_config("three_rooms")
  directory = create_run_directory(config, tmp_path / "runs")
  with ReplayServer(
    config, environment_spec(config), directory.run_id, directory.replay_checkpoint, inline=True
  ) as server:
    server.checkpoint()
  return directory


def test_another_runs_tables_are_refused_and_left_alone(capsys, tmp_path, checkpointed_run):
  config = load_config("three_rooms")
  other = create_run_directory(config, tmp_path / "runs")
  shutil.copytree(checkpointed_run.replay_checkpoint, other.replay_checkpoint)
  before = sorted(path.name for path in other.replay_checkpoint.rglob("*"))
  assert run(["train", f"--resume={other.path}", "--inline", "--quiet"]) == 2
  assert f"belongs to run {checkpointed_run.run_id}, not to {other.run_id}" in capsys.readouterr().err
  assert sorted(path.name for path in other.replay_checkpoint.rglob("*")) == before


def test_a_run_of_layout_version_2_is_refused_and_left_alone(capsys, checkpointed_run):
  config = load_config("three_rooms")
  checkpoint = checkpointed_run.replay_checkpoint
  with ReplayServer(config, environment_spec(config), checkpointed_run.run_id, checkpoint, inline=True) as server:
    checkpoint_version_2(server)
  files = files_in(checkpoint)
  assert run(["train", f"--resume={checkpointed_run.path}", "--inline", "--quiet"]) == 2
  said = capsys.readouterr().err
  assert f"has layout version 2, and this release of slipstream writes {LAYOUT_VERSION}: resume the run with" in said
  assert files_in(checkpoint) == files
  assert sorted(path.name for path in checkpointed_run.checkpoints.iterdir()) == ["replay", "replay.lock"]


def test_another_runs_learner_is_refused_and_left_alone(capsys, checkpointed_run):
  learner = checkpointed_run.checkpoints / "learner" / "checkpoint_7"

  def fill(folder):
    (folder / "counters.json").write_text("{}")

  write_sealed(learner, Seal("somebody_elses", 7, "", LAYOUT_VERSION), fill, lambda folder: None)
  before = files_in(learner)
  assert run(["train", f"--resume={checkpointed_run.path}", "--inline", "--quiet"]) == 2
  assert "belongs to run somebody_elses" in capsys.readouterr().err
  assert files_in(learner) == before


def test_ctrl_c_while_attach_waits_for_a_server_is_one_word(capsys):
  before = signal.getsignal(signal.SIGINT)

  def interrupt():
    wait_for(lambda: signal.getsignal(signal.SIGINT) is not before, seconds=60)  # From then on `attach` waits.
    os.kill(os.getpid(), signal.SIGINT)

  with socket.socket() as closed:  # Bound but not listening: nobody answers.
    closed.bind(("localhost", 0))
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    assert run(["attach", f"--server=localhost:{closed.getsockname()[1]}"]) == 130
    interrupting.join()
  assert capsys.readouterr().err.strip() == "Interrupted."


def test_the_config_that_would_be_used_is_printed_with_its_overrides(capsys):
  arguments = ["train", "--config=three_rooms", "--config.replay.tables.done.capacity=777", "--config.seed", "5"]
  assert run([*arguments, "--print_config"]) == 0
  printed = json.loads(capsys.readouterr().out)
  assert printed["seed"] == 5
  assert printed["replay"]["tables"][1]["capacity"] == 777


def test_a_method_is_applied_before_overrides(capsys):
  arguments = ["train", "--config=three_rooms", "--method=reverse_sweep", "--config.replay.tables.done.capacity=777"]
  assert run([*arguments, "--print_config"]) == 0
  printed = json.loads(capsys.readouterr().out)
  assert [(table["name"], table["probability"], table["capacity"]) for table in printed["replay"]["tables"]] == [
    ("done", 0.5, 777)
  ]


def test_a_config_file_of_json_is_taken(capsys, tmp_path):
  path = tmp_path / "mine.json"
  path.write_text(to_json(load_config("three_rooms")))
  assert run(["serve", f"--config={path}", "--print_config"]) == 0
  assert json.loads(capsys.readouterr().out)["name"] == "three_rooms"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"]])
def test_the_overview_lists_every_command(capsys, arguments):
  assert run(arguments) == 0
  output = capsys.readouterr().out
  assert [name for name in COMMANDS if f"  {name} " not in output] == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_its_flags(capsys, name):
  assert run([name, "--help"]) == 0
  assert f"slipstream {name}" in capsys.readouterr().out


def test_help_loads_no_heavy_library():
  heavy = {"acme", "gymnasium", "launchpad", "matplotlib", "reverb", "sonnet", "tensorflow"}
  code = (
    "import sys; from slipstream.commands import COMMANDS; from slipstream.main import run\n"
    "for name in COMMANDS: run([name, '--help'])\n"
    f"print('loaded:', {heavy} & set(sys.modules))"
  )
  done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
  assert done.stdout.splitlines()[-1] == "loaded: set()"


def test_experiments_are_listed_with_what_they_show(capsys):
  assert run(["experiment"]) == 0
  lines = capsys.readouterr().out.splitlines()
  assert any(line.startswith("three_rooms ") and "Section 5.1" in line for line in lines)


def test_presets_are_listed_with_what_they_are(capsys):
  assert run(["presets"]) == 0
  assert "three_rooms" in capsys.readouterr().out


def test_overrides_are_taken_out_of_the_arguments_in_both_spellings():
  rest, overrides = split_overrides(["--a", "--config.x.y=1", "--config", "c", "--config.z", "2"])
  assert rest == ["--a", "--config", "c"]
  assert overrides == {"x.y": "1", "z": "2"}


_JSON = st.recursive(
  st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
  lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
  max_leaves=8,
)


@settings(max_examples=25)  # Each defines the command's flags anew.
@given(st.dictionaries(st.sampled_from(["laps", "distance", "launch"]), _JSON))
def test_the_workers_of_attach_get_the_arguments_that_it_was_given(arguments):
  assert given_environment(COMMANDS["act"].parse(argument_words(arguments))) == arguments


def test_arguments_of_the_environment_are_typed_as_overrides_are():
  words = ["--environment.a=1", "--environment.b", "true", "--environment.c=[1, 2]", "--environment.d=grey"]
  arguments = COMMANDS["act"].parse([*words, "--index=3"])
  assert given_environment(arguments) == {"a": 1, "b": True, "c": [1, 2], "d": "grey"}
  assert arguments.flags.index == 3
  assert "--environment.NAME=VALUE" in COMMANDS["act"].help()
  assert "--environment" not in COMMANDS["learn"].help()


@pytest.mark.parametrize(
  ("environment", "index"),
  [
    ({}, 0),
    ({"HOSTNAME": "actor-5-x2x1z"}, 0),
    ({"JOB_COMPLETION_INDEX": "5"}, 5),
    ({"SLURM_ARRAY_TASK_ID": "6", "SLURM_PROCID": "0"}, 6),
    ({"SLURM_PROCID": "7"}, 7),
    ({"SLURM_PROCID": "7", "JOB_COMPLETION_INDEX": "05"}, 5),
  ],
)
def test_a_worker_takes_its_index_from_its_orchestrator(environment, index):
  assert index_from(environment) == index
