"""What a run of 21 consoles must show, beside what it showed."""

import dataclasses
import statistics
from collections.abc import Sequence

from tests.console_runs.local import CONSOLES
from tests.console_runs.notes import Episode, Match, Row, at_the_edge
from tests.console_runs.readings import REST, Reading, back_at, growth, rows_per_second, ticks_of
from tests.console_runs.watch import KILLED_CONSOLES, KILLED_WORKERS, OTHERS, Record

WORKERS = CONSOLES - 1
START_SECONDS = 120.0
MOST_GIGABYTES = 6.0
BACK_SECONDS = 60.0
MOST_MISSED = 0.01
LEAST_ROWS_PER_SECOND = 0.98 * 10 * WORKERS
# Growth is judged after so many minutes, in runs that are long enough.
WARM_UP_MINUTES = 3.0
LEAST_MINUTES = 8.0
MOST_MEGABYTES_A_MINUTE = 5.0
# A step comes every tenth of a second, between two episodes there is a launch.
MOST_PAUSE_SECONDS = 1.0
# A worker says every second which episodes are open. What began or ended so shortly before its death may be counted or not.
EDGE_SECONDS = 1.5


@dataclasses.dataclass(frozen=True)
class Check:
  """A row of the table.

  Attributes:
    required: in words.
    found: in words and figures.
    holds: whether it does; None for a figure without a requirement.
  """

  required: str
  found: str
  holds: bool | None


@dataclasses.dataclass(frozen=True)
class Evidence:
  """All that is known of a run that has ended.

  Attributes:
    record: of the watch.
    episodes: of all consoles' worlds.
    rows: of the default table.
    readings: of each console, by its number; what the consoles told.
    row_megabytes: of a row on the server, by Slipstream's own estimate.
    left: what should not be there once everything has ended.
    is_one_machine: whether the bound on memory applies.
  """

  record: Record
  episodes: Sequence[Episode]
  rows: Sequence[Row]
  readings: Sequence[Sequence[Reading]]
  row_megabytes: float
  left: Sequence[str]
  is_one_machine: bool = True

  @property
  def played(self) -> list[Episode]:
    """The workers' episodes."""
    pids = self.record.consoles(range(WORKERS))
    return [episode for episode in self.episodes if episode.pid in pids]


def judge(evidence: Evidence) -> list[Check]:
  """The table."""
  match = Match(evidence.played, evidence.rows)
  return [
    _start(evidence, match),
    _memory(evidence),
    _growth(evidence),
    _rate(evidence, match),
    _missed(evidence),
    _ages(evidence, match),
    _steps(evidence, match),
    _others(evidence, match),
    _back(evidence, match),
    _dropped(evidence, match),
    _end(evidence),
  ]


def _start(evidence: Evidence, match: Match) -> Check:
  record = evidence.record
  first = match.first_rows(record.consoles(range(WORKERS)), record.began)
  last = max(first.values(), default=float("nan"))
  found = f"{len(first)} of {WORKERS} workers, the last after {last:.0f} s"
  holds = len(first) == WORKERS and last <= START_SECONDS
  return Check(f"every worker stores rows within {START_SECONDS:.0f} s", found, holds)


def _memory(evidence: Evidence) -> Check:
  most = max(evidence.record.samples, key=lambda sample: sample.total)
  found = f"{most.total / 1000:.2f} GB of {most.processes} processes"
  if not evidence.is_one_machine:
    return Check("memory", found, None)
  return Check(f"all processes take at most {MOST_GIGABYTES:g} GB (PSS)", found, most.total <= 1000 * MOST_GIGABYTES)


