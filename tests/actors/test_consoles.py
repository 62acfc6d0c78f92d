"""Workers on consoles: whether a policy keeps up with the real pace, and what becomes of one that has diverged."""

import dataclasses
import pathlib
import re
import threading

import numpy as np
import pytest

from actors.evaluator import Evaluator
from actors.worker import RolloutWorker
from configs import EnvironmentConfig, RunConfig, SacConfig, UserError
from consoles.connection import Connection
from environments import make_environment_spec, make_event_environment
from networks import count_weights
from replay_server.contract.policy import PolicyPublisher, PolicySnapshot
from replay_server.process.server import ReplayServer
from tests.actors.running import make_run
from tests.consoles.serving import HERE, served
from tests.serving import serving


def _counting() -> RunConfig:
  """A run in a world with continuous actions."""
  run = make_run()
  learner = dataclasses.replace(run.learner, algorithm=SacConfig())
  return dataclasses.replace(run, environment=EnvironmentConfig(f"{HERE}:Counter"), learner=learner)


def _publish(server: ReplayServer, config: RunConfig, weight: float) -> None:
  weights = np.full(count_weights(config, server.manifest.spec), weight, np.float32)
  PolicyPublisher(server.connection).publish(PolicySnapshot(1, 1, weights))


def _worker(server: ReplayServer, address: str) -> RolloutWorker:
  manifest = dataclasses.replace(server.manifest, config=server.manifest.config.on_console("actor", address))
  return RolloutWorker(server.connection, manifest, "actor_0", index=0, seed=1, stop=threading.Event())


# A tick lasts 1 us or .5 s.
@pytest.mark.parametrize(("pace", "rate", "keeps_up"), [("real", 1e6, False), ("fast", 1e6, True), ("real", 2.0, True)])
def test_a_policy_that_cannot_keep_up_with_its_console_is_refused_before_its_first_action(
  tmp_path: pathlib.Path, pace: str, rate: float, keeps_up: bool
) -> None:
  config = make_run()
  spec = make_environment_spec(make_event_environment(config))
  with (
    served("three_rooms", pace=pace, rate=rate) as console,
    serving(config, tmp_path, spec, inline=True) as server,
  ):
    _publish(server, config, 0.1)
    worker = _worker(server, console.address)
    if keeps_up:
      worker.step()
      assert worker.environment_steps == 1
    else:
      sentence = (
        rf"^One action takes 0\.\d+ s, and the console at {re.escape(console.address)} goes on every 1e-06 s: use a smaller "
        r"network, fewer cars, or a console with --pace=fast\.$"
      )
      with pytest.raises(UserError, match=sentence):
        worker.step()
      assert worker.environment_steps == 0
    worker.close()


def test_an_evaluator_refuses_a_policy_that_cannot_keep_up_too(tmp_path: pathlib.Path) -> None:
  config = make_run()
  spec = make_environment_spec(make_event_environment(config))
  with (
    served("three_rooms", pace="real", rate=1e6) as console,
    serving(config, tmp_path, spec, inline=True) as server,
  ):
    _publish(server, config, 0.1)
    evaluator = Evaluator(server.connection, server.manifest, 1, threading.Event(), console=console.address)
    with pytest.raises(
      UserError, match=r"^One action takes 0\.\d+ s, and the console at .* goes on every 1e-06 s: use"
    ):
      evaluator.step()


def test_a_policy_that_has_diverged_ends_its_worker_with_a_sentence(tmp_path: pathlib.Path) -> None:
  config = _counting()
  spec = make_environment_spec(make_event_environment(config))
  with served("Counter") as console, serving(config, tmp_path, spec, inline=True) as server:
    _publish(server, config, np.nan)
    worker = _worker(server, console.address)
    with pytest.raises(UserError, match=r"^The action \[nan\] is outside .* has not diverged"):
      worker.step()
    worker.close()
    assert Connection(console.address, None).health(5.0).state == "free"
