"""The evaluator: what counts as solved, and which policies it evaluates and keeps."""

import contextlib
import dataclasses
import json
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from actors import evaluator as evaluator_module
from actors.behaviour import Behaviour
from actors.engine import choose_actions
from actors.evaluator import (
  Evaluator,
  PlayedEpisode,
  is_solved,
  make_evaluated_behaviour,
  make_greedy_behaviour,
  play_episode,
)
from configs import EvaluatorConfig, Stopped
from configs.presets import classic_control
from environments import EventTimeStep, make_environment_spec, make_event_environment
from networks import NO_EXTRAS, Extras, flatten_weights, make_acting_policy, make_acting_q_network, make_policy
from replay_server.contract import layout
from replay_server.contract.messages import EvaluationSummary
from replay_server.contract.policy import PolicyPublisher, PolicySnapshot, load_snapshot
from replay_server.process.server import ReplayServer
from tests.actors.running import SPEC, TIME_LIMIT, make_run, snapshot, with_goal
from tests.serving import read_messages, serving, wait_for

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
  goal: dict[str, Any], episodes: list[tuple[float, int]], solved: bool
) -> None:
  played = [PlayedEpisode(episode_return, 5, events) for episode_return, events in episodes]
  assert is_solved(played, EvaluatorConfig(**goal), _EVENTS) is solved


def _summaries(server: ReplayServer) -> list[EvaluationSummary]:
  return read_messages(server.connection, layout.EPISODES, EvaluationSummary)


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


def test_an_evaluation_has_the_means_of_the_measures_of_its_episodes(tmp_path: pathlib.Path) -> None:
  config = make_run()
  world = dataclasses.replace(config.environment, name="tests.measured_world:Measured")
  world = dataclasses.replace(world, arguments={"room_size": 2, "time_limit": 200, "level": 1.5})
  goal = dataclasses.replace(config.evaluator, epsilon=1.0, episodes=40)
  with serving(dataclasses.replace(config, environment=world, evaluator=goal), tmp_path, SPEC, inline=True) as server:
    PolicyPublisher(server.connection).publish(snapshot(2, learner_steps=20))
    assert Evaluator(server.connection, server.manifest, 0, threading.Event()).step()
    (summary,) = _summaries(server)
  reached = summary.measures["reached"]
  assert 0 < reached < 1
  assert summary.measures["level"] == 1.5
  # In those episodes that did not reach the goal it took all steps.
  way = (summary.mean_length - (1 - reached) * 200) / reached
  assert summary.measures["way"] == pytest.approx(way)


