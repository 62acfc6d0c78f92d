"""The time trial for several cars at once."""

import gymnasium
import numpy as np
import pytest

from configs import UserError
from environments.racing.time_trials import TimeTrials
from environments.racing.world import TimeTrial


def test_one_car_is_the_time_trial() -> None:
  several, single = TimeTrials(num_envs=1, laps=1, course_points=4), TimeTrial(laps=1, course_points=4)
  features, info = several.reset(seed=5)
  expected, expected_info = single.reset(seed=5)
  assert np.array_equal(features[0], expected)
  for _ in range(100):
    features, rewards, _, _, info = several.step(np.array([[0.01, 0.8]]))
    expected, reward, _, _, expected_info = single.step(np.array([0.01, 0.8]))
    assert np.array_equal(features[0], expected)
    assert rewards.tolist() == [reward]
  assert {name: values[0].item() for name, values in info.items() if not name.startswith("_")} == expected_info
  assert all(values.dtype == np.array(expected_info[name]).dtype for name, values in info.items() if name[0] != "_")
  assert several.single_observation_space == single.observation_space
  assert several.single_action_space == single.action_space


def test_cars_begin_anew_one_by_one_and_say_so() -> None:
  env = TimeTrials(num_envs=3, course_points=1)
  assert env.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.DISABLED
  before, info = env.reset(seed=1)
  assert info["_speed"].tolist() == [True] * 3
  for _ in range(5):
    before, *_ = env.step(np.tile([0.0, 1.0], (3, 1)))
  mask = np.array([False, True, False])
  after, info = env.reset(options={"reset_mask": mask})
  assert (before == after).all(axis=1).tolist() == [True, False, True]
  assert info["_along"].tolist() == mask.tolist()
  assert env.field.laps.seconds.tolist() == pytest.approx([0.5, 0.0, 0.5])


def test_measures_come_with_the_cars_that_end() -> None:
  env = TimeTrials(num_envs=2, course_points=1)
  env.reset(seed=1)
  env.field.laps.seconds[1] = env.field.TIME_LIMIT - 0.1
  _, _, terminated, truncated, info = env.step(np.zeros((2, 2)))
  assert not terminated.any()
  assert truncated.tolist() == [False, True]
  assert info["_measures"].tolist() == [False, True]
  assert info["measures"]["_clean"].tolist() == [False, True]
  assert info["measures"]["clean"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
  ("call", "sentence"),
  [
    (lambda: TimeTrials(num_envs=21), "time_trial has the number of cars 21: it must be a whole number from 1 to 20."),
    (
      lambda: TimeTrials(num_envs=2).reset(seed=[1, 2]),
      "time_trials got a seed for each car: give one number, as all cars share one generator.",
    ),
    (
      lambda: TimeTrials(num_envs=2).reset(options={"reset_mask": np.zeros(2, bool)}),
      "The reset_mask of time_trials is array([False, False]): it must be bool [2], with at least one True.",
    ),
  ],
)
def test_what_it_refuses(call: object, sentence: str) -> None:
  assert callable(call)
  with pytest.raises(UserError) as refused:
    call()
  assert str(refused.value) == sentence


def test_every_car_has_a_picture_of_its_own() -> None:
  env = TimeTrials(num_envs=2, course_points=1, render_mode="rgb_array")
  env.reset(seed=1)
  pictures = env.render()
  assert pictures is not None
  assert [(picture.shape, picture.dtype.name) for picture in pictures] == [((240, 480, 3), "uint8")] * 2
  assert (pictures[0] != pictures[1]).any()
  assert TimeTrials(num_envs=1, course_points=1).render() is None