def _growth(evidence: Evidence) -> Check:
  record = evidence.record
  since = record.began + 60 * WARM_UP_MINUTES
  slopes = growth(record.samples, since, [record.killed_at] if record.killed_at else [], evidence.row_megabytes)
  required = (
    f"the server without its rows ({1e6 * evidence.row_megabytes:,.0f} bytes each), and the rest, grow by at most "
    f"{MOST_MEGABYTES_A_MINUTE:g} MB a minute from minute {WARM_UP_MINUTES:g} on"
  )
  found = ", ".join(f"{kind} {slope:+.1f}" for kind, slope in slopes.items())
  if not slopes or record.ended_at - record.began < 60 * LEAST_MINUTES:
    return Check(required, f"not judged in less than {LEAST_MINUTES:g} minutes; {found or 'too short'}", None)
  return Check(required, f"MB a minute: {found}", max(slopes["server"], slopes[REST]) <= MOST_MEGABYTES_A_MINUTE)


def _rate(evidence: Evidence, match: Match) -> Check:
  record = evidence.record
  begun = record.began + max(match.first_rows(record.consoles(range(WORKERS)), record.began).values(), default=0.0)
  until = record.killed_at or record.ended_at
  before = rows_per_second(record.samples, begun, until)
  after = rows_per_second(record.samples, until + BACK_SECONDS, record.ended_at)
  # A run that is too short has no calm minute after its kills.
  rates = {"before the kills": before, "from a minute after them on": after}
  known = {when: rate for when, rate in rates.items() if rate == rate}
  return Check(
    f"at least {LEAST_ROWS_PER_SECOND:.0f} rows a second, of {10 * WORKERS}",
    ", ".join(f"{rate:.1f} {when}" for when, rate in known.items()) or "the run was too short",
    bool(known) and min(known.values()) >= LEAST_ROWS_PER_SECOND,
  )


def _missed(evidence: Evidence) -> Check:
  since = evidence.record.began + 60
  ticks = ticks_of(evidence.readings, since)
  worst = max((ticks_of([one], since).missed_share for one in evidence.readings), default=0.0)
  found = (
    f"{ticks.missed:,} of {ticks.ticks:,} ({ticks.missed_share:.2%}; of one console at most {worst:.2%}); in "
    f"{ticks.late_share:.2%} the world itself was late"
  )
  holds = ticks.ticks > 0 and ticks.missed_share < MOST_MISSED
  return Check(f"less than {MOST_MISSED:.0%} of ticks missed after the first minute", found, holds)


def _ages(evidence: Evidence, match: Match) -> Check:
  ages = sorted(match.policy_ages(evidence.record.published))
  if not ages:
    return Check("age of the policy at a step", "no policy was used", None)
  found = (
    f"median {statistics.median(ages):.0f} s, 95 % below {ages[int(0.95 * len(ages))]:.0f} s, at most {ages[-1]:.0f} s; "
    f"{len(evidence.record.published)} versions seen"
  )
  return Check("age of the policy at a step", found, None)


def _steps(evidence: Evidence, match: Match) -> Check:
  record = evidence.record
  # An episode that ended as its own worker, or console, was killed may not have been told.
  victims = record.consoles(range(KILLED_WORKERS.stop))
  forgiven = [
    one
    for one in evidence.played
    if one.pid in victims and one.has_ended and 0 <= record.killed_at - one.times[-1] < EDGE_SECONDS
  ]
  count = match.count(forgiven)
  found = (
    f"{count.rows:,} steps of {count.episodes:,} episodes, {count.lost:,} lost, {count.duplicates:,} doubled; "
    f"{count.unplayed:,} more ticks passed without an action"
  )
  if forgiven:
    found += f"; left out: {len(forgiven)} that ended within {EDGE_SECONDS:g} s before the kills"
  holds = count.episodes > 0 and not count.lost and not count.duplicates
  return Check("every finished step is in the table, once", found, holds)


