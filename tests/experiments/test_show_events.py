"""`slipstream events`: exact numbers on a world that counts, and on the three rooms."""

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.engine import choose_actions
from actors.evaluator import make_greedy_behaviour
from configs import EnvironmentConfig, EventSpec, ReplayConfig, RunConfig, TableSpec, UserError, load_config, to_json
from configs.seeding import derive_seed
from environments import make_environment_spec, make_event_environment
from experiments.event_report import EpisodeTrace, make_report, sent_steps, steps_back
from experiments.show_events import RollOut, collect
from networks import flatten_weights, make_q_network
from replay_server.contract.policy import PolicySnapshot, save_snapshot
from slipstream.main import run
from tests.actors.oracle import Episode, Event, Step, replay


def at(t: int) -> dict[str, Any]:
  return {"condition": "environments.conditions:Info", "arguments": {"key": "t", "equals": t}}


def clock_run(**changes: Any) -> RunConfig:
  """An event at t = 3 with a history of 2, and one at t = 10 with one of 7."""
  return RunConfig(
    **{
      "name": "clock",
      "environment": EnvironmentConfig("tests.launch.clock_world:Clock"),
      "events": (EventSpec("early", history=2, **at(3)), EventSpec("late", history=7, **at(10))),
      "replay": ReplayConfig(
        capacity=20,
        default=TableSpec("default", 0.6, min_size=1),
        tables=(TableSpec("early", 0.2), TableSpec("late", 0.2, capacity=10)),
      ),
      **changes,
    }
  )


def write(config: RunConfig, folder: pathlib.Path) -> str:
  path = folder / "config.json"
  path.write_text(to_json(config))
  return str(path)


def report_of(capsys, *arguments: str) -> dict[str, Any]:
  assert run(["events", "--json", *arguments]) == 0
  report: dict[str, Any] = json.loads(capsys.readouterr().out)
  return report


def test_a_world_that_counts_is_reported_exactly(capsys, tmp_path):
  # 25 steps: two whole episodes, and the first half of a third, in which the early event fires once more.
  report = report_of(capsys, f"--config={write(clock_run(), tmp_path)}", "--steps=25")
  assert (report["steps"], report["episodes"]) == (25, 2)
  early, late = report["events"]
  assert early == {
    "name": "early",
    "table": "early",
    "history": 2,
    "firings": 3,
    "per_step": 3 / 25,
    "episode_share": 1.0,
    "back_median": 3,
    "back_90": 3,
    "back_most": 3,
    "back_table_median": 3,
    "reaching": 0.0,
  }
  assert late == {
    "name": "late",
    "table": "late",
    "history": 7,
    "firings": 2,
    "per_step": 2 / 25,
    "episode_share": 1.0,
    "back_median": 7,
    "back_90": 7,
    "back_most": 7,
    "back_table_median": 10,
    "reaching": 1.0,
  }
  assert [(table["name"], table["sent"], table["step_share"], table["filled"]) for table in report["tables"]] == [
    ("default", 25, 1.0, 1.0),
    ("early", 6, 6 / 25, 1.0),
    ("late", 14, 14 / 25, 1.0),
  ]
  # Of 12 in the default table, 4 and 10 in the others: .6, .2 * 12 / 4 + .6, .2 * 12 / 10 + .6.
  assert [table["drawn"] for table in report["tables"]] == pytest.approx([0.6, 1.2, 0.84])
  assert len(report["advice"]) == 2
  assert report["advice"][0].startswith("The event tables take 40% of every batch together, more than the 30%")
  assert report["advice"][1].startswith(
    "The history of event 'early' (2 steps) reaches back to an earlier event or to the start in 0% of its firings, and half "
    "of them need 3 or more"
  )


def test_a_person_reads_the_same(capsys, tmp_path):
  assert run(["events", f"--config={write(clock_run(), tmp_path)}", "--steps=25"]) == 0
  lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
  assert lines[0] == "clock: 25 steps, 2 episodes ended, random actions"
  assert "early early 3 0.12 100% 3 3 3 2 0%" in lines
  assert "late late 2 0.08 100% 7 7 7 7 100%" in lines
  assert "early 20% 6 24% 4 100% 1.2 x" in lines
  assert sum(line.startswith(("The event tables take", "The history of event 'early'")) for line in lines) == 2


