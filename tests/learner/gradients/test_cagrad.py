"""Conflict-averse gradients: by hand, against brute force, and by the property that defines them."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import CagradConfig, LearnerConfig, RunConfig, UserError
from learner.gradients.cagrad import conflict_averse, least_conflict, row_products
from networks import Trace
from networks.layers import Mlp, StackedMlp

pytestmark = pytest.mark.compiled

# Compiled as in a learner on a CPU, and in a graph as on a GPU; eagerly they take a hundred times as long.
_compiled = tf.function(conflict_averse, autograph=False, jit_compile=True)
_SIGNATURE = [tf.TensorSpec([None, None], tf.float64), tf.TensorSpec([None], tf.float64), tf.TensorSpec([], tf.float64)]
_in_graph = tf.function(conflict_averse, input_signature=_SIGNATURE)
_least_conflict = tf.function(least_conflict, input_signature=[*_SIGNATURE, tf.TensorSpec([None], tf.bool)])


def _direction(
  gradients: np.ndarray, shares: np.ndarray, coefficient: float, solve: Callable[..., tf.Tensor] = _compiled
) -> np.ndarray:
  as_floats = [tf.constant(values, tf.float64) for values in (gradients @ gradients.T, shares, coefficient)]
  direction: np.ndarray = solve(*as_floats).numpy() @ gradients
  return direction


def _problem(seed: int, tables: int) -> tuple[np.ndarray, np.ndarray]:
  """Gradients of different sizes, of which some agree and some conflict, and shares."""
  rng = np.random.default_rng(seed)
  common = rng.choice([0.0, 1.0, 3.0]) * rng.normal(size=(1, 10))
  gradients = np.exp(rng.normal(size=(tables, 1))) * rng.normal(size=(tables, 10)) + common
  return gradients, rng.dirichlet(np.ones(tables))


def _objective(weights: np.ndarray, gradients: np.ndarray, shares: np.ndarray, coefficient: float) -> np.ndarray:
  """g_w . g_0 + sqrt(phi) |g_w| of each row of weights."""
  average = shares @ gradients
  mixed = weights @ gradients
  objective: np.ndarray = mixed @ average + coefficient * np.linalg.norm(average) * np.linalg.norm(mixed, axis=-1)
  return objective


def _solve(gradients: np.ndarray, shares: np.ndarray, coefficient: float) -> np.ndarray:
  average = shares @ gradients
  weights: np.ndarray = _least_conflict(
    tf.constant(gradients @ gradients.T),
    tf.constant(gradients @ average),
    tf.constant(coefficient * np.linalg.norm(average)),
    tf.constant(shares > 0),
  ).numpy()
  return weights


def test_two_gradients_at_right_angles_by_hand() -> None:
  # g_0 = (2, .5) serves the second table so much worse that it gets all the weight.
  direction = _direction(np.array([[4.0, 0.0], [0.0, 1.0]]), np.array([0.5, 0.5]), 0.1)
  np.testing.assert_allclose(direction, [2.0, 0.5 + 0.1 * np.hypot(2, 0.5)], rtol=1e-5)


def test_a_single_gradient_is_lengthened() -> None:
  gradients = np.array([[3.0, 4.0], [1.0, -1.0]])
  np.testing.assert_allclose(_direction(gradients, np.array([1.0, 0.0]), 0.5), [4.5, 6.0], rtol=1e-6)


def test_gradients_that_cancel_give_no_direction_and_no_nan() -> None:
  gradients = np.array([[1.0, 2.0], [-1.0, -2.0]])
  np.testing.assert_array_equal(_direction(gradients, np.array([0.5, 0.5]), 0.9), [0, 0])
  np.testing.assert_array_equal(_direction(np.zeros((3, 4)), np.ones(3) / 3, 0.9), np.zeros(4))


def test_a_table_without_a_gradient_takes_no_part_by_hand() -> None:
  # Of the two losses that have gradients, (1.6, .4) serves the second so much worse that it gets all the weight.
  gradients = np.array([[4.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
  direction = _direction(gradients, np.array([0.4, 0.4, 0.2]), 0.1)
  np.testing.assert_allclose(direction, [1.6, 0.4 + 0.1 * np.hypot(1.6, 0.4)], rtol=1e-5)


@pytest.mark.parametrize("solve", [_compiled, _in_graph], ids=["compiled", "in a graph"])
@given(st.integers(0, 10_000), st.integers(2, 6), st.floats(0.01, 0.95))
@settings(deadline=None, max_examples=40)
def test_the_direction_is_the_same_without_the_table_that_has_no_gradient(
  solve: Callable[..., tf.Tensor], seed: int, tables: int, coefficient: float
) -> None:
  gradients, shares = _problem(seed, tables)
  without = np.concatenate([gradients[:-1], np.zeros((1, gradients.shape[1]))])
  expected = _direction(gradients[:-1], shares[:-1], coefficient, solve)
  np.testing.assert_allclose(_direction(without, shares, coefficient, solve), expected, rtol=1e-3, atol=1e-3)


def test_nearly_all_weight_on_a_loss_without_a_gradient_gives_no_infinity() -> None:
  # The gram of an update in which 2 rows of a table had no error; the search left weights of 1e-150 to others.
  gram = np.diag([2.6e-4, 1.2e-3, 0.0, 4.9e-3, 2.8e-4, 1.8e-3])
  gram[0, 1] = gram[1, 0] = 3.1e-4
  gram[0, 3] = gram[3, 0] = -6.4e-4
  gram[1, 3] = gram[3, 1] = -9.3e-4
  shares = np.array([19, 2, 2, 2, 4, 3]) / 32
  mixture = _compiled(tf.constant(gram), tf.constant(shares), tf.constant(0.8, tf.float64)).numpy()
  assert mixture[2] == shares[2]
  assert np.isfinite(mixture).all()


@given(st.integers(0, 10_000), st.integers(1, 7))
@settings(deadline=None, max_examples=40)
def test_without_a_coefficient_it_is_the_average_gradient(seed: int, tables: int) -> None:
  gradients, shares = _problem(seed, tables)
  np.testing.assert_allclose(_direction(gradients, shares, 0.0), shares @ gradients, rtol=1e-4, atol=1e-5)


@given(st.integers(0, 10_000), st.floats(0.01, 0.99))
@settings(deadline=None, max_examples=40)
def test_weights_of_two_and_three_tables_are_those_of_brute_force(seed: int, coefficient: float) -> None:
  grid = np.linspace(0, 1, 201)
  a, b = (axis.ravel() for axis in np.meshgrid(grid, grid))
  for candidates in (np.stack([grid, 1 - grid], 1), np.stack([a, b, 1 - a - b], 1)[a + b <= 1]):
    gradients, shares = _problem(seed, candidates.shape[1])
    weights = _solve(gradients, shares, coefficient)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    found = _objective(weights[None], gradients, shares, coefficient)[0]
    best = _objective(candidates, gradients, shares, coefficient).min()
    assert found <= best + 1e-6 * (gradients**2).sum()


@pytest.mark.parametrize("solve", [_compiled, _in_graph], ids=["compiled", "in a graph"])
@given(st.integers(0, 10_000), st.integers(2, 7), st.floats(0.01, 0.95))
@settings(deadline=None, max_examples=40)
def test_no_direction_in_the_ball_serves_the_worst_served_table_better(
  solve: Callable[..., tf.Tensor], seed: int, tables: int, coefficient: float
) -> None:
  # The definition of d (Liu et al., 2021, Eq. 3): the point of the ball around g_0 with the largest min_i g_i . d.
  gradients, shares = _problem(seed, tables)
  average = shares @ gradients
  radius = coefficient * np.linalg.norm(average)
  direction = _direction(gradients, shares, coefficient, solve)
  assert np.linalg.norm(direction - average) <= radius * (1 + 1e-4)
  worst = (gradients @ direction).min()
  # Half of the other points are random, half lie near d, where a maximum must show too.
  rng = np.random.default_rng(seed)
  steps = rng.normal(size=(2_000, average.size))
  far = average + radius * steps[:1_000] / np.linalg.norm(steps[:1_000], axis=1, keepdims=True)
  near = direction + 0.03 * radius * steps[1_000:] / np.linalg.norm(steps[1_000:], axis=1, keepdims=True)
  excess = np.maximum(np.linalg.norm(near - average, axis=1, keepdims=True) / radius, 1)
  for others in (far, average + (near - average) / excess):
    assert (others @ gradients.T).min(axis=1).max() <= worst + 1e-4 * np.abs(gradients @ gradients.T).max()


@pytest.mark.parametrize("networks", [None, 2])
def test_inner_products_of_rows_are_those_of_their_gradients(networks: int | None) -> None:
  network = Mlp((3, 5, 4, 2), seed=1) if networks is None else StackedMlp(networks, (3, 5, 4, 2), seed=1)
  for variable in network.trainable_variables:
    variable.assign_add(tf.random.stateless_normal(variable.shape, (1, 2)))
  inputs = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
  trace: Trace = []
  with tf.GradientTape(persistent=True) as tape:
    outputs = network(inputs, trace=trace)
    summed = outputs if networks is None else tf.reduce_sum(outputs, axis=0)
    losses = tf.reduce_sum(tf.sin(summed), axis=-1)
    each = tf.unstack(losses)
  products = row_products(trace, tape.gradient(losses, [layer_outputs for _, layer_outputs in trace]))
  gradients = np.stack(
    [
      np.concatenate([part.numpy().ravel() for part in tape.gradient(loss, network.trainable_variables)])
      for loss in each
    ]
  )
  np.testing.assert_allclose(products, gradients @ gradients.T, rtol=1e-3, atol=1e-4)


def test_the_coefficient_goes_from_its_first_value_to_its_last() -> None:
  config = CagradConfig(coefficient=0.8, final_coefficient=0.0, updates=100)
  assert [config.coefficient_at(updates) for updates in (0, 50, 100, 500)] == pytest.approx([0.8, 0.4, 0, 0])
  assert CagradConfig(coefficient=0.3).coefficient_at(10**6) == 0.3
  assert not CagradConfig().in_use


def test_coefficients_that_make_no_sense_are_refused() -> None:
  with pytest.raises(UserError, match=r"coefficient of learner\.cagrad is 1\.0: it must lie in \[0, 1\)"):
    CagradConfig(coefficient=1.0)
  with pytest.raises(UserError, match=r"updates is set without learner\.cagrad\.final_coefficient"):
    CagradConfig(coefficient=0.5, updates=100)
  with pytest.raises(UserError, match=r"combines the gradients of several tables, and there is only the default one"):
    RunConfig(learner=LearnerConfig(cagrad=CagradConfig(coefficient=0.5)))
