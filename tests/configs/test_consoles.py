"""The consoles of a run: what their config refuses, how many workers they make, and what a worker plays there."""

from typing import Any

import pytest

from configs import EnvironmentConfig, RunConfig, UserError, from_json, override, to_json
from configs.consoles import CONSOLE, ConsolesConfig


def _run(workers: int = 2, evaluates: bool = True, **consoles: Any) -> RunConfig:
  changes = {"actor.workers": str(workers), "evaluator.enabled": str(evaluates)}
  changes |= {f"consoles.{name}": repr(value) for name, value in consoles.items()}
  return override(RunConfig(environment=EnvironmentConfig("slingshot", {"distance": 20.0, "balance": 1.0})), changes)


def _addresses(count: int) -> list[str]:
  return [f"host-{index}:9000" for index in range(count)]


@pytest.mark.parametrize(
  ("fields", "sentence"),
  [
    ({"count": -1}, "consoles.count is -1: it must be a whole number, 0 or more."),
    ({"count": 1_001}, "consoles.count is 1001: it must be a whole number, at most 1,000."),
    ({"pace": "quick"}, "consoles.pace is 'quick': use one of real, fast."),
    (
      {"count": 2, "addresses": ("a:1", "b:1")},
      "consoles.count starts consoles, and consoles.addresses are of consoles that run already: set one of the two.",
    ),
    (
      {"addresses": ("a:1", "b:1", "a:1", "c:1", "b:1")},
      "consoles.addresses has a:1, b:1 more than once: a console serves one worker at a time.",
    ),
    *(
      ({"addresses": (address,)}, f"The console's address is {address!r}: write it as host:port.")
      for address in ("", "host", ":9000", "host:", "host:0", "host:65536", "host:-1", "host:²", "host:9000 ")
    ),
  ],
)
def test_consoles_that_there_cannot_be(fields: dict[str, Any], sentence: str) -> None:
  with pytest.raises(UserError) as refused:
    ConsolesConfig(**fields)
  assert str(refused.value) == sentence


@pytest.mark.parametrize("address", ["localhost:1", "[::1]:65535", "game.example:9000"])
def test_an_address_is_host_and_port(address: str) -> None:
  assert ConsolesConfig(addresses=(address,)).size == 1


@pytest.mark.parametrize(
  ("config", "workers"),
  [
    (_run(3), 3),
    (_run(2, count=21), 20),
    (_run(2, count=3), 2),
    (_run(2, evaluates=False, count=21), 21),
    (_run(1, addresses=_addresses(5)), 4),
    (_run(1, evaluates=False, addresses=_addresses(1)), 1),
  ],
)
def test_a_run_has_a_worker_for_each_console_but_the_evaluators(config: RunConfig, workers: int) -> None:
  assert config.worker_count == workers
  assert from_json(to_json(config)) == config


@pytest.mark.parametrize("consoles", [{"count": 2}, {"addresses": _addresses(2)}])
def test_a_run_with_fewer_consoles_than_players_is_refused(consoles: dict[str, Any]) -> None:
  with pytest.raises(UserError) as refused:
    _run(2, **consoles)
  assert str(refused.value) == (
    "The run has 2 workers and an evaluator, and 2 consoles: give it a console for each, or lower actor.workers."
  )
  assert _run(2, evaluates=False, **consoles).worker_count == 2


def test_a_player_hands_its_arguments_to_its_console_and_keeps_none() -> None:
  changes = {"actor.environment_arguments.distance": "30.0", "evaluator.environment_arguments.balance": "0.0"}
  config = override(_run(count=3), changes)
  of_worker, of_evaluator = config.on_console("actor", "a:1"), config.on_console("evaluator", "b:1")
  assert of_worker.of_workers.environment.name == of_evaluator.of_evaluator.environment.name == CONSOLE
  assert of_worker.of_workers.environment.arguments == {
    "address": "a:1",
    "world": "slingshot",
    "options": {"distance": 30.0, "balance": 1.0},
  }
  assert of_evaluator.of_evaluator.environment.arguments == {
    "address": "b:1",
    "world": "slingshot",
    "options": {"distance": 20.0, "balance": 0.0},
  }
  # All else is as it was.
  assert of_worker.learner == config.learner
  assert of_worker.evaluator == config.evaluator
  assert of_evaluator.actor == config.actor


def test_a_config_that_names_the_client_itself_gets_the_address_alone() -> None:
  environment = EnvironmentConfig(CONSOLE, {"address": "any:1", "scenario": "rain", "timeouts": {"start": 5}})
  config = RunConfig(environment=environment).on_console("actor", "a:1")
  assert config.of_workers.environment.arguments == {"address": "a:1", "scenario": "rain", "timeouts": {"start": 5}}
  assert config.of_evaluator.environment.arguments["address"] == "any:1"
