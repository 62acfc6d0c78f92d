"""The rollout worker, against a real server."""

import dataclasses
import itertools
import pathlib
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from actors import policy_feed
from actors.behaviour import Behaviour
from actors.worker import RolloutWorker
from configs import EnvironmentConfig, EventSpec, NetworkConfig, RunConfig, Stopped, UserError
from networks import count_weights, make_acting_q_network
from replay_server.contract import layout
from replay_server.contract import policy as policy_module
from replay_server.contract.connection import Connection
from replay_server.contract.messages import EpisodeSummary
from replay_server.contract.policy import PolicyLate, PolicyPublisher, PolicySnapshot
from replay_server.contract.run import read_manifest
from replay_server.process.server import ReplayServer
from tests.actors.running import CODEC, SPEC, TIME_LIMIT, make_run, snapshot, with_goal
from tests.serving import drain, drain_priorities, read_messages, server_process, serving
from tests.slow_link import slow_link


@pytest.fixture
def stop() -> threading.Event:
  return threading.Event()


def _worker(server: ReplayServer, stop: threading.Event, name: str = "actor_0") -> RolloutWorker:
  return RolloutWorker(server.connection, server.manifest, name, index=0, seed=1, stop=stop)


def _episodes(rows: list[dict[str, np.ndarray]]) -> Iterator[list[dict[str, np.ndarray]]]:
  by_episode = sorted(rows, key=lambda row: (int(row["episode"]), int(row["step"])))
  return (list(group) for _, group in itertools.groupby(by_episode, key=lambda row: int(row["episode"])))


def _summaries(server: ReplayServer) -> list[EpisodeSummary]:
  return read_messages(server.connection, layout.EPISODES, EpisodeSummary)


def _run(server: ReplayServer, config: RunConfig, stop: threading.Event, steps: int) -> RolloutWorker:
  worker = _worker(server, stop)
  for _ in range(steps):
    worker.step()
  worker.flush()
  worker.close()
  return worker


