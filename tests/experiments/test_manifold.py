"""The probe of mixed transitions: exact where nothing is mixed, and in the units that it names."""

import csv

import numpy as np
import pytest

from experiments import manifold
from experiments.manifold import METHODS, WORLDS, Probe, errors_of, get_manifold


@pytest.mark.parametrize("world", WORLDS)
def test_mujoco_does_again_what_it_did(world):
  probe = Probe(world)
  rows = probe.collect(200, seed=0)
  transitions = probe.codec.unpack(rows)
  observations, rewards = probe.replay(transitions)
  np.testing.assert_allclose(observations, transitions["next_observation"], rtol=1e-4, atol=1e-4)
  np.testing.assert_allclose(rewards, transitions["reward"], rtol=1e-4, atol=1e-4)
  assert transitions["terminated"].any() == (world != "HalfCheetah")
  assert max(errors_of(probe, rows, "uniform", seed=0)) < 1e-3


def test_errors_are_in_units_of_what_varies(monkeypatch):
  """With every component wrong by twice the deviation of its change, and rewards by three of theirs."""
  probe = Probe("Hopper")
  rows = probe.collect(200, seed=0)
  stored = probe.codec.unpack(rows)
  change = (stored["next_observation"] - stored["observation"]).std(axis=0)
  replay = probe.replay

  def wrong(transitions):
    observations, rewards = replay(transitions)
    return observations + 2 * change, rewards - 3 * stored["reward"].std()

  monkeypatch.setattr(probe, "replay", wrong)
  assert errors_of(probe, rows, "uniform", seed=0) == pytest.approx((2, 3), rel=1e-3)


def test_near_rows_mix_to_what_the_world_does_sooner_than_any_two():
  probe = Probe("Walker2d")
  rows = probe.collect(1_000, seed=0)
  anywhere = errors_of(probe, rows, "mixup", seed=0)
  for method in ("nmer", "nn_mixup", "ct"):
    found = errors_of(probe, rows, method, seed=0)
    assert found.next_state < 0.7 * anywhere.next_state
    assert found.reward < 0.7 * anywhere.reward


def test_it_writes_a_csv_a_picture_and_a_table(tmp_path, monkeypatch):
  monkeypatch.setattr(manifold, "SIZES", (50, 100))
  shown = get_manifold().write(2, tmp_path, "slipstream experiment nmer_manifold")
  with (tmp_path / "nmer_manifold.csv").open() as file:
    found = list(csv.DictReader(file))
  assert len(found) == len(WORLDS) * len(METHODS) * 2 * 2
  assert (tmp_path / "nmer_manifold.md").read_text() in shown
  assert (tmp_path / "nmer_manifold.png").stat().st_size > 10_000
