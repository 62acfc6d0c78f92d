"""Which arguments an environment is made with: a worker's, the evaluator's, a stored policy's."""

import contextlib
import csv
import dataclasses
import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import slipstream
from configs import RunConfig, load_config, override
from environments.trust import Trust
from launch import roles
from launch.endpoint import Endpoint
from launch.stored_policy import play_policy
from replay_server.contract import layout
from replay_server.contract.messages import EpisodeSummary, EvaluationSummary
from replay_server.contract.policy import PolicyPublisher, load_snapshot
from tests.actors.running import SPEC, make_run, snapshot
from tests.launch.metrics.running import role_in_thread
from tests.launch.test_inline import SMALL_WORLD
from tests.serving import read_messages, serving, wait_for

# "level" is told as a measure: 1 in the run's own world, 2 in the workers', 3 in the evaluator's.
_LEVELS = {
  "environment.name": "tests.measured_world:Measured",
  "environment.arguments.level": "1",
  "actor.environment_arguments.level": "2",
  "evaluator.environment_arguments.level": "3",
}


def _run() -> RunConfig:
  run = override(make_run(random_steps=1_000_000), _LEVELS)
  return dataclasses.replace(run, replay=dataclasses.replace(run.replay, environment_steps_per_update=None))


def test_a_flag_comes_before_a_roles_arguments_and_these_before_the_environments(tmp_path: pathlib.Path) -> None:
  trust = Trust((), ("tests",))
  levels: dict[str, set[float]] = {}

  def hear(server: Any) -> bool:
    for message in read_messages(server.connection, layout.EPISODES, EpisodeSummary, EvaluationSummary):
      name = message.actor if isinstance(message, EpisodeSummary) else "evaluator"
      levels.setdefault(name, set()).add(message.measures["level"])
    return len(levels) == 3

  def role(kind: str, name: str, run: Any, arguments: Mapping[str, Any]) -> Any:
    given = {"index": 0} if kind == "actor" else {}
    body = functools.partial(run, endpoint=Endpoint(server.address), trust=trust, arguments=arguments, **given)
    return role_in_thread(kind, name, body)

  with serving(_run(), tmp_path, SPEC) as server, contextlib.ExitStack() as stack:
    PolicyPublisher(server.connection).publish(snapshot(1))
    stack.enter_context(role("actor", "actor_0", roles.act, {}))
    stack.enter_context(role("actor", "actor_1", roles.act, {"level": 4}))
    stack.enter_context(role("evaluator", "evaluator", roles.evaluate, {}))
    wait_for(lambda: hear(server), 60.0)
  assert levels == {"actor_0": {2.0}, "actor_1": {4.0}, "evaluator": {3.0}}


def test_the_evaluators_arguments_are_those_of_whatever_plays_a_policy(tmp_path: pathlib.Path) -> None:
  config = override(load_config("three_rooms"), {**SMALL_WORLD, **_LEVELS, "environment_steps": "1000"})
  outcome = slipstream.train(config, run_root=tmp_path, inline=True, quiet=True)
  status = outcome.status
  assert status.recent_measures["level"] == 2
  assert [evaluation.measures["level"] for evaluation in status.evaluations] == [3]
  with (outcome.run_dir / "metrics.csv").open(newline="") as file:
    rows = list(csv.DictReader(file))
  assert {row["rollout/measures/level"] for row in rows} == {"", "2"}
  assert {row["eval/measures/level"] for row in rows} == {"", "3"}
  stored = load_snapshot(outcome.run_dir / "checkpoints" / "policy" / "best.npz")
  assert [episode.measures["level"] for episode in play_policy(stored.config, stored.snapshot, 2)] == [3, 3]
  another = stored.config.with_arguments("evaluator", {"level": 5})
  assert [episode.measures["level"] for episode in play_policy(another, stored.snapshot, 1)] == [5]
