"""Courses: segments, resampled to points of the centre line with widths.

Both courses here are made up: nothing of a real one, and nothing of the game's, was used.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from configs import UserError
from environments.racing.state import POINT, Records

SPACING = 2.0  # m, of a course's points; the last metres are spread over all of them.
FINE = 10  # Steps between two points, in which the centre line is added up.
EASING = 40.0  # m, over which the curvature of neighbouring segments is averaged.
MAX_GAP = 3.0  # m, that a closed course's ends may be apart; the gap is spread over the course.
MAX_TURN = 1.0  # Degrees, by which its directions may differ.


@dataclasses.dataclass(frozen=True)
class Segment:
  """A straight or an arc.

  Attributes:
    length: m, along the centre line.
    turn: how far the course turns in it, in degrees; to the left above 0.
    width: m.
  """

  length: float
  turn: float = 0.0
  width: float = 13.0


@dataclasses.dataclass(frozen=True)
class Track:
  """A course.

  Attributes:
    name: in messages.
    points: `POINT` [points], at even distances; the first of a closed course follows on the last.
    spacing: of the points, m.
    closed: whether the course ends where it begins.
    start: where laps or the section begin, m along the course.
    finish: where they end; on a closed course the same place one lap later.
    run_off: from the edges to the walls, m.
  """

  name: str
  points: Records
  spacing: float
  closed: bool
  start: float
  finish: float
  run_off: float = 10.0

  @property
  def length(self) -> float:
    """Of the centre line, m."""
    return self.spacing * (len(self.points) - (0 if self.closed else 1))

  def at(self, along: npt.ArrayLike, lateral: npt.ArrayLike = 0.0) -> npt.NDArray[np.float64]:
    """x, y and heading, float64 [..., 3], in m and rad, at places on the course, straight on before and after an open one."""
    place = np.asarray(along, np.float64) / self.spacing
    if self.closed:
      place = place % len(self.points)
    index = np.clip(np.floor(place).astype(int), 0, len(self.points) - (1 if self.closed else 2))
    here, there = self.points[index], self.points[(index + 1) % len(self.points)]
    part = place - index
    turn = (there.yaw - here.yaw + np.pi) % (2 * np.pi) - np.pi
    yaw = here.yaw + np.clip(part, 0, 1) * turn
    x = here.x + part * (there.x - here.x) - lateral * np.sin(yaw)
    y = here.y + part * (there.y - here.y) + lateral * np.cos(yaw)
    return np.stack(np.broadcast_arrays(x, y, yaw), axis=-1)


def make_track(name: str, segments: Sequence[Segment], closed: bool, start: float = 0.0, section: float = 0.0) -> Track:
  """Resamples segments.

  Args:
    name: of the track, for messages.
    segments: in driving order; the course begins in the origin, along x.
    closed: whether it must end where it began.
    start: where laps or the section begin, m.
    section: the section's length, m, on an open course.

  Raises:
    UserError: a segment has no length or no width, or a closed course's ends do not meet.
  """
  for segment in segments:
    if not (segment.length > 0 and segment.width > 0):
      raise UserError(f"The track {name!r} has the segment {segment}: its length and width must be above 0.")
  yaw, width, step = _sample(segments, closed)
  middle = 0.5 * (yaw[:-1] + yaw[1:])
  place = np.concatenate([np.zeros((1, 2)), np.cumsum(np.stack([np.cos(middle), np.sin(middle)], 1) * step, axis=0)])
  if closed:
    _check_ends(name, place[-1], yaw[-1] - yaw[0])
    part = np.linspace(0, 1, len(place))
    place = place - part[:, None] * place[-1]
    yaw = yaw - part * (yaw[-1] - yaw[0] - 2 * np.pi * np.sign(yaw[-1] - yaw[0]))
  kept = slice(0, -1 if closed else None, FINE)
  points = _make_points(place[kept], yaw[kept], width[kept])
  length = step * FINE * len(points)
  return Track(name, points, step * FINE, closed, start, start + (length if closed else section))


def _sample(
  segments: Sequence[Segment], closed: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float]:
  """Headings (rad) and widths (m) at fine distances, both averaged over `EASING`, and the distance (m)."""
  edges = np.cumsum([0.0] + [segment.length for segment in segments])
  turns = np.radians(np.cumsum([0.0] + [segment.turn for segment in segments]))
  count = FINE * round(edges[-1] / SPACING)
  step = float(edges[-1] / count)
  half = round(EASING / step / 2)
  along = np.arange(-half, count + half + 1) * step
  lap, inside = np.divmod(along, edges[-1]) if closed else (np.zeros_like(along), along)
  yaw = np.interp(inside, edges, turns) + lap * turns[-1]
  index = np.clip(np.searchsorted(edges, inside, side="right") - 1, 0, len(segments) - 1)
  width = np.array([segment.width for segment in segments])[index]
  window = np.full(2 * half + 1, 1 / (2 * half + 1))
  return np.convolve(yaw, window, "valid"), np.convolve(width, window, "valid"), step


def _check_ends(name: str, gap: npt.NDArray[np.float64], bend: float) -> None:
  distance, turn = float(np.hypot(*gap)), abs(np.degrees(bend))
  if distance > MAX_GAP or abs(turn - 360) > MAX_TURN:
    raise UserError(
      f"The track {name!r} ends {distance:.1f} m from where it begins, after a turn of {turn:.1f} degrees: its ends must meet "
      f"within {MAX_GAP:g} m, after 360 degrees."
    )


def _make_points(
  place: npt.NDArray[np.float64], yaw: npt.NDArray[np.float64], width: npt.NDArray[np.float64]
) -> Records:
  points = np.zeros(len(place), POINT).view(np.recarray)
  points.x, points.y = place.T
  points.yaw = yaw
  points.tangent_x, points.tangent_y = np.cos(yaw), np.sin(yaw)
  points.half_width = width / 2
  return points


# A nearly straight section of 1,700 m with 200 m before it and 800 m after it.
SECTION = (
  Segment(700),
  Segment(250, 2.5),
  Segment(500),
  Segment(250, -3),
  Segment(1000),
)

# A circuit of about 6 km: straights of 60 to 1,260 m, corners with radii of 35 to 220 m, quick and slow changes of direction. The
# lengths of the straights were solved for, so that the ends meet.
CIRCUIT = (
  Segment(1017),
  Segment(110, 80),
  Segment(161),
  Segment(90, -55),
  Segment(199),
  Segment(260, 100),
  Segment(327),
  Segment(60, -25),
  Segment(60, 25),
  Segment(415),
  Segment(75, 125),
  Segment(206),
  Segment(180, -70),
  Segment(133),
  Segment(70, -60),
  Segment(60),
  Segment(60, 60),
  Segment(596),
  Segment(60, 95),
  Segment(116),
  Segment(330, -85),
  Segment(241),
  Segment(95, 110),
  Segment(131),
  Segment(60, -40),
  Segment(60, 40),
  Segment(323),
  Segment(230, 60),
  Segment(242),
)


@functools.cache
def straight_section() -> Track:
  """The nearly straight section of the slingshot (A.3: 1,700 m)."""
  return make_track("straight_section", SECTION, closed=False, start=200.0, section=1700.0)


@functools.cache
def circuit() -> Track:
  """The circuit of the time trial (A.3: about 6 km)."""
  return make_track("circuit", CIRCUIT, closed=True)
