"""The pictures and animations that a run directory holds."""

import dataclasses
import pathlib

from experiments.comparison.html import is_embeddable
from launch.report import GREEDY_PATH_FILE, GREEDY_VIDEO_FILE
from launch.stored_run import StoredRun

# A page holds every picture itself; browsers are slow with pages above some hundred megabytes.
_MOST_BYTES = 8 * 2**20
_MOST_BYTES_ON_PAGE = 80 * 2**20
# Beside the greedy path, of `videos/`.
_MOST_VIDEOS = 2


@dataclasses.dataclass(frozen=True)
class Media:
  """What is shown of a run.

  Attributes:
    run: whose it is.
    still: a picture of its greedy path; None if it has none.
    moving: animations, that of the greedy path first.
    left_out: animations that are too large for the page.
  """

  run: StoredRun
  still: pathlib.Path | None
  moving: tuple[pathlib.Path, ...]
  left_out: tuple[pathlib.Path, ...]


def media_of(runs: list[StoredRun]) -> list[Media]:
  """Of every run that has any: its greedy path and its latest videos, as far as one page can hold them."""
  left = _MOST_BYTES_ON_PAGE
  found: list[Media] = []
  for run in runs:
    if not run.path.is_dir():
      continue
    shown: list[pathlib.Path] = []
    left_out: list[pathlib.Path] = []
    for path in _animations(run.path):
      fits = _size(path) <= min(_MOST_BYTES, left)
      (shown if fits else left_out).append(path)
      left -= _size(path) if fits else 0
    still = run.path / GREEDY_PATH_FILE
    has_still = 0 < _size(still) <= _MOST_BYTES
    if shown or left_out or has_still:
      found.append(Media(run, still if has_still else None, tuple(shown), tuple(left_out)))
  return found


def _animations(run: pathlib.Path) -> list[pathlib.Path]:
  greedy = run / GREEDY_VIDEO_FILE
  others = [path for path in (run / "videos").glob("*.*") if path != greedy and is_embeddable(path.suffix[1:])]
  others.sort(key=lambda path: (path.stat().st_mtime, path.name))
  return [path for path in (greedy, *others[::-1][:_MOST_VIDEOS]) if _size(path)]


def _size(path: pathlib.Path) -> int:
  return path.stat().st_size if path.is_file() else 0