def _others(evidence: Evidence, match: Match) -> Check:
  record = evidence.record
  required = f"the other {len(OTHERS)} workers step on, without a pause above {MOST_PAUSE_SECONDS:g} s"
  if not record.killed_at:
    return Check(required, "nothing was killed", False)
  until = min(record.ended_at, record.killed_at + BACK_SECONDS)
  pids = record.consoles(OTHERS)
  after = max(match.pauses(pids, record.killed_at, until).values(), default=float("inf"))
  begun = record.began + max(match.first_rows(pids, record.began).values(), default=0.0)
  calm = max(begun, record.killed_at - BACK_SECONDS)
  before = max(match.pauses(pids, calm, record.killed_at).values(), default=float("nan"))
  streams = sum(_streams(evidence.readings[number], record.killed_at, until) for number in OTHERS)
  lost = [one for one in match.dropped() if one.pid in pids and record.killed_at < one.times[-1] < until]
  found = (
    f"longest pause {after:.1f} s in the minute after the kills, {before:.1f} s before; {streams} new streams, "
    f"{len(lost)} episodes dropped"
  )
  return Check(required, found, after <= MOST_PAUSE_SECONDS and not streams and not lost)


def _streams(readings: Sequence[Reading], since: float, until: float) -> int:
  before = [one.leases for one in readings if one.time <= since]
  after = [one.leases for one in readings if since < one.time < until]
  return after[-1] - before[-1] if before and after else 0


def _back(evidence: Evidence, match: Match) -> Check:
  record = evidence.record
  required = f"all {CONSOLES} consoles are back within {BACK_SECONDS:.0f} s, and step"
  if not record.killed_at:
    return Check(required, "nothing was killed", False)
  # By the consoles' own account, and for those concerned by the first row of a new process.
  told = [back_at(readings, record.killed_at, number < WORKERS) for number, readings in enumerate(evidence.readings)]
  workers = record.consoles(KILLED_WORKERS)
  writers = match.writers(workers, record.killed_at)
  stored = {
    **match.first_rows(workers, record.killed_at, writers),
    **match.first_rows(
      {pid: n for pid, n in record.consoles(KILLED_CONSOLES).items() if pid not in record.killed_consoles},
      record.killed_at,
    ),
  }
  expected = len(KILLED_CONSOLES) + len(KILLED_WORKERS)
  last = max((*(one - record.killed_at for one in told), *stored.values()), default=float("inf"))
  killed = f"{len(record.killed_consoles)} consoles and {len(record.killed_workers)} workers killed"
  found = f"{killed}; {sum(one < float('inf') for one in told)} consoles, the last after {last:.0f} s"
  is_killed = len(record.killed_consoles) == len(KILLED_CONSOLES) and len(record.killed_workers) == len(KILLED_WORKERS)
  return Check(required, found, is_killed and len(stored) == expected and last <= BACK_SECONDS)


def _dropped(evidence: Evidence, match: Match) -> Check:
  record = evidence.record
  lost = match.dropped(record.killed_consoles)
  # What was open at the end is not lost before it.
  lost = [one for one in lost if one.times[-1] < record.ended_at - EDGE_SECONDS]
  victims = record.consoles(KILLED_WORKERS)
  edge = at_the_edge([one for one in match.begun() if one.pid in victims], record.killed_at, EDGE_SECONDS)
  consoles = record.consoles(KILLED_CONSOLES)
  short = [one for one in lost if one.pid in consoles and len(one.times) < 3]
  told = int(record.status.get("dropped_episodes", 0))
  tolerance = len(edge) + len(short)
  found = f"{told} counted, {len(lost)} by the worlds' notes" + (f", {tolerance} at the edge" if tolerance else "")
  return Check("every dropped episode is counted", found, bool(lost) and abs(told - len(lost)) <= tolerance)


def _end(evidence: Evidence) -> Check:
  found = [*evidence.left, *([evidence.record.disorder] if evidence.record.disorder else [])]
  return Check("the run ends in good order, and no process is left", ", ".join(found) or "nothing is left", not found)


def table(checks: Sequence[Check]) -> str:
  """The table as Markdown, and how many did not hold."""
  answers = {True: "yes", False: "**no**", None: ""}
  lines = [f"| {one.required} | {one.found} | {answers[one.holds]} |" for one in checks]
  failed = sum(one.holds is False for one in checks)
  return "\n".join(["| required | found | holds |", "| --- | --- | --- |", *lines, "", f"{failed} did not hold."])
