"""A real Launchpad program: it solves, it is interrupted and goes on, it is joined, and its processes survive real kills."""

import json
import os
import pathlib
import signal
import time

import psutil
import pytest

from configs import ActorConfig, EnvironmentConfig, RunConfig
from configs.consoles import ConsolesConfig
from launch import program, supervision
from launch.run_directory import RunDirectory
from tests.launch.processes import (
  INTERRUPT,
  KILL,
  START_SECONDS,
  Cli,
  address_of,
  alive,
  assert_all_gone,
  cli,
  run_dir_of,
  status_of,
  wait_for,
)

pytestmark = pytest.mark.timeout(900)

# Rooms of two cells, which random actions solve: what is tested here is the wiring.
SMALL_WORLD = [
  "--config=three_rooms",
  "--config.environment.arguments.room_size=2",
  "--config.environment.arguments.time_limit=100",
  "--config.replay.default.min_size=200",
  "--config.actor.random_steps=200",
]
# Never solved, and far from its budget.
WORLD = f"--pythonpath={pathlib.Path(__file__).parent}"
ENDLESS = [
  *SMALL_WORLD,
  "--config.evaluator.solved_evaluations=100000",
  "--config.environment_steps=100000000",
  "--config.environment.name=slow_world:SlowRooms",
  "--config.learner.publish_period_updates=16",
  "--config.learner.updates_per_block=16",
  WORLD,
]


def test_launchpad_has_a_group_for_each_kind_of_role(tmp_path):
  config = RunConfig(actor=ActorConfig(workers=20))
  run = RunDirectory(tmp_path)
  built = program.build_program(program.role_commands(config, run, "localhost:8000"), run)
  labels = [node.command.title for nodes in built.groups.values() for node in nodes]
  assert {group: len(nodes) for group, nodes in built.groups.items()} == {
    "server": 1,
    "learner": 1,
    "actors": 20,
    "evaluator": 1,
  }
  assert labels == ["server/0", "learner/0", *(f"actors/{index}" for index in range(20)), "evaluator/0"]


def test_a_local_run_solves_its_world_and_leaves_everything_a_user_needs_and_no_process(tmp_path):
  with cli(tmp_path, "train", "train", *SMALL_WORLD, "--config.seed=3", f"--run_root={tmp_path}") as run:
    run_dir = run_dir_of(run)
    wait_for(lambda: status_of(run_dir)["environment_steps"] > 0, START_SECONDS, "the first steps")
    pids = [child.pid for child in run.children()]
    assert len(pids) >= 5
    assert run.wait(300) == 0, run.output()
  assert_all_gone(pids)
  result = run.result()
  assert result["solved"] is True
  assert result["run_dir"] == str(run_dir)
  assert result["environment_steps"] > 200
  assert result["gradient_steps"] > 0
  assert result["eval_return"] > -10
  assert result["wall_seconds"] > 0
  last_line = run.output().rstrip().splitlines()[-1]
  assert last_line.startswith("RESULT ")
  names = (
    "config.json",
    "versions.txt",
    "metrics.csv",
    "learning_curve.png",
    "greedy_path.png",
    "videos/greedy_path.gif",
  )
  assert [name for name in names if not (run_dir / name).is_file()] == []
  assert any((run_dir / "tb").iterdir())
  for name in ("learner", "replay", "policy"):
    assert any((run_dir / "checkpoints" / name).iterdir())
  evaluations = status_of(run_dir)["evaluations"][-4:]
  assert len({evaluation["policy_version"] for evaluation in evaluations}) == 4
  assert all(evaluation["solved"] for evaluation in evaluations)

  with cli(
    tmp_path, "evaluate", "evaluate", f"--checkpoint={run_dir}", "--video", f"--export={tmp_path / 'model'}"
  ) as play:
    assert play.wait(START_SECONDS) == 0, play.output()
  # The best solved policy, which need not be the last one; the world is the same in every episode.
  best = json.loads((run_dir / "checkpoints" / "policy" / "best.json").read_text())
  assert best["solved"] is True
  assert best["mean_return"] >= result["eval_return"] - 1e-4
  assert play.result()["mean_return"] == pytest.approx(best["mean_return"], abs=1e-4)
  assert list((run_dir / "videos").glob("policy_*.gif"))
  assert (tmp_path / "model" / "saved_model.pb").is_file()


