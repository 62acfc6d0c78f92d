"""Cases of the fault suite: what is done, what is expected, and the table of what happened."""

import dataclasses
import pathlib
import time
import traceback
from collections.abc import Callable, Iterable, Sequence

from tests.faults.fleet import CaseFailed, Fleet
from tests.faults.ledger import Count

# Within which steps and gradient steps must rise again without a hand.
RUN_SECONDS = 60.0
WORKER_SECONDS = 15.0


@dataclasses.dataclass
class Outcome:
  """What a case measured.

  Attributes:
    steps_seconds: until environment steps rose again; None where nothing had to.
    updates_seconds: until gradient steps rose again; None where nothing had to.
    count: of rows; None where none were counted.
    notes: anything else, in words.
  """

  steps_seconds: float | None = None
  updates_seconds: float | None = None
  count: Count | None = None
  notes: str = ""


@dataclasses.dataclass(frozen=True)
class Case:
  """One fault.

  Attributes:
    part: "network", "kill" or "snapshot".
    done: what is done, in words.
    run: does it and returns what was measured; raises CaseFailed if something does not hold.
    limit_seconds: within which steps and gradient steps must rise again.
    may_lose: whether confirmed rows may be lost.
  """

  part: str
  done: str
  run: Callable[[Fleet], Outcome]
  limit_seconds: float = RUN_SECONDS
  may_lose: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
  """A row of the table.

  Attributes:
    case: that was tried.
    outcome: None if it failed before it could measure.
    fault: why it failed; empty if it passed.
  """

  case: Case
  outcome: Outcome | None
  fault: str = ""


def chosen(cases: Iterable[Case], only: str) -> list[Case]:
  """The cases whose words contain one of the texts in `only`, which `|` separates; all if it is empty."""
  return [case for case in cases if any(text in case.done for text in only.split("|"))]


def try_case(case: Case, fleet: Fleet) -> Row:
  """Runs one case; never raises but for an interruption."""
  print(f"\n[{time.strftime('%H:%M:%S')}] {case.part}: {case.done}", flush=True)
  try:
    outcome = case.run(fleet)
  except CaseFailed as error:
    return _told(Row(case, None, str(error)))
  except Exception as error:
    traceback.print_exc()
    return _told(Row(case, None, f"{type(error).__name__}: {error}"))
  return _told(Row(case, outcome, _fault(case, outcome)))


def _fault(case: Case, outcome: Outcome) -> str:
  for what, seconds in (("steps", outcome.steps_seconds), ("gradient steps", outcome.updates_seconds)):
    if seconds is not None and seconds > case.limit_seconds:
      return f"{what} rose only after {seconds:.0f} s"
  if outcome.count is not None and outcome.count.lost and not case.may_lose:
    return f"{outcome.count.lost} confirmed rows are lost"
  return ""


def _told(row: Row) -> Row:
  print(f"  {'FAILED: ' + row.fault if row.fault else 'held'}: {_cells(row)}", flush=True)
  return row


def _cells(row: Row) -> str:
  outcome = row.outcome or Outcome()
  count = outcome.count
  cells = [
    _seconds(outcome.steps_seconds),
    _seconds(outcome.updates_seconds),
    "" if count is None else f"{count.lost:,} of {count.confirmed:,}",
    "" if count is None else f"{count.duplicates:,}",
    outcome.notes,
  ]
  return " | ".join(cells)


def _seconds(value: float | None) -> str:
  return "" if value is None else f"{value:.1f}"


def markdown(rows: Sequence[Row]) -> str:
  """The table that docs/faults.md shows."""
  head = [
    "| done | steps rise after [s] | gradient steps after [s] | confirmed rows lost | duplicates | also seen | holds |",
    "| --- | --- | --- | --- | --- | --- | --- |",
  ]
  body = (f"| {row.case.done} | {_cells(row)} | {'no: ' + row.fault if row.fault else 'yes'} |" for row in rows)
  return "\n".join([*head, *(line.replace("\n", " ") for line in body)])


def try_cases(cases: Iterable[Case], fleet: Fleet) -> list[Row]:
  """Tries cases on one run, then ends the run as a user does and looks for what is left; everything of it is gone afterwards."""
  try:
    fleet.start()
    return [*(try_case(case, fleet) for case in cases), _end(fleet)]
  finally:
    fleet.kill()


def _end(fleet: Fleet) -> Row:
  def check(ended: Fleet) -> Outcome:
    ended.close()
    left = ended.left()
    if left:
      raise CaseFailed(f"left: {', '.join(left)}")
    return Outcome(notes="no process, port or file is left")

  return try_case(Case("", "`slipstream stop` at the end", check), fleet)


def write_table(path: pathlib.Path, rows: Iterable[Row]) -> None:
  """Writes the table to a file."""
  path.write_text(markdown(list(rows)) + "\n")
