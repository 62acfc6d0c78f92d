"""Policies through their table and through files."""

import contextlib
import dataclasses
import pathlib
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from configs import ServerLost, Stopped, UserError
from replay_server.contract import layout
from replay_server.contract import policy as policy_module
from replay_server.contract.connection import Connection
from replay_server.contract.policy import (
  PolicyLate,
  PolicyPublisher,
  PolicySnapshot,
  PolicySource,
  load_snapshot,
  save_snapshot,
)
from replay_server.contract.status import RunStatus
from tests.serving import CODEC, SPEC, adding, make_config, run_episode, sampled_from, server_process, serving, size_of
from tests.slow_link import SlowLink, slow_link

CONFIG = make_config()


def _snapshot(version: int, size: int = 1_000) -> PolicySnapshot:
  return PolicySnapshot(version, 10 * version, np.random.default_rng(version).normal(size=size).astype(np.float32))


def _same(one: PolicySnapshot | None, other: PolicySnapshot) -> bool:
  assert one is not None
  return (one.version, one.learner_steps, one.weights.tolist()) == (
    other.version,
    other.learner_steps,
    other.weights.tolist(),
  )


def test_every_source_fetches_the_version_that_was_published_last(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    publisher = PolicyPublisher(server.connection)
    early = PolicySource(Connection(server.address), "default")
    assert early.fetch() is None
    for version in (1, 2, 3):
      publisher.publish(_snapshot(version))
      assert _same(early.fetch(), _snapshot(version))
    PolicyPublisher(server.connection).publish(_snapshot(4, size=3_000_000))
    late = PolicySource(server.connection, "default")
    assert _same(late.fetch(), _snapshot(4, size=3_000_000))
    assert size_of(server.connection, layout.POLICY) == 1


def test_a_version_that_arrives_late_does_not_replace_a_higher_one(tmp_path: pathlib.Path) -> None:
  # As of a learner that was paused in the midst of sending it, and replaced.
  with serving(CONFIG, tmp_path, inline=True) as server:
    late, current = PolicyPublisher(server.connection), PolicyPublisher(server.connection)
    for publisher, version, stands in [(current, 3, 3), (late, 2, 3), (current, 4, 4), (late, 1, 4), (current, 5, 5)]:
      publisher.publish(_snapshot(version))
      assert _same(PolicySource(server.connection, "default").fetch(), _snapshot(stands))
    assert size_of(server.connection, layout.POLICY) == 1


def test_weights_are_sent_again_only_when_there_are_new_ones(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    publisher = PolicyPublisher(server.connection)
    source = PolicySource(server.connection, "default")
    publisher.publish(_snapshot(1))
    first = source.fetch()
    assert all(source.fetch() is first for _ in range(5))
    assert sampled_from(server.connection, layout.POLICY) == 1
    publisher.publish(_snapshot(2))
    assert source.fetch() is not first
    assert sampled_from(server.connection, layout.POLICY) == 2


def test_a_writer_beside_the_policys_own_connection_gets_its_confirmations_at_once(tmp_path: pathlib.Path) -> None:
  # With gRPC's default polling of this version each of them comes seconds late.
  with server_process(tmp_path) as server, contextlib.closing(Connection(server.address)) as connection:
    connection.info()  # Its own TCP connection is the older one, as in a learner.
    publisher = PolicyPublisher(connection)
    publisher.publish(_snapshot(1))
    writer = connection.open_writer(max_references=1)
    for _ in range(20):
      writer.create_item("default", writer.append([np.zeros(CODEC.width, np.float32)]))
      writer.flush(0, timeout_ms=2_000)
    publisher.publish(_snapshot(2))
    writer.close()


def test_a_fetch_updates_the_environment_steps_of_the_run(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    source = PolicySource(server.connection, "default")
    with adding(server) as (adder, _):
      run_episode(adder, 17)
    assert source.environment_steps == 0
    source.fetch()
    assert source.environment_steps == 17


def test_acme_gets_one_vector_of_variables(tmp_path: pathlib.Path) -> None:
  with serving(CONFIG, tmp_path, inline=True) as server:
    source = PolicySource(server.connection, "default")
    with pytest.raises(ValueError, match="no policy"):
      source.get_variables([])
    PolicyPublisher(server.connection).publish(_snapshot(5))
    (weights,) = source.get_variables(["policy"])
  np.testing.assert_array_equal(weights, _snapshot(5).weights)


@pytest.fixture(scope="module")
def other_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
  """The address of a server in another process; one in this process would be read without the network."""
  with server_process(tmp_path_factory.mktemp("server")) as server:
    Connection(server.address).wait_until_up(60)
    yield server.address


@pytest.fixture
def slow(other_process: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowLink]:
  """A link to a server, at first a fast one; a policy of 1 MB may take 5 s to arrive, and a small one 1 s."""
  monkeypatch.setattr(policy_module, "LEAST_BYTES_PER_SECOND", 200_000)
  monkeypatch.setattr(policy_module, "LEAST_SECONDS", 1.0)
  with slow_link(other_process, 1e9) as link:
    yield link


_BIG = 250_000


def test_a_large_policy_arrives_over_a_slow_link_and_the_server_answers_meanwhile(slow: SlowLink) -> None:
  connection = Connection(slow.address)
  publisher, source = PolicyPublisher(connection), PolicySource(connection, "default", _BIG)
  slow.bytes_per_second = 400_000
  asking, answers = threading.Event(), []

  def ask() -> None:
    while not asking.wait(0.1):
      began = time.monotonic()
      connection.info()
      answers.append(time.monotonic() - began)

  thread = threading.Thread(target=ask)
  thread.start()
  began = time.monotonic()
  publisher.publish(_snapshot(1, _BIG))
  assert _same(source.fetch(), _snapshot(1, _BIG))
  took = time.monotonic() - began
  asking.set()
  thread.join()
  assert took > 2 * 2  # Far longer than the second that a small policy has.
  assert len(answers) > 10
  assert max(answers) < 1.5


def test_a_policy_that_does_not_arrive_in_the_time_of_its_size_is_one_sentence(slow: SlowLink) -> None:
  publisher, source = PolicyPublisher(Connection(slow.address)), PolicySource(Connection(slow.address), "default", _BIG)
  publisher.publish(_snapshot(1, _BIG))
  slow.bytes_per_second = 40_000
  sentence = "The policy of 1 MB did not arrive within 5 s, so the link to the server carries less than 200 kB/s"
  began = time.monotonic()
  with pytest.raises(PolicyLate, match=sentence):
    source.fetch()
  assert 4.5 < time.monotonic() - began < 8
  with pytest.raises(PolicyLate, match=sentence):
    publisher.publish(_snapshot(2, _BIG))


def test_sending_does_not_wait_and_what_goes_wrong_is_raised_once_and_later(slow: SlowLink) -> None:
  publisher, source = PolicyPublisher(Connection(slow.address)), PolicySource(Connection(slow.address), "default", _BIG)
  publisher.send(_snapshot(1, _BIG))
  publisher.finish()
  assert _same(source.fetch(), _snapshot(1, _BIG))
  assert publisher.published == 1
  slow.bytes_per_second = 40_000
  began = time.monotonic()
  publisher.send(_snapshot(2, _BIG))
  assert time.monotonic() - began < 0.5
  assert publisher.is_sending
  publisher.check()  # Nothing has gone wrong yet.
  with pytest.raises(PolicyLate, match="did not arrive within 5 s"):
    publisher.finish()
  publisher.check()
  assert publisher.published == 1
  slow.bytes_per_second = 1e9
  publisher.send(_snapshot(3, _BIG))
  publisher.close()
  publisher.close()
  assert _same(source.fetch(), _snapshot(3, _BIG))


def test_a_stop_ends_the_wait_for_a_policy(slow: SlowLink) -> None:
  connection, stop = Connection(slow.address), threading.Event()
  publisher, source = PolicyPublisher(connection, stop), PolicySource(connection, "default", _BIG, stop)
  publisher.publish(_snapshot(1, _BIG))
  slow.bytes_per_second = 20_000
  for wait in (source.fetch, lambda: publisher.publish(_snapshot(2, _BIG))):
    stop.clear()
    threading.Timer(0.5, stop.set).start()
    began = time.monotonic()
    with pytest.raises(Stopped):
      wait()
    assert time.monotonic() - began < 3


def test_a_policy_is_not_waited_for_when_the_server_was_started_again(slow: SlowLink) -> None:
  connection, stop = Connection(slow.address), threading.Event()
  publisher, source = PolicyPublisher(connection, stop), PolicySource(connection, "default", _BIG, stop)
  publisher.publish(_snapshot(1, _BIG))
  slow.bytes_per_second = 20_000
  for epoch, wait in enumerate([source.fetch, lambda: publisher.publish(_snapshot(2, _BIG))]):
    connection.news.note_status(_status(f"{epoch}"))
    threading.Timer(0.5, lambda: connection.news.note_status(_status("next"))).start()
    began = time.monotonic()
    with pytest.raises(ServerLost, match="was started again"):
      wait()
    assert time.monotonic() - began < 3


def _status(epoch: str) -> RunStatus:
  values = {field.name: 0 for field in dataclasses.fields(RunStatus)}
  return RunStatus(**{**values, "epoch": epoch})  # type: ignore[arg-type]


def test_a_saved_policy_is_loaded_with_the_config_and_the_spec_that_it_needs(tmp_path: pathlib.Path) -> None:
  path = tmp_path / "policy" / "best.npz"
  for version in (1, 2):  # The second replaces the first.
    save_snapshot(path, _snapshot(version), CONFIG, SPEC)
  stored = load_snapshot(path)
  assert _same(stored.snapshot, _snapshot(2))
  assert stored.snapshot.weights.dtype == np.float32
  assert (stored.config, stored.spec) == (CONFIG, SPEC)
  assert [file.name for file in path.parent.iterdir()] == ["best.npz"]


def test_a_file_of_an_earlier_release_without_a_spec_is_read(tmp_path: pathlib.Path) -> None:
  path = tmp_path / "policy.npz"
  save_snapshot(path, _snapshot(1), CONFIG, SPEC)
  with np.load(path) as data:
    former = {name: data[name] for name in data if name != "spec"}
  np.savez(path, **former)
  stored = load_snapshot(path)
  assert _same(stored.snapshot, _snapshot(1))
  assert (stored.config, stored.spec) == (CONFIG, None)


def _missing(path: pathlib.Path) -> None:
  path.unlink()


def _cut_off(path: pathlib.Path) -> None:
  path.write_bytes(path.read_bytes()[:2_000])


def _spoilt(path: pathlib.Path) -> None:
  data = bytearray(path.read_bytes())
  data[1_000] ^= 0xFF
  path.write_bytes(data)


def _other_arrays(path: pathlib.Path) -> None:
  np.savez(path, version=1)


def _one_array(path: pathlib.Path) -> None:
  with path.open("wb") as file:
    np.save(file, np.zeros(3))


@pytest.mark.parametrize(
  "spoil",
  [
    _missing,
    _cut_off,
    _spoilt,
    _other_arrays,
    _one_array,
    lambda path: path.write_bytes(b""),
    lambda path: path.write_text("a policy"),
  ],
)
def test_a_file_that_is_no_policy_is_one_sentence(
  tmp_path: pathlib.Path, spoil: Callable[[pathlib.Path], object]
) -> None:
  path = tmp_path / "policy.npz"
  save_snapshot(path, _snapshot(1), CONFIG, SPEC)
  spoil(path)
  with pytest.raises(UserError, match="is not a policy file"):
    load_snapshot(path)
