"""`slipstream status` of a large run, as the command prints it."""

import contextlib
import pathlib
import re

import pytest

from replay_server.contract.activity import Wait
from replay_server.contract.messages import Heartbeat
from replay_server.process.keeper import Keeper
from slipstream.main import run
from tests.serving import make_config, serving


def _beat(name: str, role: str, wait: Wait | None = None) -> Heartbeat:
  metrics = {"gradient_steps": 64.0, "policy_version": 2.0, "loss": 0.5} if role == "learner" else {}
  return Heartbeat(name, role, f"node-{len(name)}", 7, "running", metrics=metrics, instance=name, wait=wait)


def test_a_run_of_21_workers_fits_24_lines_and_says_who_waits_on_whom(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  monkeypatch.setenv("COLUMNS", "80")
  config = make_config({f"event_{index}": 20 for index in range(6)}, [(f"event_{index}", 5) for index in range(6)])
  held_back = Wait("learner", "it catches up in its updates", 12.0)
  beats = [
    _beat("learner", "learner"),
    _beat("evaluator", "evaluator", Wait("learner", "it publishes a policy after version 2", 3.0)),
    *(_beat(f"actor_{index}", "actor", held_back if index else None) for index in range(21)),
  ]
  with serving(config, tmp_path) as server, contextlib.closing(Keeper(server, tmp_path)) as keeper:
    keeper.tick(beats)
    assert run(["status", f"--server={server.address}"]) == 0
  lines = capsys.readouterr().out.splitlines()
  assert len(lines) <= 24
  assert {len(line) for line in lines} == {80}
  text = " ".join(" ".join(lines).replace("│", " ").split())
  assert (
    "21 of 21 workers 20 wait up to 12 s on the learner, until it catches up in its updates 1 running (actor_0)" in text
  )
  assert re.search("● evaluator (node-9 )?waits 3 s on the learner, until it publishes a policy after version 2", text)
