"""What the live panel, the plain line and the view around them show."""

import dataclasses
import io
import math
from typing import Any

import pytest
from rich.console import Console

from launch.view.formats import format_duration, format_number, sparkline
from launch.view.panel import render
from launch.view.run_view import PLAIN_LINE_LENGTH, RunView, plain_line
from replay_server.contract.activity import Wait
from replay_server.contract.status import Evaluation, RoleStatus, RunStatus, TableStatus


def _role(name: str, role: str = "actor", state: str = "acting", alive: bool = True, host: str = "box") -> RoleStatus:
  return RoleStatus(name, role, host, pid=1, state=state, seconds_since_heartbeat=0.3 if alive else 12.4, alive=alive)


def _evaluations(count: int) -> tuple[Evaluation, ...]:
  return tuple(Evaluation(i * 900, i * 90, i, -1 + 2 * i / 200, 90.0, i > 100, i * 1.2) for i in range(count))


def _status(**changes: Any) -> RunStatus:
  status = RunStatus(
    run_id="20250601-120000-a1b2",
    name="three_rooms",
    phase="running",
    wall_seconds=123.4,
    environment_steps=123_456,
    environment_steps_budget=400_000,
    gradient_steps=12_345,
    policy_version=192,
    environment_steps_per_second=1234.5,
    gradient_steps_per_second=123.4,
    episodes=321,
    recent_return=-0.351,
    recent_length=87.4,
    evaluations=_evaluations(130),
    solved_streak=2,
    solved_evaluations=4,
    tables=(
      TableStatus("default", 10_000, 10_000, 123_456, 1234.5, 16_000.0),
      TableStatus("at_gap", 1_250, 4_000, 1_250, 3.4, 6_000.0),
      TableStatus("done", 0, 6_000, 0, 0.0, 0.0),
    ),
    roles=(_role("learner", "learner", "learning"), _role("actor_0"), _role("actor_1", alive=False)),
    learner={"mean_q": 0.52, "loss": 0.01234},
  )
  return dataclasses.replace(status, **changes)


def _lines(status: RunStatus, width: int = 80, height: int = 24) -> list[str]:
  console = Console(width=width, height=height, file=io.StringIO(), record=True, color_system=None)
  console.print(render(status))
  return console.export_text().splitlines()


def _styled(status: RunStatus) -> str:
  console = Console(width=100, file=io.StringIO(), record=True, force_terminal=True, color_system="standard")
  console.print(render(status))
  return console.export_text(styles=True)


_MANY_ACTORS = tuple(
  _role(f"actor_{i}", state="waiting for weights" if i < 2 else "acting", alive=i != 7, host=f"host{i % 3}")
  for i in range(12)
)
_WIDE = _status(
  name="an_experiment_with_a_name_that_does_not_fit_on_a_line_of_eighty_columns_by_itself",
  run_id="20250601-120000-" + "x" * 80,
  environment_steps=400_000_000,
  environment_steps_budget=1_000_000_000,
  roles=_MANY_ACTORS,
  tables=(TableStatus("an_event_table_with_a_very_long_name", 999_999, 1_000_000, 9, 12_345.0, 160_000.0),),
  learner={f"metric_{i}": 1e-7 * i for i in range(12)},
)
_EMPTY = _status(
  environment_steps=0,
  environment_steps_per_second=0.0,
  gradient_steps=0,
  recent_return=None,
  recent_length=None,
  evaluations=(),
  tables=(),
  roles=(),
  learner={},
)


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("status", [_status(), _WIDE, _EMPTY], ids=["usual", "wide", "empty"])
def test_every_line_of_the_panel_ends_at_its_right_border(status: RunStatus, width: int) -> None:
  lines = _lines(status, width)
  assert [len(line) for line in lines] == [width] * len(lines)
  assert (lines[0][0], lines[0][-1], lines[-1][0], lines[-1][-1]) == ("╭", "╮", "╰", "╯")
  assert all(line[0] == line[-1] == "│" for line in lines[1:-1])