def test_a_local_run_learns_continuous_control_with_several_environments_a_worker(tmp_path):
  short = ["--config.environment_steps=2000", "--config.replay.default.min_size=200", "--config.actor.random_steps=200"]
  worker = ["--config.actor.environments=3", "--config.evaluator.episodes=1", "--config.evaluator.solved_evaluations=0"]
  worker += ["--config.evaluator.schedule=updates", "--config.evaluator.period_updates=250"]
  worker += ["--config.network.hidden_sizes=[32]", "--config.learner.batch_size=32"]
  with cli(tmp_path, "train", "train", "--config=pendulum_sac", *short, *worker, f"--run_root={tmp_path}") as run:
    assert run.wait(300) == 0, run.output()
  result = run.result()
  # The budget's end is seen a moment later, which on a fast machine is several hundred steps.
  assert result["environment_steps"] >= 2000
  # An update a step after the first 200, give or take the tolerance of 200 and rows that are not yet inserted.
  assert abs(result["gradient_steps"] - (result["environment_steps"] - 200)) <= 400
  status = status_of(run_dir_of(run))
  assert status["policy_version"] > 10
  assert 0 < status["learner"]["temperature"] < 1.1
  # Each multiple is evaluated once, by a policy that has reached it and is not far beyond, or was passed over.
  reached = 0
  for evaluation in status["evaluations"]:
    multiple = evaluation["gradient_steps"] // 250
    assert multiple == reached + evaluation["passed_over"] + 1
    reached = multiple
  assert reached


def test_a_run_can_be_joined_survives_the_joined_ones_death_is_interrupted_and_goes_on_where_it_stopped(tmp_path):
  memory = "--config.replay.sampling=memory"  # Of transitions; test_refer_runs.py has a run with whole episodes.
  with cli(tmp_path, "train", "train", *ENDLESS, memory, f"--run_root={tmp_path / 'runs'}") as run:
    address, run_dir = address_of(run), run_dir_of(run)
    wait_for(lambda: status_of(run_dir)["gradient_steps"] > 0, START_SECONDS, "the first gradient steps")
    own = [child.pid for child in run.children()]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with cli(tmp_path, "attach", "attach", f"--server={address}", "--actors=2", WORLD, cwd=elsewhere) as attach:
      wait_for(lambda: attached_actors(run_dir) == 2, START_SECONDS, "two attached workers")
      with cli(tmp_path, "status", "status", f"--server={address}", cwd=elsewhere) as status:
        assert status.wait(START_SECONDS) == 0, status.output()
      assert "actor_0" in status.output()
      attach.send(KILL)
      attach.wait(60)
    before = status_of(run_dir)["environment_steps"]
    wait_for(lambda: status_of(run_dir)["environment_steps"] > before + 500, 60, "the run to go on")
    wait_for(lambda: attached_actors(run_dir) == 0, 60, "the killed workers to be noticed")

    began = time.monotonic()
    run.send(INTERRUPT)
    assert run.wait(60) == 130, run.output()
    assert time.monotonic() - began < 20
  assert_all_gone(own)
  assert f"slipstream train --resume={run_dir}" in run.output()
  stopped = status_of(run_dir)
  assert any((run_dir / "checkpoints" / "replay").iterdir())
  assert list((run_dir / "checkpoints" / "learner").glob("checkpoint_*"))

  with cli(tmp_path, "resume", "train", f"--resume={run_dir}", WORLD) as run:
    first = wait_for(lambda: newer_status(run_dir, stopped), START_SECONDS, "the run to go on")
    # The counts of the tables, the learner and the clock continue.
    assert first["environment_steps"] >= stopped["environment_steps"]
    assert first["tables"][0]["size"] >= stopped["tables"][0]["size"]
    wait_for(
      lambda: status_of(run_dir)["gradient_steps"] > stopped["gradient_steps"], START_SECONDS, "new gradient steps"
    )
    wait_for(lambda: status_of(run_dir)["policy_version"] > stopped["policy_version"], 60, "new policies")
    own = [child.pid for child in run.children()]
    # No process outlives a killed launcher, but all roles still write their checkpoints.
    run.send(KILL)
    run.wait(10)
    assert_all_gone(own, timeout=60)
  ended = status_of(run_dir)
  assert ended["phase"] == "running"
  assert ended["is_leaving"]
  assert ended["environment_steps"] > stopped["environment_steps"]


@pytest.fixture
def in_a_terminal():
  """SIGHUP has its default effect, even if the tests run under nohup, which processes would inherit."""
  before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
  yield
  signal.signal(signal.SIGHUP, before)


