"""Runs whose workers and evaluator play on consoles: the commands, and real processes that are killed."""

import os
import pathlib
import re
from typing import Any

import pytest

from configs import RunConfig, load_config, override
from consoles.connection import Connection
from launch import program
from launch.run_directory import RunDirectory
from slipstream.commands import COMMANDS
from tests.consoles.serving import console_process
from tests.launch.processes import (
  INTERRUPT,
  KILL,
  START_SECONDS,
  address_of,
  assert_all_gone,
  cli,
  run_dir_of,
  status_of,
  wait_for,
)

pytestmark = pytest.mark.timeout(900)

_WORLD = "slow_world:SlowRooms"
_PATH = f"--pythonpath={pathlib.Path(__file__).parent}"
# Never solved, and far from its budget; a world of the user's own, which consoles have to find too. Its episodes take seconds,
# so that a console that is killed is hardly ever between two, when it would have no episode to lose.
_RUN = (
  "--config=three_rooms",
  f"--config.environment.name={_WORLD}",
  _PATH,
  "--config.environment.arguments.room_size=5",
  "--config.environment.arguments.time_limit=500",
  "--config.replay.default.min_size=200",
  "--config.actor.random_steps=200",
  "--config.environment_steps=100000000",
  "--config.evaluator.solved_evaluations=100000",
)


def _config(**changes: str) -> RunConfig:
  return override(load_config("three_rooms"), {name.replace("__", "."): value for name, value in changes.items()})


def _commands(config: RunConfig, folder: pathlib.Path) -> dict[str, list[str]]:
  return program.role_commands(config, RunDirectory(folder), "localhost:8000")


def test_a_run_starts_its_consoles_before_their_players_and_the_last_is_the_evaluators(tmp_path: pathlib.Path) -> None:
  commands = _commands(_config(consoles__count="4", consoles__pace="fast"), tmp_path)
  players = ["actor_0", "actor_1", "actor_2", "evaluator"]
  consoles = [f"console_{index}" for index in range(4)]
  assert list(commands) == ["server", "learner", *consoles, *players]
  parsed = {role: COMMANDS[words[0]].parse(words[1:]).flags for role, words in commands.items()}
  ports = [parsed[console].port for console in consoles]
  assert len({*ports, 8000}) == 5
  assert [parsed[player].console for player in players] == [f"localhost:{port}" for port in ports]
  assert [parsed[player].index for player in players[:3]] == [0, 1, 2]
  for console in consoles:
    assert (commands[console][0], parsed[console].world, parsed[console].pace) == ("console", "three_rooms", "fast")
    assert parsed[console].host == "127.0.0.1"


def test_without_an_evaluator_every_console_is_a_workers(tmp_path: pathlib.Path) -> None:
  commands = _commands(_config(consoles__count="2", evaluator__enabled="false"), tmp_path)
  assert list(commands) == ["server", "learner", "console_0", "console_1", "actor_0", "actor_1"]


def test_a_run_plays_on_consoles_elsewhere_in_their_order_and_starts_none(tmp_path: pathlib.Path) -> None:
  commands = _commands(_config(consoles__addresses='["a:1", "b:2", "c:3"]'), tmp_path)
  assert list(commands) == ["server", "learner", "actor_0", "actor_1", "evaluator"]
  assert [commands[role][-1] for role in ("actor_0", "actor_1", "evaluator")] == [
    "--console=a:1",
    "--console=b:2",
    "--console=c:3",
  ]


def test_without_consoles_no_player_has_one(tmp_path: pathlib.Path) -> None:
  commands = _commands(_config(), tmp_path)
  assert list(commands) == ["server", "learner", "actor_0", "actor_1", "evaluator"]
  assert not any(word.startswith("--console") for words in commands.values() for word in words)


def test_launchpad_has_a_group_for_consoles(tmp_path: pathlib.Path) -> None:
  run = RunDirectory(tmp_path)
  built = program.build_program(_commands(_config(consoles__count="21"), tmp_path), run)
  assert {group: len(nodes) for group, nodes in built.groups.items()} == {
    "server": 1,
    "learner": 1,
    "consoles": 21,
    "actors": 20,
    "evaluator": 1,
  }
  titles = [node.command.title for node in built.groups["consoles"]]
  assert titles == [f"consoles/{index}" for index in range(21)]


