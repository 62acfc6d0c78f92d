"""Events that are found in episodes: rare places on the way to the goal."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import UserError, from_dict, load_config, override, to_dict
from environments.events import EventStep, make_condition
from experiments.waypoints import Journey, Waypoint, find_waypoints, goal_of, with_waypoints


def _line(*places: float, goal: bool = False) -> Journey:
  """A journey along one dimension, beside one that never varies; its last step may reach the goal."""
  return Journey(np.array([[place, 7.0] for place in places]), len(places) - 1 if goal else None)


def test_the_place_that_only_journeys_to_the_goal_pass_is_found_by_hand() -> None:
  journeys = [
    _line(1, 2, 1, 3, 4, 9, goal=True),
    _line(1, 1, 3, 5, 4, 9, goal=True),
    _line(1, 2, 2, 1, 2, 5),
    _line(1, 2, 1, 2, 2, 2),
  ]
  # Both journeys to the goal pass 3 and 4, and no other does; 4 is as rare, and within the last tenth before the goal there is
  # nothing.
  (waypoint,) = find_waypoints(journeys, 1)
  assert (waypoint.dimensions, waypoint.low, waypoint.high) == ((0,), (2.5,), (3.5,))
  assert (waypoint.passed, waypoint.passed_by_others) == (1.0, 0.0)
  assert waypoint.per_step == 2 / 24
  # After 4 and 3 of 6 steps.
  assert waypoint.place == pytest.approx((4 / 6 + 3 / 6) / 2)
  assert waypoint.history == 4
  first, second = find_waypoints(journeys, 5)
  assert (first, second.low, second.high) == (waypoint, (3.5,), (4.5,))
  # From 3 to 4 they take 1 step and 2.
  assert second.history == 2


def test_where_all_pass_nothing_is_found_by_hand() -> None:
  journeys = [_line(1, 2, 3, 4, 5, goal=True), _line(1, 2, 3, 4, 6)]
  assert find_waypoints(journeys, 3) == ()


@pytest.mark.parametrize("journeys", [[_line(1, 2, 3)], [_line(1, goal=True)]])
def test_without_a_journey_to_the_goal_a_sentence_says_so(journeys: list[Journey]) -> None:
  with pytest.raises(
    UserError, match="None of the 1 episodes reaches the goal, so nothing precedes it: take more --steps"
  ):
    find_waypoints(journeys, 1)


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_what_is_said_of_a_waypoint_is_true_of_its_event(seed: int, few_values: bool) -> None:
  generator = np.random.default_rng(seed)

  def journey() -> Journey:
    steps = int(generator.integers(5, 30))
    walk = np.cumsum(generator.normal(size=(steps, 3)), axis=0)
    walk = np.round(walk) if few_values else walk
    beyond = np.flatnonzero(walk[:, 0] > 3)
    return Journey(walk, int(beyond[0]) if len(beyond) else None)

  journeys = [journey() for _ in range(60)]
  config = override(load_config("three_rooms"), {})
  for waypoint in find_waypoints(journeys, 4):
    (event,) = with_waypoints(config, [waypoint]).events[1:]
    passed = [_fires(event.condition, event.arguments, journey, journey.goal) for journey in journeys if journey.goal]
    others = [_fires(event.condition, event.arguments, journey) for journey in journeys if journey.goal is None]
    assert np.mean(passed) == pytest.approx(waypoint.passed)
    assert np.mean(others) == pytest.approx(waypoint.passed_by_others)
    assert waypoint.passed >= 0.9


def _fires(reference: str, arguments: Mapping[str, Any], journey: Journey, end: int | None = None) -> bool:
  """Whether the event fires in the journey, before the step `end`."""
  condition = make_condition(reference, arguments, "The waypoint")
  return any(condition(EventStep(None, 0, 0.0, state, {}, False, False)) for state in journey.states[:end])


_WAYPOINT = Waypoint((1, 2), (None, -0.5), (0.25, None), 1.0, 0.1, 0.01, 0.5, history=12)


def test_a_config_with_waypoints_has_the_goal_and_them_for_its_events() -> None:
  before = load_config("three_rooms")
  config = with_waypoints(before, [_WAYPOINT])
  goal, waypoint = config.events
  assert goal == goal_of(before)
  assert (waypoint.name, waypoint.history, waypoint.table) == ("waypoint_1", 12, "waypoint_1")
  assert [table.name for table in config.replay.all_tables] == ["default", "done", "waypoint_1"]
  assert [table.probability for table in config.replay.all_tables] == pytest.approx([0.5, 0.25, 0.25])
  assert from_dict(to_dict(config)) == config


def test_a_goal_that_is_only_watched_gets_a_table() -> None:
  config = load_config("three_rooms")
  watched = dataclasses.replace(goal_of(config), table=None)
  replay = dataclasses.replace(
    config.replay, tables=(), default=dataclasses.replace(config.replay.default, probability=1.0)
  )
  config = with_waypoints(dataclasses.replace(config, events=(watched,), replay=replay), [_WAYPOINT])
  assert (config.events[0].table, config.events[0].history) == ("done", 12)
  assert [table.probability for table in config.replay.all_tables] == pytest.approx([0.7, 0.15, 0.15])


def test_a_config_without_a_goal_is_refused_with_a_sentence() -> None:
  with pytest.raises(
    UserError, match=r"'two_rooms' has no goal event: name one of its events in evaluator\.solved_event"
  ):
    goal_of(load_config("two_rooms"))