def test_a_run_kept_its_pace_although_no_event_table_was_ready_and_ends_at_slipstream_stop(tmp_path):
  pace = ["--config.replay.environment_steps_per_update=4", "--config.replay.insert_tolerance_steps=64"]
  # They wait for more rows than the run collects, and the default table has half of a batch.
  waiting = [f"--config.replay.tables.{table}.min_size=4000" for table in ("at_gap", "done")]
  with cli(tmp_path, "train", "train", *ENDLESS, *pace, *waiting, f"--run_root={tmp_path}") as run:
    run_dir = run_dir_of(run)
    status = wait_for(lambda: status_after(run_dir, gradient_steps=400), START_SECONDS, "400 gradient steps")
    # The tolerance is three blocks of 64 steps. The two counts are up to two seconds apart, at 200 steps a second at most.
    assert abs(status["environment_steps"] - 200 - 4 * status["gradient_steps"]) < 192 + 64 + 400
    assert status["learner"]["drawn_ahead"] > 0
    own = run.children()
    with cli(tmp_path, "stop", "stop", f"--server={address_of(run)}") as stop:
      assert stop.wait(START_SECONDS) == 0, stop.output()
    assert f"Run {run_dir.name} has ended." in stop.output()
    assert run.wait(60) == 0, run.output()
  assert_all_gone([child.pid for child in own])
  assert run.result()["phase"] == "stopping"
  assert "restart" not in run.output()
  assert any((run_dir / "checkpoints" / "replay").iterdir())
  assert list((run_dir / "checkpoints" / "learner").glob("checkpoint_*"))


@pytest.mark.usefixtures("in_a_terminal")
def test_a_worker_the_learner_and_the_server_that_are_killed_come_back_and_stop_when_their_terminal_closes(tmp_path):
  arguments = [*ENDLESS, f"--run_root={tmp_path}", "--config.replay.checkpoint_period_seconds=2"]
  with cli(
    tmp_path, "train", "train", *arguments, "--config.actor.workers=1", "--config.evaluator.enabled=false"
  ) as run:
    run_dir = run_dir_of(run)
    wait_for(lambda: has_checkpoint(run_dir), START_SECONDS, "a checkpoint")
    wait_for(lambda: status_after(run_dir, gradient_steps=0), START_SECONDS, "the first gradient steps")
    wait_for(lambda: len(alive_roles(run_dir)) == 2, START_SECONDS, "word of both roles")
    own = run.children()
    killed = alive_roles(run_dir)
    for process in killed:
      os.kill(process, KILL)
    wait_for(lambda: not killed & alive_roles(run_dir) and len(alive_roles(run_dir)) == 2, START_SECONDS, "both again")
    assert status_of(run_dir)["lives"] == {"server": 1, "actor_0": 2, "learner": 2}
    again = status_of(run_dir)
    wait_for(lambda: rises(run_dir, again), START_SECONDS, "steps of the new ones")

    (server,) = [child for child in run.children() if "serve" in child.cmdline()]
    server.kill()
    again = wait_for(lambda: newer_epoch(run_dir, again), START_SECONDS, "the server")
    wait_for(lambda: rises(run_dir, again), START_SECONDS, "steps with the new server")

    # A worker may have written rows before it sends word of itself.
    (worker,) = wait_for(lambda: alive_workers(run_dir), START_SECONDS, "word of the worker")
    supervisor_of(run, "actor_0").kill()
    wait_for(lambda: alive_roles(run_dir) - killed - {worker["pid"]} and not alive(worker["pid"]), 60, "its end")
    wait_for(lambda: len(alive_roles(run_dir) - {worker["pid"]}) == 2, START_SECONDS, "the worker again")
    own += run.children()
    os.killpg(run.process.pid, signal.SIGHUP)  # As a terminal does, to all of them at once.
    assert run.wait(120) == 143, run.output()
  assert_all_gone([child.pid for child in own])
  assert status_of(run_dir)["phase"] == "stopping"
  assert has_checkpoint(run_dir)
  assert list((run_dir / "checkpoints" / "learner").glob("checkpoint_*"))
  assert "Traceback" not in run.output()


def test_a_role_that_is_given_up_ends_its_run_with_a_sentence_and_the_others_write_their_checkpoints(tmp_path):
  quick = {"most": 0}
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv(supervision.RESTARTS, json.dumps(quick))
    with cli(tmp_path, "train", "train", *ENDLESS, f"--run_root={tmp_path}") as run:
      run_dir = run_dir_of(run)
      wait_for(lambda: status_after(run_dir, gradient_steps=0), START_SECONDS, "the first gradient steps")
      own = run.children()
      (worker,) = wait_for(lambda: alive_workers(run_dir), START_SECONDS, "word of the worker")
      os.kill(worker["pid"], KILL)
      assert run.wait(120) == 137, run.output()
  assert_all_gone([child.pid for child in own])
  assert "actor_0: It was ended by signal 9, and was started again too often before: see its log." in run.output()
  assert f"slipstream train --resume={run_dir}" in run.output()
  assert has_checkpoint(run_dir)
  assert list((run_dir / "checkpoints" / "learner").glob("checkpoint_*"))


