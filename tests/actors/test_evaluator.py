"""The evaluator: what counts as solved, and which policies it evaluates and keeps."""

import dataclasses
import json
import pathlib
import threading

import numpy as np
import pytest
from acme import specs

from actors import evaluator as evaluator_module
from actors.evaluator import Evaluator, PlayedEpisode, is_solved, make_greedy_policy, play_episode, with_random_actions
from configs import EvaluatorConfig, Stopped
from environments import EventTimeStep, make_event_environment
from networks import make_acting_q_network
from replay_server.contract import layout
from replay_server.contract.messages import EvaluationSummary, decode
from replay_server.contract.policy import PolicyPublisher, load_snapshot
from replay_server.process.server import ReplayServer
from tests.actors.running import SPEC, TIME_LIMIT, make_run, snapshot, with_goal
from tests.serving import serving, wait_for

_EVENTS = ["gap", "done"]


@pytest.mark.parametrize(
  ("goal", "episodes", "solved"),
  [
    ({}, [(100.0, 3)], False),
    ({"solved_event": "done"}, [(-5.0, 2), (0.0, 3)], True),
    ({"solved_event": "done"}, [(9.0, 2), (9.0, 1)], False),
    ({"solved_return": 1.0}, [(0.0, 0), (2.0, 0)], True),
    ({"solved_return": 1.0}, [(0.0, 0), (1.9, 0)], False),
    ({"solved_return": 1.0, "solved_event": "gap"}, [(0.0, 1), (2.0, 3)], True),
    ({"solved_return": 1.0, "solved_event": "gap"}, [(0.0, 1), (2.0, 2)], False),
    ({"solved_return": 1.0, "solved_event": "gap"}, [(0.0, 1), (1.0, 1)], False),
  ],
)
def test_an_evaluation_is_solved_when_every_episode_saw_the_event_and_their_mean_return_is_reached(
  goal: dict[str, object], episodes: list[tuple[float, int]], solved: bool
) -> None:
  played = [PlayedEpisode(episode_return, 5, events) for episode_return, events in episodes]
  assert is_solved(played, EvaluatorConfig(**goal), _EVENTS) is solved  # type: ignore[arg-type]


def _summaries(server: ReplayServer) -> list[EvaluationSummary]:
  items = server.connection.read_many(layout.EPISODES, 100, "test")
  return [decode(columns[0], EvaluationSummary) for columns in items]


def test_a_version_is_evaluated_once_and_one_that_has_not_learned_never(tmp_path: pathlib.Path) -> None:
  with serving(make_run(), tmp_path, SPEC, inline=True) as server:
    evaluator = Evaluator(server.connection, server.manifest, 0, threading.Event())
    publisher = PolicyPublisher(server.connection)
    assert not evaluator.step()
    publisher.publish(snapshot(1, learner_steps=0))
    assert not evaluator.step()
    for version in (2, 3):
      publisher.publish(snapshot(version, learner_steps=10 * version))
      assert evaluator.step()
      assert not evaluator.step()
    publisher.publish(snapshot(3))
    assert not evaluator.step()
    summaries = _summaries(server)
  assert [(summary.policy_version, summary.gradient_steps) for summary in summaries] == [(2, 20), (3, 30)]
  assert evaluator.metrics() == {"evaluations": 2}
  assert all(0 < summary.mean_length <= TIME_LIMIT for summary in summaries)


def test_a_share_of_the_actions_can_be_random() -> None:
  spec = specs.DiscreteArray(4)

  def always_3(observation: np.ndarray) -> int:
    return 3

  def act(epsilon: float) -> np.ndarray:
    policy = with_random_actions(always_3, spec, epsilon, np.random.default_rng(1))
    return np.array([policy(np.zeros(2)) for _ in range(4_000)])

  assert (act(0.0) == 3).all()
  # Of a fifth of the actions a quarter are 3 by chance.
  counts = np.bincount(act(0.2), minlength=4) / 4_000
  assert counts == pytest.approx([0.05, 0.05, 0.05, 0.85], abs=0.015)
  assert np.bincount(act(1.0)) / 4_000 == pytest.approx([0.25] * 4, abs=0.03)


def test_the_evaluators_epsilon_is_the_configs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  asked = []

  def note(policy: object, spec: object, epsilon: float, rng: object) -> object:
    asked.append(epsilon)
    return policy

  monkeypatch.setattr(evaluator_module, "with_random_actions", note)
  config = with_goal(make_run())
  config = dataclasses.replace(config, evaluator=dataclasses.replace(config.evaluator, epsilon=0.125))
  with serving(config, tmp_path, SPEC, inline=True) as server:
    PolicyPublisher(server.connection).publish(snapshot(2, learner_steps=20))
    assert Evaluator(server.connection, server.manifest, 0, threading.Event()).step()
  assert asked == [0.125]


