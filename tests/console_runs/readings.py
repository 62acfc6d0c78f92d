"""What is measured of a run: memory by kind of process, and the consoles' own accounts. What follows from them is pure."""

import contextlib
import csv
import dataclasses
import itertools
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import psutil

KINDS = ("server", "learner", "workers", "consoles", "evaluator", "parents")
# All but the server.
REST = "the rest"
_KINDS = {"serve": "server", "learn": "learner", "act": "workers", "console": "consoles", "evaluate": "evaluator"}


@dataclasses.dataclass(frozen=True)
class Process:
  """A process of the run.

  Attributes:
    pid: its process id.
    kind: one of `KINDS`.
    words: of its command, after `slipstream`; empty for a parent.
  """

  pid: int
  kind: str
  words: tuple[str, ...]

  def flag(self, name: str) -> str:
    """The value of a flag of its command; empty without it."""
    return next((word.partition("=")[2] for word in self.words if word.startswith(f"--{name}=")), "")


@dataclasses.dataclass(frozen=True)
class Sample:
  """The run at one moment.

  Attributes:
    time: UNIX time.
    memory: kind of process -> MB (PSS).
    processes: how many there are.
    rows: ever stored in the default table.
    gradient_steps: of the learner.
    policy_version: of the latest policy.
    dropped: episodes that the status counts as dropped.
  """

  time: float
  memory: Mapping[str, float]
  processes: int
  rows: int
  gradient_steps: int
  policy_version: int
  dropped: int

  @property
  def total(self) -> float:
    """MB of all processes."""
    return sum(self.memory.values())


@dataclasses.dataclass(frozen=True)
class Reading:
  """What a console tells of itself; the counts are of its present stream.

  Attributes:
    time: UNIX time.
    ready: whether it can be played.
    held: whether a worker has it.
    tick: ticks so far.
    missed: ticks without an action.
    late: ticks that the world itself was too late for.
    leases: given so far.
  """

  time: float
  ready: bool
  held: bool
  tick: int
  missed: int
  late: int
  leases: int


def processes_of(roots: Iterable[int]) -> list[Process]:
  """The processes with these ids, and all that descend from them.

  A command that goes on in a child (`launch.process_id`) is a parent.
  """
  found: list[tuple[Process, int]] = []
  for root in roots:
    with contextlib.suppress(psutil.Error):
      process = psutil.Process(root)
      for one in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
          found.append((classify(one.pid, one.cmdline()), one.ppid()))
  fronts = {(parent, process.words) for process, parent in found if process.words}
  return [
    dataclasses.replace(process, kind="parents", words=()) if (process.pid, process.words) in fronts else process
    for process, _ in found
  ]


def classify(pid: int, command: Sequence[str]) -> Process:
  """A process by its command line: that of a role, or else of a parent."""
  words = list(command)
  for before, after in itertools.pairwise(range(len(words))):
    if words[before] == "slipstream" and words[before - 1] == "-m" and words[after] in _KINDS:
      return Process(pid, _KINDS[words[after]], tuple(words[after:]))
  return Process(pid, "parents", ())


def memory_of(processes: Iterable[Process]) -> dict[str, float]:
  """Kind -> MB (PSS: what processes share is split among them); processes that have ended have none."""
  memory = dict.fromkeys(KINDS, 0.0)
  for process in processes:
    with contextlib.suppress(OSError):
      for line in pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
          memory[process.kind] += int(line.split()[1]) * 1024 / 1e6
  return memory


def read_polls(path: pathlib.Path) -> dict[str, list[Reading]]:
  """Address -> the readings in the output of `tests.console_runs.poll`, by time."""
  readings: dict[str, list[Reading]] = {}
  for line in path.read_text().rpartition("\n")[0].splitlines() if path.exists() else ():
    if not line.startswith("{"):  # A warning.
      continue
    poll = json.loads(line)
    for address, told in poll["consoles"].items():
      counts = {name: int(told[name]) for name in ("tick", "missed", "late", "leases")}
      reading = Reading(poll["time"], told["ready"], bool(told["holder"]), **counts)
      readings.setdefault(address, []).append(reading)
  return readings


def _increments(readings: Sequence[Reading]) -> Iterator[tuple[Reading, int, int, int]]:
  """Each reading after the first, with the ticks, missed and late ones since the one before it, as far as they are known."""
  for before, now in itertools.pairwise(readings):
    # A stream that is new counts from 0, and so does a console.
    is_same = before.leases == now.leases and now.tick >= before.tick
    base = before if is_same else Reading(0.0, True, True, 0, 0, 0, 0)
    yield now, now.tick - base.tick, now.missed - base.missed, now.late - base.late


