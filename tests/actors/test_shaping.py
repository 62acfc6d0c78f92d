"""Only the learner sees shaped rewards: rows, summaries and evaluations through a real server."""

import dataclasses
import pathlib
import threading

import numpy as np
import pytest

from actors.evaluator import Evaluator
from actors.worker import RolloutWorker
from configs import RunConfig, UserError
from environments import make_event_environment
from replay_server.contract import layout
from replay_server.contract.messages import EpisodeSummary, EvaluationSummary
from replay_server.contract.policy import PolicyPublisher
from tests.actors.running import CODEC, SPEC, TIME_LIMIT, make_run, snapshot, with_goal
from tests.serving import drain, read_messages, serving

POTENTIAL = """
CALLS = []


def nearness(observation, info):
  CALLS.append(observation)
  return 10 * observation[0] - 3 * observation[1]


def broken(observation, info):
  raise RuntimeError("no map")
"""


@pytest.fixture(autouse=True)
def user_module(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  (tmp_path / "user_map.py").write_text(POTENTIAL)
  monkeypatch.syspath_prepend(str(tmp_path))


def shaped_run(potential: str = "nearness", n_step: int = 1, time_limit: int = TIME_LIMIT) -> RunConfig:
  config = with_goal(make_run(random_steps=1_000_000))
  return dataclasses.replace(
    config,
    environment=dataclasses.replace(
      config.environment,
      arguments={**config.environment.arguments, "time_limit": time_limit},
      potential=f"user_map:{potential}",
    ),
    learner=dataclasses.replace(config.learner, n_step=n_step),
  )


@pytest.mark.parametrize("n_step", [1, 4])
def test_rows_hold_shaped_returns_that_telescope_and_summaries_plain_ones(tmp_path: pathlib.Path, n_step: int) -> None:
  config = shaped_run(n_step=n_step, time_limit=50)  # Long enough for some random episodes to reach the goal.
  gamma = config.learner.discount
  with serving(config, tmp_path, SPEC, inline=True) as server:
    worker = RolloutWorker(server.connection, server.manifest, "actor_0", index=0, seed=3, stop=threading.Event())
    for _ in range(2_000):
      worker.step()
    worker.flush()
    worker.close()
    rows = drain(server.connection, "default", CODEC)
    summaries = read_messages(server.connection, layout.EPISODES, EpisodeSummary)

  def phi(observation: np.ndarray) -> float:
    return 10 * float(observation[0]) - 3 * float(observation[1])

  ends = set()
  for row in rows:
    steps = int(row["steps"])
    rewards = [-0.1] * steps
    if row["terminated"]:
      rewards[-1] = 1.0
    plain = sum(gamma**k * reward for k, reward in enumerate(rewards))
    end = 0.0 if row["terminated"] else gamma**steps * phi(row["next_observation"])
    assert float(row["reward"]) == pytest.approx(plain + end - phi(row["observation"]), abs=1e-4)
    ends.add((bool(row["terminated"]), bool(row["truncated"])))
  assert ends == {(False, False), (True, False), (False, True)}
  assert len(summaries) > 20
  for summary in summaries:
    goal = 1.1 if summary.events else 0.0
    assert summary.episode_return == pytest.approx(goal - 0.1 * summary.length, abs=1e-5)
  assert {bool(summary.events) for summary in summaries} == {False, True}


def test_an_evaluator_never_calls_the_potential(tmp_path: pathlib.Path) -> None:
  import user_map  # type: ignore[import-not-found]  # The fixture writes it.

  means = []
  for config in (shaped_run(), dataclasses.replace(shaped_run(), environment=make_run().environment)):
    with serving(config, tmp_path / config.environment.potential, SPEC, inline=True) as server:
      PolicyPublisher(server.connection).publish(snapshot(3))
      user_map.CALLS.clear()
      assert Evaluator(server.connection, server.manifest, 0, threading.Event()).step()
      assert user_map.CALLS == []
      (summary,) = read_messages(server.connection, layout.EPISODES, EvaluationSummary)
      means.append(summary.mean_return)
  assert means[0] == means[1]


def test_a_potential_that_fails_ends_the_worker_with_a_sentence(tmp_path: pathlib.Path) -> None:
  config = shaped_run("broken")
  with serving(config, tmp_path, SPEC, inline=True) as server:
    worker = RolloutWorker(server.connection, server.manifest, "actor_0", index=0, seed=3, stop=threading.Event())
    with pytest.raises(UserError, match=r"^The potential raised RuntimeError \(no map\): fix it\.$"):
      worker.run()


def test_the_shaping_of_a_run_uses_the_learners_discount() -> None:
  config = shaped_run()
  env = make_event_environment(config, shaped=True)
  first = env.reset().observation
  step = env.step(2)
  potentials = [10 * float(observation[0]) - 3 * float(observation[1]) for observation in (first, step.observation)]
  assert config.learner.discount == 0.9
  assert step.shaping == pytest.approx(0.9 * potentials[1] - potentials[0], abs=1e-5)