def test_the_panel_says_whose_rows_cannot_be_learned_from() -> None:
  text = " ".join(" ".join(_lines(_status(unusable_rows={"actor_3": 41}), 100)).split())
  assert "unusable rows of actor_3 41" in text
  assert "unusable" not in " ".join(_lines(_status(), 100))


def test_the_panel_fits_a_terminal_of_24_lines() -> None:
  assert len(_lines(_status())) <= 24


@pytest.mark.parametrize(
  "text",
  [
    "three_rooms",
    "run 20250601-120000-a1b2",
    "running  2 min 03 s",
    "123,456 / 400,000 steps (31%)",
    "1,234 steps/s",
    "12,345 gradient steps, 123/s",
    "policy version 192",
    "loss 0.0123",
    "mean q 0.52",
    "train -0.351",
    "evaluator 0.29",
    "solved 2/4 in a row",
    "10,000 / 10,000",
    "not heard for 12 s (last: acting)",
  ],
)
def test_the_panel_shows_each_fact_unbroken(text: str) -> None:
  for width in (80, 140):
    assert any(text in line for line in _lines(_status(), width)), (text, width)


def test_measures_are_shown_where_there_are_any() -> None:
  evaluation = dataclasses.replace(_evaluations(1)[0], measures={"won": 1.0, "best_lap": 92.84})
  text = "\n".join(_lines(_status(recent_measures={"won": 0.25, "margin": -3.5}, evaluations=(evaluation,))))
  for fact in ("won train 0.25 evaluator 1", "margin train -3.5", "best lap evaluator 92.8"):
    assert fact in text
  assert "measures" not in "\n".join(_lines(_status()))


def test_an_empty_table_shows_no_bar_and_a_full_one_a_whole_one() -> None:
  bars = {line.split()[1]: line.count("━") for line in _lines(_status()) if " / " in line}
  assert bars["done"] == 0
  assert 0 < bars["at_gap"] < bars["default"]


def test_restarts_are_shown_where_there_were_any() -> None:
  status = _status(lives={"actor_0": 2, "learner": 1})
  assert "1 restart  running" in "\n".join(_lines(status))
  assert "1 restart |" in plain_line(status)
  assert "restart" not in plain_line(_status())


def test_dropped_episodes_and_missed_ticks_are_shown_where_there_were_any() -> None:
  roles = [dataclasses.replace(_role(f"actor_{index}"), missed_ticks=index) for index in range(3)]
  text = " ".join(_lines(_status(roles=tuple(roles), dropped_episodes=4)))
  assert "4 dropped" in text
  assert "3 ticks missed" in text
  quiet = " ".join(_lines(_status()))
  assert "dropped" not in quiet
  assert "missed" not in quiet


def test_a_run_without_a_goal_shows_no_streak() -> None:
  assert "in a row" in "".join(_lines(_status()))
  assert "in a row" not in "".join(_lines(_status(solved_evaluations=0)))


def test_a_loss_that_is_not_a_number_is_red() -> None:
  assert "\x1b[1;31mnan" in _styled(_status(learner={"loss": math.nan}))


def test_a_dead_role_is_red_and_a_live_one_is_not() -> None:
  styled = _styled(_status())
  assert "\x1b[31mactor_1" in styled
  assert "\x1b[31mactor_0" not in styled


def test_eight_actors_have_a_line_each_and_more_are_counted() -> None:
  eight = "\n".join(_lines(_status(roles=tuple(_role(f"actor_{i}") for i in range(8))), height=40))
  assert all(f"● actor_{i}" in eight for i in range(8))
  nine = "\n".join(_lines(_status(roles=tuple(_role(f"actor_{i}") for i in range(9)))))
  assert "actor_0" not in nine
  assert "9 of 9 workers" in nine
  assert "9 acting" in nine


def test_among_many_actors_the_dead_and_the_unusual_are_named() -> None:
  text = "\n".join(_lines(_status(roles=_MANY_ACTORS), 140))
  assert "11 of 12 workers" in text
  assert "9 acting" in text
  assert "2 waiting for weights (actor_0, actor_1)" in text
  assert "✗ actor_7" in text