def test_evaluations_use_the_configs_epsilon_and_a_greedy_behaviour_has_none(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  played = []

  def note(environment: object, behaviour: Behaviour, stop: object) -> PlayedEpisode:
    played.append((behaviour.epsilon, behaviour.version))
    return PlayedEpisode(0.0, 1, 0)

  monkeypatch.setattr(evaluator_module, "play_episode", note)
  config = with_goal(make_run())
  config = dataclasses.replace(config, evaluator=dataclasses.replace(config.evaluator, epsilon=0.125))
  with serving(config, tmp_path, SPEC, inline=True) as server:
    PolicyPublisher(server.connection).publish(snapshot(2, learner_steps=20))
    assert Evaluator(server.connection, server.manifest, 0, threading.Event()).step()
  assert played == [(0.125, 2)] * config.evaluator.episodes
  assert make_greedy_behaviour(config, make_event_environment(config), snapshot(2)).epsilon == 0


def test_an_evaluation_of_a_noisy_policy_has_no_noise() -> None:
  sac = classic_control.get_pendulum_config()
  environment = make_event_environment(sac)
  spec = make_environment_spec(environment)
  weights = np.asarray(flatten_weights(make_policy(sac, spec, seed=1)))
  behaviour = make_evaluated_behaviour(sac, environment, PolicySnapshot(1, 1, weights), np.random.default_rng(0))
  observation = np.ones(spec.observations.shape, np.float32)
  best = make_acting_policy(sac, spec, weights).best(observation[None])[0]
  for _ in range(3):
    (choice,) = choose_actions([behaviour], [observation])
    np.testing.assert_array_equal(choice.action, best)


def test_it_plays_the_published_network_greedily(tmp_path: pathlib.Path) -> None:
  config = with_goal(make_run())
  environment = make_event_environment(config)
  behaviour = make_greedy_behaviour(config, environment, snapshot(3))
  network = make_acting_q_network(config, SPEC, snapshot(3).weights)
  episode = play_episode(environment, behaviour)
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


def test_the_best_policy_is_kept_and_the_latest_of_equally_good_ones(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  # solved_return is 0: versions 2 and 3 are solved and equally good; 1 and 4 are not solved.
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


class _Always:
  """A policy that always takes the action 0, and calls `note` for every action."""

  def __init__(self, note: Callable[[], None] = lambda: None):
    self._note = note

  def best(self, observations: np.ndarray) -> np.ndarray:
    return np.zeros(len(observations), np.int32)

  def explore(self, observations: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, Extras]:
    self._note()
    return self.best(observations), NO_EXTRAS


def _behaviour(policy: _Always) -> Behaviour:
  return Behaviour(SPEC.actions, np.random.default_rng(0), policy)


def test_stop_ends_an_episode_that_is_being_played() -> None:
  stop, steps = threading.Event(), 0
  environment = make_event_environment(make_run())

  def note() -> None:
    nonlocal steps
    steps += 1
    if steps == 3:
      stop.set()

  with pytest.raises(Stopped):
    play_episode(environment, _behaviour(_Always(note)), stop)
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
  episode = play_episode(environment, _behaviour(_Always()), record=np.asarray)
  assert len(episode.frames) == episode.length + 1 == TIME_LIMIT + 1
  assert isinstance(environment.reset(), EventTimeStep)
  np.testing.assert_array_equal(episode.frames[0], environment.render())


def test_after_a_restart_the_best_policy_is_not_replaced_by_a_worse_one(
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


def test_any_policy_is_better_than_a_best_one_whose_note_cannot_be_read(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(evaluator_module, "play_episode", lambda *args: PlayedEpisode(-1e9, 5, 0))
  with serving(make_run(), tmp_path, SPEC, inline=True) as server:
    publisher = PolicyPublisher(server.connection)
    for version, text in enumerate(("", "{}", "[]"), start=1):
      (tmp_path / "best.json").write_text(text)
      evaluator = Evaluator(server.connection, server.manifest, 0, threading.Event(), tmp_path)
      publisher.publish(snapshot(version))
      assert evaluator.step()
      assert load_snapshot(tmp_path / "best.npz").snapshot.version == version
  assert json.loads((tmp_path / "best.json").read_text()) == {"solved": False, "mean_return": -1e9}
  assert not list(tmp_path.glob("*.partial"))


def test_an_episode_is_cut_off_after_the_steps_that_are_asked_for():
  environment = make_event_environment(make_run(), seed=0, render=True)
  with contextlib.closing(environment):
    episode = play_episode(environment, _behaviour(_Always()), record=np.asarray, most_steps=3)
  assert (episode.length, len(episode.frames)) == (3, 4)


def test_after_an_evaluation_its_policy_is_filmed(tmp_path):
  filmed = []
  with serving(make_run(), tmp_path, SPEC) as server:
    evaluator = Evaluator(
      server.connection,
      server.manifest,
      0,
      threading.Event(),
      film=lambda policy, steps: filmed.append((policy.version, steps)),
    )
    assert not evaluator.step()
    PolicyPublisher(server.connection).publish(snapshot(3))
    assert evaluator.step()
    assert not evaluator.step()
  assert filmed == [(3, 0)]
