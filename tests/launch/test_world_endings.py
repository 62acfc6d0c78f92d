"""A world that fails or hangs ends every kind of run with one sentence and exit code 2, and leaves no process behind."""

import contextlib
import re
import threading

import numpy as np
import psutil
import pytest

from configs import ActorConfig, EnvironmentConfig, EventSpec, RunConfig, to_json
from environments import make_environment_spec, make_event_environment
from experiments.definition import Budget, Experiment, Method, Panel
from experiments.jobs import plan
from experiments.pool import Folder, run_jobs
from networks import flatten_weights, make_policy
from replay_server.contract.policy import PolicySnapshot, save_snapshot
from slipstream.main import run as run_command
from tests.launch.processes import START_SECONDS, alive, assert_all_gone, cli, run_dir_of, status_of, wait_for

pytestmark = pytest.mark.timeout(900)

FAULTY = "tests.faulty_world:Faulty"
RAISES = f"The environment '{FAULTY}' raised KeyError ('no such\\nroom') in step: fix it."
HINT = " (--verbose shows the traceback.)"


def config_of(timeout_seconds=60.0, **arguments):
  """A run in a faulty world, with one worker."""
  return RunConfig(
    name="faulty",
    environment=EnvironmentConfig(FAULTY, arguments, timeout_seconds=timeout_seconds),
    events=(EventSpec("end", "environments.conditions:EpisodeEnd", 1, table=None),),
    actor=ActorConfig(workers=1),
  )


def write_config(folder, **arguments):
  path = folder / "faulty.json"
  path.write_text(to_json(config_of(**arguments)))
  return f"--config={path}"


def frames(text):
  """The files of a traceback's frames."""
  return re.findall(r'^  File "[^"]*/([^/"]+)"', text, re.MULTILINE)


def assert_only_own_frames(text):
  assert "KeyError: 'no such\\nroom'" in text
  assert set(frames(text)) == {"faulty_world.py"}


def test_a_world_that_raises_ends_a_local_run_with_its_sentence_and_its_frames(tmp_path):
  config = write_config(tmp_path, in_step="raise", after=60)
  with cli(tmp_path, "train", "train", config, f"--run_root={tmp_path}", "--verbose") as command:
    assert command.wait(START_SECONDS + 60) == 2, command.output()
  run_dir = run_dir_of(command)
  assert f"actor_0: {RAISES} Logs: {run_dir / 'logs'}." in command.output()
  assert_only_own_frames(command.output())
  (log,) = (path for path in run_dir.glob("logs/actors/0") if path.is_file())
  assert_only_own_frames(log.read_text())
  # Nothing that was stored is lost.
  assert status_of(run_dir)["environment_steps"] == 59
  assert any((run_dir / "checkpoints" / "replay").iterdir())


@pytest.mark.parametrize("verbose", [False, True])
def test_a_world_that_raises_ends_an_inline_run(tmp_path, capfd, verbose):
  arguments = [
    "train",
    write_config(tmp_path, in_step="raise", after=5),
    f"--run_root={tmp_path}",
    "--inline",
    "--quiet",
  ]
  assert run_command([*arguments, *(["--verbose"] if verbose else [])]) == 2
  said = capfd.readouterr().err
  if verbose:
    assert_only_own_frames(said)
    assert said.splitlines()[-1] == RAISES
  else:
    assert said == f"{RAISES}{HINT}\n"
  (log,) = tmp_path.glob("faulty/*/logs/inline")
  assert_only_own_frames(log.read_text())
  # What was stored is kept, and the run goes on once the world is mended.
  (run_dir,) = tmp_path.glob("faulty/*")
  mended = ["--config.environment.arguments.in_step=''", "--config.environment_steps=30"]
  assert run_command(["train", f"--resume={run_dir}", "--inline", "--quiet", *mended]) == 0
  assert status_of(run_dir)["environment_steps"] >= 30


@pytest.mark.parametrize("command", ["train", "serve", "events"])
@pytest.mark.parametrize("fault", [{"in_init": "exit"}, {"lacks": "action_space"}], ids=str)
def test_a_world_that_cannot_be_made_is_refused_before_anything_is_started(tmp_path, capsys, command, fault):
  root = [] if command == "events" else [f"--run_root={tmp_path / 'runs'}"]
  assert run_command([command, write_config(tmp_path, **fault), *root]) == 2
  said = capsys.readouterr().err.splitlines()
  assert len(said) == 1
  assert f"'{FAULTY}'" in said[0]
  assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("verbose", [False, True])
def test_a_world_that_raises_ends_events(tmp_path, capsys, verbose):
  arguments = ["events", write_config(tmp_path, in_step="raise", after=5), "--json"]
  assert run_command([*arguments, *(["--verbose"] if verbose else [])]) == 2
  output = capsys.readouterr()
  assert output.out == ""
  assert output.err == f"{RAISES}{HINT}\n" if not verbose else output.err.endswith(f"{RAISES}\n")
  assert bool(frames(output.err)) == verbose


