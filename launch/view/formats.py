"""Numbers and times in few characters."""

import itertools
import math
from collections.abc import Sequence

from replay_server.contract.status import Phase, RunStatus

PHASE_WORDS: dict[Phase, str] = {
  "running": "running",
  "solved": "solved",
  "exhausted": "budget used up",
  "stopping": "stopping",
}
_BLOCKS = "▁▂▃▄▅▆▇█"


def format_duration(seconds: float) -> str:
  """Seconds as "45 s", "2 min 03 s", "1 h 02 min" or "3 d 04 h"."""
  whole = max(0, int(seconds))
  minutes, hours, days = whole // 60, whole // 3600, whole // 86400
  if days:
    return f"{days} d {hours % 24:02d} h"
  if hours:
    return f"{hours} h {minutes % 60:02d} min"
  return f"{minutes} min {whole % 60:02d} s" if minutes else f"{whole} s"


def format_number(value: float | None) -> str:
  """A measured value in few characters; "-" for None."""
  if value is None:
    return "-"
  return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def format_rate(per_second: float) -> str:
  """A rate per second, with a decimal where it is small."""
  return f"{per_second:,.0f}" if per_second >= 10 or per_second == 0 else f"{per_second:.1f}"


def format_restarts(status: RunStatus) -> str:
  """How many processes of a run were started again, in words."""
  return f"{status.restarts} restart{'' if status.restarts == 1 else 's'}"


def compact(count: int) -> str:
  """A count in few characters."""
  if count < 100_000:
    return f"{count:,}"
  # From half a unit below the next one on, rounding would show 1,000 of the smaller unit.
  if count < 999_500:
    return f"{count / 1e3:.0f}k"
  return f"{count / 1e6:.2f}M" if count < 999_995_000 else f"{count / 1e9:,.2f}B"


def sparkline(values: Sequence[float], width: int) -> str:
  """`values` as a line of at most `width` blocks, from their least to their greatest.

  If there are more values than blocks, each block is the mean of several. Values that are not finite are left out.
  """
  finite = [value for value in values if math.isfinite(value)]
  if not finite or width < 1:
    return ""
  count = min(width, len(finite))
  edges = [index * len(finite) // count for index in range(count + 1)]
  means = [math.fsum(finite[start:end]) / (end - start) for start, end in itertools.pairwise(edges)]
  low, high = min(means), max(means)
  scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
  return "".join(_BLOCKS[round((mean - low) * scale)] for mean in means)