def test_a_run_on_consoles_is_joined_by_a_worker_with_one_and_a_killed_console_and_worker_come_back(
  tmp_path: pathlib.Path,
) -> None:
  consoles = ("--config.consoles.count=3", "--config.consoles.pace=fast")
  with (
    console_process(f"--world={_WORLD}", _PATH) as further,
    cli(tmp_path, "train", "train", *_RUN, *consoles, f"--run_root={tmp_path}") as run,
    cli(tmp_path, "attach", "attach", f"--server={address_of(run)}", _PATH, f"--consoles={further.address}") as attach,
  ):
    run_dir = run_dir_of(run)
    log = run_dir / "logs" / "consoles" / "0"
    before = wait_for(lambda: _status_with(run_dir, alive_roles=5), START_SECONDS, "the first gradient steps")
    assert "held by process" in Connection(further.address, None).health(20.0).state
    own = [*run.children(), *attach.children()]
    port = f"--port={_ready(log)[0].rpartition(':')[2]}"
    (console,) = [child for child in own if {"console", port} <= set(child.cmdline())]
    worker = _role(before, "actor_1")["pid"]
    console.kill()
    os.kill(worker, KILL)
    again = wait_for(lambda: _after_kills(run_dir, worker), START_SECONDS, "the worker, and a dropped episode")
    wait_for(lambda: len(_ready(log)) == 2, 60, "the console again")
    wait_for(lambda: _has_played(run_dir, again), START_SECONDS, "episodes of both workers")
    status = status_of(run_dir)
    lives = {name: count for name, count in status["lives"].items() if "actor" not in name or name[6:] in "01"}
    assert lives == {"server": 1, "actor_0": 1, "actor_1": 2, "learner": 1, "evaluator": 1}
    # One was on the console. The worker that was killed may have been between two.
    assert _role(status, "actor_0")["dropped_episodes"] == 1
    assert 1 <= status["dropped_episodes"] <= 2
    own += run.children()
    run.send(INTERRUPT)
    assert run.wait(120) == 130, run.output()
    assert attach.wait(60) == 0, attach.output()
  assert_all_gone([child.pid for child in own])
  assert run.result()["phase"] == "stopping"
  assert len(set(_ready(log))) == 1
  assert "console_0 was ended by signal 9" in log.read_text()
  logs = [path.read_text() for path in (run_dir / "logs").glob("*/*")]
  assert "Traceback" not in run.output() + "".join(logs)


def _ready(log: pathlib.Path) -> list[str]:
  """Where a console was ready, each time."""
  return re.findall(r"is ready at (\S+) after", log.read_text())


def _role(status: dict[str, Any], name: str) -> dict[str, Any]:
  """What the status says of the latest process of a role."""
  found: dict[str, Any] = max(
    (role for role in status["roles"] if role["name"] == name), key=lambda role: bool(role["alive"])
  )
  return found


def _status_with(run_dir: pathlib.Path, alive_roles: int) -> dict[str, Any] | None:
  status = status_of(run_dir)
  count = sum(role["alive"] for role in status["roles"])
  return status if status["gradient_steps"] and count == alive_roles else None


def _after_kills(run_dir: pathlib.Path, worker: int) -> dict[str, Any] | None:
  status = status_of(run_dir)
  first, second = _role(status, "actor_0"), _role(status, "actor_1")
  is_back = second["alive"] and second["pid"] != worker
  return status if is_back and first["dropped_episodes"] and "running" in first["state"] else None


def _has_played(run_dir: pathlib.Path, earlier: dict[str, Any]) -> bool:
  """Whether episodes have ended since, and both workers play."""
  status = status_of(run_dir)
  states = [_role(status, name)["state"] for name in ("actor_0", "actor_1")]
  return status["episodes"] > earlier["episodes"] + 3 and all("running" in state for state in states)