def test_a_hundred_dead_actors_do_not_fill_the_screen() -> None:
  lines = _lines(_status(roles=tuple(_role(f"actor_{i}", alive=False) for i in range(100))))
  assert len(lines) <= 24
  assert any("and 96 more" in line for line in lines)


def _waiting(name: str, whom: str, until: str, seconds: float, role: str = "actor") -> RoleStatus:
  return dataclasses.replace(_role(name, role, "waiting"), wait=Wait(whom, until, seconds))


def test_a_process_that_waits_says_on_whom_since_when_and_until_what() -> None:
  lines = _lines(_status(roles=(_waiting("evaluator", "learner", "it publishes a policy", 62.0, "evaluator"),)))
  assert any("● evaluator  waits 1 min 02 s on the learner, until it publishes a policy" in line for line in lines)


def test_a_long_wait_takes_a_second_line() -> None:
  until = "table default has 1,000,000 transitions (420 now)"
  lines = _lines(_status(roles=(_waiting("learner", "workers", until, 62.0, "learner"),)))
  text = " ".join(" ".join(lines).replace("│", " ").split())
  assert f"learner waits 1 min 02 s on the workers, until {until}" in text


def test_workers_that_wait_for_the_same_are_counted_together() -> None:
  workers = [_waiting(f"actor_{i}", "learner", "it catches up", float(i)) for i in range(20)]
  text = "\n".join(_lines(_status(roles=(*workers, _waiting("actor_20", "world", "its step returns", 61.0)))))
  assert "21 of 21 workers" in text
  assert "20 wait up to 19 s on the learner, until it catches up" in text
  assert "1 waits 1 min 01 s on its world, until its step returns (actor_20)" in " ".join(
    text.replace("│", " ").split()
  )


def test_a_server_that_leaves_says_on_whom_it_waits() -> None:
  workers = tuple(_role(f"actor_{i}") for i in range(3))
  paused = dataclasses.replace(workers[0], paused=True)
  text = "\n".join(_lines(_status(roles=(paused, *workers[1:]), is_leaving=True)))
  assert "● server   leaves; waits on actor_1 and actor_2, until they have paused" in text
  assert "● server   writes a snapshot" in "\n".join(_lines(_status(roles=workers, is_snapshotting=True)))


_ON_HOSTS = tuple(
  dataclasses.replace(
    _waiting(f"actor_node-with-a-long-name-{i}_104857{i}", "learner", "it catches up in its updates", 12.0),
    host=f"node-with-a-long-name-{i}",
    alive=i > 5,
  )
  for i in range(18)
)
_TABLES = tuple(TableStatus(f"an_event_table_{i}", 9, 1_000_000, 9, 1.0, 2.0) for i in range(15))


@pytest.mark.parametrize("tables", [_TABLES[:3], _TABLES[:7], _TABLES], ids=["3 tables", "7 tables", "15 tables"])
@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize(
  "learner", [{"loss": 0.1}, {f"metric_{i}": 1e-7 * i for i in range(12)}], ids=["one fact", "many facts"]
)
def test_a_run_of_21_workers_fits_a_terminal_of_24_lines(
  tables: tuple[TableStatus, ...], width: int, learner: dict[str, float]
) -> None:
  others = (
    _waiting("learner", "workers", "table default has 1,000,000 transitions (420 now)", 4_000.0, "learner"),
    _waiting("evaluator", "learner", "it publishes a policy after version 123456", 4_000.0, "evaluator"),
    *(_waiting(f"actor_{i}", "server", f"it does thing {i}", 1.0) for i in range(3)),
  )
  status = _status(
    roles=(*others, *_ON_HOSTS),
    tables=tables,
    learner=learner,
    lives={"server": 3},
    is_snapshotting=True,
    recent_measures={f"measure_of_the_race_{i}": 0.1234 * i for i in range(7)},
  )
  lines = _lines(status, width)
  assert len(lines) <= 24
  assert {len(line) for line in lines} == {width}
  text = "\n".join(lines)
  assert "15 of 21 workers" in text
  assert "12 wait up to 12 s on the learner" in text
  left_out = [line for line in lines if " more, 0 empty" in line]
  shown = sum("an_event_table_" in line for line in lines)
  assert shown >= 2
  assert shown == len(tables) or f"and {len(tables) - shown} more" in left_out[0]


