"""The noise on actions: its moments, its memory and its bounds, and what rows hold of it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from networks.exploration import GaussianNoise, OrnsteinUhlenbeckNoise, truncated_normal


def test_a_truncated_normal_is_within_three_deviations_and_has_its_variance() -> None:
  numbers = truncated_normal((200_000,), np.random.default_rng(0))
  assert numbers.dtype == np.float32
  assert 2.9 < np.abs(numbers).max() <= 3
  # 1 - 2 c p(c) / (2 P(c) - 1), where p is the normal's density and P its distribution function, for c = 3.
  density, inside = math.exp(-4.5) / math.sqrt(2 * math.pi), math.erf(3 / math.sqrt(2))
  assert numbers.var() == pytest.approx(1 - 6 * density / inside, rel=0.01)
  assert numbers.mean() == pytest.approx(0, abs=0.01)


def test_what_lies_within_is_what_the_generator_gave() -> None:
  given_numbers = np.random.default_rng(3).standard_normal(5_000, np.float32)
  kept = np.abs(given_numbers) <= 3
  assert 0 < (~kept).sum() < 30
  numbers = truncated_normal((5_000,), np.random.default_rng(3))
  np.testing.assert_array_equal(numbers[kept], given_numbers[kept])


def test_without_a_stored_behaviour_actions_are_clipped_and_have_no_extras() -> None:
  means = np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2)
  actions, extras = GaussianNoise(0.4, stores_behaviour=False).explore(means, np.random.default_rng(2))
  noise = np.random.default_rng(2).standard_normal((5, 2), np.float32)
  np.testing.assert_array_equal(actions, np.clip(means + np.float32(0.4) * noise, -1, 1))
  assert np.abs(actions).max() == 1
  assert extras == {}


@given(
  means=st.lists(st.tuples(*[st.floats(-5, 5, width=32)] * 2), min_size=1, max_size=4),
  deviations=st.tuples(*[st.floats(0.0625, 4, width=32)] * 2),
  seed=st.integers(0, 1_000),
)
def test_a_stored_behaviour_is_the_gaussian_that_each_raw_action_came_from(means, deviations, seed: int) -> None:
  array = np.array(means, np.float32)
  noise = GaussianNoise(np.array(deviations, np.float32), stores_behaviour=True)
  actions, extras = noise.explore(array, np.random.default_rng(seed))
  np.testing.assert_array_equal(extras["behaviour"], [[*mean, *deviations] for mean in means])
  assert extras["behaviour"].dtype == actions.dtype == np.float32
  standard = truncated_normal(array.shape, np.random.default_rng(seed))
  np.testing.assert_allclose(actions, array + standard * np.array(deviations, np.float32), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("stores_behaviour", [False, True])
def test_ornstein_uhlenbeck_noise_is_that_of_a_plain_loop(stores_behaviour: bool) -> None:
  noise = OrnsteinUhlenbeckNoise(2, deviation=0.2, reversion=0.15, stores_behaviour=stores_behaviour)
  rng, same = np.random.default_rng(4), np.random.default_rng(4)
  policy = np.random.default_rng(5)
  for _ in range(3):
    noise.begin_episode()
    before = np.zeros(2)
    for _ in range(40):
      mean = policy.uniform(-1, 1, 2).astype(np.float32)
      action, extras = noise.explore(mean, rng)
      drawn = truncated_normal((2,), same) if stores_behaviour else same.standard_normal(2, np.float32)
      now = 0.85 * before + 0.2 * drawn
      expected = mean + now
      if stores_behaviour:
        np.testing.assert_allclose(extras["behaviour"], [*(mean + 0.85 * before), 0.2, 0.2], rtol=1e-5, atol=1e-5)
      else:
        expected = np.clip(expected, -1, 1)  # The noise itself goes on unclipped.
        assert extras == {}
      np.testing.assert_allclose(action, expected, rtol=1e-5, atol=1e-5)
      before = now


def test_ornstein_uhlenbeck_noise_has_the_moments_of_its_stationary_process() -> None:
  noise = OrnsteinUhlenbeckNoise(50, deviation=0.2, reversion=0.15, stores_behaviour=False)
  rng, still = np.random.default_rng(0), np.zeros(50, np.float32)
  # Around 0 hardly any action is clipped: the stationary deviation is .38.
  for _ in range(60):
    noise.explore(still, rng)
  steps = np.array([noise.explore(still, rng)[0] for _ in range(4_000)])
  stationary = 0.2 / math.sqrt(1 - 0.85**2)
  assert steps.mean() == pytest.approx(0, abs=0.02)
  assert steps.std() == pytest.approx(stationary, rel=0.03)
  for lag in (1, 5):
    correlation = (steps[lag:] * steps[:-lag]).mean() / (steps**2).mean()
    assert correlation == pytest.approx(0.85**lag, abs=0.02)


def test_an_episode_begins_without_the_noise_of_the_one_before() -> None:
  noise = OrnsteinUhlenbeckNoise(1, deviation=0.5, reversion=0.01, stores_behaviour=True)
  still, rng = np.zeros(1, np.float32), np.random.default_rng(0)
  for _ in range(10):
    _, extras = noise.explore(still, rng)
  assert abs(extras["behaviour"][0]) > 0.1
  noise.begin_episode()
  _, extras = noise.explore(still, rng)
  assert extras["behaviour"].tolist() == [0, 0.5]


def test_noise_that_reverts_at_once_is_gaussian() -> None:
  whole = OrnsteinUhlenbeckNoise(2, deviation=0.3, reversion=1.0, stores_behaviour=True)
  gaussian, means = GaussianNoise(0.3, stores_behaviour=True), np.random.default_rng(1).normal(size=(5, 2))
  rngs = [np.random.default_rng(6) for _ in range(2)]
  for mean in means.astype(np.float32):
    ours, theirs = whole.explore(mean, rngs[0]), gaussian.explore(mean, rngs[1])
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[1]["behaviour"], theirs[1]["behaviour"])