def supervisor_of(run: Cli, role: str) -> psutil.Process:
  """The supervisor's last word is its order."""
  return next(child for child in run.children() if f'"role": "{role}"' in (child.cmdline() or [""])[-1])


def has_checkpoint(run_dir: pathlib.Path) -> bool:
  folder = run_dir / "checkpoints" / "replay"
  return folder.is_dir() and any(folder.iterdir())


def alive_roles(run_dir: pathlib.Path) -> set[int]:
  return {role["pid"] for role in status_of(run_dir)["roles"] if role["alive"]}


def alive_workers(run_dir: pathlib.Path) -> list[dict]:
  return [role for role in status_of(run_dir)["roles"] if role["name"] == "actor_0" and role["alive"]]


def rises(run_dir: pathlib.Path, old: dict) -> bool:
  status = status_of(run_dir)
  return all(status[count] > old[count] for count in ("environment_steps", "gradient_steps"))


def newer_epoch(run_dir: pathlib.Path, old: dict) -> dict | None:
  status = status_of(run_dir)
  return status if status["epoch"] != old["epoch"] else None


def status_after(run_dir: pathlib.Path, gradient_steps: int) -> dict | None:
  status = status_of(run_dir)
  return status if status["gradient_steps"] > gradient_steps else None


def attached_actors(run_dir):
  roles = status_of(run_dir)["roles"]
  return sum(role["alive"] and role["name"] not in ("actor_0", "actor_1") for role in roles if role["role"] == "actor")


def newer_status(run_dir: pathlib.Path, old: dict) -> dict | None:
  status = status_of(run_dir)
  return status if status["wall_seconds"] > old["wall_seconds"] and status["phase"] == "running" else None


def test_roles_alone_make_a_run_whose_learner_may_restart_and_which_ends_with_its_server(tmp_path):
  runs = f"--run_root={tmp_path / 'runs'}"
  served_in, port = f"--run_dir={tmp_path / 'runs' / 'three_rooms' / 'mine'}", "--port=0"
  with cli(tmp_path, "serve", "serve", *ENDLESS, served_in, port) as server:
    run_dir = run_dir_of(server)
    served = wait_for(lambda: serving_port(server), START_SECONDS, "the server")
    server.send(signal.SIGUSR1)
    wait_for(lambda: "most recent call first" in server.output(), 10, "where the server's threads are")
    address = f"--server=localhost:{served}"
    timeout = "--server_timeout=10"
    with (
      cli(tmp_path, "act", "act", address, WORLD, timeout) as worker,
      cli(tmp_path, "evaluate", "evaluate", address, WORLD, timeout) as evaluator,
    ):
      with cli(tmp_path, "learn", "learn", address, runs, WORLD, timeout) as learner:
        wait_for(lambda: status_of(run_dir)["policy_version"] > 5, START_SECONDS, "a few policies")
        learner.send(KILL)
        learner.wait(30)
      version = status_of(run_dir)["policy_version"]
      with cli(tmp_path, "learn_again", "learn", address, runs, WORLD, timeout) as learner:
        wait_for(lambda: status_of(run_dir)["policy_version"] > version + 2, START_SECONDS, "the next policies")
        assert all(alive(role.pid) for role in (worker, evaluator))
        evaluated = [evaluation["policy_version"] for evaluation in status_of(run_dir)["evaluations"]]
        assert evaluated == sorted(set(evaluated))
        with cli(tmp_path, "second", "learn", address, f"--run_root={tmp_path / 'elsewhere'}", WORLD) as second:
          assert second.wait(START_SECONDS) == 2, second.output()
        assert f"has a learner (process {learner.pid} on" in second.output()
        assert "Traceback" not in second.output()

        began = time.monotonic()
        server.send(KILL)
        codes = [role.wait(60) for role in (learner, worker, evaluator)]
        assert time.monotonic() - began < 30
    for role, code in zip((learner, worker, evaluator), codes, strict=True):
      assert code == 4, role.output()
      assert "The replay server at" in role.output()
      assert "Traceback" not in role.output()


def serving_port(server):
  lines = [line for line in server.output().splitlines() if line.startswith("Serving run ")]
  return lines[0].rpartition(" ")[2].rstrip(".") if lines else None


def test_a_console_of_a_run_finds_the_runs_own_world(tmp_path):
  config = RunConfig(
    environment=EnvironmentConfig("tests.measured_world:Measured"),
    consoles=ConsolesConfig(count=2),
    actor=ActorConfig(1),
  )
  words = program.role_commands(config, RunDirectory(tmp_path), "localhost:8000")["console_1"]
  with cli(tmp_path, "console", *words) as console:
    wait_for(lambda: "is ready at" in console.output(), START_SECONDS, "the console")