@pytest.mark.parametrize("width", [80, 140])
def test_45_processes_of_which_some_are_not_well_fit_a_terminal_of_24_lines(width: int) -> None:
  workers = [_waiting(f"actor_{i}", "server", "it answers", 3.0) if i > 17 else _role(f"actor_{i}") for i in range(20)]
  workers[4] = _role("actor_4", alive=False)
  consoles = [_role(f"console_{i}", "console", "stepping", alive=i not in (3, 5, 9)) for i in range(21)]
  others = [_role(name, name, "working") for name in ("learner", "evaluator")]
  status = _status(roles=(*others, *workers, *consoles), tables=_TABLES[:3], is_snapshotting=True)
  lines = _lines(status, width)
  assert len(lines) <= 24
  text = " ".join(" ".join(lines).replace("│", " ").split())
  for part in (
    "● server writes a snapshot",
    "● learner working",
    "● evaluator working",
    "19 of 20 workers 17 acting",
    "2 wait up to 3 s on the server, until it answers (actor_18, actor_19)",
    "✗ actor_4",
    "18 of 21 consoles 18 stepping",
    "✗ console_3",
    "✗ console_5",
    "and 1 more",
  ):
    assert part in text
  assert "actor_5" not in text


def test_a_higher_terminal_shows_more() -> None:
  status = _status(roles=_MANY_ACTORS[:8], tables=_TABLES)
  text = "\n".join(_lines(status, height=60))
  assert "an_event_table_14" in text
  assert "actor_6" in text


def test_hosts_are_shown_where_there_are_several() -> None:
  assert "box" not in "".join(_lines(_status()))
  assert "other" in "".join(_lines(_status(roles=(_role("actor_0"), _role("actor_1", host="other")))))


@pytest.mark.parametrize(
  ("values", "width", "line"),
  [
    ([], 10, ""),
    ([1.0], 10, "▁"),
    ([0.0, 1.0], 10, "▁█"),
    ([0.0, 0.0, 1.0, 1.0], 2, "▁█"),
    ([2.0, 2.0, 2.0], 10, "▁▁▁"),
    ([0.0, math.nan, 7.0, math.inf, 3.0], 10, "▁█▄"),
    ([0.0, 1.0], 0, ""),
  ],
)
def test_a_sparkline_runs_from_the_least_to_the_greatest(values: list[float], width: int, line: str) -> None:
  assert sparkline(values, width) == line


