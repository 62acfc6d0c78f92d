"""Courses: shape, closing, places on them."""

import numpy as np
import pytest

from configs import UserError
from environments.racing.car import Car
from environments.racing.simulation import Simulation
from environments.racing.tracks import Segment, circuit, make_track, straight_section


def test_a_circle_is_closed_and_has_its_radius():
  radius = 100.0
  track = make_track("circle", [Segment(2 * np.pi * radius, 360, width=10)], closed=True)
  centre = np.array([0.0, radius])
  distances = np.hypot(track.points.x - centre[0], track.points.y - centre[1])
  np.testing.assert_allclose(distances, radius, atol=0.2)
  assert track.length == pytest.approx(2 * np.pi * radius)
  np.testing.assert_allclose(track.points.half_width, 5)
  np.testing.assert_allclose(track.at(track.length / 4, 20.0)[:2], [radius - 20, radius], atol=0.3)


def test_curvature_begins_and_ends_gradually():
  track = make_track("bend", [Segment(200), Segment(100, 90), Segment(200)], closed=False)
  bends = np.diff(track.points.yaw) / track.spacing
  assert bends.max() == pytest.approx(np.radians(90) / 100, rel=0.01)
  assert abs(np.diff(bends)).max() < 0.1 * bends.max()
  assert track.points.yaw[-1] == pytest.approx(np.radians(90))


@pytest.mark.parametrize(
  ("segments", "sentence"),
  [
    ([Segment(100), Segment(150, 180), Segment(300), Segment(150, 180)], r"'loop' ends 200\.0 m from where it begins"),
    ([Segment(300), Segment(200, 90)], r"after a turn of 90\.0 degrees: its ends must meet"),
    ([Segment(0), Segment(100, 360)], "length and width must be above 0"),
    ([Segment(600, 360, width=-1)], "length and width must be above 0"),
  ],
)
def test_a_closed_track_whose_ends_do_not_meet_is_refused(segments, sentence):
  with pytest.raises(UserError, match=sentence):
    make_track("loop", segments, closed=True)


def test_the_circuit_is_about_six_kilometres_with_corners_of_many_kinds():
  track = circuit()
  assert 5500 <= track.length <= 6500
  bends = np.abs(np.diff(track.points.yaw)) / track.spacing
  radii = 1 / np.maximum(bends, 1e-6)
  for least, most in ((30, 50), (50, 90), (120, 160), (200, 240)):
    assert ((radii > least) & (radii < most)).sum() * track.spacing > 40
  steps = np.hypot(np.diff(track.points.x, append=track.points.x[0]), np.diff(track.points.y, append=track.points.y[0]))
  np.testing.assert_allclose(steps, track.spacing, rtol=0.01)
  # No part comes near another one, so that a wall is never in the way.
  places = np.stack([track.points.x, track.points.y], 1)[::10]
  apart = np.linalg.norm(places[:, None] - places[None], axis=2)
  along = np.abs(np.arange(len(places))[:, None] - np.arange(len(places))[None])
  along = np.minimum(along, len(places) - along) * 10 * track.spacing
  assert apart[along > 200].min() > 60


def test_the_section_is_nearly_straight_and_1700_metres_long():
  track = straight_section()
  assert track.finish - track.start == 1700
  assert np.ptp(track.points.yaw) < np.radians(5)
  assert track.start >= 100
  assert track.length - track.finish > 100


@pytest.mark.parametrize("track", [circuit(), straight_section()], ids=lambda track: track.name)
def test_places_are_found_again(track):
  generator = np.random.default_rng(0)
  cars = 20
  simulation = Simulation(track, [Car()] * cars)
  along, lateral = generator.uniform(0, track.length, cars), generator.uniform(-12, 12, cars)
  simulation.place(along, lateral, np.zeros(cars))
  np.testing.assert_allclose(simulation.cars.along, along, atol=0.1)
  np.testing.assert_allclose(simulation.cars.lateral, lateral, atol=0.05)
  np.testing.assert_allclose(simulation.cars.yaw, simulation.cars.course_yaw, atol=0.01)


def test_places_go_on_beyond_an_open_course():
  track = straight_section()
  simulation = Simulation(track, [Car(), Car()])
  simulation.place([-30.0, track.length + 500], [2.0, -3.0], [0.0, 0.0])
  np.testing.assert_allclose(simulation.cars.along, [-30, track.length + 500], atol=0.1)
  np.testing.assert_allclose(simulation.cars.lateral, [2, -3], atol=0.05)