@dataclasses.dataclass(frozen=True)
class Ticks:
  """Ticks of consoles.

  Attributes:
    ticks: that came.
    missed: of them, those without an action.
    late: left out, as the world itself was too late.
  """

  ticks: int
  missed: int
  late: int

  @property
  def missed_share(self) -> float:
    """Missed ticks by ticks; 0 without any."""
    return self.missed / self.ticks if self.ticks else 0.0

  @property
  def late_share(self) -> float:
    """Ticks left out by those that should have come; 0 without any."""
    return self.late / (self.ticks + self.late) if self.ticks else 0.0


def ticks_of(consoles: Iterable[Sequence[Reading]], since: float = 0.0, until: float = float("inf")) -> Ticks:
  """The sum over consoles of what their readings told between two UNIX times."""
  counts = [
    (ticks, missed, late)
    for readings in consoles
    for now, ticks, missed, late in _increments(readings)
    if since < now.time <= until
  ]
  return Ticks(*(sum(column) for column in zip(*counts, strict=True))) if counts else Ticks(0, 0, 0)


def back_at(readings: Sequence[Reading], since: float, is_played: bool) -> float:
  """UNIX time of the first reading after `since` from which on the console is ready, and held and ticking if it is to be played.

  Infinite if there is none. What comes before the last reading at which it was not does not count.
  """
  first = float("inf")
  for now, ticks, _, _ in _increments(readings):
    if now.time <= since:
      continue
    is_back = now.ready and (not is_played or (now.held and ticks > 0))
    first = min(first, now.time) if is_back else float("inf")
  return first


def growth(samples: Sequence[Sample], since: float, kills: Sequence[float], row_megabytes: float) -> dict[str, float]:
  """MB a minute by which kinds of processes, and "the rest", grow: the slope that the stretches between kills have in common.

  Rows that stay in the tables are no growth in this sense: the server's memory counts without them. As their size is an
  estimate, the rest is all but the server.

  Args:
    samples: by time.
    since: UNIX time of the end of the warm-up; a kill is followed by a minute of warm-up, too.
    kills: UNIX times.
    row_megabytes: of a row on the server.
  """
  stretches: dict[int, list[Sample]] = {}
  for sample in samples:
    passed = [kill for kill in kills if kill < sample.time]
    if sample.time > since and all(sample.time > kill + 60 for kill in passed):
      stretches.setdefault(len(passed), []).append(sample)
  slopes = {}
  for kind in (*KINDS, REST):
    points = [
      np.array([(one.time / 60, _without_rows(one, kind, row_megabytes)) for one in stretch])
      for stretch in stretches.values()
    ]
    centred = [stretch - stretch.mean(axis=0) for stretch in points if len(stretch) > 2]
    if not centred:
      return {}
    minutes, megabytes = np.concatenate(centred).T
    slopes[kind] = float((minutes * megabytes).sum() / (minutes**2).sum())
  return slopes


def _without_rows(sample: Sample, kind: str, row_megabytes: float) -> float:
  if kind == REST:
    return sample.total - sample.memory["server"]
  return sample.memory[kind] - (row_megabytes * sample.rows if kind == "server" else 0.0)


def rows_per_second(samples: Sequence[Sample], since: float, until: float) -> float:
  """Rows stored a second between two UNIX times; NaN if there are fewer than two samples."""
  inside = [sample for sample in samples if since <= sample.time <= until]
  if len(inside) < 2:
    return float("nan")
  return (inside[-1].rows - inside[0].rows) / (inside[-1].time - inside[0].time)


def write_samples(path: pathlib.Path, samples: Sequence[Sample], began: float) -> None:
  """Writes samples as CSV; times are seconds since the UNIX time `began`."""
  with path.open("w", newline="") as file:
    writer = csv.writer(file)
    counts = ("processes", "rows", "gradient_steps", "policy_version", "dropped")
    writer.writerow(["seconds", *(f"{kind}_mb" for kind in KINDS), *counts])
    for sample in samples:
      memory = (f"{sample.memory[kind]:.1f}" for kind in KINDS)
      writer.writerow([f"{sample.time - began:.1f}", *memory, *(getattr(sample, name) for name in counts)])


def draw(path: pathlib.Path, samples: Sequence[Sample], began: float, kills: Sequence[float], title: str) -> None:
  """Draws memory by kind of process over time, stacked, with a line for every kill."""
  from matplotlib.backends.backend_agg import FigureCanvasAgg
  from matplotlib.figure import Figure

  figure = Figure(figsize=(9, 4.5), layout="constrained")
  FigureCanvasAgg(figure)
  axes = figure.subplots()
  minutes = [(sample.time - began) / 60 for sample in samples]
  layers = [[sample.memory[kind] / 1000 for sample in samples] for kind in KINDS]
  axes.stackplot(minutes, layers, labels=KINDS)
  for kill in kills:
    axes.axvline((kill - began) / 60, color="black", linewidth=1, linestyle="--")
  axes.set(xlabel="minutes; a dashed line is a kill", ylabel="memory (PSS) [GB]", title=title, xlim=(0, minutes[-1]))
  axes.legend(loc="upper left", bbox_to_anchor=(1, 1), reverse=True)
  figure.savefig(path, dpi=110)