@pytest.mark.parametrize(
  ("seconds", "text"),
  [(0.4, "0 s"), (59.9, "59 s"), (60, "1 min 00 s"), (3_725, "1 h 02 min"), (273_600, "3 d 04 h"), (-1, "0 s")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
  assert format_duration(seconds) == text


@pytest.mark.parametrize(
  ("value", "text"), [(None, "-"), (math.nan, "nan"), (0.012345, "0.0123"), (-1234.5, "-1,234"), (1e12, "1e+12")]
)
def test_numbers_are_short(value: float | None, text: str) -> None:
  assert format_number(value) == text


def test_the_plain_line_holds_the_essentials() -> None:
  status = _status(roles=())
  assert plain_line(status) == (
    "running 2 min 03 s | env 123,456/400k 1,234/s | learner 12,345 123/s | return train -0.351 eval 0.29 solved 2/4 | "
    "loss 0.0123 | default 10,000 | at_gap 1,250"
  )


@pytest.mark.parametrize("status", [_status(), _WIDE, _EMPTY], ids=["usual", "wide", "empty"])
def test_the_plain_line_is_one_short_line_of_ascii(status: RunStatus) -> None:
  line = plain_line(status)
  assert len(line) <= PLAIN_LINE_LENGTH
  assert line.isascii()
  assert line.isprintable()


def test_the_plain_line_names_a_role_that_is_not_heard() -> None:
  assert "not heard: actor_1" in plain_line(_status())
  assert "not heard: actor_0 and 2 more" in plain_line(
    _status(roles=tuple(_role(f"actor_{i}", alive=False) for i in range(3)))
  )


@pytest.mark.parametrize(
  ("size", "text"),
  [
    (99_999, "99,999"),
    (100_000, "100k"),
    (999_499, "999k"),
    (999_500, "1.00M"),
    (999_994_999, "999.99M"),
    (10**9, "1.00B"),
  ],
)
def test_large_counts_are_shortened_without_a_thousand_of_the_smaller_unit(size: int, text: str) -> None:
  status = _status(roles=(), tables=(TableStatus("default", size, size, size, 0.0, 0.0),))
  assert plain_line(status).endswith(f" | default {text}")
  assert any(f" {text} / {text} " in line for line in _lines(status))


class _Log:
  """A view on a file, with a clock that the test sets."""

  def __init__(self, quiet: bool = False):
    self.now = 0.0
    self.file = io.StringIO()
    console = Console(file=self.file, width=80, force_terminal=False)
    self.view = RunView(console, quiet=quiet, period_seconds=10.0, clock=lambda: self.now)

  def lines(self) -> list[str]:
    return self.file.getvalue().splitlines()


def test_a_log_gets_a_line_at_first_and_then_one_each_period() -> None:
  log = _Log()
  with log.view as view:
    counts = []
    for log.now in (0.0, 1.0, 9.9, 10.0, 19.9, 20.0):
      view.update(_status(wall_seconds=log.now))
      counts.append(len(log.lines()))
  assert counts == [1, 1, 1, 2, 2, 3]
  assert [line.split(" | ")[0] for line in log.lines()] == ["running 0 s", "running 10 s", "running 20 s"]


def test_a_log_gets_a_line_when_the_phase_changes() -> None:
  log = _Log()
  with log.view as view:
    view.update(_status())
    log.now = 1.0
    view.update(_status(phase="solved"))
    view.update(_status(phase="solved"))
  assert [line.split()[0] for line in log.lines()] == ["running", "solved"]


def test_a_line_of_a_log_is_not_wrapped_and_brackets_are_kept() -> None:
  log = _Log()
  log.view.message("[bold]" + "x" * 200)
  assert log.lines() == ["[bold]" + "x" * 200]


def test_a_quiet_view_shows_messages_alone() -> None:
  log = _Log(quiet=True)
  with log.view as view:
    view.waiting("starting the server ...")
    view.update(_status())
    view.message("saved")
  assert log.lines() == ["saved"]


def _terminal() -> tuple[io.StringIO, Console]:
  file = io.StringIO()
  return file, Console(file=file, width=80, height=40, force_terminal=True, color_system=None, _environ={})


def test_a_terminal_keeps_the_last_frame_and_gets_its_cursor_back() -> None:
  file, console = _terminal()
  with RunView(console) as view:
    view.waiting("starting the server ...")
    view.update(_status())
    view.update(_status(phase="solved", wall_seconds=200.0))
  last_frame = file.getvalue().rpartition("╭")[2]
  assert "solved  3 min 20 s" in last_frame
  assert "╯" in last_frame
  assert file.getvalue().rindex("\x1b[?25h") > file.getvalue().rindex("\x1b[?25l")


def test_a_message_on_a_terminal_comes_above_the_panel() -> None:
  file, console = _terminal()
  with RunView(console) as view:
    view.update(_status())
    view.message("saved a checkpoint")
  text = file.getvalue()
  assert text.index("saved a checkpoint") < text.rindex("╭")


def test_a_terminal_is_left_clean_when_there_never_was_a_status() -> None:
  file, console = _terminal()
  view = RunView(console)
  view.waiting("starting the server ...")
  view.close()
  view.close()
  # Erase the line; what follows is empty.
  assert file.getvalue().rpartition("\x1b[2K")[2] == ""


def test_a_terminal_that_cannot_show_blocks_gets_plain_lines() -> None:
  raw = io.BytesIO()
  console = Console(file=io.TextIOWrapper(raw, encoding="ascii", write_through=True), width=80, force_terminal=True)
  with RunView(console) as view:
    view.update(_status())
  assert raw.getvalue().decode("ascii").startswith("running 2 min 03 s | env")