def test_a_config_that_keeps_to_the_advice_is_told_so(capsys, tmp_path):
  config = clock_run(
    events=(EventSpec("late", history=10, **at(10)),),
    replay=ReplayConfig(capacity=200, default=TableSpec("default", 0.7, min_size=1), tables=(TableSpec("late", 0.3),)),
  )
  # There is advice against a table that gets every transition, and none if it gets half of them.
  path = write(config, tmp_path)
  assert report_of(capsys, f"--config={path}", "--steps=30")["advice"][0].startswith("Table 'late' got 100% of all")
  assert run(["events", f"--config={path}", "--steps=30", "--config.events.late.history=5"]) == 0
  said = capsys.readouterr().out
  assert "reaches back to an earlier event or to the start in 0%" in said
  assert run(["events", f"--config={path}", "--steps=14"]) == 0
  assert "Nothing here is against the paper's advice." in capsys.readouterr().out


def make_traces(*texts: str) -> list[EpisodeTrace]:
  """Episodes of event masks, a digit a step."""
  return [EpisodeTrace([int(digit) for digit in text]) for text in texts]


@pytest.mark.parametrize(
  ("traces", "sentence"),
  [
    (make_traces("0000000000"), "Event 'early' never fired in 10 steps: correct its condition"),
    (make_traces("0101010101"), "Event 'early' fired at 50% of the steps, so it singles out nothing"),
    (
      make_traces("0001000000"),
      "The history of event 'early' (2 steps) reaches back to an earlier event or to the start in 0%",
    ),
    (make_traces("0000000020"), "Event 'early' never fired in 10 steps"),
    (make_traces("1000000000", "0000000002"), "The history of event 'late' (7 steps) reaches back"),
  ],
)
def test_the_papers_advice_is_given_where_it_applies(traces, sentence):
  assert any(advice.startswith(sentence) for advice in make_report(clock_run(), traces).advice)


def test_an_event_that_is_only_watched_is_counted_and_not_advised_on():
  watched = tuple(dataclasses.replace(event, table=None) for event in clock_run().events)
  replay_config = dataclasses.replace(clock_run().replay, default=TableSpec("default", 1.0), tables=())
  report = make_report(clock_run(events=watched, replay=replay_config), make_traces("0001000000"))
  assert [(event.name, event.table, event.firings) for event in report.events] == [
    ("early", None, 1),
    ("late", None, 0),
  ]
  assert report.advice == ()


def test_a_table_that_stays_below_its_minimum_is_named():
  tables = (TableSpec("early", 0.2, min_size=4), TableSpec("late", 0.2, capacity=10))
  replay_config = dataclasses.replace(clock_run().replay, tables=tables)
  report = make_report(clock_run(replay=replay_config), make_traces("0100000002"))
  assert [
    advice
    for advice in report.advice
    if "'early' got 2 transitions in 10 steps and takes part once it holds 4" in advice
  ]


def test_events_that_fire_in_no_whole_episode_or_not_at_all_have_no_numbers_for_it():
  report = make_report(clock_run(), [EpisodeTrace([0, 1], whole=False)])
  early, late = report.events
  assert (early.episode_share, early.firings, early.back_median, early.reaching) == (None, 1, 2, 1.0)
  assert (late.back_median, late.back_90, late.back_most, late.back_table_median, late.reaching) == (None,) * 5
  assert report.tables[2].drawn is None
  assert report.episodes == 0


def test_quantiles_are_counts_that_occurred():
  report = make_report(clock_run(), make_traces("1", "01", "001", "0001", "0000000001"))
  early = report.events[0]
  assert (early.back_median, early.back_90, early.back_most) == (3, 10, 10)
  assert early.reaching == 2 / 5


masks = st.lists(st.integers(0, 7), max_size=25)


