"""Mixtures of rows, by hand."""

import numpy as np
import pytest

from learner.mixup.rows import Layout, interpolated, with_mixed_states, with_noise
from tests.mixable import CODEC, row

LAYOUT = Layout.of(CODEC)
ROW = row((1, -2), 0.5, 3, (4, 8), 0.9, episode=7, step=3, events=5)
OTHER = row((3, 2), -0.5, 1, (0, 0), 0.5, episode=9, step=6, events=2, truncated=True)


def fields(rows: np.ndarray) -> dict[str, np.ndarray]:
  return CODEC.unpack(rows)


def test_all_parts_of_the_transition_are_mixed_and_the_rest_stays_the_rows() -> None:
  mixed = fields(interpolated(ROW[None], OTHER[None], np.array([0.25], np.float32), LAYOUT))
  assert mixed["observation"].tolist() == [[2.5, 1.0]]
  assert mixed["action"].tolist() == [[-0.25]]
  assert mixed["reward"].tolist() == [1.5]
  assert mixed["next_observation"].tolist() == [[1.0, 2.0]]
  assert mixed["discount"] == pytest.approx([0.6])
  own = fields(ROW[None])
  for name in ("episode", "step", "events", "steps", "terminated", "truncated"):
    assert mixed[name].tolist() == own[name].tolist()


def test_with_a_share_of_1_a_row_stays_as_it_is_to_the_last_bit() -> None:
  zero = row((-0.0, 1e-40), -0.0, -0.0, (0.1, -0.0))
  rows, others = np.stack([ROW, zero]), np.stack([OTHER, OTHER])
  shares = np.ones(2, np.float32)
  for same in (interpolated(rows, others, shares, LAYOUT), with_mixed_states(rows, shares, LAYOUT)):
    assert same.tobytes() == rows.tobytes()


def test_s4rl_mixes_the_observation_with_the_next_one_alone() -> None:
  mixed = fields(with_mixed_states(ROW[None], np.array([0.25], np.float32), LAYOUT))
  own = fields(ROW[None])
  assert mixed["observation"].tolist() == [[3.25, 5.5]]
  assert all(mixed[name].tolist() == own[name].tolist() for name in own if name != "observation")


def test_noise_is_in_units_of_each_components_deviation_and_spares_discount_and_flags() -> None:
  rows = np.stack([ROW, OTHER])
  noise = np.ones((2, 6), np.float32)
  noisy, own = fields(with_noise(rows, noise, 0.1, LAYOUT)), fields(rows)
  # Deviations of the two rows: 1 and 2; .5; 1; 2 and 4.
  assert noisy["observation"] - own["observation"] == pytest.approx(np.array([[0.1, 0.2]] * 2), abs=1e-6)
  assert noisy["action"] - own["action"] == pytest.approx(np.array([[0.05]] * 2), abs=1e-6)
  assert noisy["reward"] - own["reward"] == pytest.approx(np.array([0.1] * 2), abs=1e-6)
  assert noisy["next_observation"] - own["next_observation"] == pytest.approx(np.array([[0.2, 0.4]] * 2), abs=1e-6)
  for name in ("discount", "episode", "step", "events", "terminated", "truncated"):
    assert noisy[name].tolist() == own[name].tolist()


def test_only_a_terminal_state_is_terminated() -> None:
  rows = np.stack([ROW, OTHER, row((0, 0), terminated=True)])
  assert LAYOUT.is_terminated(rows).tolist() == [False, False, True]