@pytest.fixture
def policy(tmp_path):
  """A function that stores a policy of random weights for a faulty world."""

  def store(**arguments):
    config = config_of(**arguments)
    spec = make_environment_spec(make_event_environment(config))
    weights = flatten_weights(make_policy(config, spec, seed=0))
    path = tmp_path / "policy.npz"
    save_snapshot(path, PolicySnapshot(1, 10, np.asarray(weights)), config, spec)
    return path

  return store


@pytest.mark.parametrize("fault", ["raise", "exit", "old_api"])
def test_a_faulty_world_ends_the_play_of_a_stored_policy(policy, capsys, fault):
  assert run_command(["evaluate", f"--checkpoint={policy(in_step=fault)}", "--verbose"]) == 2
  said = capsys.readouterr().err
  assert said.splitlines()[-1].startswith(f"The environment '{FAULTY}' r")
  assert set(frames(said)) == (set() if fault == "old_api" else {"faulty_world.py"})


def test_a_world_that_raises_ends_its_run_of_an_experiment(tmp_path):
  method = Method("faulty", "faulty", lambda config: config)
  experiment = Experiment(
    name="faulty",
    summary="a faulty world",
    config=config_of(in_step="raise", after=5),
    methods=(method,),
    budgets={"quick": Budget(steps=64, seeds=1)},
    panels=(Panel("eval_return", "return"),),
    thresholds=(),
  )
  jobs = plan(experiment, [method], experiment.budgets["quick"], seeds=1)
  (failed,) = run_jobs(jobs, Folder(tmp_path), 1, threading.Event(), lambda progress: None, lambda job, sentence: None)
  assert failed.sentence.startswith(RAISES)
  (log,) = tmp_path.glob("work/*/logs/output")
  assert_only_own_frames(log.read_text())


def children_of(command):
  with contextlib.suppress(psutil.NoSuchProcess):
    return [child.pid for child in command.children()]
  return []


def test_a_world_that_hangs_in_a_local_run_is_named_on_the_panel_and_then_ends_the_run(tmp_path):
  config = write_config(tmp_path, timeout_seconds=3.0, in_step="hang", after=60)
  with cli(tmp_path, "train", "train", config, f"--run_root={tmp_path}") as command:
    run_dir = run_dir_of(command)

    def state():
      return next(role["state"] for role in status_of(run_dir)["roles"] if role["name"] == "actor_0")

    said = f"in step of the environment '{FAULTY}' for "
    wait_for(lambda: state().startswith(said), START_SECONDS + 60, "the panel to name the call")
    pids = children_of(command)
    assert command.wait(60) == 2, command.output()
  assert "sleep" not in {psutil.Process(pid).name() for pid in pids if alive(pid)}
  assert_all_gone(pids)
  assert re.search(
    rf"actor_0: The environment '{FAULTY}' has been in step for \d+ s, and environment\.timeout_seconds is 3: find out what it "
    r"waits for, or give it more time \(0 waits for ever\)\. Logs: ",
    command.output(),
  )
  assert status_of(run_dir)["environment_steps"] >= 50  # Every tenth step ends an episode, whose steps are sent.
  (log,) = (path for path in run_dir.glob("logs/actors/0") if path.is_file())
  assert re.search(r"has been in step for \d+ s: if that lasts 3 s more, this process ends\.", log.read_text())


@pytest.mark.parametrize(
  "arguments",
  [("train", "--inline", "--quiet", "--run_root={folder}"), ("events",), ("evaluate", "--checkpoint={policy}")],
  ids=lambda arguments: arguments[0],
)
def test_a_world_that_hangs_ends_a_command_of_one_process(tmp_path, policy, arguments):
  faults = {"timeout_seconds": 2.0, "in_reset": "hang"}
  given = [] if arguments[0] == "evaluate" else [write_config(tmp_path, **faults)]
  words = [word.format(folder=tmp_path, policy=policy(**faults)) for word in arguments]
  with cli(tmp_path, "command", *words, *given) as command:
    first = re.compile(r"has been in reset for \d+ s: if that lasts 2 s more, this process ends\.")
    wait_for(lambda: first.search(command.output()), START_SECONDS, "the first sentence")
    pids = children_of(command)
    assert pids  # The world has started a process.
    assert command.wait(60) == 2, command.output()
  assert_all_gone(pids)
  last = command.output().splitlines()[-1]
  assert re.match(
    rf"The environment '{FAULTY}' has been in reset for \d+ s, and environment\.timeout_seconds is 2: find out", last
  )
  assert "Traceback" not in command.output()
