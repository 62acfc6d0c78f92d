"""Policies through their table and through files."""

import pathlib
from collections.abc import Callable

import numpy as np
import pytest

from configs import UserError
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.policy import PolicyPublisher, PolicySnapshot, PolicySource, load_snapshot, save_snapshot
from tests.serving import SPEC, adding, make_config, run_episode, sampled_from, serving, size_of

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