@settings(deadline=None)
@given(masks, st.integers(1, 7), st.integers(0, 7))
def test_steps_back_are_those_after_the_last_earlier_event(trace, event, others):
  expected = []
  for t, mask in enumerate(trace):
    if mask & event:
      earlier = [s for s in range(t) if trace[s] & others]
      expected.append(len(range(max(earlier, default=-1) + 1, t + 1)))
  assert steps_back(trace, event, others) == expected


@settings(deadline=None)
@given(masks.filter(len), st.lists(st.integers(1, 10), min_size=3, max_size=3))
def test_as_many_steps_are_sent_as_algorithm_1_sends(trace, histories):
  # Three events on one table, against the oracle of the adder.
  tables = replay(
    [Episode([Step(0, 0.0, 1.0, mask) for mask in trace], terminated=False)],
    [Event("all", history) for history in histories],
    {"default": 1000, "all": 1000},
    n_step=1,
    gamma=1.0,
    first_episode_id=0,
  )
  assert sent_steps(trace, [(1 << bit, history) for bit, history in enumerate(histories)]) == len(tables["all"])


def test_the_shortest_way_through_the_three_rooms():
  config = load_config("three_rooms")
  env = make_event_environment(config)
  path = env.gym_env.shortest_path()  # type: ignore[attr-defined]  # Of the three rooms.
  env.reset()
  trace = [env.step(action).events for action in path]
  gaps = [t for t, mask in enumerate(trace) if mask == 1]
  report = make_report(config, [EpisodeTrace(trace)] * 2)
  at_gap, done = report.events
  assert (at_gap.firings, done.firings) == (4, 2)
  assert (at_gap.back_median, at_gap.back_most) == tuple(sorted([gaps[0] + 1, gaps[1] - gaps[0]]))
  assert done.back_median == len(path) - 1 - gaps[1]
  assert done.back_table_median == len(path)
  assert [table.sent for table in report.tables] == [2 * len(path), 2 * (gaps[1] + 1), 2 * len(path)]


def test_random_actions_follow_the_seed(capsys):
  arguments = ("--config=three_rooms", "--steps=1500", "--config.environment.arguments.room_size=3")
  reports = [report_of(capsys, *arguments, f"--seed={seed}") for seed in (1, 1, 2)]
  assert reports[0] == reports[1]
  assert reports[0] != reports[2]
  assert reports[0]["events"][0]["firings"] > 5


@pytest.fixture
def small_rooms() -> RunConfig:
  config = load_config("three_rooms")
  environment = EnvironmentConfig("three_rooms", {"room_size": 2, "time_limit": 20})
  return dataclasses.replace(config, name="small_rooms", environment=environment)


def save_policy(config: RunConfig, path: pathlib.Path) -> PolicySnapshot:
  spec = make_environment_spec(make_event_environment(config))
  weights = np.asarray(flatten_weights(make_q_network(config, spec, seed=3)))
  snapshot = PolicySnapshot(version=7, learner_steps=100, weights=weights)
  save_snapshot(path, snapshot, config, spec)
  return snapshot


def test_a_stored_policy_acts_greedily_or_as_the_workers_do(capsys, tmp_path, small_rooms):
  path = tmp_path / "run" / "checkpoints" / "policy" / "best.npz"
  snapshot = save_policy(small_rooms, path)
  env = make_event_environment(small_rooms)
  behaviour = make_greedy_behaviour(small_rooms, env, snapshot)
  greedy, timestep = [], env.reset()
  while not timestep.last():
    (choice,) = choose_actions([behaviour], [timestep.observation])
    timestep = env.step(choice.action)
    greedy.append(timestep.events)
  traces = collect(RollOut(small_rooms, 2 * len(greedy), 0, (snapshot, small_rooms), epsilon=0.0))
  assert [list(trace.masks) for trace in traces] == [greedy] * 2
  # By a run directory and by a file, with the run's config; the preset's workers take 30 % random actions.
  for checkpoint in (tmp_path / "run", path):
    assert run(["events", f"--checkpoint={checkpoint}", "--steps=50"]) == 0
    assert capsys.readouterr().out.startswith("small_rooms: 50 steps, 2 episodes ended, policy 7, 30% random actions\n")
  assert run(["events", f"--checkpoint={path}", "--steps=50", "--epsilon=0"]) == 0
  assert "policy 7, 0% random actions" in capsys.readouterr().out
  assert run(["events", f"--checkpoint={path}", "--steps=50", "--config.learner.algorithm.epsilon=0.1"]) == 0
  assert "policy 7, 10% random actions" in capsys.readouterr().out


