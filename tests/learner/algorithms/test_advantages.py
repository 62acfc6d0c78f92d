"""Closed-form advantages: by hand, and their expectations against samples of the policy."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from learner.algorithms.advantages import ADVANTAGES, gaussian, quadratic

# Whose softplus is 2.
_TWO = math.log(math.expm1(2.0))
_COUNTS = {"quadratic": 3, "gaussian": 5}


def _of(form: Callable, coefficients: list[float], actions: list[list[float]], mean: list[float], sigma: list[float]):
  rows = len(actions)
  found = form(
    tf.constant([coefficients] * rows, tf.float32),
    tf.constant(actions, tf.float32),
    tf.constant([mean] * rows, tf.float32),
    tf.constant(sigma, tf.float32),
  )
  return [part.numpy().tolist() for part in found]


def test_the_quadratic_form_by_hand() -> None:
  # L = [[2, 0], [1, 2]]: L L' = [[4, 2], [2, 5]].
  shape, expected = _of(quadratic, [_TWO, 1.0, _TWO], [[1.0, 2.0], [0.0, 1.0]], [0.0, 1.0], [0.5, 2.0])
  # -1/2 (4 + 4 + 5) at a - m = (1, 1), 0 at the mean.
  assert shape == pytest.approx([-6.5, 0.0], abs=1e-5)
  # -1/2 Tr(L L' Sigma) = -1/2 (4 / 4 + 5 * 4).
  assert expected == pytest.approx([-10.5] * 2, rel=1e-5)


def test_the_asymmetric_bell_by_hand() -> None:
  # K = 2, L+ = (2, log 2), L- = (log 2, 2).
  coefficients = [_TWO, _TWO, 0.0, 0.0, _TWO]
  shape, expected = _of(gaussian, coefficients, [[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]], [0.0, 0.0], [1.0, 2.0])
  wide, narrow = 2.0, math.log(2.0)
  assert shape == pytest.approx([2 * math.exp(-0.5), 2 * math.exp(-1 / narrow), 2.0], rel=1e-5)
  halves = [(math.sqrt(wide / (wide + each)) + math.sqrt(narrow / (narrow + each))) / 2 for each in (1.0, 4.0)]
  assert expected == pytest.approx([2 * halves[0] * halves[1]] * 3, rel=1e-5)


@pytest.mark.parametrize("name", ADVANTAGES)
def test_the_expectation_is_that_of_the_policys_actions(name: str) -> None:
  generator = np.random.default_rng(0)
  coefficients = generator.normal(size=_COUNTS[name])
  mean, sigma = generator.normal(size=2), np.array([0.4, 0.9])
  actions = mean + sigma * generator.normal(size=(200_000, 2))
  shape, expected = _of(ADVANTAGES[name], coefficients.tolist(), actions.tolist(), mean.tolist(), sigma.tolist())
  error = np.std(shape) / math.sqrt(len(actions))
  assert np.mean(shape) == pytest.approx(expected[0], abs=4 * error)
  # A tenth of the value would not pass: Eq. 19 as printed is -2 times the quadratic form's.
  assert 4 * error < 0.1 * abs(expected[0])


@pytest.mark.parametrize("name", ADVANTAGES)
def test_no_action_is_better_than_the_mean(name: str) -> None:
  generator = np.random.default_rng(1)
  coefficients, mean = generator.normal(size=_COUNTS[name]), generator.normal(size=2)
  actions = np.concatenate([[mean], mean + generator.normal(size=(1_000, 2))])
  shape, _ = _of(ADVANTAGES[name], coefficients.tolist(), actions.tolist(), mean.tolist(), [0.5, 0.5])
  assert max(shape[1:]) < shape[0]
