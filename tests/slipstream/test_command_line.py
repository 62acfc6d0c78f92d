"""The command line: what it prints, and that every mistake is one sentence and exit code 2."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest

from configs import load_config, to_json
from launch.roles import environment_spec
from launch.run_directory import create_run_directory
from replay_server.process.server import ReplayServer
from slipstream.commands import COMMANDS
from slipstream.commands.command import split_overrides
from slipstream.main import run
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


@pytest.mark.parametrize(
  ("override", "sentence"),
  [
    ("learner.bach_size=3", "no key 'learner.bach_size': did you mean 'batch_size'?"),
    ("lerner.batch_size=3", "no key 'lerner': did you mean 'learner'?"),
    ("learner.batch_size=many", "learner.batch_size is not valid: 'many' is not a whole number"),
    ("replay.tables.done.probability=0.5", "probabilities sum to 1.2, not 1"),
    ("replay.tables.done.capacity=0", "Table 'done' has the capacity 0"),
    ("replay.capacity=0", "replay.capacity is 0"),
    ("events.done.history=7000", "Event 'done' has a history of 7000 steps"),
    ("events.done.condition=environments.three_rooms:dnoe", "environments.three_rooms"),
    ("events.done.condition=no_such_module:done", "no_such_module"),
    ("environment.name=three_roms", "did you mean 'three_rooms'"),
    ("environment.arguments.room_sise=3", "did you mean 'room_size'"),
    ("environment.potential=environments.potentials:AtCell", "did you mean 'AtCells'?"),
    ("environment.potential=environments.potentials:AtCells", "missing 1 required positional argument: 'cells'"),
    ("environment.potential=environments.three_rooms:at_gap", "cannot be called with an observation and an info"),
    ("replay.capacity=1000000000000", "lower replay.capacity"),
  ],
)
@pytest.mark.parametrize("command", ["train", "serve"])
def test_a_config_that_cannot_run_is_refused_before_anything_is_started(capsys, tmp_path, command, override, sentence):
  path = tmp_path / "runs"
  said = mistake(capsys, command, "--config=three_rooms", f"--config.{override}", f"--run_root={path}")
  assert sentence in said
  assert not path.exists()


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    (("trian",), "There is no command 'trian': did you mean 'train'?"),
    (("train", "--confg=three_rooms"), "Unknown command line flag 'confg'"),
    (("train", "three_rooms"), "'three_rooms' is not a flag of 'slipstream train'"),
    (("train",), "No --config is given"),
    (("train", "--config=three_room"), "did you mean 'three_rooms'?"),
    (("train", "--config=nowhere.py"), "There is no config file nowhere.py"),
    (("train", "--config=three_rooms", "--config.seed"), "--config.seed has no value"),
    (("train", "--config=three_rooms", "--port=70000"), "The port 70000 does not exist"),
    (("train", "--config=three_rooms", "--pythonpath=/no/such/folder"), "which is not a folder"),
    (("train", "--resume=/no/such/run"), "/no/such/run is not a run directory"),
    (("train", "--resume=/no/such/run", "--config=three_rooms"), "Both --config and --resume are given"),
    (("train", "--resume=/no/such/run", "--method=uniform"), "Both --method and --resume are given"),
    (("train", "--config=three_rooms", "--method=unifrom"), "did you mean 'uniform'?"),
    (("experiment", "three_room"), "There is no experiment 'three_room': did you mean 'three_rooms'?"),
    (("experiment", "three_rooms", "more"), "'more' is not a flag of 'slipstream experiment'"),
    (("experiment", "three_rooms", "--budget=papre"), "has no budget 'papre': did you mean 'paper'?"),
    (("experiment", "three_rooms", "--methods=uniform,ssett"), "has no method 'ssett': did you mean 'sset'?"),
    (("experiment", "three_rooms", "--seeds", "0"), "seeds"),
    (("experiment", "three_rooms", "--jobs", "-1"), "jobs"),
    (("experiment", "three_rooms", "--config.seed=3"), "'slipstream experiment' takes no --config.* of its own"),
    (("act",), "No --server is given"),
    (("act", "--server=somewhere"), "The server address 'somewhere' is not valid"),
    (("attach", "--server=localhost:99999"), "The server address 'localhost:99999' is not valid"),
    (("attach", "--server=localhost:8000", "--actors=0"), "actors"),
    (("learn", "--server=localhost:8000", "--config.seed=3"), "takes no --config.* of its own"),
    (("status", "--server=localhost:1"), "No replay server answers at localhost:1"),
    (("events",), "No --config is given"),
    (("events", "--config=three_rooms", "--steps=0"), "steps"),
    (("events", "--config=three_rooms", "--seed=-1"), "seed"),
    (("events", "--config=three_rooms", "--epsilon=0.5"), "--epsilon is for a policy: add --checkpoint"),
    (("events", "--checkpoint=/no/such/run"), "holds no policy"),
    (("events", "--checkpoint=/no/such/run", "--epsilon=2"), "epsilon"),
    (("events", "--config=three_rooms", "--config.events.done.histroy=3"), "did you mean 'history'?"),
    (("events", "--config=three_rooms", "--config.events.done.condition=a:b"), "there is no module 'a'"),
    (("theory",), "No --eta is given"),
    (("theory", "--eta=0.3", "--tau=50"), "No --mu is given"),
    (("theory", "--eta=1.5", "--tau=50", "--mu=0.01"), "eta is 1.5: it is the share of all event tables together"),
    (("theory", "--eta=0.5", "--tau=0", "--mu=0.01"), "tau is 0: it is the length of a history in steps, at least 1"),
    (("theory", "--eta=0.5", "--tau=9", "--mu=2"), "mu is 2"),
    (("theory", "--eta=0.5", "--tau=9", "--mu=0.1", "--events=0"), "events is 0"),
    (("theory", "--eta=half", "--tau=9", "--mu=0.1"), "could not convert string to float: 'half'"),
    (("theory", "--eta=0.5", "--tau=9", "--mu=0.1", "--gamma=0.9"), "--gamma needs --rarest"),
    (("theory", "--eta=0.5", "--tau=9", "--mu=0.1", "--rarest=0.9"), "add --gamma, the discount"),
    (("theory", "--eta=0.5", "--tau=9", "--mu=0.1", "--gamma=1", "--rarest=0.1"), "gamma is 1: it is the discount"),
    (("theory", "--eta=0.5", "--tau=9", "--mu=0.1", "--plot=/no/such/folder/a.png"), "name a .png file in a folder"),
    (("theory", "--eta=0.5", "--tau=9", "--mu=0.1", "--plot=a.psd"), "name a .png file in a folder"),
    (("evaluate",), "Give either --checkpoint"),
    (("evaluate", "--checkpoint=/no/such/run"), "holds no policy"),
    (("evaluate", "--checkpoint=pyproject.toml.npz"), "is not a policy file"),
  ],
)
def test_a_mistaken_command_line_is_answered_with_one_sentence(capsys, arguments, sentence):
  assert sentence in mistake(capsys, *arguments)


@pytest.mark.parametrize("command", ["train", "serve"])
def test_a_port_in_use_is_named(capsys, tmp_path, port_in_use, command):
  path = tmp_path / "runs"
  said = mistake(capsys, command, "--config=three_rooms", f"--port={port_in_use}", f"--run_root={path}")
  assert f"Port {port_in_use} is in use" in said
  assert not path.exists()


@pytest.mark.parametrize("arguments", [("act", "--index=3"), ("learn",), ("evaluate",), ("attach", "--actors=2")])
def test_a_role_that_finds_no_server_says_so(capsys, monkeypatch, arguments):
  monkeypatch.setattr("launch.roles.CONNECT_TIMEOUT_SECONDS", 0.1)
  command, *rest = arguments
  assert "start one with 'slipstream serve'" in mistake(capsys, command, "--server=localhost:1", *rest)


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
    checkpoint_version_2(server.connection, config, checkpointed_run.run_id)
  files = {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}
  assert run(["train", f"--resume={checkpointed_run.path}", "--inline", "--quiet"]) == 2
  assert "has layout version 2, and this release of slipstream writes 4: resume the run with" in capsys.readouterr().err
  assert {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()} == files
  assert sorted(path.name for path in checkpointed_run.checkpoints.iterdir()) == ["replay", "replay.lock"]


def test_an_evaluation_of_nothing_is_one_sentence(capsys, tmp_path):
  assert "There is nothing to do" in mistake(capsys, "evaluate", f"--checkpoint={tmp_path}", "--episodes=0")


def test_another_runs_learner_is_refused_and_left_alone(capsys, checkpointed_run):
  learner = checkpointed_run.checkpoints / "learner" / "checkpoint_7"
  learner.mkdir(parents=True)
  counters = {"run_id": "somebody_elses", "gradient_steps": 8, "policy_version": 1}
  (learner / "counters.json").write_text(json.dumps(counters))
  before = {path.name: path.read_bytes() for path in learner.iterdir()}
  assert run(["train", f"--resume={checkpointed_run.path}", "--inline", "--quiet"]) == 2
  assert "belongs to run somebody_elses" in capsys.readouterr().err
  assert {path.name: path.read_bytes() for path in learner.iterdir()} == before


def test_a_run_that_was_never_checkpointed_cannot_be_resumed(capsys, tmp_path):
  directory = create_run_directory(load_config("three_rooms"), tmp_path)
  assert "cannot be resumed" in mistake(capsys, "train", f"--resume={directory.path}")


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


def test_a_run_root_that_cannot_be_written_is_named(capsys, tmp_path):
  (tmp_path / "file").write_text("")
  said = mistake(capsys, "train", "--config=three_rooms", f"--run_root={tmp_path / 'file'}")
  assert "choose another with --run_root" in said


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


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_run(capsys, tmp_path):
  (tmp_path / "file").write_text("")
  assert run(["experiment", "three_rooms", f"--out={tmp_path / 'file'}"]) == 2
  assert "cannot be written" in capsys.readouterr().err


def test_presets_are_listed_with_what_they_are(capsys):
  assert run(["presets"]) == 0
  assert "three_rooms" in capsys.readouterr().out


def test_overrides_are_taken_out_of_the_arguments_in_both_spellings():
  rest, overrides = split_overrides(["--a", "--config.x.y=1", "--config", "c", "--config.z", "2"])
  assert rest == ["--a", "--config", "c"]
  assert overrides == {"x.y": "1", "z": "2"}