def test_it_plays_the_published_network_greedily(tmp_path: pathlib.Path) -> None:
  config = with_goal(make_run())
  environment = make_event_environment(config)
  policy = make_greedy_policy(config, environment, snapshot(3))
  network = make_acting_q_network(config, SPEC, snapshot(3).weights)
  episode = play_episode(environment, policy)
  timestep, rewards = environment.reset(), []
  while not timestep.last():
    timestep = environment.step(network.values(timestep.observation[None])[0].argmax())
    rewards.append(float(timestep.reward))
  assert episode.episode_return == pytest.approx(sum(rewards))
  assert episode.length == len(rewards)
  with serving(config, tmp_path, SPEC, inline=True) as server:
    PolicyPublisher(server.connection).publish(snapshot(3))
    evaluator = Evaluator(server.connection, server.manifest, 0, threading.Event())
    evaluator.step()
    (summary,) = _summaries(server)
  assert summary.mean_return == pytest.approx(sum(rewards))
  assert summary.mean_length == len(rewards)


def test_the_best_policy_is_kept_and_of_equals_the_latest(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  # solved_return is 0: versions 2 and 3 are solved, alike; 1 and 4 are not.
  returns = [-1.0, 2.0, 2.0, -0.5]
  kept = []
  with serving(make_run(), tmp_path, SPEC, inline=True) as server:
    evaluator = Evaluator(server.connection, server.manifest, 0, threading.Event(), tmp_path / "policy")
    publisher = PolicyPublisher(server.connection)
    for version, episode_return in enumerate(returns, start=1):
      played = PlayedEpisode(episode_return, 5, 0)
      monkeypatch.setattr(evaluator_module, "play_episode", lambda *args, played=played: played)
      publisher.publish(snapshot(version))
      evaluator.step()
      stored = load_snapshot(tmp_path / "policy" / "best.npz")
      best = stored.snapshot
      kept.append(best.version)
      np.testing.assert_array_equal(best.weights, snapshot(best.version).weights)
    summaries = _summaries(server)
  assert kept == [1, 2, 3, 3]
  assert (stored.config, stored.spec) == (make_run(), SPEC)
  assert [summary.solved for summary in summaries] == [False, True, True, False]


def test_stop_ends_an_episode_that_is_being_played() -> None:
  stop, steps = threading.Event(), 0
  environment = make_event_environment(make_run())

  def policy(observation: np.ndarray) -> int:
    nonlocal steps
    steps += 1
    if steps == 3:
      stop.set()
    return 0

  with pytest.raises(Stopped):
    play_episode(environment, policy, stop)
  assert steps == 3


def test_stop_ends_the_evaluator_and_closes_its_environment(tmp_path: pathlib.Path) -> None:
  stop = threading.Event()
  with serving(make_run(), tmp_path, SPEC, inline=True) as server:
    evaluator = Evaluator(server.connection, server.manifest, 0, stop)
    thread = threading.Thread(target=evaluator.run)
    thread.start()
    PolicyPublisher(server.connection).publish(snapshot(1))
    wait_for(lambda: evaluator.metrics()["evaluations"] == 1)
    wait_for(lambda: evaluator.state == "waiting for a new policy")
    stop.set()
    thread.join(5)
    assert not thread.is_alive()
  assert evaluator.state == "ending"


def test_frames_are_recorded_from_the_first_to_the_last() -> None:
  environment = make_event_environment(make_run(), render=True)
  episode = play_episode(environment, lambda observation: 0, record=True)
  assert len(episode.frames) == episode.length + 1 == TIME_LIMIT + 1
  assert isinstance(environment.reset(), EventTimeStep)
  np.testing.assert_array_equal(episode.frames[0], environment.render())


def test_the_best_policy_of_before_is_not_replaced_by_a_worse_one_after_a_restart(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  with serving(make_run(), tmp_path, SPEC, inline=True) as server:
    publisher = PolicyPublisher(server.connection)
    for version, episode_return in ((1, 2.0), (2, 1.0)):
      evaluator = Evaluator(server.connection, server.manifest, 0, threading.Event(), tmp_path / "policy")
      played = PlayedEpisode(episode_return, 5, 0)
      monkeypatch.setattr(evaluator_module, "play_episode", lambda *args, played=played: played)
      publisher.publish(snapshot(version))
      evaluator.step()
  assert load_snapshot(tmp_path / "policy" / "best.npz").snapshot.version == 1


def test_a_note_of_the_best_policy_that_cannot_be_read_is_none(tmp_path: pathlib.Path) -> None:
  with serving(make_run(), tmp_path, SPEC, inline=True) as server:
    for text in ("", "{}", "[]"):
      (tmp_path / "best.json").write_text(text)
      evaluator = Evaluator(server.connection, server.manifest, 0, threading.Event(), tmp_path)
      assert evaluator._best == (False, -np.inf)
    PolicyPublisher(server.connection).publish(snapshot(1, learner_steps=10))
    assert evaluator.step()
  assert json.loads((tmp_path / "best.json").read_text())["solved"] in (True, False)
  assert not list(tmp_path.glob("*.partial"))