def test_a_worker_on_a_link_too_slow_for_its_policy_says_so(
  tmp_path: pathlib.Path, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(policy_module, "LEAST_SECONDS", 1.0)
  monkeypatch.setattr(policy_module, "LEAST_BYTES_PER_SECOND", 1_000_000)
  config = dataclasses.replace(make_run(weights_timeout_seconds=0.5), network=NetworkConfig((600, 600)))
  with server_process(tmp_path, config) as server:
    direct = Connection(server.address)
    direct.wait_until_up(60)
    manifest = read_manifest(direct)
    assert manifest is not None
    # Random, as zeros would be compressed.
    weights = np.random.default_rng(0).random(count_weights(config, manifest.spec), np.float32)
    PolicyPublisher(direct).publish(PolicySnapshot(1, 1, weights))
    with slow_link(server.address, 100_000) as link:
      worker = RolloutWorker(Connection(link.address), manifest, "actor_0", index=0, seed=1, stop=stop)
      with pytest.raises(PolicyLate, match="The policy of 1 MB did not arrive within 1 s"):
        worker.step()
      link.bytes_per_second = 1e9
      worker.step()  # A supervisor would start it again; here the link has become faster.
      assert worker.behaviours[0].version == 1


def test_a_vector_environment_gives_the_tables_that_single_environments_give(
  tmp_path: pathlib.Path, stop: threading.Event
) -> None:
  tables = []
  for name in ("three_rooms", "tests.vector_worlds:three_rooms"):
    config = with_goal(make_run(environments=3, random_steps=1_000))
    events = (dataclasses.replace(config.events[0], condition="environments.three_rooms:at_gap"),)
    config = dataclasses.replace(config, events=events, environment=dataclasses.replace(config.environment, name=name))
    with serving(config, tmp_path / name, SPEC, inline=True) as server:
      worker = _run(server, config, stop, 10 * TIME_LIMIT)
      assert worker.environment_steps == 3 * 10 * TIME_LIMIT
      tables.append({table: _contents(server, table) for table in ("default", "done")})
  singles, vector = tables
  # The worlds do not depend on their seeds, nor the actions on them.
  assert sum(len(episode) for episode in singles["done"]) > 10
  assert vector == singles


def _contents(server: ReplayServer, table: str) -> list[list[tuple[object, ...]]]:
  """The rows of a table, by episode; the ids of episodes are random."""
  keys = ("action", "reward", "discount", "step", "events", "terminated", "truncated", "policy_version")
  by_episode: dict[int, list[tuple[object, ...]]] = {}
  for row in drain(server.connection, table, CODEC):
    values = (*(row[key].item() for key in keys), row["observation"].tobytes(), row["next_observation"].tobytes())
    by_episode.setdefault(int(row["episode"]), []).append(values)
  return sorted(by_episode.values())


def test_a_worker_drops_the_episodes_that_its_world_lost_and_goes_on(
  tmp_path: pathlib.Path, stop: threading.Event, capfd: pytest.CaptureFixture[str]
) -> None:
  config = make_run(environments=2, random_steps=1_000)
  world = EnvironmentConfig(
    "tests.vector_worlds:Losing",
    {**config.environment.arguments, "lost": [6, 20], "failures": 1},
  )
  config = dataclasses.replace(config, environment=world)
  with serving(config, tmp_path, SPEC, inline=True) as server:
    worker = _worker(server, stop)
    waits = []
    while worker.environment_steps < 2 * 5 * TIME_LIMIT:
      worker.step()
      waits.append(worker.state)
    worker.flush()
    assert worker.dropped_episodes == 4
    assert worker.metrics()["dropped_episodes"] == 4
    worker.close()
    rows = drain(server.connection, "default", CODEC)
    summaries = _summaries(server)
  assert "waiting for its world: The console is still away." in waits
  assert capfd.readouterr().out.count("The console died. It goes on with new episodes.") == 2
  assert len(rows) == worker.environment_steps
  # Dropped episodes keep the rows that were sent, and have no summary; all others are whole.
  lengths = sorted(len(episode) for episode in _episodes(rows))
  assert len(summaries) == worker.episodes
  assert sum(row["truncated"] or row["terminated"] for row in rows) == worker.episodes
  assert lengths.count(5) >= 2


def test_every_environment_of_a_worker_writes_whole_episodes_of_its_own(
  tmp_path: pathlib.Path, stop: threading.Event
) -> None:
  config = with_goal(make_run(environments=3, random_steps=1_000))
  with serving(config, tmp_path, SPEC, inline=True) as server:
    worker = _run(server, config, stop, 5 * TIME_LIMIT)
    assert worker.environment_steps == 3 * 5 * TIME_LIMIT
    rows = drain(server.connection, "default", CODEC)
    summaries = _summaries(server)
  assert len(rows) == worker.environment_steps
  writers = set()
  ended = 0
  for episode in _episodes(rows):
    writers.add(int(episode[0]["episode"]) >> 32)
    assert [int(row["step"]) for row in episode] == list(range(len(episode)))
    for row, following in itertools.pairwise(episode):
      np.testing.assert_array_equal(row["next_observation"], following["observation"])
      assert not row["terminated"]
      assert not row["truncated"]
    ended += bool(episode[-1]["terminated"] or episode[-1]["truncated"])
  assert len(writers) == 3
  # Its heartbeats say which writers are its own.
  assert {value for name, value in worker.metrics().items() if name.startswith("writer_")} == writers
  assert len(summaries) == ended >= 3 * 5
  assert {summary.actor for summary in summaries} == {"actor_0"}
  assert sum(summary.length for summary in summaries) <= len(rows)


def test_a_summary_has_the_return_length_and_events_of_its_episode(
  tmp_path: pathlib.Path, stop: threading.Event
) -> None:
  config = with_goal(make_run(random_steps=100_000))
  with serving(config, tmp_path, SPEC, inline=True) as server:
    _run(server, config, stop, 40 * TIME_LIMIT)
    rows = drain(server.connection, "default", CODEC)
    summaries = _summaries(server)
  whole = [episode for episode in _episodes(rows) if episode[-1]["terminated"] or episode[-1]["truncated"]]
  for summary, episode in zip(summaries, whole, strict=True):
    assert summary.length == len(episode)
    assert summary.episode_return == pytest.approx(sum(float(row["reward"]) for row in episode), rel=1e-5)
    assert summary.events == np.bitwise_or.reduce([int(row["events"]) for row in episode])


def test_new_items_have_the_largest_priorities_that_came_with_the_policy(
  tmp_path: pathlib.Path, stop: threading.Event
) -> None:
  config = with_goal(make_run())
  ends = EventSpec("done", "environments.conditions:EpisodeEnd", history=TIME_LIMIT)
  config = dataclasses.replace(config, events=(ends,))
  with serving(config, tmp_path, SPEC, inline=True) as server:
    publisher = PolicyPublisher(server.connection)
    publisher.publish(dataclasses.replace(snapshot(1), priorities=(2.0, 3.0)))
    worker = _worker(server, stop)
    worker.step()
    publisher.publish(dataclasses.replace(snapshot(2), priorities=(5.0, 7.0)))
    while worker.behaviours[0].version < 2:  # Until the first episode has ended.
      worker.step()
    first = worker.environment_steps - 1
    for _ in range(5 * TIME_LIMIT):
      worker.step()
    worker.flush()
    worker.close()
    assert drain_priorities(server.connection, "default") == [2.0] * first + [5.0] * (5 * TIME_LIMIT + 1)
    ended = drain_priorities(server.connection, "done")
    assert ended == [3.0] * first + [7.0] * (len(ended) - first)
    assert len(ended) > first


def test_a_worker_warms_up_with_random_actions_and_then_needs_a_policy(
  tmp_path: pathlib.Path, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(policy_feed, "POLICY_POLL_SECONDS", 0.02)
  config = make_run(random_steps=30, weights_timeout_seconds=0.2)
  with serving(config, tmp_path, SPEC, inline=True) as server:
    worker = _worker(server, stop)
    with pytest.raises(UserError, match="No learner has published a policy"):
      worker.run()
    rows = drain(server.connection, "default", CODEC)
  # The warm-up ended within an episode, which still ran to its end.
  assert 30 <= len(rows) <= 30 + TIME_LIMIT
  assert rows[-1]["terminated"] or rows[-1]["truncated"]
  assert {int(row["policy_version"]) for row in rows} == {0}
  assert {int(row["action"]) for row in rows} == {0, 1, 2}


@pytest.mark.parametrize("environments", [1, 3])
def test_the_environments_of_a_worker_share_the_random_steps(
  environments: int, tmp_path: pathlib.Path, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
  drawn: list[Behaviour] = []
  draw = Behaviour.random_action

  def counted(behaviour: Behaviour) -> np.ndarray:
    drawn.append(behaviour)
    return draw(behaviour)

  monkeypatch.setattr(Behaviour, "random_action", counted)
  # Neither a multiple of the environments nor the end of an episode.
  config = make_run(environments=environments, random_steps=31, epsilon=0.0)
  with serving(config, tmp_path, SPEC, inline=True) as server:
    PolicyPublisher(server.connection).publish(snapshot(1))
    _run(server, config, stop, 5 * TIME_LIMIT)
    assert len(drawn) == 31
    # A worker that joins later, or again, takes no more of them.
    _run(server, config, stop, TIME_LIMIT)
  assert len(drawn) == 31
  assert len(set(map(id, drawn))) == environments


def test_a_worker_that_waits_for_a_policy_can_be_stopped(tmp_path: pathlib.Path, stop: threading.Event) -> None:
  config = make_run()
  with serving(config, tmp_path, SPEC, inline=True) as server:
    worker = _worker(server, stop)
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(Stopped):
      worker.step()
    assert worker.state == "waiting for a learner's first policy"
    worker.run()  # It ends at once.
    assert worker.state == "ending"


def test_weights_are_fetched_at_the_start_of_an_episode_and_kept_through_it(
  tmp_path: pathlib.Path, stop: threading.Event
) -> None:
  config = make_run(environments=2)
  with serving(config, tmp_path, SPEC, inline=True) as server:
    publisher = PolicyPublisher(server.connection)
    publisher.publish(snapshot(1))
    worker = _worker(server, stop)
    for t in range(6 * TIME_LIMIT):
      if t % 5 == 4:
        publisher.publish(snapshot(2 + t // 5))
      worker.step()
    worker.flush()
    worker.close()
    rows = drain(server.connection, "default", CODEC)
  versions = []
  for episode in _episodes(rows):
    (version,) = {int(row["policy_version"]) for row in episode}
    versions.append(version)
  assert min(versions) == 1
  assert len(set(versions)) >= 5
  acting = {behaviour.version for behaviour in worker.behaviours}
  assert len({behaviour.policy for behaviour in worker.behaviours}) == len(acting)


def test_weights_are_fetched_within_an_episode_if_the_config_says_so(
  tmp_path: pathlib.Path, stop: threading.Event
) -> None:
  config = make_run(policy_period_steps=5, epsilon=0.0)
  with serving(config, tmp_path, SPEC, inline=True) as server:
    publisher = PolicyPublisher(server.connection)
    worker = _worker(server, stop)
    for version in range(1, 4 * TIME_LIMIT):
      publisher.publish(snapshot(version))
      worker.step()
    worker.flush()
    worker.close()
    rows = drain(server.connection, "default", CODEC)
  for episode in _episodes(rows):
    first = int(episode[0]["policy_version"])
    for row in episode:
      # The version of the step at which it was fetched: 0, 5 and 10 of an episode.
      assert int(row["policy_version"]) == first + 5 * (int(row["step"]) // 5)
      network = make_acting_q_network(config, SPEC, snapshot(int(row["policy_version"])).weights)
      assert int(row["action"]) == network.best(row["observation"][None])[0]
  assert max(int(row["step"]) for row in rows) >= 5


def test_a_greedy_worker_takes_the_actions_of_the_published_network(
  tmp_path: pathlib.Path, stop: threading.Event
) -> None:
  config = make_run(environments=2, epsilon=0.0)
  with serving(config, tmp_path, SPEC, inline=True) as server:
    PolicyPublisher(server.connection).publish(snapshot(4))
    _run(server, config, stop, 30)
    rows = drain(server.connection, "default", CODEC)
  network = make_acting_q_network(config, SPEC, snapshot(4).weights)
  values = network.values(np.stack([row["observation"] for row in rows]))
  assert [int(row["action"]) for row in rows] == values.argmax(axis=1).tolist()