def test_other_events_can_be_tried_with_a_stored_policy(capsys, tmp_path, small_rooms):
  path = tmp_path / "policy.npz"
  save_policy(small_rooms, path)
  moved = EventSpec("moved", "environments.conditions:Info", history=1, arguments={"key": "at_goal", "equals": False})
  tables = (TableSpec("moved", 0.3),)
  other = dataclasses.replace(
    small_rooms,
    name="other",
    events=(moved,),
    replay=ReplayConfig(default=TableSpec("default", 0.7), tables=tables),
    network=dataclasses.replace(small_rooms.network, hidden_sizes=(3,)),
    evaluator=dataclasses.replace(small_rooms.evaluator, solved_event=""),
  )
  report = report_of(capsys, f"--config={write(other, tmp_path)}", f"--checkpoint={path}", "--steps=20")
  assert [event["name"] for event in report["events"]] == ["moved"]
  assert report["events"][0]["firings"] >= 19


def test_a_policy_of_another_world_is_refused(tmp_path, small_rooms):
  path = tmp_path / "policy.npz"
  snapshot = save_policy(small_rooms, path)
  for environment, has in (
    (EnvironmentConfig("tests.launch.clock_world:Clock"), r"\(1,\) and 2 actions"),
    (EnvironmentConfig("tests.launch.clock_world:Clock", {"numbers": 3}), r"\(3,\) and 2 actions"),
    (EnvironmentConfig("tests.launch.clock_world:Steered"), r"\(1,\) and actions of the shape \(1,\)"),
  ):
    with pytest.raises(
      UserError, match=rf"'three_rooms', which has observations of the shape \(3,\) .* has .*{has}: name"
    ):
      collect(RollOut(clock_run(environment=environment), 5, 0, (snapshot, small_rooms)))


@pytest.mark.parametrize("arguments", [{}, {"bounds": [20, 30]}], ids=["unbounded", "bounded"])
def test_random_actions_of_a_continuous_world(arguments):
  far = EventSpec("early", "environments.conditions:Info", history=1, arguments={"key": "far"})
  config = clock_run(environment=EnvironmentConfig("tests.launch.clock_world:Steered", arguments))
  config = dataclasses.replace(config, events=(far, EventSpec("late", far.condition, 1, arguments=far.arguments)))
  (trace,) = collect(RollOut(config, 200, seed=derive_seed(0, "test")))
  assert not trace.whole
  assert 60 < sum(mask == 3 for mask in trace.masks) < 140


def test_a_config_without_events_is_refused(capsys, tmp_path):
  config = dataclasses.replace(clock_run(), events=(), replay=ReplayConfig())
  assert run(["events", f"--config={write(config, tmp_path)}"]) == 2
  assert capsys.readouterr().err == "The config 'clock' has no events: add some, see docs/events.md.\n"


def test_proposed_events_are_written_as_a_config_that_fires_them(capsys, tmp_path):
  out = tmp_path / "proposed.json"
  smaller = ["--config.environment.arguments.room_size=3", "--steps=8000"]
  assert run(["events", "--config=three_rooms", "--propose=2", f"--out={out}", *smaller]) == 0
  printed = capsys.readouterr().out
  assert "episodes reach the goal" in printed
  assert f"Written: {out}. Train with it: slipstream train --config={out}" in printed
  report = report_of(capsys, f"--config={out}", "--steps=8000")
  names = [event["name"] for event in report["events"]]
  assert names[0] == "done"
  assert names[1:] == [f"waypoint_{number}" for number in range(1, len(names))]
  assert len(names) > 1
  # The same seed, so the same episodes: at least nine of ten that reach the goal pass each waypoint.
  shares = {event["name"]: event["episode_share"] for event in report["events"]}
  assert all(shares[name] >= 0.9 * shares["done"] > 0 for name in names[1:])
