"""Pictures of races: a view from above, and the telemetry of a lap.

`python -m environments.racing.drawing FOLDER` writes both, of the built-in driver, and the pictures of docs/worlds.md.
"""

import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from environments.racing.car import Car
from environments.racing.driver import drive, find_line, make_drivers
from environments.racing.simulation import STEP, Simulation
from environments.racing.state import CAR, Records
from environments.racing.tracks import Track, circuit, straight_section

Frame = npt.NDArray[np.uint8]

_GRASS, _ROAD, _EDGE, _WALL = (118, 148, 96), (92, 94, 98), (235, 235, 235), (60, 60, 60)
# The learner's car is the first.
_COLOURS = ((214, 69, 65), (65, 131, 215), (244, 208, 63), (142, 68, 173), (38, 166, 91))


def draw_view(simulation: Simulation, car: int = 0, size: tuple[int, int] = (480, 240), metres: float = 120.0) -> Frame:
  """The surroundings of a car from above, which drives to the right.

  Args:
    simulation: the race.
    car: is in the picture's left third.
    size: width and height, pixels.
    metres: of the world in the picture's width.

  Returns:
    uint8 [height, width, 3].
  """
  image = Image.new("RGB", size, _GRASS)
  draw = ImageDraw.Draw(image)
  view = _View(simulation.cars[car], size, metres)
  track = simulation.track
  along = simulation.cars.along[car] + np.arange(-metres, 1.5 * metres, 2.0)
  half = np.interp(along % track.length, np.arange(len(track.points)) * track.spacing, track.points.half_width)
  road = [view.pixels(track.at(along, side * half)[:, :2]) for side in (-1, 1)]
  draw.polygon([*road[0], *road[1][::-1]], fill=_ROAD)
  for side in (-1, 1):
    draw.line(view.pixels(track.at(along, side * half)[:, :2]), fill=_EDGE, width=2)
    draw.line(view.pixels(track.at(along, side * (half + track.run_off))[:, :2]), fill=_WALL, width=3)
  for index in reversed(range(len(simulation.cars))):
    corners = _corners(simulation.cars[index], simulation.race.parameters[index])
    draw.polygon(view.pixels(corners), fill=_COLOURS[index % len(_COLOURS)], outline=(20, 20, 20))
  return np.asarray(image)


class _View:
  """Maps the ground to pixels: the car drives to the right."""

  def __init__(self, car: Any, size: tuple[int, int], metres: float):
    self._car = np.array([car.x, car.y])
    sine, cosine = np.sin(car.course_yaw), np.cos(car.course_yaw)
    self._turn = np.array([[cosine, sine], [sine, -cosine]])  # Pixels count downwards.
    self._scale = size[0] / metres
    self._middle = np.array([size[0] / 3, size[1] / 2])

  def pixels(self, places: npt.NDArray[np.float64]) -> list[tuple[float, float]]:
    """Of places on the ground, float64 [places, 2]."""
    return [tuple(pixel) for pixel in ((places - self._car) @ self._turn.T * self._scale + self._middle).tolist()]


def _corners(car: Any, parameters: Any) -> npt.NDArray[np.float64]:
  forward = 0.5 * parameters.length * np.array([np.cos(car.yaw), np.sin(car.yaw)])
  left = 0.5 * parameters.width * np.array([-np.sin(car.yaw), np.cos(car.yaw)])
  middle = np.array([car.x, car.y])
  return np.stack([middle + forward + left, middle + forward - left, middle - forward - left, middle - forward + left])


def draw_track(track: Track, states: Records, path: pathlib.Path) -> None:
  """Writes a PNG of a course from above, with a car's way coloured by its speed.

  Args:
    track: the course.
    states: `state.CAR` [steps], of one car.
    path: of the picture.
  """
  figure, axes = _figure(1, (6.4, 4.2))
  points = track.points
  for side in (-1, 1):
    x = points.x - side * points.half_width * points.tangent_y
    y = points.y + side * points.half_width * points.tangent_x
    axes[0].plot(*(np.append(v, v[0]) if track.closed else v for v in (x, y)), color="0.6", linewidth=0.8)
  shown = axes[0].scatter(states.x, states.y, c=3.6 * states.speed, s=3, cmap="viridis")
  figure.colorbar(shown, label="km/h")
  axes[0].set_aspect("equal")
  axes[0].set_xlabel("m")
  _save(figure, path)


def draw_telemetry(states: Records, path: pathlib.Path, title: str = "") -> None:
  """Writes a PNG of a lap: speed, inputs, slip and place on the course over the way.

  Args:
    states: `state.CAR` [steps], of one car, one for each step of control.
    path: of the picture.
    title: above it.
  """
  figure, axes = _figure(4, (7.2, 6.4))
  along = states.travelled
  rows: Sequence[tuple[str, dict[str, Any]]] = (
    ("speed, km/h", {"": 3.6 * states.speed}),
    ("inputs", {"steering": states.steer, "pedal": states.pedal}),
    ("slip angle, rad", {"front": states.front_angle, "rear": states.rear_angle}),
    ("from the middle, m", {"": states.lateral, "edges": states.half_width, None: -states.half_width}),  # type: ignore[dict-item]
  )
  for axis, (label, lines) in zip(axes, rows, strict=True):
    for name, values in lines.items():
      edge = name in ("edges", None)
      axis.plot(along, values, linewidth=1, label=name or None, color="0.6" if edge else None)
    axis.set_ylabel(label)
    if len(lines) > 1:
      axis.legend(loc="upper right", fontsize=7)
  axes[0].set_title(title)
  axes[-1].set_xlabel("m")
  _save(figure, path)


def _figure(rows: int, size: tuple[float, float]) -> tuple[Any, Any]:
  from matplotlib.figure import Figure  # Slow to import.

  figure = Figure(figsize=size, layout="constrained")
  return figure, figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]


def _save(figure: Any, path: pathlib.Path) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  figure.savefig(path, dpi=70)


def record_lap(seconds: float = 130.0) -> tuple[Simulation, Records]:
  """A lap of the built-in driver on the circuit: the simulation, and `state.CAR` [steps]."""
  track, car = circuit(), Car()
  line = find_line(track, car)
  simulation, drivers, actions = Simulation(track, [car], ghosts=True), make_drivers(1), np.zeros((1, 2))
  simulation.place([0.0], [line.lateral[0]], [line.speed[0]])
  states = []
  for _ in range(round(seconds / STEP)):
    drive(simulation.race, line, drivers, actions)
    simulation.step(actions)
    states.append(simulation.cars[0].copy())
    if simulation.cars.travelled[0] >= track.length:
      break
  return simulation, np.array(states, CAR).view(np.recarray)


def main(folder: pathlib.Path) -> None:
  """Writes the pictures of the docs."""
  _, states = record_lap()
  draw_track(circuit(), states, folder / "circuit.png")
  draw_telemetry(states, folder / "lap.png", f"A lap of the built-in driver, {STEP * len(states):.1f} s")
  simulation = Simulation(straight_section(), [Car(), Car()])
  simulation.place([600.0, 612.0], [0.5, 0.0], [90.0, 90.0])
  Image.fromarray(draw_view(simulation)).save(folder / "slingshot.png")


if __name__ == "__main__":
  main(pathlib.Path(sys.argv[1]))
